"""`work.*` of a profile of JAX on GPUs: what the program asks of a device in each step, as exact counts.

| metric | unit | of a step | labels |
|---|---|---|---|
| `work.launches`, `work.graph_launches` | count | calls that launch a kernel, and those that launch a graph | |
| `work.kernels`, `work.memsets` | count | kernels and memsets, those of graphs included | device |
| `work.blocks` | count | thread blocks of all kernels | device |
| `work.copies`, `work.copied_bytes` | count, B | copies of one kind, and their bytes | device, kind |
| `work.device_time` | s | the sum of the times of kernels, copies and memsets | device |

Work belongs to the step of the call that launched it, by `correlation_id`, as in traces of torch. What the operations
of CPUs and TPUs do has no launch: so they have no `work.*`.

    kernel_details: regs:168 static_shared:0 dynamic_shared:231424 grid:132,1,1 block:384,1,1 occ_pct:18.75
    memcpy_details: kind_src:pageable kind_dst:device size:4 dest:0 async:1
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from perfgate.core.call_trees import GRAPH_LAUNCHES
from perfgate.readers.kit import Key, RunBuilder
from perfgate.readers.step_work import DeviceEvents, StepSums

_COPY = re.compile(r"Memcpy(?:([A-Z])2([A-Z]))?")
_GRID = re.compile(r"\bgrid:(\d{1,10}),(\d{1,10}),(\d{1,10})\b")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
_PS_OF_NS = 1e3


class Event(Struct):
    """One event, in ps since 1970."""

    name: str
    start: int
    duration: int
    step: int | None = None
    is_op: bool = False
    #: The number that a call of the host and what it launched share, and what XLA says of a kernel or a copy.
    correlation: int | None = None
    details: str = ""


class Steps(Struct):
    """The steps of the host: where each begins, and its number."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def of(self, start: int) -> int | None:
        """Return the index of the step in which an event begins; the time until the next step belongs to a step."""
        index = bisect_right(self.starts, start) - 1
        is_last = index == len(self.starts) - 1
        return None if index < 0 or (is_last and start >= self.ends[index]) else index


def add_work(
    run: RunBuilder, host: Iterable[Sequence[Event]], devices: Mapping[str, Sequence[Event]], steps: Steps
) -> None:
    """Add `work.*` of all devices, if calls of the host launched their events."""
    calls = sorted((one for line in host for one in line if one.correlation is not None), key=lambda one: one.start)
    step_of = {one.correlation: steps.of(one.start) for one in reversed(calls)} if steps.starts else {}
    own = {device: [one for one in events if one.correlation in step_of] for device, events in devices.items()}
    if not any(own.values()):
        return
    sums = StepSums(np.array(steps.numbers, np.int64), lambda metric, labels: Key.of(metric, **labels))
    launched = {one.correlation for events in own.values() for one in events if _kind(one) == "kernel"}
    graphs = {one.correlation for one in calls if GRAPH_LAUNCHES.match(one.name)}
    for name, chosen in (("launches", launched - graphs), ("graph_launches", graphs)):
        found = [at for one in chosen if (at := step_of[one]) is not None]
        run.finish(sums.count(name, np.array(found, np.int64), {}))
    for device, events in own.items():
        issued = [(at, one) for one in events if (at := step_of[one.correlation]) is not None]
        for series in sums.of_device(_columns(issued), {"device": device}):
            run.finish(series)


def _columns(issued: Sequence[tuple[int, Event]]) -> DeviceEvents:
    """Return what a device did, with the index of its step."""
    events = [one for _, one in issued]
    kinds = np.array([_kind(one) for one in events], object)
    return DeviceEvents(
        np.array([at for at, _ in issued], np.int64),
        np.array([one.duration / _PS_OF_NS for one in events], np.float64),
        np.array([_amount(one) for one in events], np.float64),
        kinds == "kernel",
        kinds == "memset",
        {kind: kinds == kind for kind in {*kinds.tolist()} - {"kernel", "memset"}},
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
