"""Text of torch.utils.benchmark: printed Measurements, and the tables of Compare. Its pickles are never loaded.

    <torch.utils.benchmark.utils.common.Measurement object at 0x7f1929a38ed0>
    x * y                                    [------------- softmax --------------]
    setup: y = torch.ones((128,))                        |  B=8     |  B=64
      Median: 2.34 us                        1 threads: ---------------------------
      IQR:    0.07 us (2.31 to 2.38)               dense |   12.8   |    141.9
      424 measurements, 1000 runs per measurement, 1 thread
                                             Times are in microseconds (us).

Source: pytorch/pytorch `torch/utils/benchmark/utils/common.py` and `compare.py`, 1.7 to 2.9. The metric is the title,
`LABEL: SUB_LABEL` or the statement, in a table `LABEL: ROW`; labels are `threads`, `description` (a table's column)
and, in a table of several, `env`. The printed number is the median of `count` measurements, so it is an aggregate; for
one measurement it is a single value. Units: s. A table ends with its unit: without it nothing of the table is read.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, fault_of

NAME = "torch-benchmark"
METRICS = "the title, or `LABEL: SUB_LABEL`, labelled with `threads` and `description`"
CHECKED = "torch 2.13's sources, and what it printed; generated text"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "common.Measurement object at": r"<(?:torch\.utils\.benchmark\.)?utils\.common\.Measurement object at",
        " threads: ---": r"\d threads: -{3}",
    },
)
BESIDE = "IQR"  # not read
_PER = {"ns": 1e9, "us": 1e6, "µs": 1e6, "μs": 1e6, "ms": 1e3, "s": 1.0}
_MEASUREMENT = re.compile(r"<(?:torch\.utils\.benchmark\.)?utils\.common\.Measurement object at 0x[0-9a-fA-Fx]+>")
_TIME = re.compile(r"(?:Median: +)?([^\s()]{1,40}) (ns|us|µs|μs|ms|s)")
_COUNTS = re.compile(r"\b(\d{1,18}) measurements?, \d+ runs (?:per measurement)?, (\d{1,9}) thread")
#: A statement longer than this is source code that quotes a measurement.
_MAX_LINES = 500
_TABLE = re.compile(r"\[-* ")
#: Indentation, and the sign of a comment or a quote.
_PREFIX = re.compile(r"^[\s#>]*")
_THREADS = re.compile(r"(\d{1,9}) threads: -{3}")
_UNIT = re.compile(r"\bTimes are in \w*seconds \((ns|us|ms|s)\)")
_SEPARATOR = "  |"
#: `12.8`, `12.8 (! 15%)` with a warning, `12.8 (+-0.4)` in torchvision's variant.
_CELL = re.compile(r"(\S+)(?: +\((?:! *\d+%|\+-\S+)\))?")
_ENV = re.compile(r"  \((.*?)\) {2,}(\S.*)")


class _Measurement(Struct):
    """A printed Measurement while its lines are read."""

    #: The line on which it begins, and the lines of text above its median.
    line: int
    text: list[str] = field(default_factory=list)
    #: The median as printed, and its unit.
    median: tuple[str, str] | None = None

    def names(self) -> tuple[str, str]:
        """Return the title and the description, from the text above `setup:`."""
        title, *rest = self.text
        if re.fullmatch(r"stmt:(?: \(.*\))?", title):  # `stmt:` or `stmt: (SUB_LABEL)`, then the statement
            end = rest.index("") if "" in rest else len(rest)
            title = "; ".join(rest[:end]) + (f": {title[7:-1]}" if title != "stmt:" else "")
            rest = rest[end + 1 :]
        return title, rest[0] if rest and not rest[0].startswith("setup:") else ""


class _Table(Struct):
    """A printed table of Compare while its lines are read."""

    #: The line on which it begins.
    line: int
    #: The text before the table on every line: indentation, a comment sign, the prefix of a launcher.
    prefix: str
    label: str
    columns: list[str]
    #: The number of threads and the environment of the next rows.
    threads: str = ""
    env: str = ""
    #: The line, metric, labels and cell of each time.
    cells: list[tuple[int, str, dict[str, str], str]] = field(default_factory=list)
    #: True after the blank line before the unit.
    ended: bool = False

    def row(self, line: int, text: str) -> bool:
        """Take `   dense   |   12.8   |   141.9`; an empty cell was not measured. Return False for another line."""
        if found := _ENV.match(text):
            self.env, text = found[1], found[2]
        name, *cells = text.rsplit(_SEPARATOR, len(self.columns))
        metric = f"{self.label}: {name.strip()}" if self.label else name.strip()
        if len(cells) != len(self.columns):
            return False
        for column, cell in zip(self.columns, cells, strict=True):
            labels = {"threads": self.threads, "description": column, "env": self.env}
            if cell.strip():
                self.cells.append((line, metric, labels, cell.strip()))
        return True


class _Text:
    """A text while it is read: at most one measurement or table is open."""

    def __init__(self, file: InputFile) -> None:
        self.run = RunBuilder(file, NAME)
        self.measurement: _Measurement | None = None
        self.table: _Table | None = None
        #: The two lines before this one: a table is recognised by its third line.
        self.before = ("", "")

    def line(self, number: int, text: str, ended: bool) -> None:
        """Read one line of what is open, or the beginning of a measurement or table."""
        begun = _MEASUREMENT.search(text) if "Measurement object at" in text else None
        threads = _THREADS.search(text) if "threads: -" in text else None
        # The line that begins another measurement may be the last one of this, but only behind its median.
        if self.measurement and (self.measurement.median or not begun):
            self._measured(self.measurement, number, text)
        if begun:
            self.abandon(number)
            self.measurement = _Measurement(number)
        elif threads and _SEPARATOR in self.before[1] and (header := _header(self.before[0])):
            self.abandon(number)
            columns = [column.strip() for column in self.before[1].split(_SEPARATOR)[1:]]
            self.table = _Table(number - 2, *header, columns, threads[1])
            self.run.table("a comparison of torch.utils.benchmark", number - 2)
        elif self.table and threads:
            self.table.threads, self.table.env = threads[1], ""
        elif self.table:
            self._tabled(self.table, number, text, ended)
        self.before = (self.before[1], text)

    def _measured(self, open_one: _Measurement, number: int, text: str) -> None:
        """Read a line of a measurement: its text, its median, or its counts, which end it."""
        stripped = _PREFIX.sub("", text).rstrip()
        counts = _COUNTS.search(text) if "measurement" in text else None
        if counts and open_one.median and open_one.text:
            title, description = open_one.names()
            labels = {"threads": counts[2], "description": description}
            self._add(title, labels, *open_one.median, open_one.line, counts[1])
            self.measurement = None
        elif open_one.text and open_one.median is None and (found := _TIME.fullmatch(stripped)):
            open_one.median = (found[1], found[2])
        elif open_one.median is None and (open_one.text or stripped):
            open_one.text.append(stripped)
        if len(open_one.text) > _MAX_LINES:
            self.abandon(number)

    def _tabled(self, table: _Table, number: int, text: str, whole: bool) -> None:
        """Read the rows of a table, the blank line behind them, and the unit."""
        indent = len(table.prefix)
        has_prefix = text[:indent] == table.prefix or not text[:indent].strip(" #>")  # a blank line may have less
        inside = text[indent:] if has_prefix else text
        if unit := _UNIT.search(inside):
            for line, metric, labels, cell in table.cells:
                self.run.table_row()
                found = _CELL.fullmatch(cell)
                self._add(metric, labels, found[1] if found else cell, unit[1], line)
            self.table = None
        elif not _PREFIX.sub("", inside):
            table.ended = True
        elif whole and (table.ended or not table.row(number, inside)):
            self.abandon(number)

    def _add(self, metric: str, labels: dict[str, str], median: str, unit: str, line: int, count: str = "") -> None:
        """Add a median of `count` measurements, with the labels that are not empty."""
        present = sorted((name, value) for name, value in labels.items() if value)
        key = self.run.unique(Key(metric, tuple(present)), line)
        if fault := fault_of(median):
            self.run.refuse(key, fault, line)
            return
        statistics = {"median": float(median) / _PER[unit]}
        if count:
            statistics["count"] = float(count)
        if count == "1":
            self.run.one_value(key, "s", statistics["median"])
        else:
            self.run.aggregate(key, "s", statistics)

    def abandon(self, number: int | None = None) -> None:
        """Give up what is open, because something else begins on this line, or because the text ends."""
        for open_one, what in ((self.measurement, "measurement"), (self.table, "table")):
            if open_one is not None and number is None:
                self.run.say("warning", f"the {what} that begins here is cut off; left out", open_one.line)
            elif open_one is not None:
                self.run.say("error", f"this {what} is broken off on line {number}; left out", open_one.line)
        self.measurement = self.table = None


def _header(text: str) -> tuple[str, str] | None:
    """Return the text before `[---- LABEL ----]`, and the label; a narrow table has no dashes."""
    text = text.rstrip()
    found = _TABLE.search(text) if text.endswith("]") else None
    return (text[: found.start()], text[found.end() : -1].rstrip("-").strip()) if found else None


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a text."""
    text = _Text(file)
    for number, line, _, ended in file.lines():
        text.line(number, line, ended)
    text.abandon()
    return (text.run.run(),)
