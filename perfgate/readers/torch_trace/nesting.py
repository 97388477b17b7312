"""The nesting of the spans of one thread: the caller of each call."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from perfgate.readers.torch_trace.event_fields import Int64

#: No program nests deeper on purpose; deeper calls count as calls of this depth.
_DEEPEST = 250
#: Spans that overlap by less ns do so because their times were rounded to microseconds.
_ROUNDING = 1100
#: Attempts to repair spans that overlap without being nested.
_ATTEMPTS = 4


class Nest(Struct, frozen=True):
    """The spans of one thread in order of start, outer spans first; all arrays (n,)."""

    #: The position of each span in the arrays that were given.
    rows: Int64
    #: When spans begin and end, in ns; a span that outlasts its caller ends with it.
    start: Int64
    end: Int64
    #: The position of the caller in this order; -1 at the top.
    parent: Int64
    #: The positions of each depth, from the top down.
    levels: list[Int64]

    def running_at(self, times: Int64) -> Int64:
        """The position of the innermost span that runs at each time, (times,); -1 if none does."""
        at = np.searchsorted(self.start, times, side="right") - 1
        while (over := (at >= 0) & (self.end[at] <= times)).any():
            at[over] = self.parent[at[over]]
        return at


def nest(start: Int64, end: Int64, rank: Int64) -> Nest:
    """The nesting of spans, given in any order; of two with the same times, the one with the lower rank is outside.

    A span is inside another if it begins while that one runs. Of two spans that overlap without being nested, the
    second is inside the first, and cut.
    """
    order = _outer_first(start, end, rank)
    begins, ends = start[order], np.maximum(end[order], start[order] + 1)
    parent, levels = _parents(begins, ends)
    for _ in range(_ATTEMPTS):
        inside = np.flatnonzero(parent >= 0)
        above = parent[inside]
        crossing = ends[inside] > ends[above]
        if not crossing.any():
            break
        rows, above = inside[crossing], above[crossing]
        over = ends[above] - begins[rows]
        rounded = (over <= _ROUNDING) & (2 * over < ends[rows] - begins[rows]) & (begins[rows] > begins[above])
        np.minimum.at(ends, above[rounded], begins[rows[rounded]])
        ends[rows[~rounded]] = ends[above[~rounded]]
        parent, levels = _parents(begins, ends)
    return Nest(order, begins, np.minimum(ends, np.maximum(end[order], begins)), parent, levels)


def _outer_first(start: Int64, end: Int64, rank: Int64) -> Int64:
    """Positions in order of start, the longer of spans that begin together first, then by rank."""
    order = np.argsort(start, kind="stable")
    begins = start[order]
    same = begins[1:] == begins[:-1]
    if same.any():
        tied = np.flatnonzero(np.concatenate(([False], same)) | np.concatenate((same, [False])))
        rows = order[tied]
        order[tied] = rows[np.lexsort((rank[rows], -end[rows], start[rows]))]
    return order


def _parents(begins: Int64, ends: Int64) -> tuple[Int64, list[Int64]]:
    """The caller of each span, and the spans of each depth: the number of spans that run when it begins."""
    count = len(begins)
    depth = np.arange(count) - np.searchsorted(np.sort(ends, kind="stable"), begins, side="right")
    depth = depth.clip(0, _DEEPEST)
    by_depth = np.argsort(depth.astype(np.int16), kind="stable")
    limits = np.searchsorted(depth[by_depth], np.arange(_DEEPEST + 2))
    levels = [by_depth[low:high] for low, high in pairwise(limits) if high > low]
    parent = np.full(count, -1)
    for above, level in pairwise(levels):
        at = np.searchsorted(above, level) - 1
        parent[level] = np.where(at >= 0, above[at], -1)
    return parent, levels
