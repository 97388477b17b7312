"""Change points: where the level of a history of runs changed for good.

The values are a statistic of each run, in order. This file has the public functions and describes the points. The steps
of the search, each with its source (1 and 2 are in `change_point_values`, 3 and 4 in `change_point_search`, 5 and 6 in
`change_point_pruning`, 7 in `newest_level`):

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
from msgspec import Struct, field

from perfgate.core import Better
from perfgate.core.run_history import ChangePoint
from perfgate.stats.change_point_pruning import REACH, prune, strengths_of
from perfgate.stats.change_point_search import candidates_of, partition, place, possible_places, refine
from perfgate.stats.change_point_values import HistoryValues, levels_of, prepare
from perfgate.stats.distributions import FloatArray
from perfgate.stats.newest_level import with_newest

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
    history = prepare(values, errors)
    if history is None:
        return ()
    points = prune(history, refine(history, partition(history, candidates_of(history))))
    points = place(history, with_newest(history, points))
    return tuple(_describe(history, points, better))


class HistoryUpdate(Struct, frozen=True):
    """The points of a history after one more run, and how they differ from those before it.

    `appeared` are indices of points more than 5 runs from any earlier one. `moved` has (old index, new index) of the
    same point. `withdrawn` are indices of points that are gone.
    """

    points: tuple[ChangePoint, ...]
    appeared: tuple[int, ...]
    moved: tuple[tuple[int, int], ...]
    withdrawn: tuple[int, ...]


class GrowingHistory(Struct):
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
