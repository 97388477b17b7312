"""Sets of points of time as sorted, disjoint half-open intervals: two int64 arrays, starts and ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perfgate.readers.torch_trace.numbers import Int64


class Intervals(NamedTuple):
    """Sorted intervals that neither overlap nor touch; both arrays have the shape (n,)."""

    starts: Int64
    ends: Int64

    def __len__(self) -> int:
        return len(self.starts)


NOTHING = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: Int64, ends: Int64) -> Intervals:
    """The points that any of the given intervals holds; they may overlap, touch, be empty and in any order."""
    if len(starts) == 0:
        return NOTHING
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begins = np.concatenate(([True], starts[1:] > reached[:-1]))
    merged = starts[begins], reached[np.concatenate((begins[1:], [True]))]
    keep = merged[0] < merged[1]
    return Intervals(merged[0][keep], merged[1][keep])


def join(*sets: Intervals) -> Intervals:
    """The points of any of the sets."""
    return union(np.concatenate([one.starts for one in sets]), np.concatenate([one.ends for one in sets]))


def measure_before(intervals: Intervals, times: Int64) -> Int64:
    """How much of the set lies before each time; (n,) for n times."""
    starts, ends = intervals
    if len(starts) == 0:
        return np.zeros(len(times), np.int64)
    total = np.concatenate(([0], np.cumsum(ends - starts)))
    index = np.searchsorted(starts, times, side="right")
    beyond = np.where(index > 0, np.maximum(ends[index - 1] - times, 0), 0)
    return total[index] - beyond


def measure_within(intervals: Intervals, starts: Int64, ends: Int64) -> Int64:
    """How much of the set lies in each window; (n,) for n windows."""
    return measure_before(intervals, ends) - measure_before(intervals, starts)


def complement(intervals: Intervals, start: int, end: int) -> Intervals:
    """The points of the window [start, end) that are not in the set."""
    starts = np.concatenate(([start], intervals.ends)).clip(start, end)
    ends = np.concatenate((intervals.starts, [end])).clip(start, end)
    keep = starts < ends
    return Intervals(starts[keep], ends[keep])
