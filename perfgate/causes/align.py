"""One call tree of all runs and ranks of two sides.

Two nodes are the same if their paths are equal: the names and kinds of ranges, operators, and the kernel or call. The
values of a side are per step: the steps of its runs follow each other, and the ranks of a job are averaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from perfgate.causes.merged import Floats, Masks, Numbers, Placed, RunTrees, Union, in_groups, mean_of, merged
from perfgate.core.call_trees import CallNode, CallTree, heads_of, trees_with
from perfgate.core.causes import CauseKind

#: No step takes so long, in s; the square of a much larger number overflows.
_LARGEST_S = 1e100
#: If both sides have a smaller share of their calls in common, they are different programs.
_LEAST_SHARED = 0.1


class TreeSide(Struct, frozen=True, dict=True):
    """The values of n nodes in s steps of one side, the mean over ranks: (n, s); times in s."""

    #: Calls; their summed durations, with the calls inside; and the part of the step that belongs to the node alone.
    #: Each moment of a step belongs to one of the nodes that run then, so `wall` sums to the time of the step.
    counts: Floats
    busy: Floats
    wall: Floats
    #: The number of the run of each step, (s,).
    run: Numbers
    #: The wall time of each rank: the mean over steps and runs, (n,), and the means of each run, (n, runs).
    rank_wall: Mapping[str, Floats]
    rank_runs: Mapping[str, Floats]
    #: The standard errors of `wall` within each run of trees from metrics, (n, runs); zeros for trees of traces.
    error: Floats
    #: Bytes in use at the peak, mean over runs and ranks, (n,); None if no trace has them.
    memory: Floats | None
    #: The peak of allocated bytes, mean over runs and ranks.
    peak: float | None
    #: The thread blocks of each node, mean over steps, runs and ranks, (n,); None if no trace has them.
    blocks: Floats | None = None

    @cached_property
    def runs(self) -> int:
        """The number of runs."""
        return len(np.unique(self.run))

    @cached_property
    def calls(self) -> Floats:
        """The mean of `counts` over steps, (n,)."""
        return np.asarray(self.counts.mean(axis=1))

    @cached_property
    def durations(self) -> Floats:
        """The mean of `busy` over steps, (n,)."""
        return np.asarray(self.busy.mean(axis=1))

    @cached_property
    def times(self) -> Floats:
        """The mean of `wall` over steps, (n,)."""
        return np.asarray(self.wall.mean(axis=1))

    @cached_property
    def step(self) -> float:
        """The mean time of a step."""
        return float(self.wall.sum(axis=0).mean())


class Alignment(Struct, frozen=True, dict=True):
    """Both sides on one tree of n nodes: 0 is the step, parents are before children. Differences are new minus base."""

    nodes: tuple[CallNode, ...]
    base: TreeSide
    new: TreeSide
    #: The time of the first call after the start of its step in s, (n,).
    first: Floats
    #: False if one side has steps and the other has not.
    steps_agree: bool = True
    #: True if the source of a side may have left out its smallest nodes.
    is_cut: bool = False
    #: False if a side does not count steps: its times are those of the whole file.
    has_steps: bool = True

    @property
    def sides(self) -> tuple[TreeSide, TreeSide]:
        """The base and the new side."""
        return self.base, self.new

    @cached_property
    def step(self) -> float:
        """The mean time of the longer step."""
        return max(self.base.step, self.new.step)

    @cached_property
    def longer(self) -> Floats:
        """The difference of the time of each node, (n,), in s per step."""
        return self.new.times - self.base.times

    @cached_property
    def more_calls(self) -> Floats:
        """The difference of the calls of each node, (n,)."""
        return self.new.calls - self.base.calls

    @cached_property
    def busier(self) -> Floats:
        """The difference of the durations of each node's calls, (n,), in s per step."""
        return self.new.durations - self.base.durations

    def of_kind(self, *kinds: str) -> Masks:
        """True for the nodes of these kinds, (n,)."""
        return np.array([node.kind in kinds for node in self.nodes], bool)

    def path(self, index: int) -> tuple[str, ...]:
        """The names from the step to a node, without the step."""
        return tuple(self.nodes[one].name for one in reversed(self.chain(index)) if one)

    def chain(self, index: int) -> tuple[int, ...]:
        """The node and those above it, the nearest first, without the step unless it is the node."""
        found = [index]
        while (index := self.nodes[index].parent) > 0:
            found.append(index)
        return tuple(found)

    @cached_property
    def children(self) -> list[list[int]]:
        """The nodes below each node, in order of their first call."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index in np.argsort(self.first, kind="stable").tolist():
            if index > 0:
                found[self.nodes[index].parent].append(index)
        return found

    def subtree(self, nodes: Iterable[int]) -> set[int]:
        """The nodes and all below them."""
        found: set[int] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += self.children[node]
        return found

    def with_below(self, values: Floats) -> Floats:
        """Return values of the nodes, (n,), each summed with those of all nodes below it."""
        found: Floats = values.copy()
        for index in range(len(found) - 1, 0, -1):
            found[self.nodes[index].parent] += found[index]
        return found


def incomparable(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> tuple[str, ...]:
    """The parts of the two sides that cannot be compared, in words."""
    heads = [*heads_of_runs(base), *heads_of_runs(new)]
    notes = list(dict.fromkeys(note for head in heads for note in head.notes))
    if not all(head.has_steps for head in heads if head.error is None):  # only trees of traces
        notes.append("traces without steps (profiler.step() is not called): each counts as one step")
    shared = _ranks(base) & _ranks(new)
    for name, side in (("base", base), ("new", new)):
        alone = _ranks(side) - shared
        if alone and shared:  # without a shared rank, all are compared
            is_mean = any(head.rank_wall is not None for head in heads_of_runs(side))
            what = "but it is stored as the mean of all its ranks" if is_mean else "left out"
            notes.append(f"only the {name} side has rank {', '.join(sorted(alone))}: {what}")
    return tuple(notes)


def heads_of_runs(side: Sequence[RunTrees]) -> list[CallTree]:
    """The trees of all runs of a side, if possible without nodes and numbers, so that nothing is decoded."""
    return [head for run in side for head in heads_of(run)]


def same_ranks(
    base: Sequence[RunTrees], new: Sequence[RunTrees], *, paired: bool = False
) -> tuple[list[RunTrees], list[RunTrees]]:
    """Return the trees of the ranks that both sides have; all trees if no rank is on both.

    A tree that is the mean of several ranks is kept if one of them is on both sides. With `paired`, run i of both sides
    is a pair: it keeps the ranks that both of its runs have, or is left out.
    """
    pairs = [([one], [other]) for one, other in zip(base, new, strict=False)]
    kept: tuple[list[RunTrees], list[RunTrees]] = ([], [])
    for one, other in pairs if paired else [(list(base), list(new))]:
        shared = _ranks(one) & _ranks(other)
        for found, side in zip(kept, (one, other), strict=True):
            left = (trees_with(run, shared) for run in side)
            found.extend(run for run in left if run)
    return kept if kept[0] else (list(base), list(new))


def _ranks(side: Sequence[RunTrees]) -> set[str]:
    return {rank for head in heads_of_runs(side) for rank in head.ranks}


def align(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> Alignment:
    """Return both sides on one tree. Each run has at least one tree, with at least one step."""
    runs = [merged(run) for run in (*base, *new)]
    # If all runs have as many steps, step i has the same input on both sides. A column may be a group of steps, so each
    # run gets as many columns: then those of both sides are pairs.
    if len({run.steps for run in runs}) == 1:
        groups = min(run.wall.shape[1] for run in runs)
        runs = [in_groups(run, groups) for run in runs]
    union = Union(runs)
    placed = [union.place(run) for run in runs]
    sides = [_side(side, len(union.nodes)) for side in (placed[: len(base)], placed[len(base) :])]
    base_steps, new_steps = ({run.has_steps for run in side} for side in (runs[: len(base)], runs[len(base) :]))
    agree, has_steps = base_steps == new_steps, all(base_steps | new_steps)
    is_cut = any(head.is_cut for head in heads_of_runs((*base, *new)))
    return Alignment(
        tuple(union.nodes), sides[0], sides[1], union.first, steps_agree=agree, is_cut=is_cut, has_steps=has_steps
    )


def obstacle_to_causes(alignment: Alignment) -> str | None:
    """The reason why the two sides cannot be compared, or None."""
    if not all(float(side.wall.max(initial=0.0)) < _LARGEST_S for side in alignment.sides):  # false for NaN
        return "no causes: a time is too large to be one"
    if not alignment.steps_agree:
        return "no causes: only one side has several steps (in traces: profiler.step()), so calls cannot be compared"
    # a side without a kind of events was recorded otherwise, or failed to record them
    for kind, what in (("kernel", "kernels"), ("runtime", "calls of the runtime")):
        chosen = alignment.of_kind(kind)
        sides = zip(("base", "new"), alignment.sides, strict=True)
        lacking = [name for name, side in sides if not side.counts[chosen].any()]
        if len(lacking) == 1:
            return f"no causes: the {lacking[0]} side has no {what}, and the other has: record both in the same way"
        if lacking:  # no device on either side: its runtime does not matter
            break
    program = alignment.of_kind("range", "operator", "loader", "collective")
    calls = [side.counts.sum(axis=1)[program] for side in alignment.sides]
    shared = (calls[0] > 0) & (calls[1] > 0)
    if all(one[shared].sum() < _LEAST_SHARED * one.sum() for one in calls):
        return "no causes: the two sides have hardly a call in common: they are not one program"
    return None


def _side(runs: Sequence[Placed], count: int) -> TreeSide:
    """Return the values of a side for the `count` nodes of both sides."""
    number = [index for index, run in enumerate(runs) for _ in range(run.tree.wall.shape[1])]
    walls: dict[str, list[Floats]] = defaultdict(list)
    for run in runs:
        for rank, wall in (run.tree.rank_wall or {}).items():
            walls[rank].append(run.wall(wall, count))
    memory = [run.wall(run.tree.memory, count) for run in runs if run.tree.memory is not None]
    blocks = [run.wall(run.tree.blocks, count) for run in runs if run.tree.blocks is not None]
    peaks = [run.tree.peak for run in runs if run.tree.peak is not None]
    return TreeSide(
        counts=np.concatenate([run.sums(run.tree.counts, count) for run in runs], axis=1),
        busy=np.concatenate([run.sums(run.tree.busy, count) for run in runs], axis=1),
        wall=np.concatenate([run.wall(run.tree.wall, count) for run in runs], axis=1),
        run=np.array(number, np.int64),
        rank_wall={rank: np.mean(found, axis=0) for rank, found in walls.items()},
        rank_runs={rank: np.stack(found, axis=1) for rank, found in walls.items()},
        error=np.stack([run.error(count) for run in runs], axis=1),
        memory=mean_of(memory, count),
        peak=float(np.mean(peaks)) if peaks else None,
        blocks=mean_of(blocks, count),
    )


class Finding(Struct, frozen=True):
    """A change of calls, which has `gone` or `come`; or a change of the time of calls that are made as before."""

    kind: CauseKind
    #: The nodes whose time it explains; no node belongs to two findings.
    nodes: frozenset[int]
    #: The node that shows it best, and the nodes whose children changed.
    lead: int
    parents: tuple[int, ...]
    #: The nodes that are called less often, and more often.
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()
    #: The ranks that caused it; empty if all did.
    ranks: tuple[str, ...] = ()
    #: New minus base in s per step, and its standard error.
    change: float = 0.0
    error: float = 0.0
    #: new / base: of thread blocks for `larger` and `smaller`, of the time of the host's operators for `host`.
    factor: float | None = None
    #: Those of `nodes` whose time is that of a device that idles because of it.
    idle: frozenset[int] = frozenset()

    @property
    def is_edit(self) -> bool:
        """True if calls came or went."""
        return bool(self.gone or self.come)
