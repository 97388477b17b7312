"""Steps 1 to 4 of `change_points`: the values of a history, one for each run, and where its level may change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from perfgate.stats.distributions import FloatArray, IntArray

#: The fewest runs of a level. The start of the newest level is uncertain: at least this many runs may belong to it.
FEWEST_RUNS = 5
#: Values are clipped at this many standard deviations from the median of their neighbours.
_CLIP = 3.0
#: Differences from the median of 9 neighbours are smaller than those from the level by about this factor.
_TO_LEVEL = 1.1
_NEIGHBOURS = 4
#: Relative differences below this are rounding.
ROUNDING = 1e-9
#: The squares of larger values would not fit into a float.
_LARGEST = 1e100
#: The penalty for each level, in squared noise times ln n; the numbers of runs on each side whose means are compared.
_PENALTY = 3.0
_SCALES = (3, 6, 12, 24)


class HistoryValues(NamedTuple):
    """The runs that have a value, and that value on the scale of the search.

    `at` (n,) are the indices of the runs, `x` (n,) the values less `offset`, `y` (n,) the same after clipping,
    `weights` (n,) at most 1, and `noise` the standard deviation of a run. `sums` (3, n + 1) are cumulative sums of the
    weights, of weight x y and of weight x y^2. In the unit of the values, y is `unit` x exp(y + offset) if `logs` is
    True, and `unit` x (y + offset) otherwise.
    """

    at: IntArray
    x: FloatArray
    y: FloatArray
    weights: FloatArray
    noise: float
    sums: FloatArray
    unit: float
    offset: float
    logs: bool

    def level(self, y: float) -> float:
        """Return a level in the unit of the values."""
        return self.unit * (math.exp(y + self.offset) if self.logs else y + self.offset)


class Stretches(NamedTuple):
    """The weight, the mean and the variance of stretches of runs, one number each for every stretch."""

    weight: FloatArray
    mean: FloatArray
    variance: FloatArray


def prepare(values: Sequence[float] | FloatArray, errors: Sequence[float] | FloatArray | None) -> HistoryValues | None:
    """Return the values after steps 1 and 2, or None if no change point is possible. Raises ValueError."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise ValueError(f"values must be a sequence of numbers, not {given.ndim}-dimensional")
    at = np.flatnonzero(np.isfinite(given))
    known = _known_errors(errors, len(given))[at]
    x = given[at]
    if len(x) < 2 * FEWEST_RUNS or x.min() == x.max():
        return None
    unit = float(np.median(np.abs(x))) or float(np.abs(x).max())
    logs = bool(x.min() > 0)
    scaled = np.log(x / unit) if logs else x / unit
    scaled = np.clip(scaled, -_LARGEST, _LARGEST)
    centre = _running_median(scaled)
    noise = _TO_LEVEL * _spread(scaled - centre)
    y = np.clip(scaled, centre - _CLIP * noise, centre + _CLIP * noise)
    noise = max(noise if noise > 0 else float(y.std()), ROUNDING)  # 0 if most values equal the median of neighbours
    weights = _weights(known / (x if logs else unit), noise)
    offset = float(np.median(y))
    y = y - offset  # so that the sums keep their digits
    sums = np.zeros((3, len(y) + 1))
    np.cumsum([weights, weights * y, weights * y * y], axis=1, out=sums[:, 1:])
    return HistoryValues(at, scaled - offset, y, weights, noise, sums, unit, offset, logs)


def _known_errors(errors: Sequence[float] | FloatArray | None, n: int) -> FloatArray:
    """Return the errors (n,), NaN where they are not known. Raises ValueError."""
    if errors is None:
        return np.full(n, np.nan)
    known = np.asarray(errors, dtype=np.float64)
    if known.shape != (n,):
        raise ValueError(f"errors must have one number for each of the {n} values, not the shape {known.shape}")
    if (known < 0).any():
        raise ValueError("an error is a standard error and must not be negative")
    return np.where(known > 0, known, np.nan)


def _weights(relative_errors: FloatArray, noise: float) -> FloatArray:
    """Return s^2 / (s^2 + e^2 - m^2), at most 1, for each error e: the noise s includes the median error m."""
    if np.isnan(relative_errors).all():
        return np.ones(len(relative_errors))
    squares = np.square(np.nan_to_num(relative_errors, nan=0.0))
    usual = float(np.nanmedian(np.square(relative_errors)))
    weights = noise**2 / (noise**2 + np.maximum(squares - usual, 0.0))
    return np.maximum(weights, ROUNDING)


def _running_median(x: FloatArray) -> FloatArray:
    """Return the median of each value and up to 4 neighbours on each side; fewer at the ends."""
    h = _NEIGHBOURS
    centre = np.empty(len(x))
    centre[h:-h] = np.partition(sliding_window_view(x, 2 * h + 1), h, axis=1)[:, h]  # three times as fast as np.median
    for i in range(h):
        centre[i] = np.median(x[: i + h + 1])
        centre[-1 - i] = np.median(x[-1 - i - h :])
    return centre


def _spread(residuals: FloatArray) -> float:
    """Return a standard deviation, the larger one by the MAD and by the 10-90 % range: with two modes the MAD is 0."""
    low, high = np.quantile(residuals, (0.1, 0.9))
    return float(max(1.4826 * np.median(np.abs(residuals)), (high - low) / 2.563))


def levels_of(history: HistoryValues, start: IntArray, end: IntArray) -> Stretches:
    """Return the weight, the mean and the variance of the runs from each `start` to before each `end`."""
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    mean = total / weight
    return Stretches(weight, mean, np.maximum(squares / weight - mean * mean, 0.0))


def candidates_of(history: HistoryValues) -> IntArray:
    """Step 3: return the places where the means of h runs before and after differ most, by over 2 standard errors."""
    totals, n = history.sums[:2], len(history.y)
    found = []
    for h in _SCALES:
        if n < 2 * h:
            break
        # The weights, and the sums of weight x y, of the h runs before and after each place from h to n - h.
        (before, y_before), (after, y_after) = np.diff(
            (totals[:, : n - 2 * h + 1], totals[:, h : n - h + 1], totals[:, 2 * h :]), axis=0
        )
        z = np.abs(y_after / after - y_before / before) / (history.noise * np.sqrt(1 / before + 1 / after))
        near = h // 2
        high = np.flatnonzero(z > 2)
        highest = sliding_window_view(np.pad(z, near), 2 * near + 1)[high].max(axis=1)
        found.append(h + high[z[high] >= highest])  # z[i] is that of the place h + i
    return np.unique(np.concatenate(found))


def partition(history: HistoryValues, candidates: IntArray) -> list[int]:
    """Step 4: return the points of the cheapest segmentation whose levels have at least 5 runs, the newest level 3."""
    n = len(history.y)
    bounds = np.concatenate(([0], candidates, [n]))
    weight, total, _ = history.sums[:, bounds]
    penalty = _PENALTY * history.noise**2 * math.log(n)
    # `rest`: the cheapest cost of the runs before a bound. The cost of a level is its squared error, sum of squares
    # less total^2 / weight; the sum of squares is left out, because it is equal in every segmentation.
    rest, previous = np.full(len(bounds), np.inf), np.zeros(len(bounds), dtype=np.int64)
    rest[0] = 0.0
    # For each bound, the number of earlier bounds at which its level may begin. The newest level may be 2 runs shorter,
    # because `refine` may move its start to an earlier run.
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
    """Move each point to the cheapest place within 8 runs between its neighbours; twice, because these move, too."""
    bounds = [0, *points, len(history.y)]
    for _ in range(2):
        for j in range(1, len(bounds) - 1):
            places = np.arange(max(bounds[j - 1] + 1, bounds[j] - 8), min(bounds[j + 1] - 1, bounds[j] + 8) + 1)
            bounds[j] = int(places[np.argmin(_split_cost(history, bounds[j - 1], places, bounds[j + 1]))])
    return bounds[1:-1]


def _split_cost(history: HistoryValues, start: int, places: IntArray, end: int) -> FloatArray:
    """Return the squared error of two levels from `start` to `end`, for each place where the second begins."""
    sums = history.sums[:, places]
    parts = (sums - history.sums[:, [start]], history.sums[:, [end]] - sums)
    one, other = (squares - total * total / weight for weight, total, squares in parts)
    return np.asarray(one + other)


def possible_places(history: HistoryValues, start: int, point: int, end: int, below: float) -> tuple[int, int]:
    """Return the first and last place within 8 runs whose log-likelihood is at most `below` less than at `point`."""
    places = np.arange(max(start + 1, point - 8), min(end - 1, point + 8) + 1)
    cost = _split_cost(history, start, places, end)
    close = places[cost <= cost[places == point] + 2 * below * history.noise**2]
    return int(close[0]), int(close[-1])


def place(history: HistoryValues, points: list[int]) -> list[int]:
    """Move each point by up to 3 runs to the smallest sum of absolute deviations from the two levels.

    Step 2 may clip a value beside a step to the wrong side if an outlier is near. So the unclipped values decide here.
    """
    bounds = np.array([0, *points, len(history.y)])
    means = levels_of(history, bounds[:-1], bounds[1:]).mean
    placed: list[int] = []
    for point, start, end, before, after in zip(points, bounds, bounds[2:], means, means[1:], strict=False):
        lowest, highest = max(int(start) + 1, point - 3), min(int(end) - 1, point + 3)
        near = slice(lowest, highest)
        # The change of the sum of deviations for each run that goes from the level after to the level before.
        gain = np.cumsum((np.abs(history.x[near] - before) - np.abs(history.x[near] - after)) * history.weights[near])
        best = int(np.argmin(np.concatenate(([0.0], gain))))
        placed.append(max(lowest + best, placed[-1] + 1 if placed else 1))
    return placed
