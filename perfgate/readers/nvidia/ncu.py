"""Nsight Compute CSV: what `ncu --csv` prints, as the details page and with `--page raw`.

    ==PROF== Connected to process 4711
    "ID","Process ID",..,"Kernel Name",..,"Section Name","Metric Name","Metric Unit","Metric Value"     details
    "0","4711",..,"gemm(float *, int)",..,"Command line profiler metrics","gpu__time_duration.sum","usecond","41.28"

    "ID","Process ID",..,"Kernel Name",..,"CC","gpu__time_duration.sum","dram__bytes.sum"               raw
    "","",..,"","usecond","Mbyte"
    "0","4711",..,"gemm(float *, int)",..,"9.0","41.28","2.5"

Other lines between the rows are skipped: output of the program, lines of ncu itself (`==PROF==`), rows of advice.
Source: outputs in public repositories. A metric is `kernel.NAME.METRIC`, with one value for each launch, in order; if
it occurs in two sections, the second is `METRIC#2`. The first number that shows its decimal mark gives the decimal mark
of the file; without one, a number like `117.344` is refused. Units: s, B, 1/s, B/s, and 1 for shares and counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from perfgate.core import Severity
from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, cells_of, fault_of
from perfgate.readers.line_blocks import clean
from perfgate.readers.nvidia.ncu_numbers import Mark, Scale, decimal_mark, readings, scale_of
from perfgate.readers.nvidia.nsys_tables import cells_before_cut

NAME = "ncu"
METRICS = "`kernel.NAME.METRIC`, one value a launch"
CHECKED = "Nsight Compute: its documentation and public files; generated files"
FORMAT = Format(
    NAME,
    __name__,
    markers={"Kernel Name": r"\"ID\",(?:\"[^\"\n]{0,99}\",){0,9}\"Kernel Name\"|^ID,(?:[\w ]{0,99},){0,9}Kernel Name,"},
)
_NUMBER = re.compile(r"[-+.,]*\d|[-+]?(?:nan|inf(?:inity)?)\Z", re.ASCII | re.IGNORECASE)
#: The size of the part of the file that is searched for a number with a decimal mark, in bytes.
_HEAD = 8 << 20
#: Columns of the raw page that describe the launch. All others are metrics, except NVTX states, which contain `:`.
_LAUNCH = {
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Section Name", "Invocations"),
}
_DETAILS = ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
#: Metadata of the device, not measurements. Only its name is used, as a fact.
_DEVICE = "device__attribute_"
_GPU = f"{_DEVICE}display_name"
#: Reports a problem: a severity, a message and a line.
Say = Callable[[Severity, str, int], None]
#: A line number from 1, the line, and whether it had a line end.
NumberedLine = tuple[int, str, bool]


class Value(NamedTuple):
    """One cell with a value; `header` is the number of the table, from 1."""

    header: int
    line: int
    launch: tuple[str, str]
    kernel: str
    section: str
    metric: str
    unit: str
    text: str


class Tables:
    """The tables in the output of ncu. The details page has a row for each metric, the raw page for each launch."""

    def __init__(self, say: Say, advice: Callable[[int], object] = int) -> None:
        #: Takes the line of a row that has advice and no metric.
        self._say, self._advice = say, advice
        self.headers = 0
        self._header: list[str] = []
        #: The line of a header without a row so far.
        self._rowless: int | None = None
        self._quoted = True
        #: The unit of each column of the raw page, after its row has been read.
        self._units: list[str] | None = None

    def values(self, lines: Iterable[NumberedLine]) -> Iterator[Value]:
        """Yield the values in order."""
        for number, text, ended in lines:
            line = text.lstrip(" \t>")  # indented, or quoted in Markdown
            start = line.find('"ID",') if '"ID",' in line else 0 if line.startswith("ID,") else -1
            if start >= 0:
                self._begin(number, line[start:], ended)
            elif self._header and line.startswith('"' if self._quoted else ('"', *"0123456789,")):
                cells = self._row(number, line, ended)
                self._rowless = None if cells else self._rowless
                yield from self._of_row(number, cells) if cells else ()
        self._end_table()

    def _end_table(self) -> None:
        if self._rowless is not None and self.headers > 1:  # alone, it is a run without measurements
            self._say("warning", "a table has a header, but no row that can be read", self._rowless)
        self._rowless = None

    def _begin(self, number: int, line: str, ended: bool) -> None:
        """Begin a table. A header without a line end may be cut off, and has no rows."""
        header = cells_of(line) or []
        if "Kernel Name" not in header or not ended:
            return
        self._end_table()
        self.headers += 1
        self._rowless = number
        self._header, self._units, self._quoted = header, None, line.startswith('"')
        missing = [name for name in _DETAILS if name not in header] if "Metric Name" in header else []
        if missing:
            self._say("error", f"the table has no column {missing[0]!r}: it is not read", number)
            self._header = []

    def _row(self, number: int, line: str, ended: bool) -> list[str]:
        """The complete cells of a row; empty for other text and for a row that is cut off."""
        whole = cells_of(line) if ended else None
        cells = cells_before_cut(line) if whole is None and ended else whole or []
        raw = "Metric Name" not in self._header
        needed = len(self._header) if raw else self._header.index("Metric Value") + 1
        if len(cells) >= needed and (cells[0].isdigit() or (raw and not cells[0])):
            return cells
        if line[1:2].isdigit() or not ended:
            self._say("warning", "the row is cut off; left out", number)
        return []

    def _of_row(self, number: int, cells: Sequence[str]) -> Iterator[Value]:
        named = dict(zip(self._header, cells, strict=False))
        launch = (named["ID"], named.get("Process ID", ""))
        kernel, section = named["Kernel Name"], named.get("Section Name", "")
        if "Metric Name" in named:
            metric, unit, text = named["Metric Name"], named["Metric Unit"], named["Metric Value"].strip()
            if metric:
                yield Value(self.headers, number, launch, kernel, section, metric, unit, text)
            else:
                self._advice(number)
        elif not cells[0]:
            self._units = list(cells)
        elif self._units is None:
            self._say("error", "no row of units before the first launch: the table is not read", number)
            self._header = []
        else:
            for metric, unit, text in zip(self._header, self._units, cells, strict=False):
                if metric not in _LAUNCH and ":" not in metric:
                    yield Value(self.headers, number, launch, kernel, "", metric, unit, text)


class _Profile(RunBuilder):
    """The launches of one invocation of ncu while they are read."""

    def __init__(self, document: InputFile, mark: Mark | None) -> None:
        super().__init__(document, NAME)
        self._mark = mark
        self._launch: tuple[str, str] | None = None
        #: The number of occurrences of each metric of a section in this launch.
        self._seen: Counter[tuple[str, str]] = Counter()
        #: The key of each metric by kernel, section and occurrence.
        self._keys: dict[tuple[str, str, str, int], Key] = {}
        #: The number of values that ncu could not measure, and the line of the first.
        self._absent = self._first_absent = 0

    def take(self, value: Value) -> None:
        """Add one value of a launch, if it is a measurement."""
        if value.metric.startswith(_DEVICE):
            if value.metric == _GPU:
                self.fact("gpu", value.text, value.line)
            return
        if value.launch != self._launch:
            self._launch = value.launch
            self._seen.clear()
        self._seen[value.section, value.metric] += 1
        if value.text.endswith("n/a"):
            self._absent += 1
            self._first_absent = self._first_absent or value.line
        elif _NUMBER.match(value.text):  # other values are words
            # The same metric in a second section is another one.
            place = (value.kernel, value.section, value.metric, self._seen[value.section, value.metric])
            if place not in self._keys:
                self._keys[place] = self.unique(Key(f"kernel.{value.kernel}.{value.metric}"), value.line)
            self._measured(value, self._keys[place], scale_of(value.unit))

    def _measured(self, value: Value, key: Key, scale: Scale) -> None:
        found = readings(value.text)
        text = found.get(self._mark) if self._mark else next(iter(found.values()), None)
        fault = fault_of(text or value.text)
        column = self.column(key, scale.base)
        if not self._mark and len({*found.values()}) > 1:
            fault = f"{value.text} is ambiguous: its separator may be a decimal mark or group thousands; left out"
        elif text is None and found:
            fault = f"{value.text} does not use {self._mark!r}, the decimal mark of this file; left out"
        elif column.unit != scale.base:
            fault = f"the unit of {value.text} {value.unit} does not match the launches before; left out"
        if fault or text is None:
            self.refuse(key, fault or "not a number; left out", value.line)
        else:
            self.file.coverage.lines.tell(value.line)
            column.values.append(scale.to_base(float(text)))

    def run(self, part: int | None = None) -> Run:
        if self._absent:
            self.say("warning", f"values printed as n/a (not available): {self._absent}", self._first_absent)
        return super().run(part)


def read(document: InputFile) -> tuple[Run, ...]:
    """One run for each invocation of ncu; each has at least one series or an error."""
    mark = _mark_of(document)
    runs = Runs(lambda: _Profile(document, mark))
    advice = document.coverage.lines.tell
    tables = Tables(lambda severity, message, line: runs.run.say(severity, message, line), advice)  # noqa: PLW0108
    header = 0
    for value in tables.values(_lines(document, runs)):
        if value.header != header:
            header = value.header
            runs.banner(value.line)
            runs.run.say("warning", "ncu replays kernels at fixed clocks: durations differ from a real run", value.line)
        runs.run.take(value)
    return runs.finish()


def _lines(document: InputFile, runs: Runs[_Profile]) -> Iterator[NumberedLine]:
    """Yield the lines of a document, and report the errors of ncu itself."""
    for number, line, _, ended in document.lines():
        if line.startswith("==ERROR=="):
            runs.run.say("error", "ncu reports an error here; launches may be missing", number)
        yield number, line, ended


def _mark_of(document: InputFile) -> Mark | None:
    """The decimal mark of the first number near the beginning that shows one."""
    lines = clean(document.head(_HEAD).decode("utf-8", "replace")).split("\n")[:-1]
    numbered = ((number, line.rstrip("\r"), True) for number, line in enumerate(lines, 1))
    for value in Tables(lambda severity, message, line: None).values(numbered):
        # The rollup `.sum` of a counter is a whole number.
        whole = value.metric.endswith(".sum") and scale_of(value.unit).counts
        if not value.metric.startswith(_DEVICE) and (mark := decimal_mark(value.text, whole=whole)):
            return mark
    return None
