"""Choose the candidates that are lasting changes: a test of each point, and a rule for excursions.

These are steps 5 and 6 of `change_points`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perfgate.stats.change_point_search import possible_places, refine
from perfgate.stats.change_point_values import FEWEST_RUNS, HistoryValues, IntArray, levels_of
from perfgate.stats.distributions import FloatArray, t_quantile

#: The two-sided p-value that a point must have in a t-test.
MOST_P = 5e-4
#: The standard deviation of an unchanged level's wander, in standard deviations of a run.
WANDER = 0.15
#: The levels on the two sides must differ by this many standard deviations of a run.
LEAST_SHIFT = 1.0
#: A shorter level after which the old one returns is an excursion.
LASTING = 9
#: The old level returned if this share of the change, or less, remains.
RETURNED = 0.5
#: Runs within this distance of a point tell about it; others are from another time.
REACH = 90
_SHRINK_RUNS = 5.0
_LAGS = 5


def prune(history: HistoryValues, points: list[int], *, lasting: int = LASTING) -> list[int]:
    """Steps 5 and 6: remove the weakest point until all pass, excursions (fewer than `lasting` runs) with both ends."""
    while points and not enough_runs(history, points):
        points = points[:-1]
    while points:
        strength = strengths_of(history, points).passes
        short = _excursions(history, points, lasting)
        weakest = int(short[np.argmin(strength[short])]) if len(short) else int(np.argmin(strength))
        if strength[weakest] >= 1 and not len(short):
            break
        points = points[:weakest] + points[weakest + 1 :]
        if len(short):
            points = refine(history, points)
    return points


def enough_runs(history: HistoryValues, points: list[int]) -> bool:
    """Return whether the newest level has 4 runs and may have 5 or more."""
    start, n = points[-2] if len(points) > 1 else 0, len(history.y)
    first, _ = possible_places(history, start, points[-1], n, reach=3)
    return n - points[-1] >= FEWEST_RUNS - 1 and n - first >= FEWEST_RUNS


class Strengths(NamedTuple):
    """Of each point its t, the shift of the level, and the smaller of both over what it must be: 1 or more passes."""

    t: FloatArray
    shift: FloatArray
    passes: FloatArray


def strengths_of(history: HistoryValues, points: list[int]) -> Strengths:
    """Compare the levels beside each point.

    t^2 = d^2 / (c (v1 / n1 + v2 / n2) + 2 w^2 v). The variance v of a run around its level is that of all levels; those
    of the two sides, v1 and v2, are pooled with each other and with it, each as if it came from 5 more runs, so that a
    noisy stretch is not a new level. c is the inflation for autocorrelation, and w the wander. The degrees of freedom
    are half the runs, because clipped and correlated runs tell less about the noise.
    """
    bounds = np.array([0, *points, len(history.y)])
    inflation, variance = _noise_around(history, bounds)
    here = bounds[1:-1]
    before = levels_of(history, np.maximum(bounds[:-2], here - REACH), here)
    after = levels_of(history, here, np.minimum(bounds[2:], here + REACH))
    sides = [(side.variance * side.weight, side.weight) for side in (before, after)]
    nearby = [_pool(squares, weight, variance) for squares, weight in sides]
    # Each side is pooled with the other one, and only through it with the whole history.
    pooled = [_pool(*sides[0], nearby[1]), _pool(*sides[1], nearby[0])]
    squared_error = inflation * (pooled[0] / before.weight + pooled[1] / after.weight)
    shift = after.mean - before.mean
    t = np.abs(shift) / np.sqrt(squared_error + 2 * WANDER**2 * variance)
    freedom = (before.weight + after.weight) / 2 - 1
    least_t = np.array([t_quantile(df, 1 - MOST_P / 2) if df > 0 else np.inf for df in freedom.tolist()])
    least_shift = LEAST_SHIFT * np.sqrt((pooled[0] + pooled[1]) / 2)
    return Strengths(t, shift, np.minimum(t / least_t, np.abs(shift) / least_shift))


def _pool(squares: FloatArray, weight: FloatArray, prior: float | FloatArray) -> FloatArray:
    """Return a variance from a sum of squares and a prior variance that counts as 5 runs."""
    return (squares + prior * _SHRINK_RUNS) / (weight + _SHRINK_RUNS)


def _noise_around(history: HistoryValues, bounds: IntArray) -> tuple[float, float]:
    """Return the variance inflation of a mean by autocorrelation, and the variance of a run around its level."""
    means = levels_of(history, bounds[:-1], bounds[1:]).mean
    residuals = history.y - np.repeat(means, np.diff(bounds))
    variance = float(np.average(residuals * residuals, weights=history.weights))
    return inflation_of(residuals), max(variance, (0.3 * history.noise) ** 2)


def inflation_of(residuals: FloatArray) -> float:
    """Return the variance inflation of a mean by the autocorrelation of residuals, 1 to 6.

    It is 1 + 2 sum (1 - l / 6) r_l over 5 lags (Bartlett's weights), less half its standard error, which is
    2.47 / sqrt(n) without correlation, so that chance alone seldom inflates.
    """
    n, square = len(residuals), float(np.mean(residuals * residuals))
    if square <= 0:
        return 1.0
    lags = range(1, min(_LAGS, n - 6) + 1)
    products = [(1 - lag / 6) * float(np.mean(residuals[lag:] * residuals[:-lag])) for lag in lags]
    return min(max(1 + 2 * sum(products) / square - 0.5 * 2.47 / math.sqrt(n), 1.0), 6.0)


def _excursions(history: HistoryValues, points: list[int], lasting: int) -> IntArray:
    """Return the positions in `points` where a short level begins after which the old level returns."""
    if len(points) < 2:
        return np.zeros(0, dtype=np.int64)
    bounds = np.array([0, *points, len(history.y)])
    begin, end = bounds[1:-2], bounds[2:-1]
    old = levels_of(history, np.maximum(bounds[:-3], begin - 30), begin).mean
    short = levels_of(history, begin, end).mean
    new = levels_of(history, end, np.minimum(bounds[3:], end + 30)).mean
    return np.flatnonzero((end - begin < lasting) & (np.abs(new - old) < RETURNED * np.abs(short - old)))
