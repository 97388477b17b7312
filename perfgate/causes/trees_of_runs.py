"""The call trees of two sides of runs: those of their traces, or those made from the metrics of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from perfgate.causes.merged import RunTrees
from perfgate.causes.series_trees import range_trees, timer_trees
from perfgate.causes.table_trees import device_trees, host_trees, same_steps
from perfgate.core import Run

#: Make the trees of a run from its metrics, the best first.
_MAKERS: tuple[Callable[[Run], RunTrees], ...] = (timer_trees, device_trees, host_trees, range_trees)


def trees_of_runs(
    base: Sequence[Run], new: Sequence[Run], *, paired: bool = False
) -> Iterator[tuple[list[RunTrees], list[RunTrees]]]:
    """Yield the trees of the runs of both sides that have any, one for each rank of a run, the best trees first.

    Both sides have trees of the same kind: a trace is never compared with a log, or with a trace without calls. With
    `paired`, run i of both sides is a pair: one without trees takes the other with it.
    """
    traced = [[run.call_trees for run in side] for side in (base, new)]
    if any(any(side) for side in traced):
        sides = _with_trees(*traced, paired=paired)
        if all(sides):
            yield sides
        return
    for make in _MAKERS:
        with np.errstate(over="ignore", invalid="ignore"):  # a time near the largest float has an infinite variance
            sides = _with_trees(*([make(run) for run in side] for side in (base, new)), paired=paired)
        if all(sides):
            yield sides[0], same_steps(*sides)


def _with_trees(
    base: Sequence[RunTrees], new: Sequence[RunTrees], *, paired: bool
) -> tuple[list[RunTrees], list[RunTrees]]:
    """Return the runs that have trees; of pairs, those where both runs have some."""
    if not paired:
        return [run for run in base if run], [run for run in new if run]
    kept = [(one, other) for one, other in zip(base, new, strict=False) if one and other]
    return [one for one, _ in kept], [other for _, other in kept]
