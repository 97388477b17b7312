"""CSV with a header: `time,commit,metric,value[,unit][,host]`, one line for each number.

`time` is ISO 8601, or seconds or milliseconds since 1970. The columns that `perfgate history export --format csv`
writes are read, too: `error`, `n`, `n_effective`, `better`, `statistic`, `rank`, `labels`, `ref`, `host` and `run`.
Most rows of a long file are kept in a temporary file, so that memory has only the rows of one month.
"""

from __future__ import annotations

import csv
import math
import pickle
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TypeAlias, get_args

import numpy as np
from msgspec.structs import replace

from perfgate.core import Better, Key, Location
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.core.wording import listed
from perfgate.history.imports.imported_runs import (
    AboutRun,
    Faults,
    Imported,
    ImportedRun,
    ImportFile,
    in_base_unit,
    numbered,
    utc_time,
    values_by_run,
)
from perfgate.large_values.array import Spool
from perfgate.workspace.output_files import open_scratch

NAME = "csv"
TITLE = "CSV with the columns time, commit, metric, value and unit"
_NEEDED = ("time", "metric", "value")
_HEADER = ("time", "commit", "metric", "value", "unit")
_KNOWN = (
    *(*_NEEDED, "commit", "unit", "error", "n", "n_effective", "better", "statistic", "rank", "labels", "ref", "host"),
    "run",
)
#: Columns of an export that are ignored: the options of an import decide them.
_IGNORED = ("suite", "environment", "tags", "level")
#: A text to which an export added an apostrophe, so that a spreadsheet does not take it for a formula.
_QUOTED = re.compile(r"'+[=+\-@]")
#: The run of a number, the number, and the id of the run, which is empty if perfgate did not export it.
Row: TypeAlias = tuple[AboutRun, HistoryValue, str]
#: The number of rows that may be in memory while a file is read.
_MOST_ROWS = 1 << 14
#: A label and its value, as in rules: `rank="0"`.
_LABEL = re.compile(r'([^=,{}"]+)="((?:[^"\\]|\\.)*)"')
#: A quote or a backslash in the value of a label.
_ESCAPED = re.compile(r'\\(["\\])')
#: The most values behind a number: more than any program measures.
_MOST_VALUES = 1e15


def claims(name: str, head: str) -> bool:
    """Return whether a file is CSV with these columns."""
    return set(_NEEDED) <= _columns(head.partition("\n")[0].lstrip("\ufeff"))


def _columns(line: str, separator: str = ",") -> set[str]:
    """Return the names of columns in the first line of a file; none if it is not CSV."""
    try:
        return {cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])}
    except csv.Error:
        return set()


def why_not(text: str) -> str:
    """Return what is wrong with the first line of a CSV file that is not claimed."""
    header = text.partition("\n")[0].strip("\ufeff\r ")
    if not header:
        return f"the file is empty: its first line must be {','.join(_HEADER)}"
    absent = listed([column for column in _NEEDED if column not in _columns(header)])
    shown = header if len(header) <= 60 else header[:57] + "..."
    for sign in (";", "\t"):
        if set(_NEEDED) <= _columns(header, sign):
            return f"its columns are separated by {sign!r}: write commas, and decimal points in the numbers"
    return f"the first line is {shown!r}, without {absent}: write the columns {','.join(_HEADER)}, with commas"


def read(file: ImportFile) -> Imported:
    """Return the runs of a file: the lines with the same time, commit, branch and host."""
    faults = Faults(file.name)
    lines = file.lines()
    reader = csv.reader(chain((next(lines, "").lstrip("\ufeff"),), lines), strict=True)
    rows = WaitingRows()
    try:
        first = next(reader, None)
        header = [] if first is None else _header(first, Location(file.name, reader.line_num), faults) or []
        for cells in filter(None, reader if header else ()):
            plain = (cell[1:] if _QUOTED.match(cell) else cell for cell in cells)
            at = Location(file.name, reader.line_num)
            try:
                about, value, run = _row(dict(zip(header, plain, strict=True)), faults, at)
            except ValueError as error:
                fields = f"{len(cells)} fields, and the header has {len(header)}"
                faults.say(str(error) if len(cells) == len(header) else fields, at)
                continue
            rows.add(about, value, run)
    except csv.Error as error:
        faults.say(f"is not CSV: {error}", Location(file.name, reader.line_num))
    return Imported(rows, faults.problems, rows.refs)


def _header(cells: list[str], at: Location, faults: Faults) -> list[str] | None:
    """Return the names of the columns; None, and a fault, if they cannot be used."""
    names = [cell.strip() for cell in cells]
    absent = [name for name in _NEEDED if name not in names]
    unknown = [name for name in names if name not in _KNOWN and name not in _IGNORED]
    if absent:
        faults.say(f"the header has no column {listed(absent)}; it needs time, metric and value", at)
    elif unknown:
        faults.say(f"the column {unknown[0]!r} is not known: remove it; known are {', '.join(_KNOWN)}", at)
    elif len(set(names)) < len(names):
        faults.say("the header has a column twice", at)
    else:
        return names
    return None


def _row(cells: Mapping[str, str], faults: Faults, at: Location) -> tuple[AboutRun, HistoryValue, str]:
    """Return the number of a line with its run and the id of the run. Raises ValueError with the reason."""
    metric = cells["metric"].strip()
    if not metric:
        raise ValueError("the metric is empty")
    number = _number(cells, "value")
    if number is None:
        raise ValueError("the value is empty")
    better = cells.get("better", "").strip() or None
    if better is not None and better not in get_args(Better):
        raise ValueError(f"better is {better!r}: write lower, higher or neither")
    unit = cells.get("unit", "").strip()
    based, error = faults.in_base_unit(number, unit, lambda: at), _number(cells, "error")
    if error is not None:
        error = abs((in_base_unit(error, unit) or (error,))[0])  # with an unknown unit, it stays as the value does
    if based is None or error == math.inf:
        raise ValueError(f"the value or its error in {unit} is too large")
    one = numbered(metric, *based, better)  # type: ignore[arg-type]
    labels = cells.get("labels", "").strip()
    name = _name(metric, labels, cells.get("statistic") or "mean", cells.get("rank") or "worst")
    one = replace(
        one,
        name=name,
        kind="value" if error is None else "samples",
        error=error,
        n=_count(cells),
        n_effective=_number(cells, "n_effective"),
    )
    # the columns of the commit, the branch and the host have the names of the fields
    about = AboutRun(utc_time(cells["time"]), *(cells.get(name, "").strip() or None for name in AboutRun._fields[1:]))
    return about, one, cells.get("run", "").strip()


def _number(cells: Mapping[str, str], column: str) -> float | None:
    """Return a number of a row; None if it is empty. Raises ValueError."""
    text = cells.get(column, "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}, not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{column} is {text!r}, not a finite number")
    return number


def _count(cells: Mapping[str, str]) -> int | None:
    """Return the number of values behind the number of a row; None if it is empty. Raises ValueError."""
    n = _number(cells, "n")
    if n is not None and not 0 <= n <= _MOST_VALUES:
        raise ValueError(f"n is {cells['n'].strip()!r}, not a number of values")
    return None if n is None else int(n)


@lru_cache(maxsize=4096)
def _name(metric: str, labels: str, statistic: str, rank: str) -> SeriesName:
    """Return the name of a series; the cache makes it one object for all its rows. Raises ValueError."""
    if _LABEL.sub("", labels).strip("{}, "):
        raise ValueError(f'labels are {labels!r}: write {{name="value"}}')
    found = {name.strip(): _ESCAPED.sub(r"\1", value) for name, value in _LABEL.findall(labels)}
    key = Key(metric, tuple(sorted(found.items())))
    return SeriesName(key, statistic, rank)


class WaitingRows:
    """Takes rows in any order; iteration yields their runs in the order of time, and can be repeated."""

    def __init__(self) -> None:
        #: The number of runs of each branch; rows of one time, commit, branch and host count as one run.
        self.refs: Counter[str | None] = Counter()
        #: The hashes of these runs.
        self._known: set[int] = set()
        #: The rows in memory by month, and their number.
        self._rows: dict[str, list[Row]] = {}
        self._count = 0
        #: The rows in a temporary file, and the places of those of a month: from byte, to byte.
        self._waiting: Spool | None = None
        self._places: dict[str, list[tuple[int, int]]] = {}
        #: The month of each id of a run; ids that several months have are not used.
        self._months: dict[str, str] = {}
        self._unclear: set[str] = set()

    def add(self, about: AboutRun, value: HistoryValue, run: str) -> None:
        """Add a row; if many are in memory, move all of them to the temporary file."""
        month, mark = about.time[:7], hash(about)
        if mark not in self._known:
            self._known.add(mark)
            self.refs[about.ref] += 1
        if run and self._months.setdefault(run, month) != month:
            self._unclear.add(run)
        self._rows.setdefault(month, []).append((about, value, run))
        self._count += 1
        if self._count == _MOST_ROWS:
            self._waiting = self._waiting or Spool(np.uint8, open_scratch)
            for name, rows in self._rows.items():
                start = self._waiting.size
                self._waiting.add(np.frombuffer(pickle.dumps(rows), np.uint8))
                self._places.setdefault(name, []).append((start, self._waiting.size))
            self._rows, self._count = {}, 0

    def __iter__(self) -> Iterator[ImportedRun]:
        for month in sorted({*self._rows, *self._places}):
            own: dict[str, list[tuple[AboutRun, HistoryValue]]] = {"": []}  # by id of the run
            abouts: dict[AboutRun, AboutRun] = {}  # equal ones become one object, which saves memory
            for about, value, run in self._rows_of(month):
                own.setdefault(run, []).append((abouts.setdefault(about, about), value))
            found = [*values_by_run(own.pop(""))]
            for run, values in own.items():
                runs = values_by_run(values)
                # an id of several runs, here or in other months, is not used
                is_id = len(runs) == 1 and run not in self._unclear
                found += [replace(one, id=run) if is_id else one for one in runs]
            yield from sorted(found, key=lambda one: one.time)

    def _rows_of(self, month: str) -> Iterator[Row]:
        """Yield the rows of a month in the order in which they were added."""
        for start, stop in self._places.get(month, ()):
            assert self._waiting is not None
            yield from pickle.loads(self._waiting.read(start, stop).data)  # this process wrote them
        yield from self._rows.get(month, ())
