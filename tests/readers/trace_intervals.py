"""Lists of intervals, as plain as their definitions: a union is a sorted list of intervals that do not touch."""

from __future__ import annotations

from collections.abc import Iterable

#: Start and end in nanoseconds, the end excluded.
Interval = tuple[int, int]
Intervals = list[Interval]


def union(intervals: Iterable[Interval]) -> Intervals:
    """Sorted intervals without overlap; empty ones measure nothing and are left out."""
    merged: Intervals = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection of two unions."""
    common, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            common.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return common


def difference(one: Intervals, other: Intervals) -> Intervals:
    """Return the difference of two unions: the first without the second."""
    if not one:
        return []
    edges = [one[0][0], *(edge for interval in other for edge in interval), one[-1][1]]
    gaps = [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2) if edges[i] < edges[i + 1]]
    return intersection(one, gaps)


def measure(intervals: Intervals) -> int:
    """The total length of a union."""
    return sum(end - start for start, end in intervals)
