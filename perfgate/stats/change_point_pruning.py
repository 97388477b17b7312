"""Find the places where the level may change, and keep the lasting changes: steps 3 to 6 of `change_points`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from perfgate.stats.change_point_values import FEWEST_RUNS, HistoryValues, IntArray, levels_of
from perfgate.stats.distributions import FloatArray

_PENALTY = 3.0
_SCALES = (3, 6, 12, 24)


def candidates_of(history: HistoryValues) -> IntArray:
    """Step 3: return the indices where moving sums differ by 2 standard errors and most, ascending."""
    totals, n = history.sums[:2], len(history.y)
    found = []
    for h in _SCALES:
        if n < 2 * h:
            break
        places = np.arange(h, n - h + 1)
        (before, y_before), (after, y_after) = (
            totals[:, h : n - h + 1] - totals[:, : n - 2 * h + 1],
            totals[:, 2 * h :] - totals[:, h : n - h + 1],
        )
        z = np.abs(y_after / after - y_before / before) / (history.noise * np.sqrt(1 / before + 1 / after))
        near = max(h // 2, 1)
        highest = sliding_window_view(np.pad(z, near), 2 * near + 1).max(axis=1)
        found.append(places[(z >= highest) & (z > 2)])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _cost(history: HistoryValues, start: IntArray, end: IntArray) -> FloatArray:
    """Return the squared error of stretches around their means; the arguments are broadcast."""
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    return np.asarray(squares - total * total / np.where(weight > 0, weight, np.inf))


def partition(history: HistoryValues, candidates: IntArray) -> list[int]:
    """Step 4: return the points of the cheapest segmentation whose levels have 5 runs, the newest 3."""
    n = len(history.y)
    bounds = np.concatenate(([0], candidates, [n]))
    lengths = bounds - bounds[:, np.newaxis]
    cost = _cost(history, bounds[:, np.newaxis], bounds[np.newaxis])
    fewest = np.where(bounds == n, FEWEST_RUNS - 2, FEWEST_RUNS)
    cost[lengths < fewest] = np.inf
    penalty = _PENALTY * history.noise**2 * math.log(n)
    best, previous = np.full(len(bounds), np.inf), np.zeros(len(bounds), dtype=np.int64)
    best[0] = 0.0
    for j in range(1, len(bounds)):
        costs = best[:j] + cost[:j, j]
        previous[j] = costs.argmin()
        best[j] = costs[previous[j]] + penalty
    points = []
    j = int(previous[-1])
    while j > 0:
        points.append(int(bounds[j]))
        j = int(previous[j])
    return points[::-1]


def refine(history: HistoryValues, points: list[int]) -> list[int]:
    """Move each point to the cheapest place within 8 runs between its neighbours, twice."""
    bounds = [0, *points, len(history.y)]
    for _ in range(2):
        for j in range(1, len(bounds) - 1):
            places = np.arange(max(bounds[j - 1] + 1, bounds[j] - 8), min(bounds[j + 1] - 1, bounds[j] + 8) + 1)
            bounds[j] = int(places[np.argmin(_split_cost(history, bounds[j - 1], places, bounds[j + 1]))])
    return bounds[1:-1]


def _split_cost(history: HistoryValues, start: int, places: IntArray, end: int) -> FloatArray:
    """Return the squared error of two levels from `start` to `end`, for each place where the second begins."""
    edge = np.array([start, end])
    return _cost(history, edge[:1], places) + _cost(history, places, edge[1:])


def possible_places(history: HistoryValues, start: int, point: int, end: int, reach: int = 8) -> tuple[int, int]:
    """Return the first and the last place where the log-likelihood is at most 1 below that of `point`."""
    places = np.arange(max(start + 1, point - reach), min(end - 1, point + reach) + 1)
    cost = _split_cost(history, start, places, end)
    close = places[cost <= cost[places == point] + 2 * history.noise**2]
    return int(close[0]), int(close[-1])


def place(history: HistoryValues, points: list[int]) -> list[int]:
    """Move each point by up to 3 runs to the smallest sum of absolute deviations from the two levels.

    Step 2 may clip a value beside a step to the wrong side if an outlier is near; unclipped values tell the place.
    """
    bounds = np.array([0, *points, len(history.y)])
    means = levels_of(history, bounds[:-1], bounds[1:]).mean
    placed: list[int] = []
    for point, start, end, before, after in zip(points, bounds, bounds[2:], means, means[1:], strict=False):
        lowest, highest = max(int(start) + 1, point - 3), min(int(end) - 1, point + 3)
        near = slice(lowest, highest)
        gain = np.cumsum((np.abs(history.x[near] - before) - np.abs(history.x[near] - after)) * history.weights[near])
        best = int(np.argmin(np.concatenate(([0.0], gain))))
        placed.append(max(lowest + best, placed[-1] + 1 if placed else 1))
    return placed


#: The two-sided p-value that a point must have in a t-test. A newest level of less than `REACH` runs has a share
#: of it: it is tested again with every run, and the runs within reach have more stretches of its length.
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


def prune(history: HistoryValues, points: list[int]) -> list[int]:
    """Steps 5 and 6: remove the weakest point until all pass, excursions with both their ends."""
    while points and not enough_runs(history, points):
        points = points[:-1]
    while points:
        strength = strengths_of(history, points).passes
        short = _excursions(history, points)
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
    from scipy.special import stdtrit

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
    most_p = MOST_P * np.where(bounds[2:] < bounds[-1], 1.0, np.minimum(after.weight / REACH, 1.0))
    least_t = stdtrit((before.weight + after.weight) / 2 - 1, 1 - most_p / 2)
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


def _excursions(history: HistoryValues, points: list[int]) -> IntArray:
    """Return the positions in `points` where a short level begins after which the old level returns."""
    if len(points) < 2:
        return np.zeros(0, dtype=np.int64)
    bounds = np.array([0, *points, len(history.y)])
    begin, end = bounds[1:-2], bounds[2:-1]
    old = levels_of(history, np.maximum(bounds[:-3], begin - 30), begin).mean
    short = levels_of(history, begin, end).mean
    new = levels_of(history, end, np.minimum(bounds[3:], end + 30)).mean
    return np.flatnonzero((end - begin < LASTING) & (np.abs(new - old) < RETURNED * np.abs(short - old)))
