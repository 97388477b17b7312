"""Intervals for one side against a bound; no logarithms, and in the unit of the values.

They hold for the runs that were measured. How another run would differ is not in the interval of one run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.stats.distributions import BoolArray, FloatArray, beta_quantile, sample_quantile, t_quantile
from perfgate.stats.statistics import StatisticEstimate, time_constant


@dataclass(frozen=True, slots=True)
class QuantileLimit:
    """A quantile of the pooled runs against a bound.

    `estimate`, `low` and `high` are in the unit of the values, the bounds one-sided and None where the runs
    are too short to have one. `share` of the `n` values, worth `n_effective` independent ones, is on the bad
    side of the bound; `share_low` and `share_high` are its exact binomial bounds; `allowed` may be.
    """

    estimate: float
    low: float | None
    high: float | None
    n: int
    n_effective: float
    share: float
    share_low: float
    share_high: float
    allowed: float

    @property
    def kept(self) -> bool:
        """Whether the share beyond the bound is shown to be no more than allowed."""
        return self.share_high <= self.allowed

    @property
    def broken(self) -> bool:
        """Whether the share beyond the bound is shown to be more than allowed."""
        return self.share_low > self.allowed


@dataclass(frozen=True, slots=True)
class ValueLimit:
    """A statistic of one or several runs with one-sided bounds, in the unit of the statistic.

    `n_effective` is None for single numbers. `exact` marks a value that is taken as it is, without noise.
    """

    estimate: float
    low: float
    high: float
    n_effective: float | None
    exact: bool


@np.errstate(all="ignore")
def quantile_limit(
    runs: Sequence[FloatArray], q: float, bound: float, *, upper: bool, inclusive: bool, confidence: float
) -> QuantileLimit:
    """The quantile `q` of m >= 1 runs in order of time against a bound from above (`upper`) or from below.

    With `inclusive` a value on the bound is bad. A quantile is within a bound exactly when few enough values
    are beyond it, so this is a question about a share: the interval is that of Clopper and Pearson, "The use
    of confidence or fiducial limits" (1934), with the values worth what their dependence in time leaves.
    `low` and `high` are the bounds at which the answer would change, so outcome and interval never disagree.
    """
    if not upper:
        mirrored = quantile_limit(
            [-x for x in runs], 1 - q, -bound, upper=True, inclusive=inclusive, confidence=confidence
        )
        return _mirrored(mirrored)
    bad = [x >= bound if inclusive else x > bound for x in runs]
    n, count = sum(map(len, runs)), int(sum(b.sum() for b in bad))
    n_effective = _effective_size(runs, bad)
    allowed = 1 - q

    def share_low(bad_values: int) -> float:
        k = bad_values * n_effective / n
        return beta_quantile(k, n_effective - k + 1, 1 - confidence) if bad_values > 0 else 0.0

    def share_high(bad_values: int) -> float:
        k = bad_values * n_effective / n
        return beta_quantile(k + 1, n_effective - k, confidence) if bad_values < n else 1.0

    ordered = np.sort(np.concatenate(runs))
    # Both bounds grow with the count: bisection finds the first that fails, and the first that does not pass.
    fails = bisect_left(range(n + 1), True, key=lambda c: share_low(c) > allowed)
    unsure = bisect_left(range(n + 1), True, key=lambda c: share_high(c) > allowed)
    return QuantileLimit(
        estimate=sample_quantile(ordered, q),
        low=float(ordered[n - fails]) if fails <= n else None,
        high=float(ordered[n - unsure]) if unsure > 0 else None,
        n=n,
        n_effective=n_effective,
        share=count / n,
        share_low=share_low(count),
        share_high=share_high(count),
        allowed=allowed,
    )


@np.errstate(all="ignore")
def mean_limit(estimates: Sequence[StatisticEstimate], prior_runs: float, confidence: float) -> ValueLimit:
    """The mean over m >= 1 runs of a statistic with a variance (mean, total, trimmed_mean, stddev, cv).

    One run has the noise that its inside shows. With several, their spread counts, moderated by the noise
    inside, which is worth `prior_runs` runs.
    """
    m = len(estimates)
    values = np.array([e.value for e in estimates])
    n_effective = sum(e.n_effective for e in estimates)
    within = sum(e.variance or 0.0 for e in estimates) / m
    if m == 1:
        variance, df = within, max(n_effective - 1, 1.0)
    else:
        df = prior_runs + m - 1
        variance = (prior_runs * within + _squares(values)) / df / m
    return _around_mean(values, variance, df, n_effective, confidence)


@np.errstate(all="ignore")
def numbers_limit(numbers: Sequence[float], confidence: float) -> ValueLimit:
    """The mean of m >= 1 runs that are known by a single number each; one number alone is taken as it is."""
    m, values = len(numbers), np.array(numbers, dtype=np.float64)
    if m == 1:
        return ValueLimit(numbers[0], numbers[0], numbers[0], None, exact=True)
    return _around_mean(values, _squares(values) / (m - 1) / m, m - 1, None, confidence)


def _squares(values: FloatArray) -> float:
    return float(np.square(values - values.mean()).sum())


def _around_mean(
    values: FloatArray, variance: float, df: float, n_effective: float | None, confidence: float
) -> ValueLimit:
    """The mean of the values with a t interval; `variance` is that of the mean."""
    centre, margin = float(values.mean()), t_quantile(df, confidence) * math.sqrt(variance)
    return ValueLimit(centre, centre - margin, centre + margin, n_effective, exact=False)


def _mirrored(limit: QuantileLimit) -> QuantileLimit:
    """The same limit for the values with their signs changed back."""
    return QuantileLimit(
        -limit.estimate,
        None if limit.high is None else -limit.high,
        None if limit.low is None else -limit.low,
        limit.n,
        limit.n_effective,
        limit.share,
        limit.share_low,
        limit.share_high,
        limit.allowed,
    )


def _effective_size(runs: Sequence[FloatArray], bad: Sequence[BoolArray]) -> float:
    """What the values of all runs are worth, less where the runs differ in their share of bad ones."""
    taus = [_time_constant_around(x, b) for x, b in zip(runs, bad, strict=True)]
    sizes = np.array([len(x) / tau for x, tau in zip(runs, taus, strict=True)])
    counts = np.array([b.sum() / tau for b, tau in zip(bad, taus, strict=True)])
    p = counts.sum() / sizes.sum()
    if len(runs) == 1 or not 0 < p < 1:
        return float(sizes.sum())
    # The overdispersion of the counts, Pearson's chi-square over its degrees of freedom.
    dispersion = np.square(counts - p * sizes) / (sizes * p * (1 - p))
    return float(sizes.sum() / max(1.0, dispersion.sum() / (len(runs) - 1)))


def _time_constant_around(x: FloatArray, bad: BoolArray) -> float:
    """How long a run remembers which side of the bound it is on; by its ranks where few values cross it."""
    return max(time_constant(bad.astype(np.float64)), time_constant(_ranks(x)))


def _ranks(x: FloatArray) -> FloatArray:
    """The rank of each value; equal values share the mean of their ranks."""
    _, position, count = np.unique(x, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(count) - (count - 1) / 2)[position]
    return ranks


#: Beyond this many values nobody waits.
_MOST_VALUES = 10_000_000


def values_to_pass(allowed: float, confidence: float) -> int:
    """Independent values without a bad one after which at most `allowed` are shown to be bad: ln(1 - c) / ln(1 - a).

    The exact binomial bound for no bad value in n (Clopper and Pearson 1934); `allowed` is in (0, 1).
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-allowed))


def values_to_settle(share: float, allowed: float, confidence: float) -> int | None:
    """Independent values after which a percentile limit would be settled, were the bad share to stay `share`.

    The exact binomial bound (Clopper and Pearson 1934) of `share` then lies on one side of `allowed`. Both are in
    [0, 1]. Rounded up to two digits; None where they are equal, or where it would take more than ten million.
    """
    n = 1.0
    while n <= _MOST_VALUES:
        k = share * n
        low = beta_quantile(k, n - k + 1, 1 - confidence) if k > 0 else 0.0
        high = beta_quantile(k + 1, n - k, confidence) if k < n else 1.0
        if low > allowed or high <= allowed:
            return _round_up(n)
        n *= 1.05
    return None


def _round_up(n: float) -> int:
    unit = 10 ** max(0, len(str(int(n))) - 2)
    return int(-(-n // unit) * unit)
