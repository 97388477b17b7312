"""CSV with a header: `time,commit,metric,value[,unit][,host]`, one line for each number.

`time` is ISO 8601, or seconds or milliseconds since 1970. The columns that `perfgate history export --format csv`
writes are read, too: `error`, `n`, `n_effective`, `better`, `statistic`, `rank`, `labels`, `ref`, `host` and `run`.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import get_args

from msgspec.structs import replace

from perfgate.core import Better, Key, Location
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.core.wording import listed
from perfgate.history.imports import imported_runs
from perfgate.history.imports.waiting_rows import WaitingRows

NAME = "csv"
TITLE = "CSV with the columns time, commit, metric, value and unit"
_NEEDED = ("time", "metric", "value")
_HEADER = ("time", "commit", "metric", "value", "unit")
_KNOWN = (
    *(*_NEEDED, "commit", "unit", "error", "n", "n_effective", "better", "statistic", "rank", "labels", "ref", "host"),
    "run",
)
#: Written by an export, and decided by the options of an import.
_IGNORED = ("suite", "environment", "tags", "level")
#: A text that an export has kept from being a formula.
_QUOTED = re.compile(r"'+[=+\-@]")
_LABEL = re.compile(r'([^=,{}"]+)="((?:[^"\\]|\\.)*)"')


def claims(name: str, head: str) -> bool:
    """Return whether a file is CSV with these columns."""
    columns = {column.strip() for column in head.partition("\n")[0].lstrip("\ufeff").split(",")}
    return set(_NEEDED) <= columns


def why_not(text: str) -> str:
    """Return what is wrong with the first line of a CSV file that is not claimed."""
    header = text.partition("\n")[0].strip("\ufeff\r ")
    if not header:
        return f"the file is empty: its first line must be {','.join(_HEADER)}"
    columns = {column.strip() for column in header.split(",")}
    absent = listed([column for column in _NEEDED if column not in columns])
    shown = header if len(header) <= 60 else header[:57] + "..."
    for sign in (";", "\t"):
        if set(_NEEDED) <= {column.strip() for column in header.split(sign)}:
            return f"its columns are separated by {sign!r}: write commas, and decimal points in the numbers"
    return f"the first line is {shown!r}, without {absent}: write the columns {','.join(_HEADER)}, with commas"


def read(file: imported_runs.ImportFile) -> imported_runs.Imported:
    """Return the runs of a file: the lines with the same time, commit, branch and host."""
    faults = imported_runs.Faults(file.name)
    lines = file.lines()
    reader = csv.reader(chain((next(lines, "").lstrip("\ufeff"),), lines), strict=True)
    rows = WaitingRows()
    header: list[str] | None = None
    try:
        for cells in reader:
            at = Location(file.name, reader.line_num)
            if header is None:
                header = _header(cells, at, faults)
                if header is None:
                    break
                continue
            if not cells:
                continue
            plain = (cell[1:] if _QUOTED.match(cell) else cell for cell in cells)
            try:
                about, value, run = _row(dict(zip(header, plain, strict=True)), len(cells), faults, at)
            except ValueError as error:
                fields = f"{len(cells)} fields, and the header has {len(header)}" if len(cells) != len(header) else ""
                faults.say(fields or str(error), at)
                continue
            rows.add(about, value, run)
    except csv.Error as error:
        faults.say(f"is not CSV: {error}", Location(file.name, reader.line_num))
    return imported_runs.Imported(rows, faults.problems, rows.refs)


def _header(cells: list[str], at: Location, faults: imported_runs.Faults) -> list[str] | None:
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


def _row(
    cells: Mapping[str, str], count: int, faults: imported_runs.Faults, at: Location
) -> tuple[imported_runs.AboutRun, HistoryValue, str]:
    """Return one number with its run. Raises ValueError with the reason."""
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
    known = imported_runs.in_base_unit(number, unit)
    if known is None:
        faults.unknown_unit(unit, at)
    value, base = known or (number, "1")
    one = imported_runs.numbered(metric, value, base, better)  # type: ignore[arg-type]
    error, n = _number(cells, "error"), _number(cells, "n")
    labels = cells.get("labels", "").strip()
    name = _name(metric, labels, cells.get("statistic") or "mean", cells.get("rank") or "worst")
    one = replace(
        one,
        name=name,
        kind="value" if error is None else "samples",
        error=None if error is None else abs(_in_unit_of_value(error, unit)),
        n=None if n is None else int(n),
        n_effective=_number(cells, "n_effective"),
    )
    about = imported_runs.AboutRun(
        imported_runs.utc_time(cells["time"]),
        *(cells.get(name, "").strip() or None for name in imported_runs.AboutRun._fields[1:]),
    )
    return about, one, cells.get("run", "").strip()


def _in_unit_of_value(error: float, unit: str) -> float:
    known = imported_runs.in_base_unit(1.0, unit)
    return error if known is None else error * known[0]


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


@lru_cache(maxsize=4096)
def _name(metric: str, labels: str, statistic: str, rank: str) -> SeriesName:
    """Return the name of a series, one for all its rows. Raises ValueError."""
    return SeriesName(Key(metric, _labels(labels)), statistic, rank)


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    """Return labels that are written as in rules: `{rank="0"}`. Raises ValueError."""
    if not text:
        return ()
    found = _LABEL.findall(text)
    if not found:
        raise ValueError(f'labels are {text!r}: write {{name="value"}}')
    return tuple(sorted((name.strip(), value) for name, value in found))
