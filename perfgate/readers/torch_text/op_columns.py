"""The columns of torch's `key_averages().table()`: where they are, and what their cells mean.

The rule, not the header, shows where columns are: headers may be wider than their columns. A cell that is wider pushes
the rest of its row to the right, as `str.format` does. Source: pytorch/pytorch `torch/autograd/profiler_util.py`,
`_build_table`, 1.5 to 2.13. Units: s, B (the printed Kb and KB are both 1024 bytes), FLOP, 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from perfgate.readers.kit import Key, RunBuilder, fault_of, number

#: No table has fewer columns, and more would take long.
_FEWEST, _MOST = 5, 64
#: `GFLOPS` of 1.8, without `Total`, are FLOP/s, and are not read.
_HEADER = re.compile(
    r"(?P<percent>.* %)|(?P<calls># of Calls|Number of Calls)|Total (?P<scale>[KMGTP]?)FLOPs"
    r"|(?P<memory>(?:Self )?\S+) Mem(?: Total)?|(?P<mean>\S+) time avg|(?P<self>Self \S+)(?: total)?"
    r"|(?P<total>\S+) total"
)
_CELL = re.compile(r"(?P<number>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?)) ?(?P<unit>[a-z%]*?)", re.I | re.A)
Kind = Literal["percent", "time", "memory", "flops", "calls", "text"]
Span = tuple[int, int]
#: The units of a cell, in lower case: one unit is `times` * 10 ** `exponent` base units.
_UNITS: dict[Kind, dict[str, tuple[int, float]]] = {
    "percent": {"%": (-2, 1), "": (0, 1)},  # `0` of asynchronous events, `NaN` if the total is 0
    "time": {"us": (-6, 1), "ms": (-3, 1), "s": (0, 1)},
    "memory": {prefix + "b": (0, 1024.0**power) for power, prefix in enumerate(["", "k", "m", "g", "t"])},
    "flops": {"": (0, 1)},
    "calls": {"": (0, 1)},
    "text": {},
}


class Amount(Struct, frozen=True):
    """A number as printed, in a unit of `times` * 10 ** `exponent` base units: 1.5 ms is 1.5e-3, 1.5 KB is 1536.

    The exponent is appended to the printed digits, so 21.632 ms are exactly 0.021632 s.
    """

    text: str
    exponent: int = 0
    times: float = 1.0

    @property
    def printed(self) -> float | None:
        """The number as printed."""
        return number(self.text)

    @property
    def value(self) -> float:
        """The number in base units; NaN if the text is not a number."""
        if "e" in self.text.lower():
            value, power = number(self.text), 10.0**self.exponent
        else:
            value, power = number(f"{self.text}e{self.exponent}"), 1.0
        return float("nan") if value is None else value * power * self.times

    def fault(self, signed: bool = False) -> str | None:
        """Return why this cannot be a measurement; a `signed` one may be negative, as freed memory is."""
        if signed and math.isfinite(self.value):
            return None
        return fault_of(self.text) or (None if math.isfinite(self.value) else f"{self.text} is too large; left out")


def add_amounts(
    run: RunBuilder, key: Key, unit: str, amounts: Mapping[str, Amount], line: int, printed_as: str | None = None
) -> None:
    """Add the statistics that a row prints of one series; those that cannot be true are refused."""
    statistics = {}
    for name, amount in amounts.items():
        if fault := amount.fault(signed=unit == "B" and name != "count"):
            run.refuse(key, f"{name}: {fault}", line)
        else:
            statistics[name] = amount.value
    if statistics.keys() - {"count"}:
        run.aggregate(key, unit, statistics, printed_as)


class OpColumn(Struct, frozen=True):
    """The meaning of a column: a statistic of a metric, or nothing that is measured."""

    kind: Kind
    metric: str = ""
    statistic: str = "total"
    #: The device in the header; empty for the CPU.
    device: str = ""
    #: For FLOPs, the scale in the header as a power of 10.
    exponent: int = 0

    def amount(self, cell: str) -> Amount | None:
        """Return the number in a cell; None if the cell is not of this kind."""
        found = _CELL.fullmatch(cell)
        unit = _UNITS[self.kind].get(found["unit"].lower()) if found else None
        return Amount(found["number"], self.exponent + unit[0], unit[1]) if found and unit else None

    def fits(self, cell: str) -> bool:
        """Return whether a cell of this column may look like this."""
        return self.kind == "text" or self.amount(cell) is not None or (self.kind == "flops" and cell == "--")


def column_of(header: str) -> OpColumn:
    """Return the column under a header, in the words of any version."""
    found = _HEADER.fullmatch(header)
    if not found or found["percent"]:
        return OpColumn("percent" if found else "text")
    if found["calls"]:
        return OpColumn("calls", "calls")
    if found["scale"] is not None:
        return OpColumn("flops", "flops", exponent=3 * " KMGTP".index(found["scale"] or " "))
    words = (found["memory"] or found["mean"] or found["self"] or found["total"]).split()
    device = "" if words[-1] == "CPU" else words[-1]
    metric = ("self_" if words[:-1] else "") + ("device" if device else "cpu")
    if found["memory"]:
        return OpColumn("memory", f"{metric}_memory", device=device)
    return OpColumn("time", f"{metric}_time", "mean" if found["mean"] else "total", device)


def rule_spans(line: str) -> list[Span]:
    """Return where the columns are if a line is the rule of a table: runs of dashes with two blanks between them."""
    text = line.rstrip()
    spans = [found.span() for found in re.finditer("-{3,}", text)] if text.endswith("---") else []
    breaks = [at for at, (one, other) in enumerate(pairwise(spans), 1) if text[one[1] : other[0]] != "  "]
    spans = spans[breaks[-1] :] if breaks else spans  # a logger printed the text before the last break
    return spans if _FEWEST <= len(spans) <= _MOST else []


def cut(line: str, spans: Sequence[Span]) -> list[str]:
    """Return the cells of a row; a cell that is wider than its column moves the cells behind it."""
    cells, shift = [], 0
    for start, end in spans[:-1]:
        begin, stop = start + shift, end + shift
        if line[stop : stop + 2].strip():
            gap = line.find("  ", stop)
            stop = len(line) if gap < 0 else gap
            shift = stop - end
        cells.append(line[begin:stop].strip())
    return [*cells, line[spans[-1][0] + shift :].strip()]


class OpHeader(Struct, frozen=True):
    """The columns of one table."""

    spans: Sequence[Span]
    names: Sequence[str]
    columns: Sequence[OpColumn]

    @classmethod
    def of(cls, header: str, spans: Sequence[Span]) -> OpHeader | None:
        """Return the columns under a header; None for another line. The numbers of names and columns may differ."""
        names = re.split(r"\s{2,}", header[spans[0][0] :].strip())
        columns = [column_of(name) for name in names]
        known = names[0] == "Name" and any(column.metric == "self_cpu_time" for column in columns)
        return cls(spans, names, columns) if known else None

    @property
    def devices(self) -> list[str]:
        """The devices in the header; 1.10 to 2.0 may print two, and only the first is read."""
        return list(dict.fromkeys(column.device for column in self.columns if column.device))

    def cells(self, line: str) -> list[str]:
        """Return the cells of a row; if it does not line up with the rule, the texts between double blanks."""
        cells = self._in_order(cut(line, self.spans))
        if self.fitting(cells) < len(self.columns):
            parts = re.split(r"\s{2,}", line[self.spans[0][0] :].strip())
            if len(parts) == len(self.columns) and self.fitting(self._in_order(parts)) > self.fitting(cells):
                return self._in_order(parts)
        return cells

    def fitting(self, cells: Sequence[str]) -> int:
        """Return how many cells look as cells of their column do."""
        return sum(column.fits(cell) for column, cell in zip(self.columns, cells, strict=True))

    def _in_order(self, cells: list[str]) -> list[str]:
        """Return the cells in the order of the header, which has the FLOPs behind the source location."""
        if "Source Location" not in self.names or self.columns[-1].kind != "flops":
            return cells
        source = self.names.index("Source Location")
        if not self.columns[-1].fits(cells[source]):
            return cells
        return [*cells[:source], cells[-1], *cells[source + 1 : -1], cells[source]]

    def is_like_row(self, line: str) -> bool:
        """Return whether a line was a row before it was damaged: it has two times or percentages."""
        parts = re.split(r"\s{2,}", line.strip())
        return sum(part[-1:] in ("s", "%") and _CELL.fullmatch(part) is not None for part in parts) > 1
