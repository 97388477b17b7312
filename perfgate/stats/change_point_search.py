"""Search the places where the level may change: candidates, the cheapest segmentation, and exact places.

These are steps 3 and 4 of `change_points`.
"""

from __future__ import annotations

import math

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
        high = np.flatnonzero(z > 2)
        highest = sliding_window_view(np.pad(z, near), 2 * near + 1)[high].max(axis=1)
        found.append(places[high[z[high] >= highest]])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _cost(history: HistoryValues, start: IntArray, end: IntArray) -> FloatArray:
    """Return the squared error of stretches around their means; the arguments are broadcast."""
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    return np.asarray(squares - total * total / np.where(weight > 0, weight, np.inf))


def partition(history: HistoryValues, candidates: IntArray) -> list[int]:
    """Step 4: return the points of the cheapest segmentation whose levels have 5 runs, the newest 3."""
    n = len(history.y)
    bounds = np.concatenate(([0], candidates, [n]))
    weight, total, _ = history.sums[:, bounds]
    penalty = _PENALTY * history.noise**2 * math.log(n)
    # `rest`: the cheapest cost of the runs before a bound, less their squares, which every segmentation has.
    rest, previous = np.full(len(bounds), np.inf), np.zeros(len(bounds), dtype=np.int64)
    rest[0] = 0.0
    lasts = np.searchsorted(bounds, np.append(bounds[:-1] - FEWEST_RUNS, n - FEWEST_RUNS + 2), side="right")
    for j, last in enumerate(lasts.tolist()):
        if last > 0:
            costs = rest[:last] - np.square(total[j] - total[:last]) / (weight[j] - weight[:last])
            previous[j] = costs.argmin()
            rest[j] = costs[previous[j]] + penalty
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
