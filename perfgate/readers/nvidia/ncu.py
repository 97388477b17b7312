"""Nsight Compute CSV: what `ncu --csv` prints, as the details page and with `--page raw`.

    ==PROF== Connected to process 4711
    "ID","Process ID",..,"Kernel Name",..,"Section Name","Metric Name","Metric Unit","Metric Value"     details
    "0","4711",..,"gemm(float *, int)",..,"Command line profiler metrics","gpu__time_duration.sum","usecond","41.28"

    "ID","Process ID",..,"Kernel Name",..,"CC","gpu__time_duration.sum","dram__bytes.sum"               raw
    "","",..,"","usecond","Mbyte"
    "0","4711",..,"gemm(float *, int)",..,"9.0","41.28","2.5"

Other lines between the rows are skipped: output of the program, lines of ncu itself (`==PROF==`), rows of advice.
Source: outputs in public repositories. A metric is `kernel.NAME.METRIC`, with one value for each launch, in order; if
it occurs in two sections, the second is `METRIC#2`. Numbers follow the user's locale: `117.344` may be 117344. The
first number near the beginning that shows its decimal mark gives that of the file; without one, such a number is
refused. Units: s, B, 1/s, B/s, and 1 for shares and counts. ncu picks a prefix for each value, so a metric may be in
usecond for one launch and in msecond for the next. All prefixes are decimal, those of bytes too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from perfgate.core import Severity
from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, cells_of, fault_of, in_base
from perfgate.readers.line_blocks import clean
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
_HEAD = 8 << 20  # bytes that are searched for a number with a decimal mark
#: Columns of the raw page that describe the launch. All others are metrics, except NVTX states, which contain `:`.
_LAUNCH = {
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Section Name", "Invocations"),
}
_DETAILS = ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
#: Metadata of the device, not measurements. Only its name is used, as a fact.
_DEVICE, _GPU = "device__attribute_", "device__attribute_display_name"
Mark = Literal[".", ","]
_BLANKS = re.compile(r"(?<=\d)[ '\u2019\u00a0\u202f](?=\d{3}(?!\d))")
#: A printed number whose decimal mark is a point, and the exchange of both marks.
_PRINTED = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)", re.ASCII)
_EXCHANGED = str.maketrans(".,", ",.")
#: How many printed units are one s.
_TIMES = {
    **dict.fromkeys(("second", "s", "sec"), 1.0),
    **dict.fromkeys(("msecond", "ms"), 1e3),
    **dict.fromkeys(("usecond", "us", "µs", "μs"), 1e6),
    **dict.fromkeys(("nsecond", "ns"), 1e9),
}
#: A prefix is a capital letter. Units are in small letters, except Hz and B.
_PREFIXED = re.compile(r"([KMGTP]?)(byte|hz|Hz|B|[a-z]{2,}.*)")
_PREFIXES = {"": 1.0, "K": 1e-3, "M": 1e-6, "G": 1e-9, "T": 1e-12, "P": 1e-15}
_BASES = {"byte": "B", "B": "B", "hz": "1/s", "Hz": "1/s"}
_PER_SECOND = {"B": "B/s", "1": "1/s", "s": "1"}  # by base unit: that unit per second


def readings(text: str) -> dict[Mark, str]:
    """Return a printed number with each decimal mark, as `float` accepts it; empty for other text.

    `12` has two equal readings, `12.5` and `1.234.567` have one, and `1,234` has two different ones.
    """
    text = _BLANKS.sub("", text)
    by_mark: dict[Mark, str] = {".": text, ",": text.translate(_EXCHANGED)}
    return {mark: printed.replace(",", "") for mark, printed in by_mark.items() if _PRINTED.fullmatch(printed)}


def decimal_mark(text: str, whole: bool = False) -> Mark | None:
    """Return the decimal mark that a number shows. In a `whole` number the separator of `1,234` groups thousands."""
    found = readings(text)
    if whole and len({*found.values()}) == 2:
        return "." if "," in text else ","
    return next(iter(found)) if len(found) == 1 else None


@lru_cache(maxsize=1024)
def unit_of(unit: str) -> tuple[str, float]:
    """Return the base unit of a printed unit, and how many printed units are one base unit.

    Bytes per block are bytes; anything per second, as `cycle/nsecond`, is a rate.
    """
    over, _, under = unit.partition("/")
    base, per = _part(over)
    if not under:
        return base, per
    below, per_below = _part(under)
    return _PER_SECOND.get(base, base) if below == "s" else base, per / per_below


def _part(unit: str) -> tuple[str, float]:
    """Return the base of one side of a unit, and how many printed units are one of it."""
    if unit in _TIMES:
        return "s", _TIMES[unit]
    if found := _PREFIXED.fullmatch(unit):
        return _BASES.get(found[2], "1"), _PREFIXES[found[1]]
    return "1", 100.0 if unit == "%" else 1.0


class Value(NamedTuple):
    """One cell with a value: `header` is the number of its table from 1, `launch` the ID and the process."""

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

    def __init__(self, say: Callable[[Severity, str, int], None], advice: Callable[[int], object] = int) -> None:
        #: Functions: report a problem on a line, and take the line of a row that has advice instead of a metric.
        self._say, self._advice = say, advice  # `int` does nothing
        self.headers = 0
        self._header: list[str] = []
        #: The line of a header without a row so far.
        self._rowless: int | None = None
        self._quoted = True  # a row begins with a quote; if not quoted, with an ID, or the units with an empty cell
        #: The unit of each column of the raw page, after its row has been read.
        self._units: list[str] | None = None

    def values(self, lines: Iterable[tuple[int, str, bool]]) -> Iterator[Value]:
        """Yield the values of lines (number, text, has an end), and report the errors of ncu itself."""
        for number, text, ended in lines:
            line = text.lstrip(" \t>")  # indented, or quoted in Markdown
            start = 0 if line.startswith("ID,") else line.find('"ID",')
            if text.startswith("==ERROR=="):
                self._say("error", "ncu reports an error here; launches may be missing", number)
            if start >= 0:
                self._begin(number, line[start:], ended)
            elif self._header and line.startswith('"' if self._quoted else ('"', *"0123456789,")):
                cells = self._row(number, line, ended)
                self._rowless = None if cells else self._rowless
                yield from self._of_row(number, cells) if cells else ()
        self._end_table()

    def _end_table(self) -> None:
        if self._rowless is not None and self.headers > 1:  # if it is the only table, the run has no measurements
            self._say("warning", "a table has a header, but no row that can be read", self._rowless)
        self._rowless = None

    def _begin(self, number: int, line: str, ended: bool) -> None:
        header = cells_of(line) or []
        if "Kernel Name" not in header or not ended:  # a header without a line end may be cut off, and has no rows
            return
        self._end_table()
        self.headers += 1
        self._rowless = number
        self._header, self._units, self._quoted = header, None, line.startswith('"')
        if "Metric Name" in header and (missing := [name for name in _DETAILS if name not in header]):
            self._say("error", f"the table has no column {missing[0]!r}: it is not read", number)
            self._header = []

    def _row(self, number: int, line: str, ended: bool) -> list[str]:
        """Return the complete cells of a row; none for other text and for a row that is cut off."""
        whole = cells_of(line) if ended else []  # None: the last cell is a text that continues on the next line
        cells = cells_before_cut(line) if whole is None else whole
        raw = "Metric Name" not in self._header
        needed = len(self._header) if raw else self._header.index("Metric Value") + 1
        if len(cells) >= needed and (cells[0].isdigit() or (raw and not cells[0])):
            return cells
        if line[1:2].isdigit() or not ended:  # it begins with a quote and an ID
            self._say("warning", "the row is cut off; left out", number)
        return []

    def _of_row(self, number: int, cells: Sequence[str]) -> Iterator[Value]:
        """Yield the values in a row: of one metric, or of all metrics of a launch; keep the units of a raw page."""
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
        #: By section and metric: the number of occurrences in this launch.
        self._seen: Counter[tuple[str, str]] = Counter()
        #: By kernel, section, metric and its occurrence.
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
            place = (value.kernel, value.section, value.metric, self._seen[value.section, value.metric])
            if place not in self._keys:
                self._keys[place] = self.unique(Key(f"kernel.{value.kernel}.{value.metric}"), value.line)
            self._measured(value, self._keys[place])

    def _measured(self, value: Value, key: Key) -> None:
        """Add a number in base units, or a problem if its mark or its unit is not that of the others."""
        found, (unit, per) = readings(value.text), unit_of(value.unit)
        text = found.get(self._mark) if self._mark else next(iter(found.values()), None)
        fault = fault_of(text or value.text)
        column = self.column(key, unit)
        if not self._mark and len({*found.values()}) > 1:
            fault = f"{value.text} is ambiguous: its separator may be a decimal mark or group thousands; left out"
        elif text is None and found:
            fault = f"{value.text} does not use {self._mark!r}, the decimal mark of this file; left out"
        elif column.unit != unit:
            fault = f"the unit of {value.text} {value.unit} does not match the launches before; left out"
        if fault or text is None:
            self.refuse(key, fault or "not a number; left out", value.line)
        else:
            self.file.coverage.lines.tell(value.line)  # the others in its row describe the launch
            column.values.append(in_base(float(text), per))

    def run(self, part: int | None = None) -> Run:
        if self._absent:
            self.say("warning", f"values printed as n/a (not available): {self._absent}", self._first_absent)
        return super().run(part)


def read(document: InputFile) -> tuple[Run, ...]:
    """Return one run for each invocation of ncu; each has at least one series or an error."""
    mark = _mark_of(document)
    runs = Runs(lambda: _Profile(document, mark))
    advice = document.coverage.lines.tell  # its numbers are no measurements that were left out
    tables = Tables(lambda severity, message, line: runs.run.say(severity, message, line), advice)  # noqa: PLW0108
    header = 0
    for value in tables.values((number, line, ended) for number, line, _, ended in document.lines()):
        if value.header != header:
            header = value.header
            runs.banner(value.line)
            runs.run.say("warning", "ncu replays kernels at fixed clocks: durations differ from a real run", value.line)
        runs.run.take(value)
    return runs.finish()


def _mark_of(document: InputFile) -> Mark | None:
    """Return the decimal mark of the first number near the beginning that shows one."""
    lines = clean(document.head(_HEAD).decode("utf-8", "replace")).split("\n")[:-1]  # the last may be cut off
    numbered = ((number, line.rstrip("\r"), True) for number, line in enumerate(lines, 1))
    for value in Tables(lambda severity, message, line: None).values(numbered):
        # the sum (`.sum`) of single things or bytes, without a prefix, is a whole number
        whole = value.metric.endswith(".sum") and "/" not in value.unit and unit_of(value.unit) in (("1", 1), ("B", 1))
        if not value.metric.startswith(_DEVICE) and (mark := decimal_mark(value.text, whole=whole)):
            return mark
    return None
