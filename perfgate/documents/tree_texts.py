"""The call tree of a run as JSON in one string, in a stored run and in a recording; decoded only to find causes.

The tree is the mean of all ranks. Its steps are joined to at most MOST_GROUPS groups. Every node has its name, its
caller and its calls. Times are in whole ns: one for each group if the node has enough time, else one mean. As far as
there is room, nodes whose ranks differ most have the difference of each rank from the mean.

If even that is too large, small calls are pooled: a node that is listed in `pooled` has the wall time and the memory of
the small calls that it made. A comparison pools them on the other side, too, so that none of them seems to be new.
`baselines.stored_trees` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast

import msgspec
import numpy as np
import numpy.typing as npt

from perfgate.core import read_only
from perfgate.core.call_trees import CallNode, CallTree, LazyTrees, NodeKind

Floats = npt.NDArray[np.float64]
#: Most profiled loops have at most this many steps.
MOST_GROUPS = 10
NANOSECOND = 1e-9
#: The reader nests host calls at most 250 deep; kernels and the root of a thread add a few.
_DEEPEST = 300
#: The most ranks times nodes: each takes 8 bytes.
_MOST_CELLS = 1 << 24
#: No step has more ns, bytes or blocks; and a float64 represents a whole number up to this exactly.
_WITHIN = msgspec.Meta(ge=-(1 << 53), le=1 << 53)
_Whole = Annotated[int, _WITHIN]
_Number = Annotated[float, _WITHIN]
#: For each node: a time in ns for each group, or one mean for all.
Times = list[_Whole | list[_Whole]]


class TreeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of the string. Lists have an item for each node, the step first, unless their items name the node."""

    ranks: list[str]
    #: The number of steps that were joined to the groups; 0 if each group is one step.
    steps: _Whole
    #: Each name once, with its kind.
    names: list[tuple[str, str]]
    #: The caller of each node, and the index of its name.
    parents: list[int]
    called: list[int]
    #: The time of the first call after the start of its step, in whole microseconds; -1 if it is unknown.
    first: list[_Whole]
    #: The three columns of `CallTree` with these names, in the form of `Times`; counts are calls, not ns.
    counts: list[_Number | list[_Number]]
    busy: Times
    wall: Times
    #: The number of groups.
    groups: int
    has_steps: bool = True
    #: The lines of the program, and (node, index of its line).
    lines: list[str] = []
    sources: list[tuple[int, int]] = []
    #: (node, bytes); absent if the trace has no memory events.
    memory: list[tuple[int, _Whole]] | None = None
    peak: _Number | None = None
    #: (node, thread blocks per step); absent if the trace has no grids.
    blocks: list[tuple[int, _Whole]] | None = None
    #: The differences between ranks: their unit in ns, the nodes that have them, and for each rank the differences of
    #: the wall times of these nodes from the mean.
    rank_unit: _Whole = 1
    rank_nodes: list[int] = []
    rank_walls: list[list[_Whole]] = []
    pooled: list[int] = []

    @property
    def is_sound(self) -> bool:
        """True if all lists fit each other, callers are before what they call, and nothing is too large."""
        count, names = len(self.parents), len(self.names)
        columns = (self.called, self.first, self.counts, self.busy, self.wall)
        rows = [row for one in (self.counts, self.busy, self.wall) for row in one if isinstance(row, list)]
        named = (node for node, _ in (*self.sources, *(self.memory or ()), *(self.blocks or ())))
        nodes = [*self.rank_nodes, *self.pooled, *named]
        return (
            0 < count <= _MOST_CELLS // max(len(self.ranks), 1)
            and 0 < self.groups <= MOST_GROUPS
            and self.rank_unit > 0
            and all(len(column) == count for column in columns)
            and all(len(row) == self.groups for row in rows)
            and self.parents[0] == -1
            and all(0 <= parent < at for at, parent in enumerate(self.parents[1:], 1))
            and _is_shallow(self.parents)
            and all(0 <= name < names for name in self.called)
            and all(0 <= node < count for node in nodes)
            and all(0 <= line < len(self.lines) for _, line in self.sources)
            and len(self.rank_walls) in (0, len(self.ranks))
            and all(len(row) == len(self.rank_nodes) for row in self.rank_walls)
        )

    def tree(self) -> CallTree:
        """The tree as causes use it."""
        lines = {node: self.lines[line] for node, line in self.sources}
        nodes = tuple(
            CallNode(self.names[name][0], cast(NodeKind, self.names[name][1]), parent, source=lines.get(at, ""))
            for at, (parent, name) in enumerate(zip(self.parents, self.called, strict=True))
        )
        first = np.array(self.first, np.float64) * 1e-6
        wall = _table(self.wall, self.groups) * NANOSECOND
        mean = wall.mean(axis=1)
        rank_wall = {rank: mean.copy() for rank in self.ranks}
        for rank, differences in zip(self.ranks, self.rank_walls, strict=False):  # `rank_walls` may be empty
            rank_wall[rank][self.rank_nodes] += np.array(differences, np.float64) * (self.rank_unit * NANOSECOND)
        return CallTree(
            rank="",  # the mean of all ranks
            nodes=nodes,
            counts=read_only(_table(self.counts, self.groups)),
            busy=read_only(_table(self.busy, self.groups) * NANOSECOND),
            wall=read_only(wall),
            memory=_column(self.memory, len(nodes)),
            peak=self.peak,
            blocks=_column(self.blocks, len(nodes)),
            first=read_only(np.where(first < 0, np.inf, first)),
            has_steps=self.has_steps,
            steps=self.steps,
            rank_wall=rank_wall,
            pooled=frozenset(self.pooled),
        )


@dataclass(frozen=True)
class StoredTrees(LazyTrees):
    """The call tree of a stored run, decoded when it is first used; empty if it is damaged."""

    text: str

    def decode(self) -> tuple[CallTree, ...]:
        """Return the call tree, if it can be read."""
        found = read_tree(self.text)
        return () if found is None else (found,)


def _is_shallow(parents: Sequence[int]) -> bool:
    """True if no call is nested deeper than the reader nests calls."""
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths) <= _DEEPEST


def read_tree(text: str) -> CallTree | None:
    """Return the tree of a string; None if it is damaged."""
    try:
        found = msgspec.json.decode(text, type=TreeDocument)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found.tree() if found.is_sound else None


def _column(known: Sequence[tuple[int, float]] | None, count: int) -> Floats | None:
    """The values of all nodes, (count,): 0 where none is known."""
    if known is None:
        return None
    found = np.zeros(count)
    for node, value in known:
        found[node] = value
    return found


def _table(rows: Sequence[float | Sequence[float]], groups: int) -> Floats:
    """The values of nodes in each group, (n, groups); a single number is that of all groups."""
    return np.array([row if isinstance(row, list) else [row] * groups for row in rows], np.float64)
