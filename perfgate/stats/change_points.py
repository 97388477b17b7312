"""Change points: where the level of a history of runs changed for good.

The values are a statistic of each run, in order. The steps of the search, each with its source:

1. Work on logarithms, so that a change is relative, if all values are positive; otherwise on values over their median.
2. Clip each value to 3 standard deviations around the median of its 9 neighbours (winsorizing, Tukey 1962), so that a
   single stall or outlier counts little and a new level of 5 runs counts in full.
3. Candidates are local maxima of the difference between the means of h runs before and after, h = 3, 6, 12, 24 (moving
   sums, MOSUM: Eichinger and Kirch 2018).
4. The cheapest segmentation among the candidates: squared error plus 3 s^2 ln n for each level (optimal partitioning,
   Jackson et al. 2005; modified BIC: Zhang and Siegmund 2007). Each point then moves to its best place.
5. Remove the weakest point again and again until all pass a test of the two levels beside it. Its variance is
   inflated for autocorrelation, and includes a wander of the level: without it, long levels make any drift certain.
6. A level of fewer than 9 runs after which the old level returns is an excursion, and both its ends are removed. The
   newest level needs 5 runs. Unclipped values then tell the exact place.

`MOST_P` trades false points for speed of detection; `benchmarks/history.py` measures both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from perfgate.core import Better
from perfgate.stats.distributions import FloatArray

IntArray = npt.NDArray[np.int64]

#: The two-sided p-value that a point must have in a t-test.
MOST_P = 5e-4
#: The standard deviation of an unchanged level's wander, in standard deviations of a run.
WANDER = 0.15
#: The levels on the two sides must differ by this many standard deviations of a run.
LEAST_SHIFT = 1.0
#: The fewest runs of a level; those of the newest are the fewest that may belong to it.
FEWEST_RUNS = 5
#: A shorter level after which the old one returns is an excursion.
LASTING = 9
#: The old level returned if this share of the change, or less, remains.
RETURNED = 0.5
#: Runs within this distance of a point tell about it; others are from another time.
REACH = 90
#: Expected change points per run, for the probability of a point.
RATE = 0.01
#: Two calls name the same point if their positions are at most this far apart.
SAME_POINT = 5

_PENALTY = 3.0
_CLIP = 3.0
#: Differences from the median of 9 neighbours are smaller than those from the level by about this factor.
_TO_LEVEL = 1.1
_NEIGHBOURS = 4
_SCALES = (3, 6, 12, 24)
_SHRINK_RUNS = 5.0
_LAGS = 5
#: Relative differences below this are rounding.
_ROUNDING = 1e-9
#: The squares of larger values would not fit into a float.
_LARGEST = 1e100
_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """One change of the level.

    `index` is the first run of the new level, and `first` to `last` are the indices where it may begin as well (a drop
    of the log-likelihood of at most 2; for a normal step of one standard deviation, some 95 %). `before` and `after`
    are the levels in the unit of the values. `change` is after / before - 1, with a 95 % interval from `low` to `high`,
    and is relative to |before| if some value is not positive. `probability` is that of a lasting change against none.
    `worse` is None if the direction has no meaning (`better="neither"`).
    """

    index: int
    change: float
    low: float
    high: float
    probability: float
    before: float
    after: float
    first: int
    last: int
    worse: bool | None


@np.errstate(all="ignore")
def find_change_points(
    values: Sequence[float] | FloatArray,
    *,
    errors: Sequence[float] | FloatArray | None = None,
    better: Better = "lower",
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
    history = _prepare(values, errors)
    if history is None:
        return ()
    points = _place(history, _prune(history, _refine(history, _partition(history, _candidates(history)))))
    return tuple(_describe(history, points, better))


@dataclass(frozen=True, slots=True)
class HistoryUpdate:
    """The points of a history after one more run, and how they differ from those before it.

    `appeared` are indices of points more than 5 runs from any earlier one. `moved` has (old index, new index) of the
    same point. `withdrawn` are indices of points that no longer are any.
    """

    points: tuple[ChangePoint, ...]
    appeared: tuple[int, ...]
    moved: tuple[tuple[int, int], ...]
    withdrawn: tuple[int, ...]


@dataclass(slots=True)
class GrowingHistory:
    """The same search, fed run by run: after each run the points are those of `find_change_points` of all runs so far.

    More runs can move or withdraw a point; `append` says so. One append costs one search.
    """

    better: Better = "lower"
    _values: list[float] = field(default_factory=list)
    _errors: list[float] = field(default_factory=list)
    _points: tuple[ChangePoint, ...] = ()

    def append(self, value: float, error: float = math.nan) -> HistoryUpdate:
        """Add one run, with the standard error of its value if that is known; return what changed."""
        self._values.append(value)
        self._errors.append(error)
        old = [point.index for point in self._points]
        self._points = find_change_points(self._values, errors=self._errors, better=self.better)
        return _difference(old, self._points)


def _difference(old: list[int], points: tuple[ChangePoint, ...]) -> HistoryUpdate:
    """Match old and new points in order, the exact ones first."""
    new = [point.index for point in points]
    lost = [index for index in old if index not in new]
    found: list[int] = []
    moved: list[tuple[int, int]] = []
    for index in (index for index in new if index not in old):
        near = min(lost, key=lambda other: abs(other - index), default=None)
        if near is not None and abs(near - index) <= SAME_POINT:
            lost.remove(near)
            moved.append((near, index))
        else:
            found.append(index)
    return HistoryUpdate(points, tuple(found), tuple(moved), tuple(lost))


class _History(NamedTuple):
    """The runs that have a value.

    `at` (n,) are their indices, `x` (n,) the values less `offset`, `y` (n,) the same clipped, `weights` (n,) at most 1,
    `noise` the standard deviation of a run. `sums` (3, n + 1) are cumulative sums of the weights, of weight x y and of
    weight x y^2. A level is `unit` x exp(y + offset), or without the exponential if `logs` is False.
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


class _Levels(NamedTuple):
    """The weight, the mean and the variance of stretches of runs."""

    weight: FloatArray
    mean: FloatArray
    variance: FloatArray


def _prepare(values: Sequence[float] | FloatArray, errors: Sequence[float] | FloatArray | None) -> _History | None:
    """Steps 1 and 2; None if no point is possible."""
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
    noise = max(noise if noise > 0 else float(y.std()), _ROUNDING)
    weights = _weights(known / (x if logs else unit), noise)
    offset = float(np.median(y))
    y = y - offset  # so that the sums keep their digits
    sums = np.zeros((3, len(y) + 1))
    np.cumsum([weights, weights * y, weights * y * y], axis=1, out=sums[:, 1:])
    return _History(at, scaled - offset, y, weights, noise, sums, unit, offset, logs)


def _known_errors(errors: Sequence[float] | FloatArray | None, n: int) -> FloatArray:
    """Return the errors (n,), NaN where they are not known."""
    if errors is None:
        return np.full(n, np.nan)
    known = np.asarray(errors, dtype=np.float64)
    if known.shape != (n,):
        raise ValueError(f"errors must have one number for each of the {n} values, not the shape {known.shape}")
    if (known < 0).any():
        raise ValueError("an error is a standard error and must not be negative")
    return np.where(known > 0, known, np.nan)


def _weights(relative_errors: FloatArray, noise: float) -> FloatArray:
    """Return s^2 / (s^2 + e^2 - m^2), at most 1: the noise s includes the usual error, the median m."""
    if np.isnan(relative_errors).all():
        return np.ones(len(relative_errors))
    squares = np.square(np.nan_to_num(relative_errors, nan=0.0))
    usual = float(np.nanmedian(np.square(relative_errors)))
    weights = noise**2 / (noise**2 + np.maximum(squares - usual, 0.0))
    return np.maximum(weights, _ROUNDING)


def _running_median(x: FloatArray) -> FloatArray:
    """Return the median of each value and up to 4 neighbours on each side; fewer at the ends."""
    h = _NEIGHBOURS
    centre = np.empty(len(x))
    centre[h:-h] = np.median(sliding_window_view(x, 2 * h + 1), axis=1)
    for i in range(h):
        centre[i] = np.median(x[: i + h + 1])
        centre[-1 - i] = np.median(x[-1 - i - h :])
    return centre


def _spread(residuals: FloatArray) -> float:
    """Return the larger of the MAD and the 10-90 % range, as a standard deviation: with two modes the MAD is 0."""
    low, high = np.quantile(residuals, (0.1, 0.9))
    return float(max(1.4826 * np.median(np.abs(residuals)), (high - low) / 2.563))


def _candidates(history: _History) -> IntArray:
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


def _cost(history: _History, start: IntArray, end: IntArray) -> FloatArray:
    """Return the squared error of stretches around their means; the arguments are broadcast."""
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    return np.asarray(squares - total * total / np.where(weight > 0, weight, np.inf))


def _partition(history: _History, candidates: IntArray) -> list[int]:
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
        previous[j] = np.argmin(costs)
        best[j] = costs[previous[j]] + penalty
    points = []
    j = int(previous[-1])
    while j > 0:
        points.append(int(bounds[j]))
        j = int(previous[j])
    return points[::-1]


def _refine(history: _History, points: list[int]) -> list[int]:
    """Move each point to the cheapest place within 8 runs between its neighbours, twice."""
    bounds = [0, *points, len(history.y)]
    for _ in range(2):
        for j in range(1, len(bounds) - 1):
            places = np.arange(max(bounds[j - 1] + 1, bounds[j] - 8), min(bounds[j + 1] - 1, bounds[j] + 8) + 1)
            bounds[j] = int(places[np.argmin(_split_cost(history, bounds[j - 1], places, bounds[j + 1]))])
    return bounds[1:-1]


def _split_cost(history: _History, start: int, places: IntArray, end: int) -> FloatArray:
    """Return the squared error of two levels from `start` to `end`, for each place where the second begins."""
    edge = np.array([start, end])
    return _cost(history, edge[:1], places) + _cost(history, places, edge[1:])


def _prune(history: _History, points: list[int]) -> list[int]:
    """Steps 5 and 6: remove the weakest point until all pass, excursions with both their ends."""
    while points and not _enough_runs(history, points):
        points = points[:-1]
    while points:
        strength = _strengths(history, points).passes
        short = _excursions(history, points)
        weakest = int(short[np.argmin(strength[short])]) if len(short) else int(np.argmin(strength))
        if strength[weakest] >= 1 and not len(short):
            break
        points = points[:weakest] + points[weakest + 1 :]
        if len(short):
            points = _refine(history, points)
    return points


def _enough_runs(history: _History, points: list[int]) -> bool:
    """Whether the newest level has 4 runs and may have 5 or more."""
    start, n = points[-2] if len(points) > 1 else 0, len(history.y)
    first, _ = _range(history, start, points[-1], n, reach=3)
    return n - points[-1] >= FEWEST_RUNS - 1 and n - first >= FEWEST_RUNS


def _range(history: _History, start: int, point: int, end: int, reach: int = 8) -> tuple[int, int]:
    """Return the first and the last place where the log-likelihood is at most 1 below that of `point`."""
    places = np.arange(max(start + 1, point - reach), min(end - 1, point + reach) + 1)
    cost = _split_cost(history, start, places, end)
    close = places[cost <= cost[places == point] + 2 * history.noise**2]
    return int(close[0]), int(close[-1])


def _levels(history: _History, start: IntArray, end: IntArray) -> _Levels:
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    mean = total / weight
    return _Levels(weight, mean, np.maximum(squares / weight - mean * mean, 0.0))


def _place(history: _History, points: list[int]) -> list[int]:
    """Move each point by up to 3 runs to the smallest sum of absolute deviations from the two levels.

    Step 2 may clip a value beside a step to the wrong side if an outlier is near; unclipped values tell the place.
    """
    bounds = np.array([0, *points, len(history.y)])
    means = _levels(history, bounds[:-1], bounds[1:]).mean
    placed: list[int] = []
    for point, start, end, before, after in zip(points, bounds, bounds[2:], means, means[1:], strict=False):
        lowest, highest = max(int(start) + 1, point - 3), min(int(end) - 1, point + 3)
        near = slice(lowest, highest)
        gain = np.cumsum((np.abs(history.x[near] - before) - np.abs(history.x[near] - after)) * history.weights[near])
        best = int(np.argmin(np.concatenate(([0.0], gain))))
        placed.append(max(lowest + best, placed[-1] + 1 if placed else 1))
    return placed


class _Strengths(NamedTuple):
    """Of each point its t, the shift of the level, and the smaller of both over what it must be: 1 or more passes."""

    t: FloatArray
    shift: FloatArray
    passes: FloatArray


def _strengths(history: _History, points: list[int]) -> _Strengths:
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
    before = _levels(history, np.maximum(bounds[:-2], here - REACH), here)
    after = _levels(history, here, np.minimum(bounds[2:], here + REACH))
    sides = [(side.variance * side.weight, side.weight) for side in (before, after)]
    nearby = [_pool(squares, weight, variance) for squares, weight in sides]
    # Each side is pooled with the other one, and only through it with the whole history.
    pooled = [_pool(*sides[0], nearby[1]), _pool(*sides[1], nearby[0])]
    squared_error = inflation * (pooled[0] / before.weight + pooled[1] / after.weight)
    shift = after.mean - before.mean
    t = np.abs(shift) / np.sqrt(squared_error + 2 * WANDER**2 * variance)
    least_t = stdtrit((before.weight + after.weight) / 2 - 1, 1 - MOST_P / 2)
    least_shift = LEAST_SHIFT * np.sqrt((pooled[0] + pooled[1]) / 2)
    return _Strengths(t, shift, np.minimum(t / least_t, np.abs(shift) / least_shift))


def _pool(squares: FloatArray, weight: FloatArray, prior: float | FloatArray) -> FloatArray:
    """Return a variance from a sum of squares and a prior variance that counts as 5 runs."""
    return (squares + prior * _SHRINK_RUNS) / (weight + _SHRINK_RUNS)


def _noise_around(history: _History, bounds: IntArray) -> tuple[float, float]:
    """Return the variance inflation of a mean by autocorrelation, and the variance of a run around its level.

    The inflation is 1 + 2 sum (1 - l / 6) r_l over 5 lags (Bartlett's weights), less half its standard error, which is
    2.47 / sqrt(n) without correlation, so that chance alone seldom inflates.
    """
    means = _levels(history, bounds[:-1], bounds[1:]).mean
    residuals = history.y - np.repeat(means, np.diff(bounds))
    n = len(residuals)
    variance = float(np.average(residuals * residuals, weights=history.weights))
    inflation = 1.0
    if variance > 0:
        lags = range(1, min(_LAGS, n - 6) + 1)
        products = [(1 - lag / 6) * float(np.mean(residuals[lag:] * residuals[:-lag])) for lag in lags]
        inflation += 2 * sum(products) / float(np.mean(residuals * residuals)) - 0.5 * 2.47 / math.sqrt(n)
    return min(max(inflation, 1.0), 6.0), max(variance, (0.3 * history.noise) ** 2)


def _excursions(history: _History, points: list[int]) -> IntArray:
    """Return the positions in `points` where a short level begins after which the old level returns."""
    if len(points) < 2:
        return np.zeros(0, dtype=np.int64)
    bounds = np.array([0, *points, len(history.y)])
    begin, end = bounds[1:-2], bounds[2:-1]
    old = _levels(history, np.maximum(bounds[:-3], begin - 30), begin).mean
    short = _levels(history, begin, end).mean
    new = _levels(history, end, np.minimum(bounds[3:], end + 30)).mean
    return np.flatnonzero((end - begin < LASTING) & (np.abs(new - old) < RETURNED * np.abs(short - old)))


def _describe(history: _History, points: list[int], better: Better) -> list[ChangePoint]:
    """Return the points with their sizes. The interval includes the wander of both levels."""
    if not points:
        return []
    strengths = _strengths(history, points)
    bounds = [0, *points, len(history.y)]
    found = []
    for j, point in enumerate(points):
        start, end = bounds[j], bounds[j + 2]
        old = _levels(history, np.array([max(start, point - REACH)]), np.array([point]))
        shift, t = float(strengths.shift[j]), float(strengths.t[j])
        half = _NORMAL_95 * abs(shift) / t
        before, after = history.level(float(old.mean[0])), history.level(float(old.mean[0]) + shift)
        low, change, high = (_relative(history, before, d) for d in (shift - half, shift, shift + half))
        first, last = _range(history, start, point, end)
        runs = 1 / (1 / (point - start) + 1 / (end - point))
        index, first, last = (int(history.at[i]) for i in (point, first, last))
        probability = _probability(t, runs)
        worse = None if better == "neither" else (shift > 0) == (better == "lower")
        found.append(ChangePoint(index, change, low, high, probability, before, after, first, last, worse))
    return found


def _relative(history: _History, before: float, shift: float) -> float:
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
