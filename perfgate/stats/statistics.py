"""The statistics of one run, by name: each with its value and its noise within the run.

A new statistic is a function, an influence function and a line in `STATISTICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from perfgate.core import Better
from perfgate.core.statistic_names import percent_of
from perfgate.stats.distributions import FloatArray, sample_quantile
from perfgate.stats.steady import RunValues, SteadyRun, WarmUpRule, steady_run


def time_constant(series: FloatArray) -> float:
    """The integrated autocorrelation time of a series in order of time, in values; at least 1.

    n / time_constant independent values would leave the mean as uncertain as these n do. The larger of two
    estimates counts: a first-order process is seen in short series already, and the summed autocorrelations
    see slow wander. n values cannot show more than n / 4, and fewer than 8 not more than 2. Series shorter
    than 5, in which no memory can be seen, and constant series have 1.
    """
    n = len(series)
    if n < 5 or series.max() == series.min():
        return 1.0
    correlations = _autocorrelations(series, longest_lag=max(3, min(n // 3, 200)))
    if not np.isfinite(correlations).all():  # differences too small or too large to be squared
        return 1.0
    longest = n / 4 if n >= 8 else 2.0
    return min(max(1.0, _first_order(float(correlations[0]), n), _summed(correlations, n)), longest)


def _autocorrelations(series: FloatArray, longest_lag: int) -> FloatArray:
    """Sample autocorrelations at lags from 1 on: lagged products over the total sum of squares."""
    size = 1 << (len(series) + longest_lag - 1).bit_length()  # room enough that the ends never meet
    spectrum = np.fft.rfft(series - series.mean(), size)
    products = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    correlations: FloatArray = products[1 : longest_lag + 1] / products[0]
    return correlations


def _first_order(lag_one: float, n: int) -> float:
    """(1 + a) / (1 - a) of a first-order autoregression, or 1 where the correlation could be chance.

    The lag-one autocorrelation is biased by -(1 + 3 a) / n (Marriott and Pope 1954; Kendall 1954).
    """
    a = min(0.97, lag_one + (1 + 3 * max(lag_one, 0.0)) / n)
    return (1 + a) / (1 - a) if a > 2 / math.sqrt(n) else 1.0


def _summed(correlations: FloatArray, n: int) -> float:
    """1 + 2 times the sum of autocorrelations, by pairs until a pair cannot be told from 0.

    The initial positive sequence of Geyer, "Practical Markov chain Monte Carlo" (1992), with the bias of -1
    / n given back to each correlation.
    """
    even = len(correlations) // 2 * 2
    pairs = correlations[0:even:2] + correlations[1:even:2] + 2 / n
    lost = pairs <= 1 / math.sqrt(n)
    end = int(lost.argmax()) if lost.any() else len(pairs)
    return 1 + 2 * float(pairs[:end].sum())


@dataclass(frozen=True, slots=True)
class StatisticEstimate:
    """A statistic of one run, with the noise that the inside of the run shows.

    `variance` is that of the value, in squared units (None where only the logarithm is known); `log_variance`
    is that of its logarithm, dimensionless (None where there is no logarithm). The resolution of the clock is
    in neither. `n_effective` is how many independent values would say as much.
    """

    value: float
    n_effective: float
    variance: float | None
    log_variance: float | None


@dataclass(frozen=True, slots=True)
class Smooth:
    """A smooth function of the values, such as the mean.

    Its noise is that of the mean of its influence values: Hampel, "The influence curve and its role in robust
    estimation" (1974); Huber, "Robust Statistics". Time dependence is that of the influence values, too.
    """

    name: str
    value: Callable[[FloatArray], float]
    influence: Callable[[FloatArray], FloatArray]

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """The statistic of n >= 1 values in order of time."""
        value, influence = self.value(x), self.influence(x)
        n_effective = len(x) / time_constant(influence)
        variance = _variance(influence) / n_effective
        # The ratio of standard deviations squared: a square of the value alone could overflow.
        log_variance = float(np.square(np.sqrt(variance) / value)) if value > 0 else None
        return StatisticEstimate(value, n_effective, variance, log_variance)


@dataclass(frozen=True, slots=True)
class Quantile:
    """The quantile q, 0 < q < 1.

    Half the distance between the quantiles one standard error of the rank below and above is the standard
    error: Woodruff, "Confidence intervals for medians and other position measures" (1952).
    """

    name: str
    q: float

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """The statistic of n >= 1 values in order of time."""
        ordered = np.sort(x)
        value = sample_quantile(ordered, self.q)
        n_effective = len(x) / time_constant((x <= value).astype(np.float64))
        if not value > 0:
            return StatisticEstimate(value, n_effective, None, None)
        h = math.sqrt(self.q * (1 - self.q) / n_effective)
        # A neighbour at or below 0 has no logarithm: a millionth of the value stands for it.
        low, high = (
            max(sample_quantile(ordered, q), 1e-6 * value) for q in (max(self.q - h, 0.0), min(self.q + h, 1.0))
        )
        return StatisticEstimate(value, n_effective, None, float(np.square(np.log(np.divide(high, low)) / 2)))


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest or the smallest value.

    Its logarithm is as noisy as the tail is heavy: pi^2 / 6 H^2 is the variance of a Gumbel variable whose
    scale is the tail index H of Hill, "A simple general approach to inference about the tail of a
    distribution" (1975).
    """

    name: str
    largest: bool

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """The statistic of n >= 1 values; their order in time does not matter."""
        n = len(x)
        k = max(2, math.isqrt(n))
        tail = np.sort(x)[::-1][: k + 1] if self.largest else np.sort(x)[: k + 1]
        return StatisticEstimate(float(tail[0]), float(n), None, self._log_variance(tail))

    def _log_variance(self, tail: FloatArray) -> float | None:
        """From the k most extreme values and the next one; below three values the noise is unknown, and 0."""
        if tail.min() <= 0:
            return None
        if len(tail) < 3:
            return 0.0
        index = float(np.log(tail[:-1] / tail[-1]).mean())
        return math.pi**2 / 6 * index**2


@dataclass(frozen=True, slots=True)
class Count:
    """The number of values."""

    name: str = "count"

    def estimate(self, x: FloatArray) -> StatisticEstimate:
        """The statistic of n >= 1 values."""
        return StatisticEstimate(float(len(x)), float(len(x)), 0.0, 0.0)


Statistic: TypeAlias = Smooth | Quantile | Extreme | Count


def parse_statistic(name: str) -> Statistic:
    """The statistic of this name: one of `STATISTICS`, or a percentile such as "p95" or "p99.9".

    Raises ValueError, which lists the names, for any other.
    """
    if name in STATISTICS:
        return STATISTICS[name]
    percent = percent_of(name)
    if percent == 0:
        return Extreme(name, largest=False)
    if percent == 100:
        return Extreme(name, largest=True)
    if percent is not None:
        return Quantile(name, percent / 100)
    known = ", ".join(STATISTICS)
    raise ValueError(f"unknown statistic {name!r}: use {known}, or a percentile from p0 to p100 such as p95")


def _variance(x: FloatArray) -> float:
    """The sample variance (n - 1); 0 for one value, whose spread is unknown."""
    return float(x.var(ddof=1)) if len(x) > 1 else 0.0


def _stddev(x: FloatArray) -> float:
    return math.sqrt(_variance(x))


def _cv(x: FloatArray) -> float:
    return float(np.divide(_stddev(x), x.mean()))


def _trimmed_mean(x: FloatArray) -> float:
    """The mean without the int(.2 n) smallest and largest values."""
    cut = int(0.2 * len(x))
    return float(np.sort(x)[cut : len(x) - cut].mean())


def _trimmed_mean_influence(x: FloatArray) -> FloatArray:
    """The values drawn in to the quantiles .2 and .8, of which 60 % carry the mean.

    Tukey and McLaughlin, "Less vulnerable confidence procedures for location" (1963).
    """
    ordered = np.sort(x)
    clipped: FloatArray = np.clip(x, sample_quantile(ordered, 0.2), sample_quantile(ordered, 0.8)) / 0.6
    return clipped


def _log_stddev_influence(x: FloatArray) -> FloatArray:
    """By how much each value moves the logarithm of the standard deviation; 0 where all are equal."""
    squares = np.square(x - x.mean())
    mean_square = squares.mean()
    if not mean_square > 0:
        return np.zeros(len(x))
    influence: FloatArray = (squares - mean_square) / (2 * mean_square)
    return influence


def _stddev_influence(x: FloatArray) -> FloatArray:
    return _stddev(x) * _log_stddev_influence(x)


def _cv_influence(x: FloatArray) -> FloatArray:
    mean = x.mean()
    influence: FloatArray = _cv(x) * (_log_stddev_influence(x) - (x - mean) / mean)
    return influence


#: The statistics by name, beside the percentiles, which `parse_statistic` makes.
STATISTICS: dict[str, Statistic] = {
    "mean": Smooth("mean", lambda x: float(x.mean()), lambda x: x),
    "median": Quantile("median", 0.5),
    "min": Extreme("min", largest=False),
    "max": Extreme("max", largest=True),
    "total": Smooth("total", lambda x: float(x.sum()), lambda x: len(x) * x),
    "count": Count(),
    "stddev": Smooth("stddev", _stddev, _stddev_influence),
    "cv": Smooth("cv", _cv, _cv_influence),
    "trimmed_mean": Smooth("trimmed_mean", _trimmed_mean, _trimmed_mean_influence),
}


#: A variance of a logarithm beyond this says that there is no usable logarithm (and its square would
#: overflow).
_LARGEST_LOG_VARIANCE = 1e100


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """A run seen through one statistic.

    `value` is in the unit of the values, or None: where no value is left after warm-up, or (n > 0) where one
    is no finite number. `n` values are left after warm-up, as good as `n_effective` independent ones (None
    for a run that is a single number: how it was made is unknown). `within_variance` is the variance of the
    logarithm of the value that the inside of the run shows, resolution of the clock included; 0 for a single
    number, None where there is no logarithm. `dropped` values were warm-up; `settled` says whether it ended.
    """

    value: float | None
    n: int
    n_effective: float | None
    within_variance: float | None
    dropped: int
    settled: bool

    @property
    def single(self) -> bool:
        """Whether the run is known by a single number, not by samples."""
        return self.value is not None and self.n_effective is None


def measure_run(
    values: RunValues, statistic: str = "median", warmup: WarmUpRule = "auto", better: Better = "lower"
) -> RunMeasure:
    """Drop the warm-up of a run and measure the rest.

    `values` is a sequence of numbers in order of time, or a single number. Raises ValueError for an unknown
    statistic, warm-up or direction; never for what the values are.
    """
    return describe(steady_run(values, warmup, better), parse_statistic(statistic))


@np.errstate(all="ignore")
def describe(run: SteadyRun, statistic: Statistic) -> RunMeasure:
    """Measure a run whose warm-up is gone: `measure_run` for several statistics of one run."""
    n, rest = len(run.values), (run.dropped, run.settled)
    if n == 0 or not run.finite:
        return RunMeasure(None, n, None, None, *rest)
    if run.single:
        return RunMeasure(float(run.values[0]), 1, None, 0.0, *rest)
    found = statistic.estimate(run.values)
    if not math.isfinite(found.value):  # a sum beyond the largest float, or a ratio to 0
        return RunMeasure(None, n, None, None, *rest)
    clock = 0.0 if isinstance(statistic, Count) else run.clock_variance
    return RunMeasure(found.value, n, found.n_effective, _usable(found.log_variance, clock), *rest)


def _usable(log_variance: float | None, clock: float) -> float | None:
    """Both variances together, or None where there is no logarithm to speak of."""
    if log_variance is None or not log_variance + clock < _LARGEST_LOG_VARIANCE:
        return None
    return log_variance + clock
