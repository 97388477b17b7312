"""`work.*`: what a program asks of host and device in each step. It does not depend on how fast they are.

| metric | unit | of a step | labels |
|---|---|---|---|
| `work.ops` | count | operators that the host dispatched, those in other operators included | |
| `work.launches` | count | calls that launch one kernel | |
| `work.graph_launches` | count | calls that launch a graph | |
| `work.syncs` | count | calls by which the host waits for a device, copies that are not `Async` included | |
| `work.allocations` | count | calls that allocate or free memory: `cudaMalloc`, `cudaFree` and their kin | |
| `work.kernels` | count | kernels, those of graphs included | device |
| `work.blocks` | count | thread blocks of all kernels | device |
| `work.memsets` | count | memsets | device |
| `work.device_time` | s | the sum of the times of kernels, copies and memsets | device |
| `work.copies` | count | copies of one kind: HtoD, DtoH, DtoD, PtoP, ... | device, kind |
| `work.copied_bytes` | B | their bytes | device, kind |
| `work.collectives` | count | kernels of one collective, or else the host's ranges of NCCL or Gloo | device, op |
| `work.collective_bytes` | B | their messages | device, op |
| `work.flops` | FLOP | those that `matmul.flop` counts, and those between steps | |

Work belongs to the step in which the host issued it, whenever a device did it: a kernel to the step of its launch, and
all kernels of a graph to the step of its launch. What the host does between two steps belongs to the step before. What
it does before the first step or after the last one is not counted: the last synchronisation is the profiler's. What a
device does for calls before the trace belongs to none, either. If the trace has no steps, all of it is step 0, without
that synchronisation.

A count is 0 in a step without such work. It is absent if the trace cannot show it: `work.launches`, `.graph_launches`,
`.syncs` and `.allocations` need calls of a runtime, and what a device does needs events of it that were launched. An
op, and a kind other than HtoD, DtoH and DtoD, that no step has is absent, too: the judge takes it for 0 where a trace
has `work.kernels`. In a trace without calls of a runtime, `work.allocations` are those of the host's memory
(`profile_memory=True`), without its releases.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from perfgate.core import Series, read_only
from perfgate.core.call_trees import IS_RUNTIME
from perfgate.readers.step_work import CALLS, DeviceEvents, Mask, StepSums, kind_of_call
from perfgate.readers.torch_trace.event_fields import ABSENT, Int64, is_collective_range, is_step
from perfgate.readers.torch_trace.series import SeriesMaker, message_size
from perfgate.readers.torch_trace.steps import Steps, step_of
from perfgate.readers.torch_trace.tables import KERNEL, MEMCPY, MEMSET, OP, PYTHON

#: A program has about ten collectives; of more, the first ones are counted.
_MOST_OPS = 100
#: The number of moments that are counted at once, so that memory stays small.
_SLICE = 50_000

_SYNC = list(CALLS).index("syncs")
#: `Memcpy HtoD (...)` of CUDA and HIP; of XPUs `Memcpy M2D (MEMORY(Unknown) -> DEVICE)`: M is pageable host memory.
_KIND = re.compile(r"\b([A-Z])(?:to|2)([A-Z])\b")


class Work:
    """The work in the steps of one trace."""

    def __init__(self, make: SeriesMaker, steps: Steps) -> None:
        self._make, self._steps = make, steps
        self._sums = StepSums(read_only(steps.numbers.copy()), make.key)
        is_launched = steps.issued != ABSENT
        #: The devices with work that calls of the trace launched.
        self._devices = np.unique(make.tables.device.device[is_launched]).tolist()
        #: The index of the step in which each device event was issued, (device events,); -1 outside of all.
        self._device_step = np.where(is_launched, _step_of(steps.issued, steps), -1)

    def series(self) -> Iterator[Series]:
        """Yield all series; a metric that the trace cannot show is absent."""
        tables = self._make.tables
        host, device = tables.host, tables.device
        is_op = (host.kind == OP) & ~host.names.which(is_step)[host.name]
        if is_op.any():
            yield self._issued("ops", host.start[is_op])
        yield from self._of_calls()
        for number in self._devices:
            rows = np.flatnonzero((device.device == number) & (self._device_step >= 0))
            kind, duration = device.kind[rows], (device.end[rows] - device.start[rows]).astype(np.float64)
            events = DeviceEvents(
                step=self._device_step[rows],
                duration=duration,
                amount=device.amount[rows],
                is_kernel=kind == KERNEL,
                is_memset=kind == MEMSET,
                copies=self._copies(device.name[rows].astype(np.int64), kind == MEMCPY),
            )
            yield from self._sums.of_device(events, self._make.device_label(number))
        yield from self._of_collectives()
        step = _step_of(tables.flop_starts, self._steps)
        if (step >= 0).any() and not self._make.misses_flop():
            yield from self._sums.amount("flops", "FLOP", step, tables.flop, {})

    def _of_calls(self) -> Iterator[Series]:
        runtime, made = self._make.tables.runtime, self._make.tables.allocations
        if not any(IS_RUNTIME.match(text) for text in runtime.names.texts):
            if len(made.time):
                yield self._issued("allocations", made.time[made.size > 0])
            return
        # for each call, the index of its metric in `CALLS`; -1 for none
        kind = np.array([kind_of_call(text) for text in runtime.names.texts], np.int8)[runtime.name]
        last = int(runtime.start.argmax())
        is_profilers = kind[last] == _SYNC and runtime.start[last] >= self._make.tables.host.end.max()
        if is_profilers and not self._steps.are_marked:
            kind[last] = -1
        for at, name in enumerate(CALLS):
            yield self._issued(name, runtime.start[kind == at])

    def _copies(self, name: Int64, is_copy: Mask) -> Mapping[str, Mask]:
        """Return which events are copies of each kind; `name` has the number of each event's name."""
        kinds: dict[str, list[int]] = defaultdict(list)
        for index in np.unique(name[is_copy]).tolist():
            found = _KIND.search(self._make.tables.device.names.texts[index])
            kind = f"{found[1]}to{found[2]}".replace("M", "H") if found else "other"
            kinds[kind].append(index)
        return {kind: is_copy & np.isin(name, names) for kind, names in kinds.items()}

    def _of_collectives(self) -> Iterator[Series]:
        tables = self._make.tables
        if not tables.collectives:
            yield from self._of_collective_ranges()
            return
        rows = np.flatnonzero(tables.device.kind == KERNEL)[[call.row for call in tables.collectives]]
        step, size = self._device_step[rows], np.array([message_size(call) for call in tables.collectives])
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for at in np.flatnonzero(step >= 0).tolist():
            found[tables.collectives[at].name, int(tables.device.device[rows[at]])].append(at)
        for (op, number), calls in islice(found.items(), _MOST_OPS):
            labels = {**self._make.device_label(number), "op": op}
            yield self._sums.count("collectives", step[calls], labels)
            yield from self._sums.amount("collective_bytes", "B", step[calls], size[calls], labels)

    def _of_collective_ranges(self) -> Iterator[Series]:
        host = self._make.tables.host
        rows = np.flatnonzero(host.names.which(is_collective_range)[host.name] & (host.kind != PYTHON))
        step = _step_of(host.start[rows], self._steps)
        rows, step = rows[step >= 0], step[step >= 0]
        ops: dict[str, list[int]] = defaultdict(list)  # one op may be of two backends: `nccl:broadcast`, `gloo:...`
        for name in np.unique(host.name[rows]).tolist():
            ops[host.names.texts[name].partition(":")[2]].append(name)
        for op, names in islice(ops.items(), _MOST_OPS):
            yield self._sums.count("collectives", step[np.isin(host.name[rows], names)], {"op": op})

    def _issued(self, name: str, times: Int64) -> Series:
        """Return the series of what the host did at these times: their number in each step, counted in slices."""
        counts = np.zeros(len(self._steps), np.int64)
        for part in np.array_split(times, 1 + len(times) // _SLICE):
            step = _step_of(part, self._steps)
            counts += np.bincount(step[step >= 0], minlength=len(counts))
        return self._sums.series(name, "count", counts, {})


def _step_of(times: Int64, steps: Steps) -> Int64:
    """Return the index of the step of what the host did at some times, (n,); -1 outside; 0 in a trace without steps."""
    return step_of(times, steps) if steps.are_marked else np.zeros(len(times), np.int64)
