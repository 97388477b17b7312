"""Reports that print sums and means instead of samples: each row of one -> aggregates of a run.

A name may be printed again: a callback that is used twice, kernels that differ only behind the `...` of their cut
names, a row of the CPU and one of the GPU. Both are kept, the second as `NAME#2`, and that is said with its line.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfgate.core import Key, Run, Series, read_only
from perfgate.readers.builder import RunBuilder, fault_of, number
from perfgate.readers.text import Document

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as printed, in a unit of `times` * 10 ** `exponent` base units: 1.5 ms is 1.5e-3, and 1.5 KB times 1024.

    The exponent is put behind the printed digits, so that 21.632 ms are 0.021632 s to the last bit.
    """

    text: str
    exponent: int = 0
    times: float = 1.0

    @property
    def value(self) -> float:
        """The number in base units; NaN for what is no number."""
        if "e" in self.text.lower():
            value, power = number(self.text), 10.0**self.exponent
        else:
            value, power = number(f"{self.text}e{self.exponent}"), 1.0
        return float("nan") if value is None else value * power * self.times

    def fault(self, signed: bool = False) -> str | None:
        """Why this can be no measurement; one that is `signed` may be negative, as memory that was freed is."""
        if signed and math.isfinite(self.value):
            return None
        return fault_of(self.text) or (None if math.isfinite(self.value) else f"{self.text} is too large; left out")


class AggregateRun(RunBuilder):
    """One run while its report is read."""

    def __init__(self, document: Document, format_name: str) -> None:
        super().__init__(document, format_name)
        self._times_printed: Counter[Key] = Counter()
        self._taken: set[Key] = set()
        self._repeated = 0

    def name(self, printed: str, labels: Labels, line: int) -> str:
        """The name of a row under these labels: as printed, or `NAME#2` where it is printed again."""
        first = Key.of(printed, **labels)
        count = self._times_printed[first] + 1
        while (key := Key.of(f"{printed}#{count}", **labels) if count > 1 else first) in self._taken:
            count += 1
        self._times_printed[first] = count
        self._taken.add(key)
        if key != first:
            self._repeated += 1
            if self._repeated == 1:
                self.say("warning", f"{printed} is printed again, and kept as {key.metric}", line)
        return key.metric

    def aggregate(
        self, key: Key, unit: str, statistics: Mapping[str, Amount], line: int, printed_as: str | None = None
    ) -> None:
        """The statistics that a row prints of one series; those that cannot be true are refused."""
        kept = {}
        for name, amount in statistics.items():
            fault = amount.fault(signed=unit == "B" and name != "count")
            if fault:
                self.refuse(key, f"{name}: {fault}", line)
            else:
                kept[name] = amount.value
        if kept.keys() - {"count"}:
            printed_as = printed_as if printed_as != key.metric else None
            empty = read_only(np.empty(0))
            self.finish(Series(key, unit, "aggregate", empty, aggregate=kept, printed_as=printed_as))

    def single(self, key: Key, unit: str, amount: Amount, line: int) -> None:
        """A series that is one number."""
        fault = amount.fault()
        if fault:
            self.refuse(key, fault, line)
        else:
            self.finish(Series(key, unit, "value", read_only(np.array([amount.value]))))

    def run(self, part: int | None = None) -> Run:
        """The finished run; names that were printed again are said once and then counted."""
        if self._repeated > 1:
            self.say("warning", f"{self._repeated - 1} more rows repeat a name, and are numbered")
        return super().run(part)
