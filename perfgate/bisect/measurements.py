"""The measurements of a search, its prior knowledge, and the regression behind its posterior.

The likelihood of any hypothesis about the changes then follows from a few sums over the measurements, for each noise of
a grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import HistorySeries
from perfgate.stats.distributions import FloatArray
from perfgate.stats.history import DEFAULT

IntArray = npt.NDArray[np.int64]
#: The session of runs that were stored before the search began.
STORED = -1
#: The runs of an end that are nearest to it count; older ones say little about it.
_MOST_RUNS = 30
#: With fewer runs the noise is not taken from them.
_FEWEST_RUNS = 5
#: The most degrees of freedom of a history: the noise of today may be another one.
_MOST_FREEDOM = 30.0


class Measurement(Struct, frozen=True):
    """One measurement of a position.

    `log_value` is the logarithm of the metric, or of its ratio to position 0 for pairs. `hours` is the time since the
    search began, `session` counts the interruptions before it, and `within` is the variance of `log_value` as estimated
    within the run; 0 if that is unknown. Stored runs of an end are one measurement: the mean of `runs`, in the session
    `STORED`.
    """

    position: int
    log_value: float
    hours: float = 0.0
    session: int = 0
    within: float = 0.0
    runs: int = 1


class Model(Struct, frozen=True):
    """The prior knowledge of a search.

    `positions` is their number n, and `tolerance` the smallest relative change that matters. `s0` is the relative
    standard deviation between runs, with `d0` degrees of freedom. With `paired`, measurements are ratios to position 0,
    so level and drift need not be estimated.
    """

    positions: int
    tolerance: float = 0.02
    s0: float = DEFAULT.s0
    d0: float = DEFAULT.d0
    paired: bool = False
    #: The degrees of freedom of Student's t for one measurement; infinite for a normal distribution.
    tails: float = 10.0
    #: Stored runs of the ends, as far as the machine is the same now; not for pairs.
    stored: tuple[Measurement, ...] = ()


class StoredEnds(Struct, frozen=True):
    """Stored runs at the ends of a range, and their noise: `s0` and `d0` of `Model`, or None if they are too few."""

    levels: tuple[Measurement, ...] = ()
    noise: tuple[float, float] | None = None


def ends_of_history(series: HistorySeries, line: CommitLine, good: str, bad: str, last: int) -> StoredEnds:
    """Return the runs of the good commit's level up to it, and of the bad commit's level from it on.

    `good`, `bad`: the commits of the ends. `last`: the position of the bad commit in the range.
    """
    first_place, last_place = line.place(good), line.place(bad)
    places = [(i, place) for i, run in enumerate(series.runs) if (place := line.place(run.commit)) is not None]
    before = [] if first_place is None else [i for i, place in places if place <= first_place]
    after = [] if last_place is None else [i for i, place in places if place >= last_place]
    levels = [(start, end) for start, end, _ in series.levels()]
    good_runs = [i for i in before if _same_level(levels, i, before[-1])][-_MOST_RUNS:]
    bad_runs = [i for i in after if _same_level(levels, i, after[0])][:_MOST_RUNS]
    values = series.values.tolist()
    return stored_ends({0: [values[i] for i in good_runs], last: [values[i] for i in bad_runs]})


def stored_ends(values: dict[int, list[float]]) -> StoredEnds:
    """Return stored values of positions as measurements, with the noise around their own means."""
    logs = {place: [math.log(one) for one in ones if one > 0] for place, ones in values.items()}
    levels = tuple(
        Measurement(place, fmean(ones), session=STORED, runs=len(ones)) for place, ones in logs.items() if ones
    )
    squares = sum((one - fmean(ones)) ** 2 for ones in logs.values() for one in ones)
    freedom = sum(len(ones) - 1 for ones in logs.values() if ones)
    is_known = freedom + 1 >= _FEWEST_RUNS and squares > 0
    return StoredEnds(levels, (math.sqrt(squares / freedom), min(freedom, _MOST_FREEDOM)) if is_known else None)


def _same_level(levels: Sequence[tuple[int, int]], one: int, other: int) -> bool:
    return any(start <= one < end and start <= other < end for start, end in levels)


#: The number of standard deviations of the noise that are tried. They reach this far from the expected one on either
#: side, in units of how well its logarithm is known, which is at most `_VAGUE`.
_NOISES, _REACH, _VAGUE = 33, 12.0, 0.35
#: The prior standard deviation of the level: any level is possible.
_LEVEL = 1.0
#: The order of two programs that take turns moves their ratio by up to this much (`judge.pairs.LEAST_TOLERANCE`).
_ORDER = 0.006
#: The prior standard deviations of the drift, per hour, and of the level of a later session.
_DRIFT, _SESSION = 0.008, 0.02
#: The prior standard deviation of the level now, against that of stored runs.
MACHINE = 0.004


class Hypotheses(Struct, frozen=True):
    """The hypotheses, with the changes that the measurements show under each.

    `cells` is (h, 2): the cell of the largest change and that of the other one, -1 without it. `weight` is (h,) and
    sums to 1. `mean` (h, 2) and `covariance` (h, 2, 2) are of the two changes, as logarithms; 0 without one.
    """

    cells: IntArray
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray


class Prediction(Struct, frozen=True):
    """The expected value of a measurement now, from the level, the drift and the session.

    Its mean is `centre` - sum(`pull[c]` change_c) over the cells c of the changes, plus those changes that are at or
    before its position. Its variance without that of the changes is `variance`, the noise included.
    """

    centre: float
    pull: FloatArray
    variance: float


class Design(Struct, frozen=True):
    """The regression on level, drift and sessions (b columns), and on one step for each of c cells.

    For each of s noises, after the b columns are integrated out: `constant` (s,) is the logarithm of the likelihood
    without a change, and with changes d of the cells it is constant + products . d - d' gram d / 2, where `products` is
    (s, c) and `gram` (s, c, c).
    """

    noises: FloatArray
    base: FloatArray
    steps: FloatArray
    y: FloatArray
    within: FloatArray
    #: One over the number of runs of each measurement.
    parts: FloatArray
    weights: FloatArray
    precision: FloatArray
    now: FloatArray
    shift: float
    constant: FloatArray
    products: FloatArray
    gram: FloatArray

    @classmethod
    def of(cls, model: Model, measurements: Sequence[Measurement], edges: IntArray, weights: FloatArray) -> Design:
        """Make the columns, and integrate out those that do not depend on the hypothesis."""
        places = np.array([one.position for one in measurements])
        y = np.array([one.log_value for one in measurements])
        within = np.array([one.within for one in measurements])
        parts = np.array([1 / one.runs for one in measurements])
        shift = 0.0 if model.paired else float(y[places == 0].mean())
        columns = _columns(model, measurements)
        base = np.stack([values for values, _, _ in columns], axis=1)
        precision = np.diag([1 / spread**2 for _, _, spread in columns])
        steps = (places[:, None] > edges[:-1]).astype(np.float64)
        noises = noises_of(model)
        variance = (noises[:, None] ** 2 * parts + within) / weights
        sums = _integrated(base, steps, y - shift, variance, precision)
        now = np.array([value for _, value, _ in columns])
        return cls(noises, base, steps, y - shift, within, parts, weights, precision, now, shift, *sums)

    def _at(self, noise: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, for one noise, the covariance of the base columns, and what the data and each cell add to them."""
        weighed = self.base.T * self.weights / (noise**2 * self.parts + self.within)
        covariance = np.linalg.inv(weighed @ self.base + self.precision)
        return covariance, covariance @ (weighed @ self.y), covariance @ (weighed @ self.steps)

    def predict(self, noise: float) -> Prediction:
        """Return what a measurement now would be."""
        covariance, level, pull = self._at(noise)
        within = float(self.within @ (self.parts == 1)) / max(float((self.parts == 1).sum()), 1.0)
        variance = float(self.now @ covariance @ self.now) + noise**2 + within
        return Prediction(self.shift + float(self.now @ level), self.now @ pull, variance)

    def squares(self, noise: float, found: Hypotheses) -> FloatArray:
        """Return the expected square of each residual over all hypotheses, in units of its variance, (n,)."""
        _, level, pull = self._at(noise)
        lift = np.concatenate([self.steps - self.base @ pull, np.zeros((len(self.y), 1))], axis=1)  # last: cell -1
        parts = lift[:, found.cells]
        residuals = (self.y - self.base @ level)[:, None] - (parts * found.mean).sum(axis=2)
        squares: FloatArray = residuals**2 @ found.weight / (noise**2 * self.parts + self.within)
        return squares

    def drift(self, noise: float, found: Hypotheses) -> float:
        """Return the mean drift per hour; 0 for pairs."""
        if self.base.shape[1] == 1:
            return 0.0
        _, level, pull = self._at(noise)
        steps = np.concatenate([pull[1], [0.0]])  # the last one is for cell -1
        return float(level[1] - found.weight @ (steps[found.cells] * found.mean).sum(axis=1))


def noises_of(model: Model) -> FloatArray:
    """Return the standard deviations of the noise that are tried: closer together if the noise is known."""
    spread = min(1 / math.sqrt(2 * max(model.d0, 1e-3)), _VAGUE)
    return model.s0 * np.exp(np.linspace(-_REACH, _REACH, _NOISES) * spread)


def _columns(model: Model, measurements: Sequence[Measurement]) -> list[tuple[FloatArray, float, float]]:
    """Return the columns that do not depend on changes: the values, the value now, and the prior standard deviation."""
    level = (np.ones(len(measurements)), 1.0, _ORDER if model.paired else _LEVEL)
    if model.paired:
        return [level]
    hours = np.array([one.hours for one in measurements])
    sessions = np.array([one.session for one in measurements])
    drift = (hours - hours.mean(), float(hours.max() - hours.mean()), _DRIFT)
    offsets = [
        ((sessions == session).astype(np.float64), float(session == sessions.max()), _SESSION)
        for session in np.unique(sessions[sessions >= 0])[1:]
    ]
    machine = [((sessions == STORED).astype(np.float64), 0.0, MACHINE)] if (sessions == STORED).any() else []
    return [level, drift, *offsets, *machine]


def _integrated(
    base: FloatArray, steps: FloatArray, y: FloatArray, variance: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the constant, the products and the Gram matrix of `Design`; `variance` is (s, measurements)."""
    by_base = base.T / variance[:, None, :]
    by_steps = steps.T / variance[:, None, :]
    inner = by_base @ base + precision
    covariance = np.linalg.inv(inner)
    level, cross = by_base @ y, by_base @ steps
    kept = covariance @ cross
    products = by_steps @ y - np.einsum("sbc,sb->sc", kept, level)
    gram = by_steps @ steps - cross.transpose(0, 2, 1) @ kept
    squares = (y**2 / variance).sum(axis=1) - np.einsum("sb,sbd,sd->s", level, covariance, level)
    determinants = np.log(variance).sum(axis=1) + np.linalg.slogdet(inner)[1] - np.linalg.slogdet(precision)[1]
    return -(squares + determinants) / 2, products, gram
