"""Nsight Systems summaries: what `nsys stats` and `nsys profile --stats=true` print, as tables, CSV, TSV or JSON.

     ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

     Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)          Name
     --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  -------------------
         95.6        2,000,548          8  250,068.5  249,601.0   227,873   271,585     21,636.6  void fft(float *, int)

`nsys_tables` tells the reports and versions apart. Every row is an aggregate: `kernel.NAME`, `api.NAME`, `memcpy.NAME`,
`memcpy.NAME.size`, `range.NAME` (NVTX, `domain:name` as printed) and `os.NAME`; names that the tool cuts with `…` stay
so. A report that comes again, or one of another export, belongs to another run. Units: s and B. An export itself, which
is an SQLite database, is read by `nsys_sqlite`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType

import numpy as np

from perfgate.core import Key, Run, Series, read_only
from perfgate.documents.json import JsonDocument, cut_back, load_json, walk
from perfgate.readers.builder import MAX_FAULTS, RunBuilder, fault_of
from perfgate.readers.embedded import Embedded, embedded
from perfgate.readers.nvidia import nsys_sqlite
from perfgate.readers.nvidia.nsys_tables import Notice, Table, notice_of, table_of
from perfgate.readers.runs import Runs
from perfgate.readers.sniffing import SQLITE, is_json
from perfgate.readers.table_rows import Split, header_of, split_row
from perfgate.readers.text import Document

NAME = "nsys"

_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_NUMERIC = re.compile(r"[-+]?(?:[.\d]|nan|inf)", re.ASCII | re.IGNORECASE)
_ROW = re.compile(r"[ |\"]*\d[\d.,]*[\",\t |]", re.ASCII)
_SKIPPED = re.compile(r"SKIPPED: .{1,2000}? does not contain (.{1,80}) data")
#: In characters: no header is shorter, either, and lines of a hostile file may well be.
_SHORTEST_NOTICE, _LONGEST_NOTICE = 8, 4096
_EMPTY = read_only(np.empty(0))


class _Reports:
    """The reports of an output while they are read."""

    def __init__(self, document: Document) -> None:
        self.runs = Runs(lambda: RunBuilder(document, NAME))
        #: What was said to come next, and the export that it is made of.
        self._notice: Notice | None = None
        self._source: str | None = None
        #: The open table, its report where that was said, how its rows are split, and how many cells they have.
        self._table: Table | None = None
        self._report: str | None = None
        self._split: Split = ","
        self._width = 0
        self._begun = False
        #: How often each metric came again in this run.
        self._rows: Counter[str] = Counter()
        #: The reports of this run so far, and what was said of tables that are not read.
        self._reports: set[str] = set()
        self._said: set[str] = set()
        self._previous = ""
        self._odd = 0

    def line(self, number: int, line: str, ended: bool) -> None:
        """One line of text: part of a table, a notice, or something else. One without a line end may be cut."""
        short = self._table is None and len(line) < _SHORTEST_NOTICE
        header = header_of(self._previous, line) if ended and not short else None
        self._previous = line
        if header and self.table(header[0], number):
            self._split = header[1]
        elif not (self._table and line.strip() and self._row(self._table, number, line, ended)):
            self._table = None
            self._other(number, line)

    def table(self, names: Sequence[str], number: int) -> bool:
        """Begin the table with this header; False if it is no header of a summary that is read."""
        found = table_of(names, self._notice)
        if found is None:
            return False
        self._report = self._notice.report if self._notice else None
        self._notice, self._table, self._begun, self._width = None, None, False, len(names)
        if not isinstance(found, str):
            self._table = found
        elif found not in self._said:
            self._said.add(found)
            self.runs.run.say("warning" if found.endswith("is not read") else "error", found, number)
        return self._table is not None

    def row(self, table: Table, cells: Sequence[str], number: int) -> None:
        """One row of a table, as an aggregate."""
        name = cells[table.name].strip()
        metric = table.metric(name)
        if not self._begun:
            self._begin(table, metric, number)
        run = self.runs.run
        key = self._free(metric, number)
        aggregate = {}
        for index, (statistic, factor) in table.columns.items():
            text = cells[index].strip()
            plain = text.replace(",", "") if _GROUPED.fullmatch(text) else text
            fault = fault_of(plain) if plain else None
            if fault:
                run.refuse(key, f"{statistic}: {fault}", number)
            elif plain:
                aggregate[statistic] = _scaled(float(plain), factor)
        if aggregate:
            run.finish(Series(key, table.unit, "aggregate", _EMPTY, None, MappingProxyType(aggregate)))

    def _free(self, metric: str, number: int) -> Key:
        """The key of a metric, numbered if the run has one of that name."""
        run = self.runs.run
        key = Key(metric)
        while key in run.finished:
            self._rows[metric] += 1
            if self._rows[metric] == 1:
                run.say("warning", f"{metric} stands more than once; the second is {metric}#2", number)
            key = Key(f"{metric}#{self._rows[metric] + 1}")
        return key

    def _begin(self, table: Table, metric: str, number: int) -> None:
        """The first row of a table: a report that this run already had is of another run."""
        report = self._report if self._report and table.kind == "range" else metric.partition(".")[0] + table.unit
        if report in self._reports:
            self._another_run(number)
        self._reports.add(report)
        self._begun = True

    def _another_run(self, number: int) -> None:
        self.runs.banner(number)
        self._reports.clear()
        self._rows.clear()

    def _row(self, table: Table, number: int, line: str, ended: bool) -> bool:
        """Read a line below a table's header; False if it is no row, which ends the table."""
        if not ended:
            self.runs.run.say("warning", "the last row may be cut off, and is left out", number)
            return True
        cells = split_row(line, self._split) or []
        if len(cells) != self._width or not cells[table.name].strip():
            if not _ROW.match(line):
                return False
            self._odd_line("the row does not fit the table, and is left out", number)
            return True
        numeric = sum(bool(_NUMERIC.match(cells[index].strip())) for index in table.columns)
        if 2 * numeric < len(table.columns):
            return False
        self.row(table, cells, number)
        return True

    def _odd_line(self, message: str, number: int) -> None:
        """A warning of one line; of many, the first are said."""
        self._odd += 1
        if self._odd <= MAX_FAULTS:
            self.runs.run.say("warning", message, number)
        elif self._odd == MAX_FAULTS + 1:
            self.runs.run.say("warning", "from here on, lines that are left out are not said any more", number)

    def _other(self, number: int, line: str) -> None:
        """A line outside of tables: what the next table is, or why there is none."""
        if not _SHORTEST_NOTICE <= len(line) <= _LONGEST_NOTICE:
            return
        skipped = _SKIPPED.search(line)
        if skipped:
            if self._notice is None or self._notice.is_read:
                self._odd_line(f"nsys skipped a report: no {skipped[1]} data", number)
            self._notice = None
            return
        notice = notice_of(line)
        if notice:
            if notice.source and self._source and notice.source != self._source:
                self._another_run(number)
            self._source = notice.source or self._source
            self._notice = notice

    def json(self, document: JsonDocument, first: int) -> None:
        """The rows of a JSON list that begins on line `first`; in a row, numbers that are not finite are refused."""
        data = document.data if isinstance(document.data, list) else []
        rows = [row if isinstance(row, dict) else {} for row in data]
        for fault in document.faults:
            inside = len(fault.path) == 2 and "finite" in fault.problem.message
            if not inside:
                self.runs.run.say("error", fault.problem.message, (fault.problem.at.line or 1) + first - 1)
        names = [*next(filter(None, rows), {})]
        if not self.table(names, first) or self._table is None:
            return
        for row, line in zip(rows, _lines_of_rows(document.text), strict=False):
            cells = [_text(row.get(name)) for name in names]
            if cells[self._table.name]:
                self.row(self._table, cells, first + line - 1)
            else:
                self._odd_line("a row without a name is left out", first + line - 1)
        self._table = None


def read(document: Document) -> tuple[Run, ...]:
    """The runs of an output or an export; every run has at least one series or an error."""
    if document.head(len(SQLITE)) == SQLITE:
        return nsys_sqlite.read(document)
    reports = _Reports(document)
    if is_json(document.head(1 << 16).decode("utf-8", "replace")):
        _read_json(reports, document)
    else:
        _read_text(reports, ((number, line, ended) for number, line, _, ended in document.lines()), document)
    return reports.runs.finish()


def _read_json(reports: _Reports, document: Document) -> None:
    """A file that is one JSON document, or several; of one that is cut off, the rows before the cut."""
    text = document.whole()
    if text is None:
        return
    loaded = load_json(text, document.name, document.limits)
    if any("Extra data" in problem.message for problem in loaded.problems):
        _read_text(reports, ((number, line, True) for number, line in enumerate(text.split("\n"), 1)), document)
        return
    reports.json(loaded, 1)
    kept = cut_back(text) if loaded.data is None else None
    if kept is not None:
        reports.json(load_json(kept, document.name, document.limits), 1)


def _read_text(reports: _Reports, lines: Iterable[tuple[int, str, bool]], document: Document) -> None:
    """Tables in text, and JSON lists between notices."""

    def passed_on() -> Iterator[tuple[int, str]]:
        for number, line, ended in lines:
            reports.line(number, line, ended)
            yield number, line

    for item in embedded(passed_on(), document.limits):
        if isinstance(item, Embedded) and item.call is None:
            if not item.fault:
                reports.json(load_json(item.text, document.name, document.limits), item.line)
            elif item.fault_matters("(?:Name|Operation|Range)"):
                reports.runs.run.say("error", item.fault, item.line)


def _scaled(value: float, factor: float) -> float:
    """A value in base units; dividing by 1000 is exact where multiplying by 0.001 is not."""
    return value * factor if factor >= 1 else value / round(1 / factor)


def _lines_of_rows(text: str) -> Iterator[int]:
    """The line on which each member of a JSON list begins."""
    line, at = 1, 0
    for path, offset, _ in walk(text, 1):
        if len(path) == 1:
            line += text.count("\n", at, offset)
            at = offset
            yield line


def _text(value: object) -> str:
    """A JSON value as it would stand in a table; null is an empty cell."""
    return "" if value is None else value if isinstance(value, str) else repr(value)
