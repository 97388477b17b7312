"""The nodes of a call tree while it is built, and the time that each of them gets in each step."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from perfgate.core.call_trees import CallNode, NodeKind
from perfgate.readers.torch_trace.breakdown import Intervals, measure_within
from perfgate.readers.torch_trace.event_fields import Float64, Int64, Mask
from perfgate.readers.torch_trace.steps import Steps

#: Real programs have hundreds to a few thousand places; the calls of others count for their callers.
MOST_NODES = 8_000
#: The steps of a longer trace are joined to this number of groups.
MOST_GROUPS = 32
Name = tuple[str, NodeKind]
#: More than the number of any name.
_WIDTH = 1 << 32
_NEVER = np.iinfo(np.int64).max


class CallNodes(Struct):
    """Nodes by caller and name, and their calls and times in the steps of a trace, or in groups of its steps."""

    steps: Steps
    nodes: list[CallNode] = field(default_factory=lambda: [CallNode("step", "step", -1)])
    names: list[Name] = field(default_factory=list)
    #: The first call of each node in a step, (MOST_NODES,): its time (_NEVER without one), the time since its step
    #: began, both in ns, and its thread.
    first_time: Int64 = field(default_factory=lambda: np.full(MOST_NODES, _NEVER))
    first_offset: Int64 = field(default_factory=lambda: np.zeros(MOST_NODES, np.int64))
    first_thread: Int64 = field(default_factory=lambda: np.full(MOST_NODES, -1))
    #: Sums by node and group of steps: calls, ns of calls, ns of the step. Tables grow with the nodes.
    _sums: dict[str, Int64] = field(default_factory=dict)
    _numbers: dict[Name, int] = field(default_factory=dict)
    #: The nodes by caller and name: keys in ascending order, and their nodes.
    _keys: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    _places: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def groups(self) -> int:
        """The number of groups of steps."""
        return min(len(self.steps), MOST_GROUPS)

    @property
    def has_calls(self) -> Mask:
        """True for the nodes with a call in a step, (nodes,)."""
        found: Mask = self.first_time[: len(self.nodes)] < _NEVER
        return found

    def name(self, text: str, kind: NodeKind) -> int:
        """The number of a name."""
        number = self._numbers.setdefault((text, kind), len(self.names))
        if number == len(self.names):
            self.names.append((text, kind))
        return number

    def child(self, parent: int, name: int) -> int:
        """The node of a name below a node; the node itself if there are too many."""
        return int(self.children(np.array([parent]), np.array([name]))[0])

    def range_of(self, node: int) -> int:
        """The innermost range at or above a node, or the step."""
        while node > 0 and self.nodes[node].kind != "range":
            node = self.nodes[node].parent
        return node

    def children(self, parents: Int64, names: Int64) -> Int64:
        """The nodes of names below nodes; all arrays (n,). Of too many nodes, the last ones are their callers."""
        keys = parents * _WIDTH + names
        at = np.searchsorted(self._keys, keys)
        is_known = at < len(self._keys)
        is_known[is_known] = self._keys[at[is_known]] == keys[is_known]
        if not is_known.all():
            self._add_nodes(np.unique(keys[~is_known]))
            at = np.searchsorted(self._keys, keys)
        return self._places[at]

    def _add_nodes(self, keys: Int64) -> None:
        """Add the nodes of keys that are not known."""
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
        """Give nodes the free parts of the steps in [low, high), and take them from their callers (-1: none)."""
        rows, step, low, high = split(low, high, self.steps)
        part = measure_within(free, low, high)
        some = part > 0
        rows, step, part = rows[some], step[some], part[some]
        self._add("wall", nodes[rows], step, part)
        above = callers[rows]
        has = above >= 0
        self._add("wall", above[has], step[has], -part[has])

    def _add(self, which: str, nodes: Int64, step: Int64, values: Int64) -> None:
        """Add values at nodes and steps to a table."""
        table, width = self._sums.get(which), self.groups
        if table is None or len(table) < len(self.nodes):
            grown = np.zeros((min(2 * len(self.nodes), MOST_NODES), width), np.int64)
            if table is not None:
                grown[: len(table)] = table
            table = self._sums[which] = grown
        group = step * width // len(self.steps)
        np.add.at(table.reshape(-1), nodes * width + group, values)

    def table(self, which: str) -> Float64:
        """Return `counts`, `busy` or `wall` as means over the steps of each group, (nodes, groups), and forget it."""
        table = self._sums.pop(which, np.zeros((len(self.nodes), self.groups), np.int64))
        missing = len(self.nodes) - len(table)
        if missing > 0:
            table = np.concatenate([table, np.zeros((missing, self.groups), np.int64)])
        sizes = np.bincount(np.arange(len(self.steps)) * self.groups // len(self.steps))
        means: Float64 = table[: len(self.nodes)] / sizes
        return means


def split(low: Int64, high: Int64, steps: Steps) -> tuple[Int64, Int64, Int64, Int64]:
    """Cut spans at the limits of steps: the row, the index of the step, the start and the end of each piece."""
    begin = np.searchsorted(steps.ends, low, side="right")
    last = np.searchsorted(steps.starts, high, side="left") - 1
    counts = np.maximum(last - begin + 1, 0)
    rows = np.repeat(np.arange(len(low)), counts)
    step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[rows]
    return rows, step, np.maximum(low[rows], steps.starts[step]), np.minimum(high[rows], steps.ends[step])
