"""`work.*` of a profile of JAX on GPUs: what the program asks of a device in each step, as exact counts.

| metric | unit | of a step | labels |
|---|---|---|---|
| `work.launches`, `work.graph_launches` | count | calls that launch a kernel, and those that launch a graph | |
| `work.kernels`, `work.memsets` | count | kernels and memsets, those of graphs included | device |
| `work.blocks` | count | thread blocks of all kernels | device |
| `work.copies`, `work.copied_bytes` | count, B | copies of one kind, and their bytes | device, kind |
| `work.device_time` | s | the sum of the times of kernels, copies and memsets | device |

Work belongs to the step of the call that launched it, by `correlation_id`, as in traces of torch. What the operations
of CPUs and TPUs do has no launch: there is no `work.*` of them.

    kernel_details: regs:168 static_shared:0 dynamic_shared:231424 grid:132,1,1 block:384,1,1 occ_pct:18.75
    memcpy_details: kind_src:pageable kind_dst:device size:4 dest:0 async:1
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from perfgate.core.runtime_calls import GRAPH_LAUNCHES
from perfgate.readers.kit import Key, RunBuilder

_COPY = re.compile(r"Memcpy(?:([A-Z])2([A-Z]))?")
_GRID = re.compile(r"\bgrid:(\d{1,10}),(\d{1,10}),(\d{1,10})\b")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
_PS = 1e12
#: The kinds of copies that are 0, not absent, where no step makes one; as in traces of torch.
_USUAL_COPIES = ("HtoD", "DtoH", "DtoD")


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
    launched = {one.correlation for events in own.values() for one in events if _is_kernel(one)}
    graphs = {one.correlation for one in calls if GRAPH_LAUNCHES.match(one.name)}
    for name, chosen in (("launches", launched - graphs), ("graph_launches", graphs)):
        _add(run, steps, Key(f"work.{name}"), "count", [(step_of[one], 1.0) for one in chosen])
    for device, events in own.items():
        _add_device(run, steps, device, [(step_of[one.correlation], one) for one in events])


def _add_device(run: RunBuilder, steps: Steps, device: str, events: Sequence[tuple[int | None, Event]]) -> None:
    kernels = [(at, one) for at, one in events if _is_kernel(one)]
    memsets = [(at, 1.0) for at, one in events if one.name.startswith("Memset")]
    _add(run, steps, Key.of("work.kernels", device=device), "count", [(at, 1.0) for at, _ in kernels])
    blocks = [(at, _blocks(one)) for at, one in kernels]
    _add(run, steps, Key.of("work.blocks", device=device), "count", blocks)
    _add(run, steps, Key.of("work.memsets", device=device), "count", memsets)
    times = [(at, float(one.duration)) for at, one in events]
    _add(run, steps, Key.of("work.device_time", device=device), "s", times)
    copies: dict[str, list[tuple[int, float]]] = defaultdict(list, {kind: [] for kind in _USUAL_COPIES})
    for at, one in events:
        if at is not None and (found := _COPY.match(one.name)):
            size = _SIZE.search(one.details)
            copies[f"{found[1]}to{found[2]}" if found[1] else "other"].append(
                (at, float(size[1]) if size else math.nan)
            )
    for kind, sizes in sorted(copies.items()):
        labels = {"device": device, "kind": kind}
        _add(run, steps, Key.of("work.copies", **labels), "count", [(at, 1.0) for at, _ in sizes])
        _add(run, steps, Key.of("work.copied_bytes", **labels), "B", sizes)


def _is_kernel(event: Event) -> bool:
    return not event.name.startswith(("Memset", "Memcpy"))


def _blocks(kernel: Event) -> float:
    grid = _GRID.search(kernel.details)
    return math.prod(map(float, grid.groups())) if grid else math.nan


def _add(run: RunBuilder, steps: Steps, key: Key, unit: str, amounts: Iterable[tuple[int | None, float]]) -> None:
    """Add the sum of amounts in each step, times in ps; nothing if one of them is unknown."""
    sums = [0.0] * len(steps.numbers)
    for at, amount in amounts:
        if at is not None:
            sums[at] += amount
    if not any(map(math.isnan, sums)):
        for number, value in zip(steps.numbers, sums, strict=True):
            run.sample(key, unit, value, None, per=_PS if unit == "s" else 1, step=number)
