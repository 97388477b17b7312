"""The nesting of the calls of a thread, and the nodes of a call tree with the time that each gets in each step.

A call is one range of time on a thread. Calls of one name below one caller are one node.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from perfgate.core.call_trees import CallNode, NodeKind, stable_name
from perfgate.readers.torch_trace import event_fields as fields
from perfgate.readers.torch_trace.breakdown import Intervals, measure_within
from perfgate.readers.torch_trace.event_fields import Float64, Int64, Mask
from perfgate.readers.torch_trace.steps import Steps
from perfgate.readers.torch_trace.tables import ANNOTATION, PYTHON, Host, Ids

#: Real programs have hundreds to a few thousand places; the calls of others count for their callers.
MOST_NODES = 8_000
#: The steps of a longer trace are joined to this number of groups.
MOST_GROUPS = 32
Name = tuple[str, NodeKind]
#: More than the number of any name: a caller and a name are one key, `caller * _WIDTH + name`.
_WIDTH = 1 << 32
_NEVER = np.iinfo(np.int64).max
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
        """Return the position of the innermost span that runs at each time, (times,); -1 if none does."""
        at = np.searchsorted(self.start, times, side="right") - 1
        while (over := (at >= 0) & (self.end[at] <= times)).any():
            at[over] = self.parent[at[over]]
        return at


def nest(start: Int64, end: Int64, rank: Int64) -> Nest:
    """Return the nesting of spans, given in any order; of two with the same times, that with the lower rank is outside.

    A span is inside another if it begins while that one runs. Of two spans that overlap without being nested, the
    second is inside the first, and cut; but if they overlap only because times were rounded, the first is cut.
    """
    order = np.argsort(start, kind="stable")
    begins = start[order]
    same = begins[1:] == begins[:-1]
    tied = np.flatnonzero(np.concatenate(([False], same)) | np.concatenate((same, [False])))
    rows = order[tied]
    order[tied] = rows[np.lexsort((rank[rows], -end[rows], start[rows]))]  # of equal starts, the longer span is first
    ends = np.maximum(end[order], begins + 1)  # 1 ns until the return, so that each span runs as it begins
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
        # if the overlap is small, and less than half of the span, the caller is cut: it ends where the span begins, if
        # that is after its own beginning; if not, the span is cut, and ends with its caller
        np.minimum.at(ends, above[rounded], begins[rows[rounded]])
        ends[rows[~rounded]] = ends[above[~rounded]]
        parent, levels = _parents(begins, ends)
    return Nest(order, begins, np.minimum(ends, np.maximum(end[order], begins)), parent, levels)


def _parents(begins: Int64, ends: Int64) -> tuple[Int64, list[Int64]]:
    """Return the caller of each span, and the spans of each depth.

    The depth is the number of spans that run when it begins, the caller the last one before it of the depth above.
    """
    count = len(begins)
    # all spans that began before it, less those that have ended
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


class CarriedCalls(NamedTuple):
    """The calls of one thread that outlast a slice of time; all arrays (n,), as in `Nest` and `ThreadCalls`."""

    start: Int64
    end: Int64
    nodes: Int64
    is_work: Mask
    rank: Int64


_EMPTY = np.empty(0, np.int64)
NOT_CARRIED = CarriedCalls(_EMPTY, _EMPTY, _EMPTY, _EMPTY.astype(bool), _EMPTY)


class ThreadCalls(Struct):
    """The calls of one thread in one slice of time, in the order of their nest; all arrays (n,)."""

    nest: Nest
    #: The node of each call.
    nodes: Int64
    #: True for operators and the calls inside them, False for ranges.
    is_work: Mask
    #: Of calls with the same times, the one with the lower rank is outside.
    rank: Int64

    def nodes_at(self, times: Int64) -> Int64:
        """Return the node of the innermost call that runs at each time; 0, the step, if none does."""
        if not len(self.nodes):
            return np.zeros(len(times), np.int64)
        at = self.nest.running_at(times)
        return np.where(at >= 0, self.nodes[at], 0)

    def carried(self, high: int) -> CarriedCalls:
        """Return the calls that outlast a slice, which ends at this time."""
        nest, over = self.nest, self.nest.end > high
        return CarriedCalls(nest.start[over], nest.end[over], self.nodes[over], self.is_work[over], self.rank[over])


class CallNodes(Struct):
    """The nodes of a call tree by caller and name, and their calls and times in each step, or in groups of steps."""

    steps: Steps
    nodes: list[CallNode] = field(default_factory=lambda: [CallNode("step", kind="step", parent=-1)])
    names: list[Name] = field(default_factory=list)
    #: The first call of each node in a step, (MOST_NODES,): its time (_NEVER without one), the time since its step
    #: began, both in ns, and its thread.
    first_time: Int64 = field(default_factory=lambda: np.full(MOST_NODES, _NEVER))
    first_offset: Int64 = field(default_factory=lambda: np.zeros(MOST_NODES, np.int64))
    first_thread: Int64 = field(default_factory=lambda: np.full(MOST_NODES, -1))
    #: Sums by node and group of steps: `counts` of calls, `busy` ns of calls, `wall` ns (each moment for one node).
    _sums: dict[str, Int64] = field(default_factory=dict)
    _numbers: dict[Name, int] = field(default_factory=dict)
    #: The nodes by caller and name: keys in ascending order, and their nodes.
    _keys: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    _places: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def has_calls(self) -> Mask:
        """Return which nodes have a call in a step, (nodes,)."""
        found: Mask = self.first_time[: len(self.nodes)] < _NEVER
        return found

    def name(self, text: str, kind: NodeKind) -> int:
        """Return the number of a name."""
        number = self._numbers.setdefault((text, kind), len(self.names))
        if number == len(self.names):
            self.names.append((text, kind))
        return number

    def names_of(self, host: Host) -> Ids:
        """Return the numbers of the names of host events by kind, (3 kinds * names,); -1 for steps and unused pairs."""
        texts = host.names.texts
        used = np.zeros(3 * len(texts), bool)
        used[host.kind.astype(np.int32) * len(texts) + host.name] = True
        numbers = np.full(len(used), -1, np.int32)
        for pair in np.flatnonzero(used).tolist():
            kind, name = divmod(pair, len(texts))
            if not fields.is_step(texts[name]):
                numbers[pair] = self.name(stable_name(texts[name]), _kind_of(texts[name], kind))
        return numbers

    def range_of(self, node: int) -> int:
        """Return the innermost range at or above a node, or the step."""
        while node > 0 and self.nodes[node].kind != "range":
            node = self.nodes[node].parent
        return node

    def children(self, parents: Int64, names: Int64) -> Int64:
        """Return the nodes of names below their callers, (n,); beyond `MOST_NODES` the caller instead of a new node."""
        keys = parents * _WIDTH + names
        at = np.searchsorted(self._keys, keys)
        is_known = at < len(self._keys)
        is_known[is_known] = self._keys[at[is_known]] == keys[is_known]
        if not is_known.all():
            self._add_nodes(np.unique(keys[~is_known]))
            at = np.searchsorted(self._keys, keys)
        return self._places[at]

    def _add_nodes(self, keys: Int64) -> None:
        found = []
        for parent, name in zip((keys // _WIDTH).tolist(), (keys % _WIDTH).tolist(), strict=True):
            if len(self.nodes) >= MOST_NODES:
                found.append(parent)
                continue
            text, kind = self.names[name]
            found.append(len(self.nodes))
            self.nodes.append(CallNode(text, kind, parent))
        keys, places = np.concatenate([self._keys, keys]), np.concatenate([self._places, np.array(found, np.int64)])
        order = np.argsort(keys)
        self._keys, self._places = keys[order], places[order]

    def add_calls(self, nodes: Int64, step: Int64, start: Int64, duration: Int64, thread: int) -> None:
        """Count calls: their nodes, the index of their step (-1: none), start and duration in ns; all (n,)."""
        inside = step >= 0
        nodes, step, start, duration = nodes[inside], step[inside], start[inside], duration[inside]
        self._add("counts", nodes, step, np.ones(len(nodes), np.int64))
        self._add("busy", nodes, step, duration)
        earlier = np.flatnonzero(start < self.first_time[nodes])
        earlier = earlier[np.argsort(-start[earlier], kind="stable")]  # the last of several assignments counts
        nodes, start, step = nodes[earlier], start[earlier], step[earlier]
        self.first_time[nodes] = start
        self.first_offset[nodes] = start - self.steps.starts[step]
        self.first_thread[nodes] = thread

    def add_wall(self, nodes: Int64, callers: Int64, low: Int64, high: Int64, free: Intervals) -> None:
        """Give nodes the free parts of the steps in [low, high), and take them from their callers (-1: none).

        A caller gets the free parts of its whole span in the same way, so it keeps what the calls inside it leave.
        """
        steps = self.steps
        begin = np.searchsorted(steps.ends, low, side="right")
        last = np.searchsorted(steps.starts, high, side="left") - 1
        counts = np.maximum(last - begin + 1, 0)
        # a span is cut at the limits of steps: the row and the step of each piece
        rows = np.repeat(np.arange(len(low)), counts)
        step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[rows]
        part = measure_within(free, np.maximum(low[rows], steps.starts[step]), np.minimum(high[rows], steps.ends[step]))
        some = part > 0
        rows, step, part = rows[some], step[some], part[some]
        self._add("wall", nodes[rows], step, part)
        above = callers[rows]
        has = above >= 0
        self._add("wall", above[has], step[has], -part[has])

    def _sums_of(self, which: str, least: int) -> Int64:
        """Return the sums of a table, with room for at least this number of nodes."""
        width = min(len(self.steps), MOST_GROUPS)
        table = self._sums.get(which, np.zeros((0, width), np.int64))
        missing = max(least - len(table), 0)
        return np.concatenate([table, np.zeros((missing, width), np.int64)]) if missing else table

    def _add(self, which: str, nodes: Int64, step: Int64, values: Int64) -> None:
        """Add values at nodes and steps to a table."""
        table = self._sums.get(which)
        if table is None or len(table) < len(self.nodes):
            table = self._sums[which] = self._sums_of(which, min(2 * len(self.nodes), MOST_NODES))
        width = table.shape[1]  # step s of n is in group s * width // n
        np.add.at(table.reshape(-1), nodes * width + step * width // len(self.steps), values)

    def table(self, which: str) -> Float64:
        """Return `counts`, `busy` or `wall` as means over the steps of each group, (nodes, groups), and forget it."""
        table = self._sums_of(which, len(self.nodes))
        self._sums.pop(which, None)
        sizes = np.bincount(np.arange(len(self.steps)) * table.shape[1] // len(self.steps))
        means: Float64 = table[: len(self.nodes)] / sizes
        return means


def _kind_of(text: str, kind: int) -> NodeKind:
    """Return the kind of a host range; the category `python` has no loaders, as in `StepBreakdown`."""
    if kind != PYTHON and fields.is_loader(text):
        return "loader"
    if fields.is_collective_range(text):
        return "collective"
    return "range" if kind == ANNOTATION else "operator"
