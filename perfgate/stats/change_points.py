"""Change points: where the level of a history of runs changed for good.

The values are a statistic of each run, in order. The steps of the search, each with its source (1 to 4 are in
`change_point_search`):

1. Work on logarithms, so that a change is relative, if all values are positive; otherwise on values over their median.
2. Clip each value to 3 standard deviations around the median of its 9 neighbours (winsorizing, Tukey 1962), so that a
   single stall or outlier counts little and a new level of 5 runs counts in full.
3. Candidates are local maxima of the difference between the means of h runs before and after, h = 3, 6, 12, 24 (moving
   sums, MOSUM: Eichinger and Kirch 2018).
4. The cheapest segmentation among the candidates: squared error plus 3 s^2 ln n for each level (optimal partitioning,
   Jackson et al. 2005; modified BIC: Zhang and Siegmund 2007). Each point then moves to its best place.
5. Remove the weakest point again and again until each point passes a test of the two levels beside it. The variance of
   this test is inflated for autocorrelation, and includes a wander of the level: without the wander, any slow drift
   would be a certain change between long levels.
6. A level of fewer than 9 runs after which the old level returns is an excursion, and both its ends are removed.
7. A newest level of 5 to 8 runs has a t-test of its own. Its values are clipped around the old level (winsorizing
   again), so that a new level is found at its fifth run, and a burst of stalls is not taken for one. The variance is
   inflated as in step 5. Unclipped values then tell the exact place of each point (`place` in `change_point_search`).

`_MOST_P` of step 5 and `_NEWEST_P` of step 7 trade false points for speed of detection. `benchmarks/history.py`
measures both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perfgate.core import Better
from perfgate.core.run_history import ChangePoint
from perfgate.stats.change_point_search import (
    FEWEST_RUNS,
    HistoryValues,
    Stretches,
    candidates_of,
    levels_of,
    partition,
    place,
    possible_places,
    prepare,
    refine,
)
from perfgate.stats.distributions import FloatArray, IntArray, t_quantile

#: Expected change points per run, for the probability of a point.
_RATE = 0.01
_NORMAL_95 = 1.959963984540054
#: Step 6: a level of fewer runs after which the old level returns is an excursion. It returned if the new level differs
#: from the old one by less than this share of the excursion.
_LASTING, _RETURNED = 9, 0.5
#: Step 5: the two-sided p-value of a point; the wander of an unchanged level, and the least shift, in standard
#: deviations of a run.
_MOST_P, _WANDER, _LEAST_SHIFT = 5e-4, 0.15, 1.0
#: The levels beside a point are those of at most this many runs, because others are from another time; beside an
#: excursion, of at most the second number.
_REACH, _NEAR = 90, 30
#: If a variance is pooled with another one, the other one counts as this many runs.
_SHRINK_RUNS = 5.0
#: The places of a point are those with a log-likelihood at most this much less than the best. They include 94 to 98 %
#: of the true places, for shifts of 1.5 standard deviations and more. A newest level is counted from its likely places.
_POSSIBLE, _LIKELY = 3.0, 1.0
#: The lags of the autocorrelation.
_LAGS = 5
#: Step 7: the two-sided p-value of a newest level of five runs, and of a longer one, which was tested before. From this
#: many runs on it is tested as older levels are.
_NEWEST_P, _NEWEST_P_AGAIN, _LONG = 1e-4, 1e-5, 9
#: A newest level with this t in step 5 needs no test of step 7, so that one fast run among five does not hide it.
_CLEAR_T = 7.0
#: Step 7 uses at most this many runs of the old level, and at least the second number.
_OLD, _FEWEST_OLD = 150, 15
#: Step 7 clips values at this many standard deviations from the old level.
_CLIP = 2.5


@np.errstate(all="ignore")
def find_change_points(
    values: Sequence[float] | FloatArray,
    *,
    errors: Sequence[float] | FloatArray | None = None,
    better: Better = "lower",
    lasting: int = _LASTING,
) -> tuple[ChangePoint, ...]:
    """Return the points where the level of a history changed, oldest first.

    The newest level needs 5 runs. Outliers, shorter excursions and slow wander are not points. Multiplying positive
    values by a constant changes nothing but `before` and `after`.

    Parameters
    ----------
    values : (n,) one statistic per run, oldest first, in any unit. NaN, None and infinities are missing runs; indices
        count them.
    errors : (n,) the standard error of each value in the same unit, or None. A run with a larger error than usual
        counts less. NaN and 0 are unknown errors.
    better : "lower", "higher" or "neither": sets `worse`.
    lasting : a level of fewer runs after which the old level returns is an excursion.

    Returns
    -------
    tuple of `ChangePoint`. Empty for a constant history, and for fewer than 10 runs.

    Raises
    ------
    ValueError : `better` is unknown, `values` has more than one dimension, `errors` has another length, or an error is
        negative.
    """
    if better not in ("lower", "higher", "neither"):
        raise ValueError(f'better must be "lower", "higher" or "neither", not {better!r}')
    history = prepare(values, errors)
    if history is None:
        return ()
    points = _prune(history, refine(history, partition(history, candidates_of(history))), lasting)
    points = place(history, _with_newest(history, points))
    return tuple(_describe(history, points, better))


def _describe(history: HistoryValues, points: list[int], better: Better) -> list[ChangePoint]:
    """Return the points with their sizes; the intervals include the wander of both levels."""
    if not points:
        return []
    strengths = _strengths(history, points)
    bounds = [0, *points, len(history.y)]
    found = []
    for j, point in enumerate(points):
        start, end = bounds[j], bounds[j + 2]
        old = float(levels_of(history, np.array([max(start, point - _REACH)]), np.array([point])).mean[0])
        shift, t = float(strengths.shift[j]), float(strengths.t[j])
        half = _NORMAL_95 * abs(shift) / t  # t is the shift in standard errors
        before, after = history.level(old), history.level(old + shift)
        low, change, high = (_relative(history, before, d) for d in (shift - half, shift, shift + half))
        places = possible_places(history, start, point, end, _POSSIBLE)
        index, first, last = (int(history.at[i]) for i in (point, *places))
        probability = _probability(t, 1 / (1 / (point - start) + 1 / (end - point)))
        worse = None if better == "neither" else (shift > 0) == (better == "lower")
        found.append(ChangePoint(index, change, low, high, probability, before, after, first, last, worse))
    return found


def _relative(history: HistoryValues, before: float, shift: float) -> float:
    """Return a shift of the level, on the scale of the search, as after / before - 1."""
    if history.logs:
        return math.expm1(min(shift, 700.0))
    return shift * history.unit / abs(before) if before else math.copysign(math.inf, shift)


def _probability(t: float, runs: float) -> float:
    """Return the posterior probability of a change against none, with a prior of `_RATE`.

    The Bayes factor is exp(t^2 / 2) / sqrt(1 + n), with n = 1 / (1 / n1 + 1 / n2): a unit-information prior of the
    change (Kass and Wasserman 1995).
    """
    log_odds = math.log(_RATE / (1 - _RATE)) + t * t / 2 - math.log1p(runs) / 2
    return 1 / (1 + math.exp(-log_odds))


def _prune(history: HistoryValues, points: list[int], lasting: int) -> list[int]:
    """Steps 5 and 6: remove the weakest point until all pass, excursions (fewer than `lasting` runs) with both ends."""
    while points and not _enough_runs(history, points):
        points = points[:-1]
    while points:
        strength = _strengths(history, points).passes
        short = _excursions(history, points, lasting)
        weakest = int(short[np.argmin(strength[short])]) if len(short) else int(np.argmin(strength))
        if strength[weakest] >= 1 and not len(short):
            break
        points = points[:weakest] + points[weakest + 1 :]
        if len(short):  # only its start was removed; its end is now between two similar levels
            points = refine(history, points)
    return points


def _enough_runs(history: HistoryValues, points: list[int]) -> bool:
    """Return whether the newest level has 4 runs or more, and 5 or more from the earliest place where it may begin."""
    start, n = points[-2] if len(points) > 1 else 0, len(history.y)
    first, _ = possible_places(history, start, points[-1], n, _LIKELY)
    return n - points[-1] >= FEWEST_RUNS - 1 and n - first >= FEWEST_RUNS


class _Strengths(NamedTuple):
    """For each point: its t, the shift of the level, and the smaller of both over its least value: 1 or more passes."""

    t: FloatArray
    shift: FloatArray
    passes: FloatArray


def _strengths(history: HistoryValues, points: list[int]) -> _Strengths:
    """Compare the levels beside each point.

    t^2 = d^2 / (c (v1 / n1 + v2 / n2) + 2 w^2 v), where d is the shift, c the inflation for autocorrelation, w the
    wander, and v the variance of a run around its level in the whole history, at least (0.3 `noise`)^2, so that
    constant levels have one. The variances of the two sides, v1 and v2, are pooled with each other and with v, each as
    if it came from 5 more runs, so that a noisy stretch is not a new level. The degrees of freedom are half the runs,
    because clipped and correlated runs tell less about the noise.
    """
    bounds = np.array([0, *points, len(history.y)])
    means = levels_of(history, bounds[:-1], bounds[1:]).mean
    residuals = history.y - np.repeat(means, np.diff(bounds))
    variance = max(float(np.average(residuals * residuals, weights=history.weights)), (0.3 * history.noise) ** 2)
    here = bounds[1:-1]
    before = levels_of(history, np.maximum(bounds[:-2], here - _REACH), here)
    after = levels_of(history, here, np.minimum(bounds[2:], here + _REACH))
    # Each side is pooled with the other one, and only through it with the whole history.
    pooled = [_pool(before, _pool(after, variance)), _pool(after, _pool(before, variance))]
    squared_error = _inflation(residuals) * (pooled[0] / before.weight + pooled[1] / after.weight)
    shift = after.mean - before.mean
    t = np.abs(shift) / np.sqrt(squared_error + 2 * _WANDER**2 * variance)
    freedom = (before.weight + after.weight) / 2 - 1
    least_t = np.array([t_quantile(df, 1 - _MOST_P / 2) if df > 0 else np.inf for df in freedom.tolist()])
    least_shift = _LEAST_SHIFT * np.sqrt((pooled[0] + pooled[1]) / 2)
    return _Strengths(t, shift, np.minimum(t / least_t, np.abs(shift) / least_shift))


def _pool(side: Stretches, prior: float | FloatArray) -> FloatArray:
    """Return the variance of a side, pooled with a prior variance that counts as 5 runs."""
    return (side.variance * side.weight + prior * _SHRINK_RUNS) / (side.weight + _SHRINK_RUNS)


def _inflation(residuals: FloatArray) -> float:
    """Return the factor, 1 to about 6, by which the autocorrelation of residuals inflates the variance of a mean.

    It is 1 + 2 sum (1 - l / 6) r_l over 5 lags (Bartlett's weights), less half its standard error, which is
    2.47 / sqrt(n) without correlation, so that chance alone seldom inflates.
    """
    n, square = len(residuals), float(np.mean(residuals * residuals))
    if square <= 0:
        return 1.0
    lags = range(1, _LAGS + 1)
    products = [(1 - lag / 6) * float(np.mean(residuals[lag:] * residuals[:-lag])) for lag in lags]
    return max(1 + 2 * sum(products) / square - 0.5 * 2.47 / math.sqrt(n), 1.0)


def _excursions(history: HistoryValues, points: list[int], lasting: int) -> IntArray:
    """Return the positions in `points` of the starts of excursions: short levels after which the old level returns."""
    if len(points) < 2:
        return np.zeros(0, dtype=np.int64)
    bounds = np.array([0, *points, len(history.y)])
    begin, end = bounds[1:-2], bounds[2:-1]
    old = levels_of(history, np.maximum(bounds[:-3], begin - _NEAR), begin).mean
    short = levels_of(history, begin, end).mean
    new = levels_of(history, end, np.minimum(bounds[3:], end + _NEAR)).mean
    return np.flatnonzero((end - begin < lasting) & (np.abs(new - old) < _RETURNED * np.abs(short - old)))


def _with_newest(history: HistoryValues, points: list[int]) -> list[int]:
    """Step 7: return the points of older levels, and the start of the newest level if it passes its own test."""
    n = len(history.x)
    older = [point for point in points if n - point >= _LONG]
    if older != points and _strengths(history, points).t[-1] >= _CLEAR_T:
        return points
    newest = _newest_point(history, older[-1] if older else 0)
    if newest is None:
        return older
    found = [*older, refine(history, [*older, newest])[-1]]  # of these points, only the newest is moved
    return found if _enough_runs(history, found) else older


def _newest_point(history: HistoryValues, start: int) -> int | None:
    """Return where a newest level of five to eight runs begins, or None. `start`: the first run of the level before."""
    n = len(history.x)
    strongest, found = 1.0, None
    for count in range(FEWEST_RUNS, _LONG):
        first = max(start, n - count - _OLD)
        old = n - count - first
        if old < _FEWEST_OLD:
            break
        most_p = _NEWEST_P if count == FEWEST_RUNS else _NEWEST_P_AGAIN
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
    inflation = _inflation(clipped[:old] - before)
    return abs(after - before) / math.sqrt(inflation * (pooled / few + usual / runs))


def _level(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """Return the weighted mean, the variance around it, and the sum of the weights."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average((values - mean) ** 2, weights=weights)), float(weights.sum())
