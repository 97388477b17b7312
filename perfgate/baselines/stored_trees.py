"""The call tree of a run as a stored run has it: JSON in one string, which is decoded only if somebody asks for causes.

It is the mean of all ranks. Steps are joined to at most MOST_GROUPS groups. Every node has its name, its caller and its
calls; times are whole ns, by group for nodes with enough time, else one mean. Of a node in which ranks differ, each
rank has its difference from the mean, the largest differences first, as far as there is room.

If even that is too large, small calls are pooled: a node that is listed in `pooled` has the wall time and the memory of
the small calls that it made. A comparison pools them on the other side, too, so that none of them seems to be new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec
import numpy as np

from perfgate.causes.merged import Floats, Masks, in_groups, merged, with_pools
from perfgate.core import read_only
from perfgate.core.call_trees import CallNode, CallTree, LazyTrees, NodeKind
from perfgate.core.wording import utf8_text

#: Profiled loops mostly have no more steps than this.
MOST_GROUPS = 10
#: Nodes with less than this share of the step have one mean of their times, if there is less and less room.
_IN_DETAIL = (0.0002, 0.001, 0.005, 0.02)
#: Calls with less than this share are pooled, if all nodes do not fit.
_POOLED = (0.00001, 0.0001, 0.001, 0.01, 0.05)
#: The part of the room that is kept for the differences of ranks.
_FOR_RANKS = 0.4
#: The unit of differences between ranks, and the least that matters, as shares of the step.
_RANK_UNIT, _LEAST_DIFFERENCE = 1e-5, 2e-4
_NS = 1e-9
#: The reader nests host calls 250 deep; below them are kernels and the root of a thread.
_DEEPEST = 300

Times = list[int | list[int]]


class TreeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of the string. Lists with an item for each node, the step first, unless they name their nodes."""

    ranks: list[str]
    #: The number of steps behind the columns.
    steps: int
    #: Each name once, with its kind.
    names: list[tuple[str, str]]
    #: The caller of each node, and the index of its name.
    parents: list[int]
    called: list[int]
    #: The time of the first call after the start of its step, in whole microseconds; -1 if it is unknown.
    first: list[int]
    #: By group, or one mean for all; times in ns.
    counts: list[float | list[float]]
    busy: Times
    wall: Times
    #: The number of groups.
    groups: int
    has_steps: bool = True
    #: The lines of the program, and (node, index of its line).
    lines: list[str] = []
    sources: list[tuple[int, int]] = []
    #: (node, bytes); absent if the trace has no memory events.
    memory: list[tuple[int, int]] | None = None
    peak: float | None = None
    #: The unit in ns, the nodes, and for each rank the differences of their wall times from the mean.
    rank_unit: int = 1
    rank_nodes: list[int] = []
    rank_walls: list[list[int]] = []
    pooled: list[int] = []

    @property
    def is_sound(self) -> bool:
        """True if all lists fit each other, callers are before what they call, and nothing is too large."""
        count, names = len(self.parents), len(self.names)
        columns = (self.called, self.first, self.counts, self.busy, self.wall)
        rows = [row for one in (self.counts, self.busy, self.wall) for row in one if isinstance(row, list)]
        nodes = [*self.rank_nodes, *self.pooled, *(node for node, _ in (*self.sources, *(self.memory or ())))]
        return (
            count > 0
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
            CallNode(self.names[name][0], cast(NodeKind, self.names[name][1]), parent, lines.get(at, ""))
            for at, (parent, name) in enumerate(zip(self.parents, self.called, strict=True))
        )
        first = np.array(self.first, np.float64) * 1e-6
        memory = None
        if self.memory is not None:
            memory = np.zeros(len(nodes))
            for node, size in self.memory:
                memory[node] = size
        wall = _table(self.wall, self.groups) * _NS
        return CallTree(
            "",
            nodes,
            read_only(_table(self.counts, self.groups)),
            read_only(_table(self.busy, self.groups) * _NS),
            read_only(wall),
            memory=memory,
            peak=self.peak,
            first=read_only(np.where(first < 0, np.inf, first)),
            has_steps=self.has_steps,
            steps=self.steps,
            rank_wall=self._rank_wall(wall.mean(axis=1)),
            pooled=frozenset(self.pooled),
        )

    def _rank_wall(self, mean: Floats) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for rank, differences in zip(self.ranks, self.rank_walls or [[]] * len(self.ranks), strict=True):
            found[rank] = mean.copy()
            if differences:
                found[rank][self.rank_nodes] += np.array(differences, np.float64) * (self.rank_unit * _NS)
        return found


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


def write_tree(trees: Sequence[CallTree], room: int) -> str | None:
    """Return the trees of the ranks of a run as a string that takes at most `room` bytes in a file; None if none does.

    With less room, fewer nodes have times by group, and fewer have times by rank; then small calls are pooled.
    """
    tree = in_groups(merged(trees), MOST_GROUPS)
    for_nodes = room * (1 - _FOR_RANKS) if len(tree.ranks) > 1 else room
    for shorter, detail in _shortened(tree):
        found = _stored(shorter, detail)
        if _size(found) <= for_nodes:
            return msgspec.json.encode(_with_ranks(found, shorter, room)).decode()
    return None


def _shortened(tree: CallTree) -> Iterator[tuple[CallTree, float]]:
    """Yield ways to store a tree, the longest first: the tree, and the least share of the step with times by group."""
    for share in _IN_DETAIL:
        yield tree, share
    for share in _POOLED:
        yield with_pools(tree, share), _IN_DETAIL[-1]


def _size(found: TreeDocument) -> int:
    """The bytes in a file: a string in JSON has a backslash before each quote."""
    text = msgspec.json.encode(found)
    return len(text) + text.count(b'"') + text.count(b"\\") + 2


def _stored(tree: CallTree, detail: float) -> TreeDocument:
    """The tree without times of ranks; nodes below a share of the step have one mean."""
    names: dict[tuple[str, str], int] = {}
    called = [names.setdefault((utf8_text(node.name), node.kind), len(names)) for node in tree.nodes]
    lines: dict[str, int] = {}
    sources = [
        (at, lines.setdefault(utf8_text(node.source), len(lines))) for at, node in enumerate(tree.nodes) if node.source
    ]
    least = detail * float(tree.step_times.mean())
    whole = np.maximum(tree.busy.mean(axis=1), tree.wall.mean(axis=1)) >= least
    first = np.full(len(tree.nodes), np.inf) if tree.first is None else tree.first
    memory = None
    if tree.memory is not None:
        memory = [(at, round(size)) for at, size in enumerate(tree.memory.tolist()) if round(size)]
    return TreeDocument(
        ranks=[utf8_text(rank) for rank in tree.ranks],
        steps=tree.steps,
        names=list(names),
        parents=[node.parent for node in tree.nodes],
        called=called,
        first=[round(time * 1e6) if np.isfinite(time) else -1 for time in first.tolist()],
        counts=_counts(tree.counts),
        busy=_times(tree.busy, whole),
        wall=_times(tree.wall, whole),
        groups=tree.wall.shape[1],
        has_steps=tree.has_steps,
        lines=list(lines),
        sources=sources,
        memory=memory,
        peak=tree.peak,
        pooled=sorted(tree.pooled),
    )


def _counts(values: Floats) -> list[float | list[float]]:
    rounded = np.round(values, 6)
    return [row if len(set(row)) > 1 else row[0] for row in ([_short(one) for one in row] for row in rounded.tolist())]


def _short(value: float) -> float:
    """A whole number as an int, which is shorter in JSON."""
    return int(value) if value.is_integer() else value


def _times(values: Floats, whole: Masks) -> Times:
    rows = np.round(values / _NS).astype(np.int64).tolist()
    means = np.round(values.mean(axis=1) / _NS).astype(np.int64).tolist()
    found: Times = [
        row if is_whole and len(set(row)) > 1 else mean
        for row, mean, is_whole in zip(rows, means, whole.tolist(), strict=True)
    ]
    return found


def _table(rows: Sequence[float | Sequence[float]], groups: int) -> Floats:
    """The rows of nodes, (n, groups)."""
    return np.array([row if isinstance(row, list) else [row] * groups for row in rows], np.float64)


def _with_ranks(found: TreeDocument, tree: CallTree, room: int) -> TreeDocument:
    """The tree with the times of ranks of as many nodes as fit, those with the largest differences first."""
    if tree.rank_wall is None or len(tree.rank_wall) < 2:
        return found
    walls = np.array(list(tree.rank_wall.values()))
    differences = walls - tree.wall.mean(axis=1)
    step = float(tree.step_times.mean())
    unit = max(1, round(_RANK_UNIT * step / _NS))
    largest = np.abs(differences).max(axis=0)
    nodes = [at for at in np.argsort(-largest, kind="stable").tolist() if largest[at] >= _LEAST_DIFFERENCE * step]
    scaled = np.round(differences / (unit * _NS)).astype(np.int64)
    most = len(nodes)
    while most:
        chosen = sorted(nodes[:most])
        rows = scaled[:, chosen].tolist()
        whole = msgspec.structs.replace(found, rank_unit=unit, rank_nodes=chosen, rank_walls=rows)
        if _size(whole) <= room:
            return whole
        most = most * 3 // 4
    return found
