"""One call tree of several: of the ranks of a run, or of the runs of two sides.

Two nodes are the same if their paths are equal: names and kinds. A stored tree may have small calls pooled: their time
is in the node that made them, and they are no nodes themselves. Then they are pooled in every other tree, too: as nodes
of only some trees, they would seem to have appeared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.call_trees import CallNode, CallTree, NodeKind, heads_of
from perfgate.core.units import format_value
from perfgate.core.wording import listed, plural
from perfgate.stats.stalled_steps import StepsOfRun, stalled_steps

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
#: The call trees of one run, one for each rank, or one for all.
RunTrees = Sequence[CallTree]
#: A child of a node: its name and kind.
_Child = tuple[str, NodeKind]
#: The runs of the base side, and those of the new side.
_Sides = tuple[Sequence[RunTrees], Sequence[RunTrees]]


class Placed(Struct, frozen=True):
    """A tree in a union, which has `count` nodes.

    `at` is the index in the union of each node of the tree; `is_pooled` marks those that are pooled into that node.
    """

    tree: CallTree
    at: Numbers
    is_pooled: Masks

    def sums(self, values: Floats, count: int) -> Floats:
        """The counts or durations of the nodes of the union, (count, ...): only those of each node's own calls."""
        found, own = np.zeros((count, *values.shape[1:])), ~self.is_pooled
        found[self.at[own]] = values[own]
        return found

    def wall(self, values: Floats, count: int) -> Floats:
        """The wall time, memory or thread blocks of the nodes, (count, ...), with pooled calls: the sum is the same."""
        found = self.sums(values, count)
        np.add.at(found, self.at[self.is_pooled], values[self.is_pooled])
        return found

    def walls(self, values: Floats | None, count: int) -> list[Floats]:
        """As `wall`; empty without values."""
        return [] if values is None else [self.wall(values, count)]

    def error(self, count: int) -> Floats:
        """The standard error of the mean of each node of the union, (count,); zeros for a tree of events."""
        found = np.zeros(count)
        if self.tree.error is not None:
            found[self.at] = self.tree.error
        return found


class Union:
    """One tree with the nodes of all trees that were placed in it; nodes with one path are one node."""

    def __init__(self, pooling: Iterable[CallTree] = ()) -> None:
        """Begin without trees. `pooling` are all trees that will be placed, if some of them pool calls."""
        self.nodes: list[CallNode] = [CallNode("step", "step", -1)]
        #: By parent, name and kind: the index of the node.
        self._known: dict[tuple[int, str, str], int] = {}
        #: By the path of a node that pools calls: its children that are not pooled; all others are. A path that is not
        #: here pools no calls.
        self._own = _own_children(pooling)
        #: The path of each node; only kept if some tree pools calls.
        self._paths: list[tuple[_Child, ...]] = [()]
        #: The time of the first call of each node in s, (n,).
        self.first: Floats = np.full(1, np.inf)

    def place(self, tree: CallTree) -> Placed:
        """Add the nodes of a tree that the union lacks, and return the places of all its nodes."""
        at, is_pooled = np.zeros(len(tree.nodes), np.int64), np.zeros(len(tree.nodes), bool)
        for index, node in enumerate(tree.nodes[1:], 1):
            parent, child = int(at[node.parent]), (node.name, node.kind)
            if is_pooled[node.parent] or self._pools(parent, child):
                at[index], is_pooled[index] = parent, True
                continue
            key = (parent, *child)
            if key not in self._known:
                self._known[key] = len(self.nodes)
                self.nodes.append(replace(node, parent=parent))
                if self._own:
                    self._paths.append((*self._paths[parent], child))
            at[index] = self._known[key]
        self.first = grown(self.first, len(self.nodes), np.inf)
        if tree.first is not None:
            np.minimum.at(self.first, at, tree.first)
        return Placed(tree, at, is_pooled)

    def _pools(self, parent: int, child: _Child) -> bool:
        """True if a node of the union pools a child."""
        own = self._own.get(self._paths[parent]) if self._own else None
        return own is not None and child not in own


def _own_children(trees: Iterable[CallTree]) -> dict[tuple[_Child, ...], set[_Child]]:
    """By the path of each node that pools calls in some tree: the children that no such tree pools."""
    found: dict[tuple[_Child, ...], set[_Child]] = {}
    for tree in (one for one in trees if one.pooled):
        paths: list[tuple[_Child, ...]] = [()]
        children: dict[int, set[_Child]] = defaultdict(set)
        for node in tree.nodes[1:]:
            paths.append((*paths[node.parent], (node.name, node.kind)))
            children[node.parent].add((node.name, node.kind))
        for node_index in tree.pooled:
            path, own = paths[node_index], children[node_index]
            found[path] = found.get(path, own) & own
    return found


def merged(trees: RunTrees) -> CallTree:
    """Return the mean of the ranks of a run, at least one, with the wall time of each rank.

    The trees are decoded one after the other, so that few are in memory; all at once only if some pool calls.
    """
    heads = heads_of(trees)
    if len(heads) == 1 and heads[0].rank_wall is not None:  # it is stored as such a mean
        return trees[0]
    union = Union(trees if any(head.pooled for head in heads) else ())
    steps = min(head.wall.shape[1] for head in heads)  # the first steps of each rank, as many as all have
    counts, busy, wall = (np.zeros((1, steps)) for _ in range(3))
    walls: dict[str, list[Floats]] = defaultdict(list)
    memory, blocks, errors = list[Floats](), list[Floats](), list[Floats]()
    pooled: set[int] = set()
    for tree in trees:
        placed, count = union.place(tree), len(union.nodes)
        counts = grown(counts, count) + placed.sums(tree.counts[:, :steps], count) / len(heads)
        busy = grown(busy, count) + placed.sums(tree.busy[:, :steps], count) / len(heads)
        wall = grown(wall, count) + placed.wall(tree.wall[:, :steps], count) / len(heads)
        for rank, of_rank in (tree.rank_wall or {tree.rank: tree.wall.mean(axis=1)}).items():
            walls[rank].append(placed.wall(of_rank, count))
        pooled |= {int(placed.at[node]) for node in tree.pooled}
        memory += placed.walls(tree.memory, count)
        blocks += placed.walls(tree.blocks, count)
        if tree.error is not None:
            errors.append(placed.error(count) / len(heads))
    peaks = [head.peak for head in heads if head.peak is not None]
    return CallTree(
        rank="",
        nodes=tuple(union.nodes),
        counts=counts,
        busy=busy,
        wall=wall,
        memory=mean_of(memory, count),
        peak=float(np.mean(peaks)) if peaks else None,
        blocks=mean_of(blocks, count),
        first=union.first,
        has_steps=all(head.has_steps for head in heads),
        error=np.sqrt(np.square([grown(one, count) for one in errors]).sum(axis=0)) if errors else None,
        steps=min(head.steps or head.wall.shape[1] for head in heads),
        rank_wall={rank: np.mean([grown(one, count) for one in found], axis=0) for rank, found in walls.items()},
        pooled=frozenset(pooled),
    )


def grown(values: Floats, count: int, value: float = 0.0) -> Floats:
    """Return a table with `count` rows: those of `values`, then rows of `value`."""
    more = count - len(values)
    return np.concatenate([values, np.full((more, *values.shape[1:]), value)]) if more else values


def mean_of(tables: Sequence[Floats], count: int) -> Floats | None:
    """Return the mean of tables, with zeros for the last nodes of `count` that a table lacks; None without tables."""
    return np.mean([grown(table, count) for table in tables], axis=0) if tables else None


def in_groups(tree: CallTree, groups: int) -> CallTree:
    """Return a tree whose columns are `groups` groups of successive steps, each with the means of its steps.

    A tree with at most that many columns does not change. Some groups have one step more, and count as much as the
    others. So rows are scaled to the mean of all steps.
    """
    steps = tree.wall.shape[1]
    if steps <= groups:
        return tree
    group = np.arange(steps) * groups // steps
    begins = np.unique(group, return_index=True)[1]
    sizes = np.diff(begins, append=steps)

    def joined(values: Floats) -> Floats:
        means = np.add.reduceat(values, begins, axis=1) / sizes
        whole, found = values.mean(axis=1, keepdims=True), means.mean(axis=1, keepdims=True)
        scaled: Floats = means * np.divide(whole, found, out=np.ones_like(found), where=found > 0)
        return scaled

    counts, busy, wall = map(joined, (tree.counts, tree.busy, tree.wall))
    return replace(tree, counts=counts, busy=busy, wall=wall, steps=tree.steps or steps)


def with_pools(tree: CallTree, share: float) -> CallTree:
    """Return a tree in which calls with less than a share of the step are pooled into the node that made them."""
    least = share * float(tree.step_times.mean())
    # a node stays if it, or it with all nodes below it, takes long enough; so do the nodes above it
    below, large = tree.wall.mean(axis=1), tree.busy.mean(axis=1) >= least
    for at in range(len(tree.nodes) - 1, 0, -1):
        parent = tree.nodes[at].parent
        large[at] |= below[at] >= least
        below[parent] += below[at]
        large[parent] |= large[at]
    large[0] = True
    target = np.cumsum(large) - 1  # the index in the new tree; for pooled nodes, the index of the node that stays
    for at in np.flatnonzero(~large).tolist():
        target[at] = target[tree.nodes[at].parent]
    kept = np.flatnonzero(large)
    holders = {int(target[at]) for at in (*np.flatnonzero(~large).tolist(), *tree.pooled)}

    def summed(values: Floats) -> Floats:
        found = np.zeros((len(kept), *values.shape[1:]))
        np.add.at(found, target, values)
        return found

    return replace(
        tree,
        nodes=tuple(
            replace(tree.nodes[at], parent=int(target[tree.nodes[at].parent]) if at else -1) for at in kept.tolist()
        ),
        counts=tree.counts[kept],
        busy=tree.busy[kept],
        wall=summed(tree.wall),
        memory=None if tree.memory is None else summed(tree.memory),
        blocks=None if tree.blocks is None else summed(tree.blocks),
        first=None if tree.first is None else tree.first[kept],
        rank_wall=None if tree.rank_wall is None else {rank: summed(wall) for rank, wall in tree.rank_wall.items()},
        pooled=frozenset(holders),
    )


def without_stalls(sides: _Sides) -> tuple[_Sides, tuple[str, ...]]:
    """Return the trees of both sides without stalled steps, and a note for each side that had some.

    So neither the causes nor the step times of a report include stalls.
    """
    kept, notes = list[list[RunTrees]](), list[str]()
    steps = [[_steps(run) for run in side] for side in sides]
    for name, runs, of_runs, marks in zip(("base", "new"), sides, steps, stalled_steps(*steps), strict=True):
        kept.append([_without(run, mark) for run, mark in zip(runs, marks, strict=True)])
        times = [time for run, mark in zip(of_runs, marks, strict=True) for time in run.times[mark].tolist()]
        if times:
            whole = plural(sum(map(len, marks)), f"{name} step")
            shown = listed([format_value(time, "s", "ms") for time in sorted(times, reverse=True)])
            notes.append(f"stalled and left out: {len(times)} of {whole} ({shown})")
    return (kept[0], kept[1]), tuple(notes)


def _steps(run: RunTrees) -> StepsOfRun:
    """The time of each step of a run, and its calls by rank; none if columns are groups, or differ between ranks."""
    columns = {tree.wall.shape[1] if tree.has_steps and tree.steps in (0, tree.wall.shape[1]) else -1 for tree in run}
    if len(columns) > 1 or -1 in columns:
        return StepsOfRun()
    times = np.asarray(np.max([tree.step_times for tree in run], axis=0))  # the longest of its ranks
    return StepsOfRun(times, np.array([tree.counts.sum(axis=0) for tree in run]))


def _without(run: RunTrees, stalled: Masks) -> RunTrees:
    """The run without the stalled steps; each column of its trees is a step.

    A tree of several ranks keeps its `rank_wall`, which has only the mean of each rank over all steps.
    """
    if not stalled.any():
        return run
    found = []
    for tree in run:
        counts, busy, wall = (values[:, ~stalled] for values in (tree.counts, tree.busy, tree.wall))
        rank, walls = (tree.ranks[0], None) if len(tree.ranks) == 1 else (tree.rank, tree.rank_wall)
        found.append(replace(tree, rank=rank, counts=counts, busy=busy, wall=wall, steps=0, rank_wall=walls))
    return tuple(found)
