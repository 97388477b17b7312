"""The statistics of one run, by name: each with its value and its noise within the run.

A new statistic needs a name in `core.wording`, a function, an influence function (the effect of each value on the
statistic) and a line in `ESTIMATORS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from perfgate.core import Better
from perfgate.core.wording import percent_of
from perfgate.stats.distributions import FloatArray, sample_quantile, time_constant
from perfgate.stats.steady import RunValues, SteadyRun, WarmUpRule, steady_run


class StatisticEstimate(Struct, frozen=True):
    """A statistic of one run, with its noise as estimated within the run.

    `variance` is the variance of the value, in squared units, or None if only that of the logarithm is known.
    `log_variance` is the variance of its logarithm, dimensionless, or None if there is no logarithm. Neither includes
    the clock resolution. `n_effective` is the effective sample size.
    """

    value: float
    n_effective: float
    variance: float | None
    log_variance: float | None


class Smooth(Struct, frozen=True):
    """A smooth function of the values, such as the mean.

    Its noise and its autocorrelation are those of the mean of its influence values: Hampel, "The influence curve and
    its role in robust estimation" (1974); Huber, "Robust Statistics".
    """

    name: str
    value: Callable[[FloatArray], float]
    influence: Callable[[FloatArray], FloatArray]

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """Estimate the statistic of n >= 1 values in order of time."""
        value, influence = self.value(x), self.influence(x)
        n_effective = len(x) / time_constant(influence)
        variance = _variance(influence) / n_effective
        # Divide before squaring: the square of the value alone could overflow.
        log_variance = float(np.square(np.sqrt(variance) / value)) if value > 0 else None
        return StatisticEstimate(value, n_effective, variance, log_variance)


class Quantile(Struct, frozen=True):
    """The quantile q, 0 < q < 1.

    Its standard error is half the distance between the quantiles one standard error of the rank below and above:
    Woodruff, "Confidence intervals for medians and other position measures" (1952).
    """

    name: str
    q: float

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """Estimate the statistic of n >= 1 values in order of time."""
        ordered = np.sort(x)
        value = sample_quantile(ordered, self.q)
        n_effective = len(x) / time_constant((x <= value).astype(np.float64))
        if not value > 0:
            return StatisticEstimate(value, n_effective, None, None)
        h = math.sqrt(self.q * (1 - self.q) / n_effective)
        # A quantile at or below 0 has no logarithm: it is replaced by a millionth of the value.
        low, high = (
            max(sample_quantile(ordered, q), 1e-6 * value) for q in (max(self.q - h, 0.0), min(self.q + h, 1.0))
        )
        return StatisticEstimate(value, n_effective, None, float(np.square(np.log(np.divide(high, low)) / 2)))


class Extreme(Struct, frozen=True):
    """The largest or the smallest value.

    The variance of its logarithm is pi^2 / 6 H^2, that of a Gumbel variable whose scale is the tail index H of Hill, "A
    simple general approach to inference about the tail of a distribution" (1975).
    """

    name: str
    largest: bool

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """Estimate the statistic of n >= 1 values in any order."""
        n = len(x)
        k = max(2, math.isqrt(n))
        tail = np.sort(x)[-k - 1 :][::-1] if self.largest else np.sort(x)[: k + 1]
        return StatisticEstimate(float(tail[0]), float(n), None, self._log_variance(tail))

    def _log_variance(self, tail: FloatArray) -> float | None:
        """Return the variance from the k most extreme values and the next one; 0 for fewer than three values.

        None if one of them is not positive.
        """
        if tail.min() <= 0:
            return None
        if len(tail) < 3:
            return 0.0
        index = float(np.log(tail[:-1] / tail[-1]).mean())
        return math.pi**2 / 6 * index**2


class Count(Struct, frozen=True):
    """The number of values."""

    name: str = "count"

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """Count n >= 1 values."""
        return StatisticEstimate(float(len(x)), float(len(x)), 0.0, 0.0)


Statistic: TypeAlias = Smooth | Quantile | Extreme | Count
#: The statistics of a whole run: they include the values that `auto` drops as warm-up for other statistics.
_OF_WHOLE_RUN = ("max", "p100", "total", "count")
#: The statistics of the middle of a run: they leave out the stalled steps of a trace.
MIDDLES = ("mean", "median", "p50", "trimmed_mean")


def warmup_for(statistic: str, warmup: WarmUpRule) -> WarmUpRule:
    """Return the warm-up rule of a statistic: `auto` drops nothing for `max`, `total` and `count`.

    A number of values that the user gave is kept.
    """
    return 0 if warmup == "auto" and statistic in _OF_WHOLE_RUN else warmup


def parse_statistic(name: str) -> Statistic:
    """Return the statistic of this name: one of `ESTIMATORS`, or a percentile such as "p95" or "p99.9".

    Raises ValueError for any other name; the message lists the names.
    """
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    percent = percent_of(name)
    if percent == 0:
        return Extreme(name, largest=False)
    if percent == 100:
        return Extreme(name, largest=True)
    if percent is not None:
        return Quantile(name, percent / 100)
    known = ", ".join(ESTIMATORS)
    raise ValueError(f"unknown statistic {name!r}: use {known}, or a percentile from p0 to p100 such as p95")


def _variance(x: FloatArray) -> float:
    """Return the sample variance (n - 1); 0 for a single value."""
    return float(x.var(ddof=1)) if len(x) > 1 else 0.0


def _stddev(x: FloatArray) -> float:
    return math.sqrt(_variance(x))


def _cv(x: FloatArray) -> float:
    return float(np.divide(_stddev(x), x.mean()))


def _trimmed_mean(x: FloatArray) -> float:
    """Return the mean without the int(0.2 n) smallest and largest values."""
    cut = int(0.2 * len(x))
    return float(np.sort(x)[cut : len(x) - cut].mean())


def _trimmed_mean_influence(x: FloatArray) -> FloatArray:
    """Return the values clipped at the quantiles 0.2 and 0.8, over the share of values in the mean, 0.6.

    Tukey and McLaughlin, "Less vulnerable confidence procedures for location" (1963).
    """
    ordered = np.sort(x)
    clipped: FloatArray = np.clip(x, sample_quantile(ordered, 0.2), sample_quantile(ordered, 0.8)) / 0.6
    return clipped


def _log_stddev_influence(x: FloatArray) -> FloatArray:
    """Return how much each value moves the logarithm of the standard deviation; 0 if all are equal."""
    squares = np.square(x - x.mean())
    mean_square = squares.mean()
    if not mean_square > 0:
        return np.zeros(len(x))
    influence: FloatArray = (squares - mean_square) / (2 * mean_square)
    return influence


def _cv_influence(x: FloatArray) -> FloatArray:
    mean = x.mean()
    influence: FloatArray = _cv(x) * (_log_stddev_influence(x) - (x - mean) / mean)
    return influence


#: The statistics by name, except the percentiles, which `parse_statistic` makes.
ESTIMATORS: dict[str, Statistic] = {
    "mean": Smooth("mean", lambda x: float(x.mean()), lambda x: x),
    "median": Quantile("median", 0.5),
    "min": Extreme("min", largest=False),
    "max": Extreme("max", largest=True),
    "total": Smooth("total", lambda x: float(x.sum()), lambda x: len(x) * x),
    "count": Count(),
    "stddev": Smooth("stddev", _stddev, lambda x: _stddev(x) * _log_stddev_influence(x)),
    "cv": Smooth("cv", _cv, _cv_influence),
    "trimmed_mean": Smooth("trimmed_mean", _trimmed_mean, _trimmed_mean_influence),
}
#: With a variance beyond this the logarithm is not usable, and the square of the variance would overflow.
_LARGEST_LOG_VARIANCE = 1e100


class RunMeasure(Struct, frozen=True):
    """One statistic of a run.

    * `value`: in the unit of the values; None if no value is left after warm-up, or if a value or the statistic is not
      a finite number.
    * `n`: the number of values after warm-up.
    * `n_effective`: their effective sample size; None for a run that is a single number.
    * `within_variance`: the variance of the logarithm of the value as estimated within the run, clock resolution
      included; 0 for a single number, None if there is no logarithm.
    * `dropped`: the number of warm-up values.
    * `settled`: False if the warm-up did not end within the first quarter of the run.
    """

    value: float | None
    n: int
    n_effective: float | None
    within_variance: float | None
    dropped: int
    settled: bool

    @property
    def single(self) -> bool:
        """True if the run is a single number, not samples."""
        return self.value is not None and self.n_effective is None


def measure_run(
    values: RunValues, statistic: str = "median", warmup: WarmUpRule = "auto", better: Better = "lower"
) -> RunMeasure:
    """Drop the warm-up of a run and compute a statistic of the rest; `max`, `total` and `count` are of the whole run.

    Parameters
    ----------
    values : the values of the run in order of time, in any unit, or a single number.
    statistic : "median", "mean", "p95", ... (a name of the rule language).
    warmup : "auto" (see `warmup_length`), or the number of values to drop.
    better : "lower", "higher" or "neither": the direction that is better, for the warm-up.

    Returns
    -------
    `RunMeasure`: the value in the unit of `values`, and its noise.

    Raises
    ------
    ValueError : `statistic`, `warmup` or `better` is unknown, or `values` has more than one dimension.
    """
    return describe(steady_run(values, warmup_for(statistic, warmup), better), parse_statistic(statistic))


@np.errstate(all="ignore")
def describe(run: SteadyRun, statistic: Statistic) -> RunMeasure:
    """Measure a run whose warm-up was already dropped, so that several statistics of one run share this step."""
    n, rest = len(run.values), (run.dropped, run.settled)
    if n == 0 or not run.finite:
        return RunMeasure(None, n, None, None, *rest)
    if run.single:
        return RunMeasure(float(run.values[0]), 1, None, 0.0, *rest)
    found = statistic.estimate(run.values)
    if not math.isfinite(found.value):  # a sum beyond the largest float, or a ratio with 0
        return RunMeasure(None, n, None, None, *rest)
    clock = 0.0 if isinstance(statistic, Count) else run.clock_variance
    within = None if found.log_variance is None else found.log_variance + clock
    if within is not None and not within < _LARGEST_LOG_VARIANCE:
        within = None
    return RunMeasure(found.value, n, found.n_effective, within, *rest)
