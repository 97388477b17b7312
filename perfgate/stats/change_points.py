"""Change points: where the level of a history of runs changed for good.

The values are a statistic of each run, in order. This file has the public functions and describes the points. The steps
of the search, each with its source (1 and 2 are in `change_point_values`, 3 and 4 in `change_point_search`, 5 and 6 in
`change_point_pruning`):

1. Work on logarithms, so that a change is relative, if all values are positive; otherwise on values over their median.
2. Clip each value to 3 standard deviations around the median of its 9 neighbours (winsorizing, Tukey 1962), so that a
   single stall or outlier counts little and a new level of 5 runs counts in full.
3. Candidates are local maxima of the difference between the means of h runs before and after, h = 3, 6, 12, 24 (moving
   sums, MOSUM: Eichinger and Kirch 2018).
4. The cheapest segmentation among the candidates: squared error plus 3 s^2 ln n for each level (optimal partitioning,
   Jackson et al. 2005; modified BIC: Zhang and Siegmund 2007). Each point then moves to its best place.
5. Remove the weakest point again and again until all pass a test of the two levels beside it. Its variance is
   inflated for autocorrelation, and includes a wander of the level: without it, long levels make any drift certain.
6. A level of fewer than 9 runs after which the old level returns is an excursion, and both its ends are removed.
7. A newest level of 5 to 8 runs has a t-test of its own: runs are clipped around the old level in its spread
   (winsorizing again), so that it is found at its fifth run and a burst of stalls is not. The variance is inflated as
   in step 5. Unclipped values then tell the exact place of each point (`place` in `change_point_search`).

`MOST_P` of steps 5 and 7 trades false points for speed of detection; `benchmarks/history.py` measures both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfgate.core import Better
from perfgate.core.run_history import ChangePoint
from perfgate.stats.change_point_pruning import LASTING, REACH, enough_runs, inflation_of, prune, strengths_of
from perfgate.stats.change_point_search import candidates_of, partition, place, possible_places, refine
from perfgate.stats.change_point_values import FEWEST_RUNS, HistoryValues, levels_of, prepare
from perfgate.stats.distributions import FloatArray, t_quantile

#: Expected change points per run, for the probability of a point.
RATE = 0.01
#: Two calls name the same point if their positions are at most this far apart.
SAME_POINT = 5
_NORMAL_95 = 1.959963984540054


@np.errstate(all="ignore")
def find_change_points(
    values: Sequence[float] | FloatArray,
    *,
    errors: Sequence[float] | FloatArray | None = None,
    better: Better = "lower",
    lasting: int = LASTING,
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
    points = prune(history, refine(history, partition(history, candidates_of(history))), lasting=lasting)
    points = place(history, with_newest(history, points))
    return tuple(_describe(history, points, better))


def _describe(history: HistoryValues, points: list[int], better: Better) -> list[ChangePoint]:
    """Return the points with their sizes. The interval includes the wander of both levels."""
    if not points:
        return []
    strengths = strengths_of(history, points)
    bounds = [0, *points, len(history.y)]
    found = []
    for j, point in enumerate(points):
        start, end = bounds[j], bounds[j + 2]
        old = levels_of(history, np.array([max(start, point - REACH)]), np.array([point]))
        shift, t = float(strengths.shift[j]), float(strengths.t[j])
        half = _NORMAL_95 * abs(shift) / t
        before, after = history.level(float(old.mean[0])), history.level(float(old.mean[0]) + shift)
        low, change, high = (_relative(history, before, d) for d in (shift - half, shift, shift + half))
        first, last = possible_places(history, start, point, end)
        runs = 1 / (1 / (point - start) + 1 / (end - point))
        index, first, last = (int(history.at[i]) for i in (point, first, last))
        probability = _probability(t, runs)
        worse = None if better == "neither" else (shift > 0) == (better == "lower")
        found.append(ChangePoint(index, change, low, high, probability, before, after, first, last, worse))
    return found


def _relative(history: HistoryValues, before: float, shift: float) -> float:
    if history.logs:
        return math.expm1(min(shift, 700.0))
    return shift * history.unit / abs(before) if before else math.copysign(math.inf, shift)


def _probability(t: float, runs: float) -> float:
    """Return the posterior probability of a change against none, with a prior of `RATE`.

    The Bayes factor is exp(t^2 / 2) / sqrt(1 + n), with n = 1 / (1 / n1 + 1 / n2): a unit-information prior of the
    change (Kass and Wasserman 1995).
    """
    log_odds = math.log(RATE / (1 - RATE)) + t * t / 2 - math.log1p(runs) / 2
    return 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0


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
