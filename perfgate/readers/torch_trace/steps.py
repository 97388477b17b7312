"""Which stretches of time are the steps: the host's spans, grown to the end of the device work that they launched.

After torch_tb_profiler 0.4.3, `event_parser.py`, class StepParser.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perfgate.readers.source import TraceMode
from perfgate.readers.torch_trace.columns import ANNOTATION, OP, PYTHON
from perfgate.readers.torch_trace.names import Mask, step_number
from perfgate.readers.torch_trace.numbers import Int64
from perfgate.readers.torch_trace.tables import Device, Host, Runtime

#: A profiler's schedule records a few steps; a file with more than these was not made by one.
MOST_STEPS = 10_000
#: A last step with a smaller share of the device events of the one before it was cut off by the profiler's end.
_COMPLETE = 0.8


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in order, which do not overlap once they have grown; all arrays have the shape (n,)."""

    numbers: Int64
    starts: Int64
    ends: Int64
    #: Whether they stand for all host events, because the trace has no step of its own.
    is_pseudo: bool = False
    #: What was done to them, in words.
    remarks: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def window(self) -> tuple[int, int]:
        """From the start of the first to the end of the last one, in ns."""
        return int(self.starts[0]), int(self.ends.max())


def find_steps(host: Host, runtime: Runtime, device: Device, mode: TraceMode) -> Steps | None:
    """The steps of a trace; None where no host event says when anything was asked for.

    torch_tb_profiler knows the calls of the runtime by the name that they had until 2021, so in its mode the steps of
    later traces do not grow.
    """
    spans = _host_spans(host)
    if spans is None:
        return None
    groups = _Launches.of(runtime, device, runtime.known_to(mode))
    inside = [groups.within(start, end) for start, end in zip(spans.starts, spans.ends, strict=True)]
    if not any(len(found) for found in inside):
        return spans
    return _complete(_grown(spans, groups, inside), [int(groups.counts[found].sum()) for found in inside])


def _host_spans(host: Host) -> Steps | None:
    """`ProfilerStep#N` without its copies, in order of time; else one span over what the host did."""
    numbers = np.array([-1 if (n := step_number(name)) is None else n for name in host.names.texts], np.int64)
    number = numbers[host.name]
    rows = np.flatnonzero((number >= 0) & ((host.kind == OP) | (host.kind == ANNOTATION)))
    if len(rows):
        spans = np.unique(np.stack([host.start[rows], host.end[rows], number[rows]]), axis=1)
        starts, ends, found = spans[:, :MOST_STEPS]
        beyond = spans.shape[1] - len(starts)
        return Steps(found, starts, ends, remarks=[f"{beyond} steps beyond the first {MOST_STEPS}"] if beyond else [])
    busy = (host.kind == OP) | (host.kind == PYTHON)
    if not busy.any():
        return None
    whole = host.start[busy].min(keepdims=True), host.end[busy].max(keepdims=True)
    return Steps(np.zeros(1, np.int64), *whole, is_pseudo=True)


@dataclass(frozen=True, slots=True)
class _Launches:
    """Device events in groups of one correlation each, and the calls of the runtime that launched a group."""

    #: Of each group: when its first event begins, its last one ends, and how many there are.
    first: Int64
    last: Int64
    counts: Int64
    #: Of each call that launched something, by start: its start, its end and its group.
    starts: Int64
    ends: Int64
    groups: Int64
    #: Of each device event: its end and its group.
    event_ends: Int64
    event_groups: Int64

    @classmethod
    def of(cls, runtime: Runtime, device: Device, calls: Mask) -> _Launches:
        order = np.argsort(device.correlation, kind="stable")
        correlations, begins, counts = np.unique(device.correlation[order], return_index=True, return_counts=True)
        of_event = np.searchsorted(correlations, device.correlation)
        first = np.minimum.reduceat(device.start[order], begins) if len(begins) else begins
        last = np.maximum.reduceat(device.end[order], begins) if len(begins) else begins
        at = np.searchsorted(correlations, runtime.correlation)
        at = np.minimum(at, len(correlations) - 1)
        launches = np.flatnonzero(calls & _joins(runtime.correlation, correlations, at))
        launches = launches[np.argsort(runtime.start[launches], kind="stable")]
        return cls(
            first, last, counts, runtime.start[launches], runtime.end[launches], at[launches], device.end, of_event
        )

    def within(self, start: int, end: int) -> Int64:
        """The groups that were launched wholly inside a span."""
        low, high = np.searchsorted(self.starts, (start, end + 1))
        return np.unique(self.groups[low:high][self.ends[low:high] <= end])


def _joins(correlation: Int64, known: Int64, at: Int64) -> Mask:
    """Whether what stands `at` is the correlation; what is absent is no number, so it joins nothing."""
    return (correlation >= 0) & (known[at] == correlation) if len(known) else np.zeros(len(correlation), bool)


def _grown(spans: Steps, groups: _Launches, inside: list[Int64]) -> Steps:
    """Each step from the end of the one before it to the end of its device work."""
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
    return Steps(spans.numbers, np.array(starts, np.int64), np.array(ends, np.int64), spans.is_pseudo, spans.remarks)


def _complete(steps: Steps, counts: list[int]) -> Steps:
    """Without the last steps that launched nothing, and without one that the end of the profiler cut off."""
    kept = len(steps)
    while kept > 1 and counts[kept - 1] == 0:
        kept -= 1
    if kept > 1 and counts[kept - 1] < _COMPLETE * counts[kept - 2]:
        kept -= 1
    if kept == len(steps):
        return steps
    dropped = ", ".join(str(number) for number in steps.numbers[kept:][:5].tolist())
    remark = (
        f"the last {len(steps) - kept} of {len(steps)} steps are left out ({dropped}): their device work is missing"
    )
    return Steps(
        steps.numbers[:kept], steps.starts[:kept], steps.ends[:kept], steps.is_pseudo, [*steps.remarks, remark]
    )
