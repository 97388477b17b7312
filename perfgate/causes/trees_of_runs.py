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


def trees_of_runs(base: Sequence[Run], new: Sequence[Run]) -> Iterator[tuple[list[RunTrees], list[RunTrees]]]:
    """Yield the trees of the runs of both sides that have any, one for each rank of a run, the best trees first.

    Both sides have trees of the same kind: a trace is never compared with a log, or with a trace without calls.
    """
    traced: list[list[RunTrees]] = [[run.call_trees for run in side if run.call_trees] for side in (base, new)]
    if all(traced):
        yield traced[0], traced[1]
    if any(traced):
        return
    for make in _MAKERS:
        with np.errstate(over="ignore", invalid="ignore"):  # a time near the largest float has an infinite variance
            sides = [[trees for run in side if (trees := make(run))] for side in (base, new)]
        if all(sides):
            yield sides[0], same_steps(*sides)
