"""One call tree of all runs and ranks of two sides.

A node is the same on both sides if its path is: the names of ranges, operators, and the kernel or call. The values of
a side are per step; steps of all runs are one behind the other, and the ranks of a job are averaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfgate.core.call_trees import CallNode, CallTree

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
#: The call trees of one run, one for each rank.
RunTrees = Sequence[CallTree]
#: Sides with a smaller share of their calls in common are different programs.
_LEAST_SHARED = 0.1


@dataclass(frozen=True, slots=True)
class TreeSide:
    """The values of n nodes in s steps of one side, the mean over ranks: (n, s); times in s."""

    counts: Floats
    busy: Floats
    wall: Floats
    #: The run of each step, (s,).
    run: Numbers
    #: The wall time of each rank: means over steps, (n,).
    rank_wall: Mapping[str, Floats]
    #: The same in each run, and the standard errors within runs, (n, runs); zeros if the steps themselves are there.
    rank_runs: Mapping[str, Floats]
    error: Floats
    #: Bytes in use at the peak, mean over runs and ranks, (n,); None if no trace has them.
    memory: Floats | None
    #: The peak of allocated bytes, mean over runs and ranks.
    peak: float | None

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(np.unique(self.run))


@dataclass(frozen=True, slots=True)
class Alignment:
    """Both sides on one tree of n nodes; parents are before their children."""

    nodes: tuple[CallNode, ...]
    base: TreeSide
    new: TreeSide
    #: The time of the first call after the start of its step in s, (n,).
    first: Floats
    #: False if one side has steps and the other has not.
    steps_agree: bool = True

    def path(self, index: int) -> tuple[str, ...]:
        """The names from the step to a node, without the step."""
        names: list[str] = []
        while index > 0:
            names.append(self.nodes[index].name)
            index = self.nodes[index].parent
        return tuple(reversed(names))

    def ancestors(self, index: int) -> tuple[int, ...]:
        """The nodes above a node, the nearest first, without the step."""
        found: list[int] = []
        index = self.nodes[index].parent
        while index > 0:
            found.append(index)
            index = self.nodes[index].parent
        return tuple(found)

    def children(self) -> dict[int, list[int]]:
        """The nodes below each node, in order of their first call."""
        found: dict[int, list[int]] = defaultdict(list)
        for index in np.argsort(self.first, kind="stable").tolist():
            if index > 0:
                found[self.nodes[index].parent].append(index)
        return found


def incomparable(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> tuple[str, ...]:
    """The parts of the two sides that cannot be compared, in words."""
    trees = [tree for side in (base, new) for run in side for tree in run]
    notes = list(dict.fromkeys(note for tree in trees for note in tree.notes))
    if not all(tree.has_steps for tree in trees if tree.error is None):
        notes.append("traces without steps (profiler.step() is not called): each counts as one step")
    ranks = [{tree.rank for run in side for tree in run} for side in (base, new)]
    for side, alone in (("base", ranks[0] - ranks[1]), ("new", ranks[1] - ranks[0])):
        if alone and ranks[0] & ranks[1]:
            notes.append(f"only the {side} side has rank {', '.join(sorted(alone))}: left out")
    return tuple(notes)


def is_of_metrics(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> bool:
    """Return whether the trees are made from metrics, which have a mean instead of steps."""
    return any(tree.error is not None for side in (base, new) for run in side for tree in run)


def same_ranks(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> tuple[list[RunTrees], list[RunTrees]]:
    """Only the ranks of both sides; all of them if they share none."""
    shared = {tree.rank for run in base for tree in run} & {tree.rank for run in new for tree in run}
    if not shared:
        return list(base), list(new)
    kept = [[[tree for tree in run if tree.rank in shared] for run in side] for side in (base, new)]
    return [run for run in kept[0] if run], [run for run in kept[1] if run]


class _Union:
    """The nodes of several trees, by path."""

    def __init__(self) -> None:
        self.nodes: list[CallNode] = [CallNode("step", "step", -1)]
        self._known: dict[tuple[int, str, str], int] = {}

    def add(self, tree: CallTree) -> Numbers:
        """Add a tree; return where its nodes are, (nodes of the tree,)."""
        at = np.zeros(len(tree.nodes), np.int64)
        for index, node in enumerate(tree.nodes[1:], 1):
            parent = int(at[node.parent])
            key = (parent, node.name, node.kind)
            if key not in self._known:
                self._known[key] = len(self.nodes)
                self.nodes.append(CallNode(node.name, node.kind, parent, node.source))
            at[index] = self._known[key]
        return at


def align(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> Alignment:
    """Return both sides on one tree. Each run has at least one tree, with at least one step."""
    union = _Union()
    placed = [[[(tree, union.add(tree)) for tree in run] for run in side] for side in (base, new)]
    first = np.full(len(union.nodes), np.inf)
    for tree, at in (pair for side in placed for run in side for pair in run):
        if tree.first is not None:
            np.minimum.at(first, at, tree.first)
    sides = [_side(runs, len(union.nodes)) for runs in placed]
    marked = [{tree.has_steps for run in side for tree in run} for side in (base, new)]
    return Alignment(tuple(union.nodes), sides[0], sides[1], first, marked[0] == marked[1])


def obstacle_to_causes(alignment: Alignment) -> str | None:
    """The reason why the two sides cannot be compared, or None."""
    if not alignment.steps_agree:
        return "no causes: only one side has steps (profiler.step()), so their calls cannot be compared"
    program = np.array([node.kind in ("range", "operator", "loader", "collective") for node in alignment.nodes], bool)
    calls = [side.counts.sum(axis=1)[program] for side in (alignment.base, alignment.new)]
    shared = (calls[0] > 0) & (calls[1] > 0)
    if all(one.sum() > 0 and one[shared].sum() < _LEAST_SHARED * one.sum() for one in calls):
        return "no causes: the two sides have hardly a call in common: they are not one program"
    return None


def _side(runs: Sequence[Sequence[tuple[CallTree, Numbers]]], count: int) -> TreeSide:
    number: list[int] = []
    by_rank: dict[str, list[Floats]] = defaultdict(list)
    tables: list[tuple[Floats, Floats, Floats]] = []
    memory: list[Floats] = []
    errors = np.zeros((count, len(runs)))
    for index, run in enumerate(runs):
        steps = min(tree.wall.shape[1] for tree, _ in run)
        number += [index] * steps
        sums = tuple(np.zeros((count, steps)) for _ in range(3))
        for tree, at in run:
            for total, values in zip(sums, (tree.counts, tree.busy, tree.wall), strict=True):
                np.add.at(total, at, values[:, :steps] / len(run))
            by_rank[tree.rank].append(np.bincount(at, tree.wall.mean(axis=1), count).astype(np.float64))
            if tree.error is not None:
                errors[:, index] += np.bincount(at, np.square(tree.error / len(run)), count)
            if tree.memory is not None:
                memory.append(np.bincount(at, tree.memory, count).astype(np.float64))
        tables.append((sums[0], sums[1], sums[2]))
    counts, busy, wall = (np.concatenate(parts, axis=1) for parts in zip(*tables, strict=True))
    peaks = [tree.peak for run in runs for tree, _ in run if tree.peak is not None]
    return TreeSide(
        counts,
        busy,
        wall,
        np.array(number, np.int64),
        {rank: np.mean(found, axis=0) for rank, found in by_rank.items()},
        {rank: np.stack(found, axis=1) for rank, found in by_rank.items()},
        np.sqrt(errors),
        np.mean(memory, axis=0) if memory else None,
        float(np.mean(peaks)) if peaks else None,
    )
