"""The columns of torch's `key_averages().table()`, and what their cells mean.

Source: pytorch/pytorch `torch/autograd/profiler_util.py`, `_build_table`, 1.5 to 2.13. Units: s, B (the printed Kb and
KB are both 1024 bytes), FLOP, 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from perfgate.readers.kit import Key, RunBuilder, fault_of, number

#: `GFLOPS` of 1.8, without `Total`, are FLOP/s, and are not read.
_HEADER = re.compile(
    r"(?P<percent>.* %)|(?P<calls># of Calls|Number of Calls)|Total (?P<scale>[KMGTP]?)FLOPs"
    r"|(?P<memory>(?:Self )?\S+) Mem(?: Total)?|(?P<mean>\S+) time avg|(?P<self>Self \S+)(?: total)?"
    r"|(?P<total>\S+) total"
)
CELL = re.compile(r"(?P<number>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?)) ?(?P<unit>[a-z%]*?)", re.I | re.A)
Kind = Literal["percent", "time", "memory", "flops", "calls", "text"]
#: The units of a cell, in lower case, as (exponent, times): one unit is `times` * 10 ** `exponent` base units.
_UNITS: dict[Kind, dict[str, tuple[int, float]]] = {
    "percent": {"%": (-2, 1), "": (0, 1)},  # `0` of asynchronous events, `NaN` if the total is 0
    "time": {"us": (-6, 1), "ms": (-3, 1), "s": (0, 1)},
    "memory": {prefix + "b": (0, 1024.0**power) for power, prefix in enumerate(["", "k", "m", "g", "t"])},
    "flops": {"": (0, 1)},
    "calls": {"": (0, 1)},
}


class Amount(Struct, frozen=True):
    """A number as printed, in a unit of `times` * 10 ** `exponent` base units: 1.5 ms is 1.5e-3, 1.5 KB is 1536.

    The exponent is appended to the printed digits, so 21.632 ms are exactly 0.021632 s.
    """

    text: str
    exponent: int = 0
    times: float = 1.0

    @property
    def value(self) -> float:
        """The number in base units; NaN if the text is not a number."""
        has_exponent = "e" in self.text.lower()
        value = number(self.text if has_exponent else f"{self.text}e{self.exponent}")
        return math.nan if value is None else value * (10.0**self.exponent if has_exponent else 1.0) * self.times

    def fault(self, signed: bool = False) -> str | None:
        """Return why this cannot be a measurement; a `signed` one may be negative, as freed memory is."""
        is_finite = math.isfinite(self.value)
        fault = None if signed and is_finite else fault_of(self.text)
        return fault or (None if is_finite else f"{self.text} is too large; left out")


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
        found = CELL.fullmatch(cell)
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
