"""Steps of traces that stalled: several times as long as their neighbours, without more work.

One stalled step of twelve moves the mean of a step by more than most changes do, and says nothing of the program. If
new steps stall clearly more often than base steps, the program may be the reason, and their times count.
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
#: More calls than the median step, as a share: then it is other work, not a stall.
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
    """Return which steps of the runs of both sides stalled; none of the new side if they count."""
    stored, found = (tuple(_stalled(run, side) for run in side) for side in (base, new))
    if _is_more_often(found, stored):
        found = tuple(np.zeros_like(marks) for marks in found)
    return stored, found


def _stalled(run: StepsOfRun, side: Sequence[StepsOfRun]) -> BoolArray:
    if not len(run.times):
        return np.zeros(0, dtype=np.bool_)
    usual = np.concatenate([one.times for one in side])  # of two steps, neither is far from their median
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))
    found: BoolArray = run.times > middle + max(_LONGER * middle, _CLEAR * spread)
    for calls in run.calls:
        found &= calls <= np.median(calls) * (1 + _MORE_CALLS)
    return np.zeros_like(found) if bool(found.all()) else found


def _is_more_often(new: StalledSteps, base: StalledSteps) -> bool:
    (stalled, before), (steps, others) = ([sum(map(count, side)) for side in (new, base)] for count in (np.sum, len))
    total = int(stalled + before)
    ways = sum(comb(steps, k) * comb(others, total - k) for k in range(int(stalled), total + 1))
    return ways < _BY_CHANCE * comb(steps + others, total)
