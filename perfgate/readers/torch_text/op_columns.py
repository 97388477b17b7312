"""The columns of torch's `key_averages().table()`: where they are, and what their cells mean.

The rule, not the header, tells where columns are: headers may be wider than their columns. A cell that is wider pushes
the rest of its row to the right, as `str.format` does. Source: pytorch/pytorch `torch/autograd/profiler_util.py`,
`_build_table`, 1.5 to 2.13. Units: s, B (the printed Kb and KB are both 1024 bytes), FLOP, 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from perfgate.readers.aggregates import Amount

#: Fewer columns has no table, and more would take long.
_FEWEST, _MOST = 5, 64

#: What 1.8 calls `GFLOPS`, without `Total`, are FLOP/s, and are not read.
_HEADER = re.compile(
    r"(?P<percent>.* %)|(?P<calls># of Calls|Number of Calls)|Total (?P<scale>[KMGTP]?)FLOPs"
    r"|(?P<memory>(?:Self )?\S+) Mem(?: Total)?|(?P<mean>\S+) time avg|(?P<self>Self \S+)(?: total)?"
    r"|(?P<total>\S+) total"
)
_CELL = re.compile(r"(?P<number>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?)) ?(?P<unit>[a-z%]*?)", re.I | re.A)

Kind = Literal["percent", "time", "memory", "flops", "calls", "text"]
Span = tuple[int, int]

#: The units of a cell, in lower case: one is `times` * 10 ** `exponent` base units.
_UNITS: dict[Kind, dict[str, tuple[int, float]]] = {
    "percent": {"%": (-2, 1), "": (0, 1)},  # `0` of asynchronous events, `NaN` where the total is 0
    "time": {"us": (-6, 1), "ms": (-3, 1), "s": (0, 1)},
    "memory": {prefix + "b": (0, 1024.0**power) for power, prefix in enumerate(["", "k", "m", "g", "t"])},
    "flops": {"": (0, 1)},
    "calls": {"": (0, 1)},
    "text": {},
}


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds: a statistic of a metric, or nothing that is measured."""

    kind: Kind
    metric: str = ""
    statistic: str = "total"
    #: The device that the header names; empty for the CPU.
    device: str = ""
    #: Of FLOPs: the scale in the header, as a power of 10.
    exponent: int = 0

    @property
    def printed_metric(self) -> str:
        """The metric with the device as the header names it: `self_cuda_time`."""
        return self.metric.replace("device", self.device.lower()) if self.device else self.metric

    def amount(self, cell: str) -> Amount | None:
        """The number in a cell; None for a cell that is none of this kind."""
        found = _CELL.fullmatch(cell)
        unit = _UNITS[self.kind].get(found["unit"].lower()) if found else None
        return Amount(found["number"], self.exponent + unit[0], unit[1]) if found and unit else None

    def fits(self, cell: str) -> bool:
        """Whether a cell of this column may look so."""
        return self.kind == "text" or self.amount(cell) is not None or (self.kind == "flops" and cell == "--")


def column_of(header: str) -> Column:
    """The column under a header, in the words of any version."""
    found = _HEADER.fullmatch(header)
    if not found or found["percent"]:
        return Column("percent" if found else "text")
    if found["calls"]:
        return Column("calls", "calls")
    if found["scale"] is not None:
        return Column("flops", "flops", exponent=3 * " KMGTP".index(found["scale"] or " "))
    words = (found["memory"] or found["mean"] or found["self"] or found["total"]).split()
    device = "" if words[-1] == "CPU" else words[-1]
    metric = ("self_" if words[:-1] else "") + ("device" if device else "cpu")
    if found["memory"]:
        return Column("memory", f"{metric}_memory", device=device)
    return Column("time", f"{metric}_time", "mean" if found["mean"] else "total", device)


def rule_spans(line: str) -> list[Span]:
    """Where the columns are, if a line is the rule of a table: runs of dashes with two blanks between them."""
    text = line.rstrip()
    spans = [found.span() for found in re.finditer("-{3,}", text)] if text.endswith("---") else []
    breaks = [at for at, (one, other) in enumerate(pairwise(spans), 1) if text[one[1] : other[0]] != "  "]
    spans = spans[breaks[-1] :] if breaks else spans  # before the last break is what a logger printed
    return spans if _FEWEST <= len(spans) <= _MOST else []


def cut(line: str, spans: Sequence[Span]) -> list[str]:
    """The cells of a row; one that is wider than its column moves those behind it."""
    cells = []
    shift = 0
    for start, end in spans[:-1]:
        begin, stop = start + shift, end + shift
        if line[stop : stop + 2].strip():
            gap = line.find("  ", stop)
            stop = len(line) if gap < 0 else gap
            shift = stop - end
        cells.append(line[begin:stop].strip())
    return [*cells, line[spans[-1][0] + shift :].strip()]


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one table."""

    spans: Sequence[Span]
    names: Sequence[str]
    columns: Sequence[Column]

    @classmethod
    def of(cls, header: str, spans: Sequence[Span]) -> Layout | None:
        """The layout under a header; None for a line that is none. It may have more or fewer names than columns."""
        names = re.split(r"\s{2,}", header[spans[0][0] :].strip())
        columns = [column_of(name) for name in names]
        known = names[0] == "Name" and any(column.metric == "self_cpu_time" for column in columns)
        return cls(spans, names, columns) if known else None

    @property
    def devices(self) -> list[str]:
        """The devices in the header; 1.10 to 2.0 may print one beside another, of which the first is read."""
        return list(dict.fromkeys(column.device for column in self.columns if column.device))

    def cells(self, line: str) -> list[str]:
        """The cells of a row; where it does not line up with the rule, what stands between two blanks."""
        cells = self._in_order(cut(line, self.spans))
        if self.fitting(cells) < len(self.columns):
            parts = re.split(r"\s{2,}", line[self.spans[0][0] :].strip())
            if len(parts) == len(self.columns) and self.fitting(self._in_order(parts)) > self.fitting(cells):
                return self._in_order(parts)
        return cells

    def fitting(self, cells: Sequence[str]) -> int:
        """How many cells look as their column asks for."""
        return sum(column.fits(cell) for column, cell in zip(self.columns, cells, strict=True))

    def _in_order(self, cells: list[str]) -> list[str]:
        """The header has the FLOPs behind the source location, and the rows have them before it."""
        if "Source Location" not in self.names or self.columns[-1].kind != "flops":
            return cells
        source = self.names.index("Source Location")
        if not self.columns[-1].fits(cells[source]):
            return cells
        return [*cells[:source], cells[-1], *cells[source + 1 : -1], cells[source]]

    def is_like_row(self, line: str) -> bool:
        """Whether a line that is no row was one before it was damaged: it has two times or percentages."""
        parts = re.split(r"\s{2,}", line.strip())
        return sum(part[-1:] in ("s", "%") and _CELL.fullmatch(part) is not None for part in parts) > 1

    def name(self, cells: Sequence[str]) -> str:
        """The name of a row, with the overload behind it: `aten::add.Tensor`."""
        overload = cells[1] if self.names[1] == "Overload Name" else ""
        return f"{cells[0]}.{overload}" if overload else cells[0]
