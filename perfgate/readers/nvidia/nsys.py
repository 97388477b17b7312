"""Nsight Systems summaries: what `nsys stats` and `nsys profile --stats=true` print, as tables, CSV, TSV or JSON.

     ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

     Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)          Name
     --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  -------------------
         95.6        2,000,548          8  250,068.5  249,601.0   227,873   271,585     21,636.6  void fft(float *, int)

`nsys_tables` knows the reports of all versions. Every row is an aggregate: `kernel.NAME`, `api.NAME`, `memcpy.NAME`,
`memcpy.NAME.size`, `range.NAME` (NVTX, `domain:name` as printed) or `os.NAME`. Names that the tool shortens with `…`
stay as printed; the ranges that PyTorch writes for each call of an operator are one metric. A report
that occurs again, or one of another export, begins another run. Units: s and B. The export
itself, an SQLite database, is read by `nsys_export`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perfgate.documents.json import JsonDocument, load_json
from perfgate.documents.json_tokens import cut_back
from perfgate.readers.embedded import Embedded, embedded
from perfgate.readers.kit import (
    Format,
    InputFile,
    JsonOutline,
    Key,
    Run,
    RunBuilder,
    Runs,
    fault_of,
    in_base,
    items,
    mapping,
)
from perfgate.readers.nvidia import nsys_export, nsys_tables
from perfgate.readers.text import SQLITE

NAME = "nsys"
METRICS = (
    "`kernel.NAME`, `api.NAME`, `memcpy.NAME`, `memcpy.NAME.size`, `range.NAME`, `os.NAME`: aggregates of a "
    "summary, one value for each activity of an export; if its NVTX ranges mark steps (`step 12`), `step.*`, "
    "`gpu.idle`, `gpu.utilization` and the exact work `work.*` as of a trace of torch"
)
CHECKED = "Nsight Systems: its documentation and public reports; generated files"


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: a list of rows with a total and a name, as `nsys stats --format json` writes."""
    keys = {path[1] for path in outline.tokens if len(path) == 2 and path[0] == "*"}
    total = next((key for key in sorted(keys) if key.startswith(("Total Time", "Total ("))), None)
    return f"a JSON list of rows with {total!r}" if total and keys & {"Name", "Operation", "Range"} else None


FORMAT = Format(
    NAME,
    __name__,
    magic=SQLITE,
    markers={
        "Total Time": r"Time ?\(%\)\"?[, \t|]+\"?Total Time\b",
        "Total": r"\bTotal(?: \([KMGT]?i?B\))?\"?[, \t|]+\"?(?:Count|Operations)\"?[, \t|]+\"?(?:Avg|Average)\b",
        "Processing [": r"Processing \[[^\]\n]{1,999}\] with \[[^\]\n]{1,999}sum\b",
        "SKIPPED: ": r"^SKIPPED: .* does not contain",
    },
    keys=r"Total (?:Time|\().*",
    outline=_outline,
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_NUMERIC = re.compile(r"[-+]?(?:[.\d]|nan|inf)", re.ASCII | re.IGNORECASE)
_PROGRESS = re.compile(r"\s*\[(\d{1,3})/(\d{1,3})\] Executing ")
_ROW = re.compile(r"[ |\"]*\d[\d.,]*[\",\t |]", re.ASCII)
_SKIPPED = re.compile(r"SKIPPED: .{1,2000}? does not contain (.{1,80}) data")
#: The shortest and the longest notice in characters; a header is not shorter. Lines of a hostile file may be longer.
_SHORTEST_NOTICE, _LONGEST_NOTICE = 8, 4096


class _Summary(RunBuilder):
    """The reports of one run."""

    def __init__(self, document: InputFile) -> None:
        super().__init__(document, NAME)
        #: By the range of an operator of PyTorch: the unit, and the statistics of each row, which is one call.
        self._calls: dict[Key, tuple[str, list[dict[str, float]]]] = {}

    @property
    def has_measured(self) -> bool:
        return super().has_measured or bool(self._calls)

    def call(self, key: Key, unit: str, aggregate: dict[str, float]) -> None:
        """Add the row of one of many calls of the same range; at the end, they are one aggregate."""
        if key not in self._calls:
            self.file.count("series", before=self.problems)  # over the limit, these problems are reported, too
        self._calls.setdefault(key, (unit, []))[1].append(aggregate)

    def run(self, part: int | None = None) -> Run:
        for key, (unit, rows) in self._calls.items():
            # The row of a range may have this name without numbers, too.
            known = [dict(self.finished[key].aggregate)] if key in self.finished else []
            if several := [row for row in (*known, *rows) if row]:
                self.aggregate(key, unit, nsys_tables.merged(several))
        return super().run(part)


class _Reports:
    """The reports of an output while it is read: a notice names the report whose table comes next."""

    def __init__(self, document: InputFile) -> None:
        self.runs = Runs(lambda: _Summary(document))
        #: The notice of the next table, and the export that the current reports are made from.
        self._notice: nsys_tables.Notice | None = None
        self._source: str | None = None
        #: The open table, the way to split its rows, and if it has a row.
        self._table: nsys_tables.Table | None = None
        self._split: nsys_tables.Split = ","
        self._begun = False
        #: The reports of this run so far, and the messages that were already given about tables that are not read.
        self._reports: set[str] = set()
        self._said: set[str] = set()
        self._previous = ""
        #: The number of the last report, and that of all reports: `[5/8] Executing 'osrt_sum' stats report`.
        self._progress = (0, 0)

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read one line of text: a part of a table, a notice, or another line. It may be cut if it has not `ended`."""
        may_be_header = ended and len(line) >= _SHORTEST_NOTICE
        header = nsys_tables.header_of(self._previous, line) if may_be_header else None
        self._previous = line
        if header and self._begin_table(header[0], number):
            self._split = header[1]
        elif not (self._table and line.strip() and self._row(self._table, number, line, ended)):
            self._table = None  # a line that is neither a header nor a row ends the table
            self._other(number, line)

    def _begin_table(self, names: Sequence[str], number: int) -> nsys_tables.Table | None:
        """Begin the table with this header, and return it; None if it is not the header of a summary that is read."""
        if (found := nsys_tables.table_of(names, self._notice)) is None:
            return None
        self._notice, self._table, self._begun = None, None, False
        if not isinstance(found, str):
            self._table = found
            self.runs.run.table(found.report or found.kind, number)
        elif found not in self._said:
            self._said.add(found)
            # The error is a column of a known report that has no known unit.
            self.runs.run.say("warning" if found.endswith("is not read") else "error", found, number)
        return self._table

    def _add(self, table: nsys_tables.Table, cells: Sequence[str], number: int) -> None:
        """Add a row of the open table. A report that this run already has begins another run."""
        self.runs.run.table_row()
        metric = table.metric(cells[table.name].strip())
        if not self._begun:
            # several reports are about ranges; of all others, the kind and the unit tell the report
            report = metric.partition(".")[0] + table.unit
            if table.kind == "range" and table.report:
                report = table.report
            if report in self._reports:
                self._another_run(number)
            self._reports.add(report)
            self._begun = True
        run = self.runs.run
        # each call of an operator of PyTorch has a row, and they have one name
        name = nsys_tables.name_of_calls(metric) if table.kind == "range" else metric
        if name == metric:
            key = run.unique(Key(metric), number)
            run.aggregate(key, table.unit, _statistics(run, key, table, cells, number))
        else:
            key = Key(name)
            run.call(key, table.unit, _statistics(run, key, table, cells, number))
        run.file.coverage.lines.tell(number)  # all columns are known, so nothing was left out

    def _another_run(self, number: int) -> None:
        self.runs.banner(number)
        self._reports.clear()

    def _row(self, table: nsys_tables.Table, number: int, line: str, ended: bool) -> bool:
        """Read a line after a table's header; False if it is not a row, so the table ends."""
        if not ended:
            self.runs.run.say("warning", "the last row may be cut off; left out", number)
            return True
        cells = nsys_tables.split_row(line, self._split) or []
        if len(cells) != table.width or not cells[table.name].strip():
            if not _ROW.match(line):
                return False
            self.runs.run.say("warning", "the row does not match the table's header; left out", number)
            return True
        numeric = [index for index in table.columns if _NUMERIC.match(cells[index].strip())]
        if 2 * len(numeric) < len(table.columns):  # most cells are words: another text with as many parts
            return False
        self._add(table, cells, number)
        return True

    def _other(self, number: int, line: str) -> None:
        """Read a line outside of tables: a notice of the next table, or why it is missing."""
        if not _SHORTEST_NOTICE <= len(line) <= _LONGEST_NOTICE:
            return
        if skipped := _SKIPPED.search(line):
            if self._notice is None or self._notice.report in nsys_tables.KINDS:  # perhaps a report that is read
                self.runs.run.say("warning", "nsys skipped a report", number, f": no {skipped[1]} data")
            self._notice = None
            return
        if notice := nsys_tables.notice_of(line):
            if notice.source and self._source and notice.source != self._source:
                self._another_run(number)
            self._source = notice.source or self._source
            self._notice = notice
            if progress := _PROGRESS.match(line):
                self._progress = int(progress[1]), int(progress[2])

    def json(self, document: JsonDocument, first: int) -> None:
        """Read the rows of a JSON list that begins on line `first`."""
        rows = [*map(mapping, items(document.data))]
        for fault in document.faults:
            # `_add` refuses a number of a row that is not finite.
            if len(fault.path) != 2 or "finite" not in fault.problem.message:
                self.runs.run.say("error", fault.problem.message, (fault.problem.at.line or 1) + first - 1)
        names = [*next(filter(None, rows), {})]
        table = self._begin_table(names, first)
        if table is None:
            return
        places = document.locate_all((index,) for index in range(len(rows)))
        for index, row in enumerate(rows):
            line = (places[index,].line or 1) + first - 1
            cells = ["" if value is None else str(value) for value in map(row.get, names)]
            if cells[table.name]:
                self._add(table, cells, line)
            else:
                self.runs.run.say("warning", "a row without a name is left out", line)
        self._table = None

    def finish(self) -> tuple[Run, ...]:
        """Return the runs of the output."""
        last, every = self._progress
        if last < every:
            self.runs.run.say("warning", f"the last report is {last} of {every}: the output is cut off")
        return self.runs.finish()


def read(document: InputFile) -> tuple[Run, ...]:
    """Return the runs of an output or an export; each has at least one series or an error."""
    if document.head(len(SQLITE)) == SQLITE:
        return nsys_export.read(document)
    reports = _Reports(document)
    if not document.is_json():
        _read_text(reports, ((number, line, ended) for number, line, _, ended in document.lines()), document)
    elif (text := document.whole()) is not None:
        _read_json(reports, text, document)
    return reports.finish()


def _read_json(reports: _Reports, text: str, document: InputFile) -> None:
    """Read one JSON document; several documents are read as text with JSON in it."""
    loaded = load_json(text, document.name, document.limits)
    if any("Extra data" in problem.message for problem in loaded.problems):
        _read_text(reports, ((number, line, True) for number, line in enumerate(text.split("\n"), 1)), document)
        return
    reports.json(loaded, 1)
    if loaded.data is None and (kept := cut_back(text)) is not None:  # it is cut off: read the rows before the cut
        reports.json(load_json(kept, document.name, document.limits), 1)


def _read_text(reports: _Reports, lines: Iterable[tuple[int, str, bool]], document: InputFile) -> None:
    """Read tables in text, and JSON lists between notices."""

    def passed_on() -> Iterator[tuple[int, str]]:  # each line is read as text, and then searched for JSON
        for number, line, ended in lines:
            reports.line(number, line, ended)
            yield number, line

    for item in embedded(passed_on(), document.limits):
        if isinstance(item, Embedded) and item.call is None:  # JSON, and no printed object
            if not item.fault:
                reports.json(load_json(item.text, document.name, document.limits), item.line)
            elif item.fault_matters("(?:Name|Operation|Range)"):
                reports.runs.run.say("error", item.fault, item.line)


def _statistics(
    run: RunBuilder, key: Key, table: nsys_tables.Table, cells: Sequence[str], line: int
) -> dict[str, float]:
    """Return the statistics in a row in base units; those that cannot be true are reported."""
    statistics: dict[str, float] = {}
    for index, (statistic, per) in table.columns.items():
        text = cells[index].strip()
        if _GROUPED.fullmatch(text):
            text = text.replace(",", "")
        if text and (fault := fault_of(text)):
            run.refuse(key, f"{statistic}: {fault}", line)
        elif text:
            statistics[statistic] = in_base(float(text), per)
    return statistics
