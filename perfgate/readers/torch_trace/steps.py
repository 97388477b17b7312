"""The steps of a trace: the host's spans, extended to the end of the device work that they launched.

After torch_tb_profiler 0.4.3, `event_parser.py`, class StepParser.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.readers.text import TraceMode
from perfgate.readers.torch_trace.event_fields import ABSENT, Int64, Mask, is_step
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.tables import ANNOTATION, OP, PYTHON, Device, Host, Runtime

#: A profiler's schedule records a few steps; no profiler wrote a file with more.
MOST_STEPS = 10_000
#: A last step with a smaller share of the device events of the step before was cut off when the profiler stopped.
_COMPLETE = 0.8


class Steps(Struct, frozen=True):
    """Steps in order; after they are extended, they do not overlap. All arrays (n,), times in ns."""

    numbers: Int64
    starts: Int64
    ends: Int64
    #: Warnings: the trace has no steps, or some of them are left out.
    remarks: list[str] = field(default_factory=list)
    #: The starts and ends before they were extended, (2, n); None if they were not: `starts` and `ends` are these.
    host: Int64 | None = None
    #: False for the one step of a trace without steps.
    are_marked: bool = True
    #: The first call that launched each device event, and its start, (device events,); -1 and `ABSENT` without one.
    calls: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    issued: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def window(self) -> tuple[int, int]:
        """The start of the first step and the end of the last one, in ns."""
        return int(self.starts[0]), int(self.ends.max())


def index_at(times: Int64, starts: Int64, ends: Int64) -> Int64:
    """Return the index of the span that each time is in, (n,); -1 outside of all spans, which are in order."""
    at = np.searchsorted(starts, times, side="right") - 1
    return np.where((at >= 0) & (times < ends[at]), at, -1)


def step_of(times: Int64, steps: Steps) -> Int64:
    """Return the index of the step of what the host did at each time, (n,).

    Between two steps of the host, it is the one before; before and after all steps, it is -1.
    """
    starts, ends = (steps.starts, steps.ends) if steps.host is None else steps.host
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index < len(starts) - 1) | (times < ends[-1]), index, -1)


def find_steps(tables: EventTables, mode: TraceMode) -> Steps | None:
    """Return the steps of a trace; None without host events.

    torch_tb_profiler knows only the runtime calls of 2021 and before. In its mode, the steps of later traces are not
    extended.
    """
    if (spans := _host_spans(tables.host)) is None:
        return None
    runtime, known = tables.runtime, tables.runtime.known_to(mode)
    groups = _Launches(runtime, tables.device, np.ones(len(known), bool))
    calls = groups.first_calls()
    issued = np.full(len(calls), ABSENT)
    issued[calls >= 0] = runtime.start[calls[calls >= 0]]
    spans = replace(spans, calls=calls, issued=issued)
    if not known.all():  # only calls that the mode knows extend a step
        groups = _Launches(runtime, tables.device, known)
    inside = [groups.within(start, end) for start, end in zip(spans.starts, spans.ends, strict=True)]
    if not any(len(found) for found in inside):
        return spans
    return _complete(_extended(spans, groups, inside), [int(groups.counts[found].sum()) for found in inside])


def _host_spans(host: Host) -> Steps | None:
    """Return the ranges `ProfilerStep#N` in order of start, each once; without any, one span over the host's work."""
    numbers = [int(found[1]) if (found := is_step(name)) else -1 for name in host.names.texts]
    number = np.array(numbers, np.int64)[host.name]
    rows = np.flatnonzero((number >= 0) & ((host.kind == OP) | (host.kind == ANNOTATION)))
    if len(rows):
        spans = np.unique(np.stack([host.start[rows], host.end[rows], number[rows]]), axis=1)
        starts, ends, chosen = spans[:, :MOST_STEPS]
        beyond = spans.shape[1] - len(starts)
        return Steps(chosen, starts, ends, [f"{beyond} steps beyond the first {MOST_STEPS}"] if beyond else [])
    busy = (host.kind == OP) | (host.kind == PYTHON)  # without annotations, as `cpu_min_ts` of StepParser
    if not busy.any():
        return None
    whole = host.start[busy].min(keepdims=True), host.end[busy].max(keepdims=True)
    advice = "call profiler.step() in the training loop"
    remark = f"the trace has no steps, so all of it counts as step 0: {advice}"
    return Steps(np.zeros(1, np.int64), *whole, [remark], are_marked=False)


class _Launches:
    """Groups of device events with the same correlation, and the calls that launched a group, of those `chosen`."""

    def __init__(self, runtime: Runtime, device: Device, chosen: Mask) -> None:
        order = np.argsort(device.correlation, kind="stable")
        ids, begins, counts = np.unique(device.correlation[order], return_index=True, return_counts=True)
        #: For each group: the start of its first event, the end of its last one, and the number of events.
        self.first = np.minimum.reduceat(device.start[order], begins) if len(begins) else begins
        self.last = np.maximum.reduceat(device.end[order], begins) if len(begins) else begins
        self.counts: Int64 = counts
        #: For each device event: its end and its group.
        self.event_ends, self.event_groups = device.end, np.searchsorted(ids, device.correlation)
        at = np.minimum(np.searchsorted(ids, runtime.correlation), len(ids) - 1)
        # an absent correlation is negative, and matches nothing
        matches = (runtime.correlation >= 0) & (ids[at] == runtime.correlation) if len(ids) else False
        calls = np.flatnonzero(chosen & matches)
        #: For each call that launched something, by start: its row, its start, its end and its group.
        self.calls = calls[np.argsort(runtime.start[calls], kind="stable")]
        self.starts, self.ends, self.groups = runtime.start[self.calls], runtime.end[self.calls], at[self.calls]

    def within(self, start: int, end: int) -> Int64:
        """Return the groups that were launched wholly inside a span."""
        low, high = np.searchsorted(self.starts, (start, end + 1))
        return np.unique(self.groups[low:high][self.ends[low:high] <= end])

    def first_calls(self) -> Int64:
        """Return the first call that launched each device event, (device events,); -1 without one."""
        first = np.full(len(self.counts), -1)
        # backwards, so that the first call of a group is written last
        first[self.groups[::-1]] = self.calls[::-1]
        return first[self.event_groups]


def _extended(spans: Steps, groups: _Launches, inside: list[Int64]) -> Steps:
    """Return the steps extended to the end of their own device work; each begins after the step before it.

    `inside` are the groups that each step launched. The first step begins after stray device work, which no step
    launched, if that ended before the first step's own device work began.
    """
    previous = int(spans.starts[0])
    if len(inside[0]):
        of_a_step = np.zeros(len(groups.counts), bool)
        of_a_step[np.concatenate(inside)] = True
        stray = groups.event_ends[~of_a_step[groups.event_groups]]
        before = stray[stray < groups.first[inside[0]].min()]
        previous = max(previous, int(before.max(initial=previous)))
    starts, ends = [], []
    for start, end, found in zip(spans.starts.tolist(), spans.ends.tolist(), inside, strict=True):
        starts.append(max(previous, start))
        ends.append(max(end, starts[-1], int(groups.last[found].max(initial=end))))
        previous = ends[-1]
    host = np.stack([spans.starts, spans.ends])
    return replace(spans, starts=np.array(starts, np.int64), ends=np.array(ends, np.int64), host=host)


def _complete(steps: Steps, launched: list[int]) -> Steps:
    """Leave out the last steps that launched nothing, and then one that was cut off when the profiler stopped."""
    kept = len(steps)
    while kept > 1 and launched[kept - 1] == 0:
        kept -= 1
    if kept > 1 and launched[kept - 1] < _COMPLETE * launched[kept - 2]:
        kept -= 1
    if kept == len(steps):
        return steps
    dropped = ", ".join(map(str, steps.numbers[kept:][:5].tolist()))
    count = f"the last {len(steps) - kept} of {len(steps)} steps"
    remarks = [*steps.remarks, f"{count} are left out ({dropped}): their device work is missing"]
    host = None if steps.host is None else steps.host[:, :kept]
    numbers, starts, ends = steps.numbers[:kept], steps.starts[:kept], steps.ends[:kept]
    return replace(steps, numbers=numbers, starts=starts, ends=ends, remarks=remarks, host=host)
