"""The noise between runs that a history showed, against the runs that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perfgate.stats.distributions import f_tail
from perfgate.stats.moderated import has_logarithm, logs_of
from perfgate.stats.statistics import RunMeasure

#: The p-value below which the runs contradict the history. To believe a noise that is too low breaks the promise of
#: exit 0, and to reject the right one only costs another run: so the test is not at 1 %.
CONTRADICTED = 0.05


def runs_contradict(sides: Iterable[Sequence[RunMeasure]], prior: tuple[float, float]) -> bool:
    """Return whether runs differ, each side among itself, by more than a prior (s0, d0) says: an F test.

    The machine of today may be noisier than the machines that the history remembers.
    """
    squares, freedom, within = 0.0, 0, []
    for measures in sides:
        if len(measures) > 1 and all(map(has_logarithm, measures)):
            logs = logs_of(measures)
            squares += float(np.square(logs - logs.mean()).sum())
            freedom += len(logs) - 1
            within += [run.within_variance or 0.0 for run in measures]
    if not freedom:
        return False
    expected = prior[0] ** 2 + sum(within) / len(within)
    return f_tail(freedom, prior[1], squares / freedom / expected) < CONTRADICTED
