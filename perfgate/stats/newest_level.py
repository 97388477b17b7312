"""The newest level of a history: a test that needs only five runs of it.

This is step 7 of `change_points`. Among few runs, a burst of outliers is the danger. So runs are clipped around the old
level, in its own spread: two stalls among five runs are not a new level, and five runs that all moved by two standard
deviations are.
"""

from __future__ import annotations

import math

import numpy as np

from perfgate.stats.change_point_pruning import enough_runs, inflation_of, strengths_of
from perfgate.stats.change_point_search import refine
from perfgate.stats.change_point_values import FEWEST_RUNS, HistoryValues
from perfgate.stats.distributions import FloatArray, t_quantile

#: A newest level with this many runs is tested as older levels are.
_LONG = 9
#: The two-sided p-value of a level of five runs, and of a longer one, which was tested before.
MOST_P, _MOST_P_AGAIN = 1e-4, 1e-5
#: A point with this t in step 5 needs no other test, so that one fast run among five does not hide it.
_CLEAR_T = 7.0
#: The runs of the old level that are compared, and the fewest.
_REACH, _FEWEST_OLD = 150, 15
_CLIP = 2.5
#: The variance of the new runs is pooled with that of the old ones, which counts as this many runs.
_SHRINK_RUNS = 5.0


def with_newest(history: HistoryValues, points: list[int]) -> list[int]:
    """Step 7: return the points of older levels, and the begin of the newest level if it passes its own test."""
    n = len(history.x)
    older = [point for point in points if n - point >= _LONG]
    if older != points and strengths_of(history, points).t[-1] >= _CLEAR_T:
        return points
    newest = _newest_point(history, older[-1] if older else 0)
    if newest is None:
        return older
    found = [*older, refine(history, [*older, newest])[-1]]
    return found if enough_runs(history, found) else older


def _newest_point(history: HistoryValues, start: int) -> int | None:
    """Return where a newest level of five to eight runs begins; `start` is the first run of the level before."""
    n = len(history.x)
    strongest, found = 1.0, None
    for count in range(FEWEST_RUNS, _LONG):
        first = max(start, n - count - _REACH)
        old = n - count - first
        if old < _FEWEST_OLD:
            break
        most_p = MOST_P if count == FEWEST_RUNS else _MOST_P_AGAIN
        strength = _t(history.x[first:], history.weights[first:], old) / t_quantile(old / 2, 1 - most_p / 2)
        if strength >= strongest:
            strongest, found = strength, n - count
    return found


def _t(x: FloatArray, weights: FloatArray, old: int) -> float:
    """Return the difference between the first `old` runs and the others, in standard errors.

    The degrees of freedom are half the old runs, because clipped and correlated runs tell less about the noise.
    """
    centre = float(np.median(x[:old]))
    low, high = np.quantile(x[:old], (0.1, 0.9))
    spread = max(1.4826 * float(np.median(np.abs(x[:old] - centre))), float(high - low) / 2.563)
    if spread == 0:
        return 0.0
    clipped = np.clip((x - centre) / spread, -_CLIP, _CLIP)
    before, usual, runs = _level(clipped[:old], weights[:old])
    after, own, few = _level(clipped[old:], weights[old:])
    pooled = (own * few + usual * _SHRINK_RUNS) / (few + _SHRINK_RUNS)
    inflation = inflation_of(clipped[:old] - before)
    return abs(after - before) / math.sqrt(inflation * (pooled / few + usual / runs))


def _level(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """Return the weighted mean, the variance around it, and the sum of the weights."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average((values - mean) ** 2, weights=weights)), float(weights.sum())
