"""The measurements of a search, its prior knowledge, and the regression behind its posterior.

`posterior` has the formula of the model. The regression makes a few sums over the measurements, for each noise of a
grid. From these sums follows the likelihood of any hypothesis about the changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pvariance

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
#: Of the stored runs of an end, this many count, those nearest to it.
_MOST_RUNS = 30
#: Fewer stored runs do not show the noise.
_FEWEST_RUNS = 5
#: The most degrees of freedom of the noise from stored runs: the noise of today may be different.
_MOST_FREEDOM = 30.0


class Measurement(Struct, frozen=True):
    """One measurement of a position.

    `log_value` is the logarithm of the metric, or of its ratio to position 0 for pairs. `hours` is the time since the
    first measurement ended, `session` counts the interruptions before it, and `within` is the variance of `log_value`
    as estimated within the run; 0 if unknown. Stored runs of an end are one measurement: the mean of `runs`, in session
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
    so they have no drift, and their level is only the effect of the order.
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
    """Return the runs up to the good commit that are of its level, and those from the bad commit on that are of its.

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
    """Return the stored values of each position as one measurement, and the noise around these means."""
    logs = {place: [math.log(one) for one in ones if one > 0] for place, ones in values.items()}
    levels = tuple(
        Measurement(place, fmean(ones), session=STORED, runs=len(ones)) for place, ones in logs.items() if ones
    )
    squares = sum(len(ones) * pvariance(ones) for ones in logs.values() if ones)  # exactly 0 if all are equal
    freedom = sum(len(ones) - 1 for ones in logs.values() if ones)
    # both ends together need the degrees of freedom of `_FEWEST_RUNS` runs of one end: one less than the runs
    is_known = freedom + 1 >= _FEWEST_RUNS and squares > 0
    return StoredEnds(levels, (math.sqrt(squares / freedom), min(freedom, _MOST_FREEDOM)) if is_known else None)


def _same_level(levels: Sequence[tuple[int, int]], one: int, other: int) -> bool:
    return any(start <= one < end and start <= other < end for start, end in levels)


#: The grid of the noise: the number of standard deviations that are tried, how far their logarithms reach from the
#: expected one (in standard errors of it), and the largest such standard error.
_NOISES, _REACH, _VAGUE = 33, 12.0, 0.35
#: The prior standard deviation of the level: any level is possible.
_LEVEL = 1.0
#: The same for pairs: the order of two programs that take turns moves their ratio by up to this much, as a share
#: (see `LEAST_TOLERANCE_OF_PAIRS` in `judge.decide.change`).
_ORDER = 0.006
#: The prior standard deviations of the drift, per hour, and of the level of a later session.
_DRIFT, _SESSION = 0.008, 0.02
#: The prior standard deviation of the difference between the level now and that of stored runs.
MACHINE = 0.004


class Hypotheses(Struct, frozen=True):
    """The h hypotheses about the changes, and what the measurements show under each.

    `cells` is (h, 2): the cell of the largest change and that of the other one; -1 if there is none. The prior expects
    the first one to be larger; the measurements may show the reverse (`_largest` of `posterior`). `weight` (h,) is the
    probability of each hypothesis. `mean` (h, 2) and `covariance` (h, 2, 2) are those of the sizes of the two changes,
    as logarithms; 0 without a change.
    """

    cells: IntArray
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray


class Prediction(Struct, frozen=True):
    """The expected value of a measurement now, from the level, the drift and the session.

    Its mean is `centre` - sum(`pull[c]` change_c) over the cells c of the changes, plus the changes that are at or
    before its position: the larger the changes, the lower the level. `variance` is for known changes, with the noise.
    """

    centre: float
    pull: FloatArray
    variance: float


class Design(Struct, frozen=True):
    """The regression of n measurements on level, drift and sessions (b columns), and on one step for each of c cells.

    The b columns are integrated out for each of s noises. Then `constant` (s,) is the logarithm of the likelihood
    without a change. With changes d of the cells it is constant + products . d - d' gram d / 2, where `products` is
    (s, c) and `gram` (s, c, c).
    """

    #: The standard deviations of the noise that are tried, (s,).
    noises: FloatArray
    #: The b columns, (n, b), and the steps, (n, c): 1 for measurements at the end of the cell or later.
    base: FloatArray
    steps: FloatArray
    #: The logarithms of the values, less `shift`; and their variances within the runs, (n,) each.
    y: FloatArray
    within: FloatArray
    #: One over the number of runs of each measurement, (n,).
    parts: FloatArray
    #: The variances are divided by these, (n,), see `posterior`.
    weights: FloatArray
    #: The prior precision of the b columns, (b, b), and their values for a measurement now, (b,).
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
        """Return, for one noise, the fit of the b columns: covariance, (b, b), coefficients, (b,), and pull, (b, c).

        The pull is how much a change of 1 in each cell lowers the coefficients.
        """
        weighed = self.base.T * self.weights / (noise**2 * self.parts + self.within)
        covariance = np.linalg.inv(weighed @ self.base + self.precision)
        return covariance, covariance @ (weighed @ self.y), covariance @ (weighed @ self.steps)

    def predict(self, noise: float) -> Prediction:
        """Return the expected value of a measurement now."""
        covariance, level, pull = self._at(noise)
        is_single = self.parts == 1
        within = float(self.within @ is_single) / max(float(is_single.sum()), 1.0)  # the mean of single measurements
        variance = float(self.now @ covariance @ self.now) + noise**2 + within
        return Prediction(self.shift + float(self.now @ level), self.now @ pull, variance)

    def squares(self, noise: float, found: Hypotheses) -> FloatArray:
        """Return the expected square of each residual over all hypotheses, in units of its variance, (n,)."""
        _, level, pull = self._at(noise)
        # the change of each residual by a change of 1 in each cell; the last one is for cell -1
        lift = np.concatenate([self.steps - self.base @ pull, np.zeros((len(self.y), 1))], axis=1)
        parts = lift[:, found.cells]
        residuals = (self.y - self.base @ level)[:, None] - (parts * found.mean).sum(axis=2)
        squares: FloatArray = residuals**2 @ found.weight / (noise**2 * self.parts + self.within)
        return squares

    def drift(self, noise: float, found: Hypotheses) -> float:
        """Return the mean drift per hour over all hypotheses; 0 for pairs."""
        if self.base.shape[1] == 1:
            return 0.0
        _, level, pull = self._at(noise)
        steps = np.concatenate([pull[1], [0.0]])  # the last one is for cell -1
        # the b column 1 is the drift
        return float(level[1] - found.weight @ (steps[found.cells] * found.mean).sum(axis=1))


def noises_of(model: Model) -> FloatArray:
    """Return the standard deviations of the noise that are tried: closer together if the noise is known."""
    spread = min(1 / math.sqrt(2 * max(model.d0, 1e-3)), _VAGUE)
    return model.s0 * np.exp(np.linspace(-_REACH, _REACH, _NOISES) * spread)


def _columns(model: Model, measurements: Sequence[Measurement]) -> list[tuple[FloatArray, float, float]]:
    """Return the b columns of `Design`: of each its values, its value now, and its prior standard deviation."""
    level = (np.ones(len(measurements)), 1.0, _ORDER if model.paired else _LEVEL)
    if model.paired:
        return [level]
    hours = np.array([one.hours for one in measurements])
    sessions = np.array([one.session for one in measurements])
    drift = (hours - hours.mean(), float(hours.max() - hours.mean()), _DRIFT)
    offsets = [  # the first session has none
        ((sessions == session).astype(np.float64), float(session == sessions.max()), _SESSION)
        for session in np.unique(sessions[sessions >= 0])[1:]
    ]
    machine = [((sessions == STORED).astype(np.float64), 0.0, MACHINE)] if (sessions == STORED).any() else []
    return [level, drift, *offsets, *machine]


def _integrated(
    base: FloatArray, steps: FloatArray, y: FloatArray, variance: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the constant, the products and the Gram matrix of `Design`; `variance` is (s, n).

    It is the Gaussian integral over the b columns with a normal prior (Bishop, see `posterior`).
    """
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
