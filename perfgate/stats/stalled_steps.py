"""Find the steps of traces that stalled: they took much longer than the usual step, without more work.

One stalled step of twelve moves the mean of a step by more than most changes do, and says nothing about the program. If
new steps stall clearly more often than base steps, the program may be the reason: then the new stalls count as steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field

from perfgate.stats.distributions import BoolArray, FloatArray

#: A stalled step is longer than the median of its side by this share, and by this many robust standard deviations.
_LONGER, _CLEAR = 0.25, 10.0
#: A step with more calls than the median step by this share does other work, and is not a stall.
_MORE_CALLS = 0.001
#: New steps stall more often than base steps if chance explains it in fewer cases (Fisher's exact test, one-sided).
_BY_CHANCE = 0.01
#: For each run of a side, which of its steps stalled.
StalledSteps: TypeAlias = tuple[BoolArray, ...]


class StepsOfRun(Struct, frozen=True):
    """The times (s,) in s of the steps of a run, and their calls (k, s) by rank or kind; empty if they are unknown."""

    times: FloatArray = field(default_factory=lambda: np.zeros(0))
    calls: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def stalled_steps(base: Sequence[StepsOfRun], new: Sequence[StepsOfRun]) -> tuple[StalledSteps, StalledSteps]:
    """Return, for both sides, which steps of their runs stalled; none of the new side if its stalls count as steps."""
    stored, found = (tuple(_stalled(run, side) for run in side) for side in (base, new))
    if _is_more_often(found, stored):
        found = tuple(np.zeros_like(marks) for marks in found)
    return stored, found


def _stalled(run: StepsOfRun, side: Sequence[StepsOfRun]) -> BoolArray:
    """Return which steps of a run are much longer than the median of its side, without more calls."""
    if not len(run.times):
        return np.zeros(0, dtype=np.bool_)
    usual = np.concatenate([one.times for one in side])  # of two steps, neither is far from their median
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))
    found: BoolArray = run.times > middle + max(_LONGER * middle, _CLEAR * spread)
    for calls in run.calls:
        found &= calls <= np.median(calls) * (1 + _MORE_CALLS)
    return np.zeros_like(found) if bool(found.all()) else found  # a run that is slow throughout did not stall


def _is_more_often(new: StalledSteps, base: StalledSteps) -> bool:
    """Return whether new steps stall clearly more often, by Fisher's exact test."""
    # The number of stalled steps, and of all steps, on the new side and on the base side.
    (stalled, before), (steps, others) = ([sum(map(count, side)) for side in (new, base)] for count in (np.sum, len))
    total = int(stalled + before)
    ways = sum(comb(steps, k) * comb(others, total - k) for k in range(int(stalled), total + 1))
    return ways < _BY_CHANCE * comb(steps + others, total)
