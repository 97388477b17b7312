"""The call trees of two sides of runs: those of their traces, or those made from the metrics of both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from perfgate.causes.merged import RunTrees
from perfgate.causes.series_trees import timer_trees
from perfgate.core import Run

#: Make the trees of a run from its metrics; the first that both sides have are compared.
_MAKERS: tuple[Callable[[Run], RunTrees], ...] = (timer_trees,)


@np.errstate(over="ignore", invalid="ignore")  # a time near the largest float has an infinite variance
def trees_of_runs(base: Sequence[Run], new: Sequence[Run]) -> tuple[list[RunTrees], list[RunTrees]] | None:
    """Return the trees of the runs of both sides that have any, one for each rank of a run.

    Both sides have trees of the same kind: a trace is never compared with a log. None if there is no such kind.
    """
    makers: tuple[Callable[[Run], RunTrees], ...] = (lambda run: run.call_trees, *_MAKERS)
    for make in makers:
        sides = [[trees for run in side if (trees := make(run))] for side in (base, new)]
        if all(sides):
            return sides[0], sides[1]
    return None
