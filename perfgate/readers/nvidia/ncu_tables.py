"""The tables of `ncu --csv` -> values: a row a metric on the details page, a row a launch on the raw page.

Text of the program, lines of ncu itself (`==PROF==`) and rows of advice stand between them and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from perfgate.core import Severity
from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.nvidia.localised import Mark, evidence
from perfgate.readers.nvidia.ncu_units import scale_of
from perfgate.readers.table_rows import cells_before_cut, cells_of

#: Columns that say which launch a row is of; all others of the raw page are metrics, but for NVTX state (`:`).
_LAUNCH = {
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Section Name", "Invocations"),
}
_DETAILS = ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
#: Metadata of the device, which is no measurement.
DEVICE = "device__attribute_"
#: The rollup of a counter that is a whole number.
_SUM = ".sum"

#: Where the problems of rows go: a severity, a message and a line.
Say = Callable[[Severity, str, int], None]
#: A line from 1, its text, and whether it had a line end.
NumberedLine = tuple[int, str, bool]


class Value(NamedTuple):
    """One cell with a value, and the header (counted from 1) that it stands under."""

    header: int
    line: int
    launch: tuple[str, str]
    kernel: str
    section: str
    metric: str
    unit: str
    text: str

    def mark(self) -> Mark | None:
        """The decimal mark that the value gives away."""
        if self.metric.startswith(DEVICE):
            return None
        return evidence(self.text, whole=self.metric.endswith(_SUM) and scale_of(self.unit).counts)


class Tables:
    """The tables in the output of ncu, as values; what is wrong with a row is said to `say`."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.headers = 0
        self._header: list[str] = []
        self._quoted = True
        self._cut = 0
        #: Of the raw page: the unit of each column, once its row has been read.
        self._units: list[str] | None = None

    def values(self, lines: Iterable[NumberedLine]) -> Iterator[Value]:
        """The values in numbered lines (with whether each has a line end), in order."""
        for number, text, ended in lines:
            line = text.lstrip(" \t>")  # indented, or quoted in Markdown
            start = line.find('"ID",') if '"ID",' in line else 0 if line.startswith("ID,") else -1
            if start >= 0:
                self._begin(number, line[start:], ended)
            elif self._header and line.startswith('"' if self._quoted else ('"', *"0123456789,")):
                cells = self._row(number, line, ended)
                if cells:
                    yield from self._of_row(number, cells)

    def _begin(self, number: int, line: str, ended: bool) -> None:
        """A header; one without a line end has no rows, and may be cut."""
        header = cells_of(line) or []
        if "Kernel Name" not in header or not ended:
            return
        self.headers += 1
        self._header, self._units, self._quoted = header, None, line.startswith('"')
        missing = [name for name in _DETAILS if name not in header] if "Metric Name" in header else []
        if missing:
            self._say("error", f"the table has no column {missing[0]!r}, and is not read", number)
            self._header = []

    def _row(self, number: int, line: str, ended: bool) -> list[str]:
        """The cells of a row, as far as they are whole; none for other text, and for a row that is cut off."""
        whole = cells_of(line) if ended else None
        cells = cells_before_cut(line) if whole is None and ended else whole or []
        raw = "Metric Name" not in self._header
        needed = len(self._header) if raw else self._header.index("Metric Value") + 1
        if len(cells) >= needed and (cells[0].isdigit() or (raw and not cells[0])):
            return cells
        if line[1:2].isdigit() or not ended:
            self._cut += 1
            if self._cut <= MAX_FAULTS:
                self._say("warning", "the row is cut off, and left out", number)
        return []

    def _of_row(self, number: int, cells: Sequence[str]) -> Iterator[Value]:
        named = dict(zip(self._header, cells, strict=False))
        launch = (named["ID"], named.get("Process ID", ""))
        kernel, section = named["Kernel Name"], named.get("Section Name", "")
        if "Metric Name" in named:
            metric, unit, text = named["Metric Name"], named["Metric Unit"], named["Metric Value"].strip()
            if metric:  # rows without one hold advice
                yield Value(self.headers, number, launch, kernel, section, metric, unit, text)
        elif not cells[0]:
            self._units = list(cells)
        elif self._units is None:
            self._say("error", "no row of units stands before the first launch; the table is not read", number)
            self._header = []
        else:
            for metric, unit, text in zip(self._header, self._units, cells, strict=False):
                if metric not in _LAUNCH and ":" not in metric:
                    yield Value(self.headers, number, launch, kernel, "", metric, unit, text)
