"""Sums of work in each step as series `work.*`, from columns of what was issued and the index of its step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.core import Key, Series, read_only
from perfgate.core.call_trees import ALLOCATIONS, GRAPH_LAUNCHES, LAUNCHES, SYNCS

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = Mapping[str, str]

#: The counts of calls of a runtime or driver.
CALLS = {"launches": LAUNCHES, "graph_launches": GRAPH_LAUNCHES, "syncs": SYNCS, "allocations": ALLOCATIONS}
#: The kinds of copies that are 0, not absent, where no step makes one: between host and device, and in a device.
USUAL_COPIES = ("HtoD", "DtoH", "DtoD")


def kind_of_call(text: str) -> int:
    """Return the index in `CALLS` of what a call does; -1 for other calls."""
    return next((at for at, is_one in enumerate(CALLS.values()) if is_one.fullmatch(text)), -1)


class DeviceEvents(Struct, frozen=True):
    """What one device did for the steps; all arrays (n,). Times in ns; an amount is blocks or bytes, NaN if unknown."""

    step: Int64
    duration: Float64
    amount: Float64
    is_kernel: Mask
    is_memset: Mask
    #: The copies of each kind, such as HtoD.
    copies: Mapping[str, Mask]


class StepSums(Struct, frozen=True):
    """Makes the series of some steps. A step is its index in `numbers`, (steps,); -1 is outside of all."""

    numbers: Int64
    key: Callable[[str, Labels], Key]

    def count(self, name: str, step: Int64, labels: Labels) -> Series:
        """Return how often each step occurs in a column of steps."""
        return self.series(name, "count", np.bincount(step[step >= 0], minlength=len(self.numbers)), labels)

    def amount(
        self, name: str, unit: str, step: Int64, amount: Float64, labels: Labels, per: float = 1.0
    ) -> Iterator[Series]:
        """Yield the sum of an amount in each step, `per` of which are one unit; nothing if one of them is unknown."""
        sums = np.bincount(step[step >= 0], amount[step >= 0], len(self.numbers))
        if not np.isnan(sums).any():
            yield self.series(name, unit, sums / per, labels)

    def of_device(self, events: DeviceEvents, labels: Labels) -> Iterator[Series]:
        """Yield the kernels, blocks, memsets, copies and the time of one device."""
        step, kernels = events.step, events.is_kernel
        yield self.count("kernels", step[kernels], labels)
        yield from self.amount("blocks", "count", step[kernels], events.amount[kernels], labels)
        yield self.count("memsets", step[events.is_memset], labels)
        yield from self.amount("device_time", "s", step, events.duration, labels, per=1e9)
        none = np.zeros(len(step), np.bool_)
        for kind, own in sorted({**dict.fromkeys(USUAL_COPIES, none), **events.copies}.items()):
            named = {**labels, "kind": kind}
            yield self.count("copies", step[own], named)
            yield from self.amount("copied_bytes", "B", step[own], events.amount[own], named)

    def series(self, name: str, unit: str, values: Int64 | Float64, labels: Labels) -> Series:
        """Return the series of one value for each step."""
        key = self.key(f"work.{name}", labels)
        return Series(key, unit, "samples", read_only(values.astype(np.float64)), self.numbers)
