"""Sum the work of each step as series `work.*`: from arrays of events (kernels, copies, ...) and of their steps.

A profile of JAX on GPUs (`xplane`) gives these exact counts of what the program asks of a device in each step:

| metric | unit | of a step | labels |
|---|---|---|---|
| `work.launches`, `work.graph_launches` | count | calls that launch a kernel, and those that launch a graph | |
| `work.kernels`, `work.memsets` | count | kernels and memsets, those of graphs included | device |
| `work.blocks` | count | thread blocks of all kernels | device |
| `work.copies`, `work.copied_bytes` | count, B | copies of one kind, and their bytes | device, kind |
| `work.device_time` | s | the sum of the times of kernels, copies and memsets | device |

Work belongs to the step of the call that launched it, by `correlation_id`, as in traces of torch. Operations of CPUs
and TPUs have no launch, so profiles of these have no `work.*`.

    kernel_details: regs:168 static_shared:0 dynamic_shared:231424 grid:132,1,1 block:384,1,1 occ_pct:18.75
    memcpy_details: kind_src:pageable kind_dst:device size:4 dest:0 async:1
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from perfgate.core import Key, Series, read_only
from perfgate.core.call_trees import ALLOCATIONS, GRAPH_LAUNCHES, LAUNCHES, SYNCS
from perfgate.readers.kit import RunBuilder

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Labels = Mapping[str, str]

#: The counts of calls of a runtime or driver.
CALLS = {"launches": LAUNCHES, "graph_launches": GRAPH_LAUNCHES, "syncs": SYNCS, "allocations": ALLOCATIONS}
#: The kinds of copies that are 0, not absent, where no step makes one: between host and device, and in a device.
USUAL_COPIES = ("HtoD", "DtoH", "DtoD")
_COPY = re.compile(r"Memcpy(?:([A-Z])2([A-Z]))?")
_GRID = re.compile(r"\bgrid:(\d{1,10}),(\d{1,10}),(\d{1,10})\b")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
_PS_OF_NS = 1e3


def kind_of_call(text: str) -> int:
    """Return the index in `CALLS` of what a call does; -1 for other calls."""
    return next((at for at, is_one in enumerate(CALLS.values()) if is_one.fullmatch(text)), -1)


class DeviceEvents(Struct, frozen=True):
    """The n kernels, copies and memsets of one device; all arrays (n,). Times in ns, amounts in blocks or bytes.

    An amount is NaN if it is unknown.
    """

    #: The index of the step of each; -1 for none.
    step: Int64
    duration: Float64
    amount: Float64
    is_kernel: Mask
    is_memset: Mask
    #: The copies of each kind, such as HtoD.
    copies: Mapping[str, Mask]


class StepSums(Struct, frozen=True):
    """Makes series with one value for each step. In all arguments a step is its index in `numbers`; -1 is no step."""

    #: (steps,) The printed steps.
    numbers: Int64
    #: Returns the key of a series with this name and these labels.
    key: Callable[[str, Labels], Key]

    def count(self, name: str, step: Int64, labels: Labels) -> Series:
        """Return how often each step occurs in an array of steps."""
        return self.series(name, "count", np.bincount(step[step >= 0], minlength=len(self.numbers)), labels)

    def amount(
        self, name: str, unit: str, step: Int64, amount: Float64, labels: Labels, per: float = 1.0
    ) -> Iterator[Series]:
        """Yield the sum of an amount in each step; nothing if one is unknown. `per` amounts are one unit."""
        sums = np.bincount(step[step >= 0], amount[step >= 0], len(self.numbers))
        if not np.isnan(sums).any():
            yield self.series(name, unit, sums / per, labels)

    def of_device(self, events: DeviceEvents, labels: Labels) -> Iterator[Series]:
        """Yield the kernels, blocks, memsets, copies and the time of one device."""
        step, kernels = events.step, events.is_kernel
        yield self.count("kernels", step[kernels], labels)
        yield from self.amount("blocks", "count", step[kernels], events.amount[kernels], labels)
        yield self.count("memsets", step[events.is_memset], labels)
        known = np.where(events.duration < 0, np.nan, events.duration)  # the end of an activity may be missing
        yield from self.amount("device_time", "s", step, known, labels, per=1e9)
        none = np.zeros(len(step), np.bool_)
        for kind, own in sorted({**dict.fromkeys(USUAL_COPIES, none), **events.copies}.items()):
            named = {**labels, "kind": kind}
            yield self.count("copies", step[own], named)
            yield from self.amount("copied_bytes", "B", step[own], events.amount[own], named)

    def series(self, name: str, unit: str, values: Int64 | Float64, labels: Labels) -> Series:
        """Return the series of one value for each step."""
        key = self.key(f"work.{name}", labels)
        return Series(key, unit, "samples", read_only(values.astype(np.float64)), self.numbers)


class Event(Struct):
    """One event of a profile; its start is in ps since 1970, its duration in ps."""

    name: str
    start: int
    duration: int
    #: The number of the step, if the event annotates one.
    step: int | None = None
    #: True for an operation of XLA on the host.
    is_op: bool = False
    #: The number that a call of the host and what it launched share, and what XLA says of a kernel or a copy.
    correlation: int | None = None
    details: str = ""


class Steps(Struct):
    """The steps of the host in order: where each begins and ends, in ps since 1970, and its number."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def of(self, start: int) -> int | None:
        """Return the index of the step in which an event begins; None outside of all steps.

        A step lasts until the next one begins, and the last one until its own end.
        """
        index = bisect_right(self.starts, start) - 1
        is_last = index == len(self.starts) - 1
        return None if index < 0 or (is_last and start >= self.ends[index]) else index


def add_work(
    run: RunBuilder, host: Iterable[Sequence[Event]], devices: Mapping[str, Sequence[Event]], steps: Steps
) -> None:
    """Add `work.*` of all devices, if calls of the host launched their events."""
    calls = [event for line in host for event in line if event.correlation is not None]
    step_of = _steps_of(calls, steps)
    launched = {
        device: [event for event in events if event.correlation in step_of] for device, events in devices.items()
    }
    every = [event for events in launched.values() for event in events]
    if not every:
        return
    sums = StepSums(np.array(steps.numbers, np.int64), lambda metric, labels: Key.of(metric, **labels))
    of_kernels = {event.correlation for event in every if _kind(event) == "kernel"}
    of_graphs = {call.correlation for call in calls if GRAPH_LAUNCHES.match(call.name)}
    for name, correlations in (("launches", of_kernels - of_graphs), ("graph_launches", of_graphs)):
        run.finish(sums.count(name, np.array([step_of[one] for one in correlations], np.int64), {}))
    for device, events in launched.items():
        in_steps = [(step_of[event.correlation], event) for event in events if step_of[event.correlation] >= 0]
        for series in sums.of_device(_columns(in_steps), {"device": device}):
            run.finish(series)


def _steps_of(calls: Iterable[Event], steps: Steps) -> dict[int | None, int]:
    """Return for each correlation the step of the first call that has it, as an index; -1 outside of all steps."""
    found: dict[int | None, int] = {}
    for call in sorted(calls, key=lambda call: call.start) if steps.starts else ():
        index = steps.of(call.start)
        found.setdefault(call.correlation, -1 if index is None else index)
    return found


def _columns(issued: Sequence[tuple[int, Event]]) -> DeviceEvents:
    """Return the arrays of events, each given with the index of its step."""
    events = [one for _, one in issued]
    kinds = np.array([_kind(one) for one in events], object)
    return DeviceEvents(
        step=np.array([at for at, _ in issued], np.int64),
        duration=np.array([one.duration / _PS_OF_NS for one in events], np.float64),
        amount=np.array([_amount(one) for one in events], np.float64),
        is_kernel=kinds == "kernel",
        is_memset=kinds == "memset",
        copies={kind: kinds == kind for kind in {*kinds.tolist()} - {"kernel", "memset"}},
    )


def _kind(event: Event) -> str:
    """Return `kernel`, `memset`, or the kind of a copy."""
    if found := _COPY.match(event.name):
        return f"{found[1]}to{found[2]}" if found[1] else "other"
    return "memset" if event.name.startswith("Memset") else "kernel"


def _amount(event: Event) -> float:
    """Return the thread blocks of a kernel, or else bytes; NaN if unknown."""
    found = (_GRID if _kind(event) == "kernel" else _SIZE).search(event.details)
    return math.prod(map(float, found.groups())) if found else math.nan
