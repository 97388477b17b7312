"""One-sided confidence bounds for a limit, in the unit of the values.

The bounds of one run describe that run. They do not include how another run would differ.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.runs import is_large
from perfgate.stats import distributions
from perfgate.stats.statistics import StatisticEstimate

#: The relative rounding error of a probability: a bound that equals the allowed share is not beyond it.
_ROUNDING = 1e-12


class QuantileLimit(Struct, frozen=True):
    """A quantile of the pooled runs, compared with a bound.

    `estimate`, `low` and `high` are in the unit of the values; a bound is None if the runs are too short for it.
    `share` is the share of the `n` values on the bad side of the bound, with the exact binomial bounds `share_low` and
    `share_high`; `n_effective` is the effective sample size. The quantile allows a bad share of `allowed`.
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
        """True if the bad share is at most the allowed share, at this confidence."""
        return self.share_high <= self.allowed

    @property
    def broken(self) -> bool:
        """True if the bad share is more than the allowed share, at this confidence."""
        return self.share_low > self.allowed


class ValueLimit(Struct, frozen=True):
    """A statistic of one or several runs with one-sided bounds, in the unit of the statistic.

    `n_effective` is None for single numbers. `exact` is True for a value without noise.
    """

    estimate: float
    low: float
    high: float
    n_effective: float | None
    exact: bool
    standard_error: float = 0.0
    degrees_of_freedom: float | None = None


@np.errstate(all="ignore")
def quantile_limit(
    runs: Sequence[distributions.FloatArray], q: float, bound: float, *, upper: bool, inclusive: bool, confidence: float
) -> QuantileLimit:
    """Compare the quantile `q` of m >= 1 runs, in order of time, with a bound from above (`upper`) or from below.

    With `inclusive`, a value on the bound is bad. A quantile is below a bound if the share of values above it is small
    enough, so the interval is one of a share: Clopper and Pearson, "The use of confidence or fiducial limits" (1934),
    with the effective sample size. `low` and `high` are the bounds at which the outcome would change, so outcome and
    interval always agree.
    """
    if not upper:
        mirrored = [-x for x in runs]
        found = quantile_limit(mirrored, 1 - q, -bound, upper=True, inclusive=inclusive, confidence=confidence)
        low, high = (None if end is None else -end for end in (found.high, found.low))
        return replace(found, estimate=-found.estimate, low=low, high=high)
    bad = [x >= bound if inclusive else x > bound for x in runs]
    n, count = sum(map(len, runs)), int(sum(b.sum() for b in bad))
    n_effective = _effective_size(runs, bad)
    allowed = 1 - q
    ordered = np.sort(np.concatenate(runs))
    # Both bounds grow with the bad count: bisection finds the first count that fails, and the first that does not pass.
    fails = bisect_left(range(n + 1), True, key=lambda c: _is_more(c, n, n_effective, allowed, confidence))
    unsure = bisect_left(range(n + 1), True, key=lambda c: not _is_less(c, n, n_effective, allowed, confidence))
    # A bound below `low` fails: at least `fails` values are bad. One beyond `high` passes: fewer than `unsure` are bad.
    low = float(ordered[n - fails]) if fails <= n else None
    high = float(ordered[n - unsure]) if unsure > 0 else None
    # The bad values in units of the effective sample size; if all are bad, exactly that size, without rounding.
    worth = count * n_effective / n if count < n else n_effective
    shares = distributions.share_bounds(worth, n_effective, confidence)
    return QuantileLimit(
        distributions.sample_quantile(ordered, q), low, high, n, n_effective, count / n, *shares, allowed
    )


def _is_more(bad: float, n: float, n_effective: float, allowed: float, confidence: float) -> bool:
    """Return whether the lower binomial bound of the share `bad` / `n` is above `allowed`, without computing it."""
    # The lower bound is a quantile. It is above `allowed` if the probability below `allowed` is less than its own.
    k = bad * n_effective / n
    return bad > 0 and distributions.beta_below(k, n_effective - k + 1, allowed) < (1 - confidence) * (1 - _ROUNDING)


def _is_less(bad: float, n: float, n_effective: float, allowed: float, confidence: float) -> bool:
    """Return whether the upper binomial bound of the share `bad` / `n` is at most `allowed`, without computing it."""
    k = bad * n_effective / n
    return bad < n and distributions.beta_below(k + 1, n_effective - k, allowed) >= confidence * (1 - _ROUNDING)


@np.errstate(all="ignore")
def mean_limit(estimates: Sequence[StatisticEstimate], prior_runs: float, confidence: float) -> ValueLimit:
    """Return the mean over m >= 1 runs of a statistic with a variance (mean, total, trimmed_mean, stddev, cv).

    The noise of one run is estimated within the run. The noise of several runs is their variance, moderated by the
    noise within the runs, which counts as `prior_runs` runs.
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
    """Return the mean of m >= 1 runs that are single numbers; one number alone has no noise."""
    m, values = len(numbers), np.array(numbers, dtype=np.float64)
    if m == 1:
        return ValueLimit(numbers[0], numbers[0], numbers[0], None, exact=True)
    return _around_mean(values, _squares(values) / (m - 1) / m, m - 1, None, confidence)


def _squares(values: distributions.FloatArray) -> float:
    return float(np.square(values - values.mean()).sum())


def _around_mean(
    values: distributions.FloatArray, variance: float, df: float, n_effective: float | None, confidence: float
) -> ValueLimit:
    """Return the mean of the values with its t interval; `variance` is the variance of the mean."""
    centre, error = float(values.mean()), math.sqrt(variance)
    margin = distributions.t_quantile(df, confidence) * error
    return ValueLimit(centre, centre - margin, centre + margin, n_effective, False, error, df)


def _effective_size(runs: Sequence[distributions.FloatArray], bad: Sequence[distributions.BoolArray]) -> float:
    """Return the effective sample size of all runs; it is smaller if the runs differ in their share of bad values."""
    taus = []
    for x, b in zip(runs, bad, strict=True):
        if is_large(x):
            from perfgate.stats.large_runs import middle_ranks

            ranks = middle_ranks(x)
        else:
            _, position, count = np.unique(x, return_inverse=True, return_counts=True)
            ranks = (np.cumsum(count) - (count - 1) / 2)[position]  # equal values have the mean of their ranks
        # If few values are bad, their autocorrelation is uncertain: the larger one of theirs and of the ranks counts.
        taus.append(max(distributions.time_constant(b.astype(np.float64)), distributions.time_constant(ranks)))
    sizes = np.array([len(x) / tau for x, tau in zip(runs, taus, strict=True)])
    counts = np.array([b.sum() / tau for b, tau in zip(bad, taus, strict=True)])
    p = counts.sum() / sizes.sum()
    if len(runs) == 1 or not 0 < p < 1:
        return float(sizes.sum())
    # The overdispersion of the counts: Pearson's chi-square over its degrees of freedom.
    dispersion = np.square(counts - p * sizes) / (sizes * p * (1 - p))
    return float(sizes.sum() / max(1.0, dispersion.sum() / (len(runs) - 1)))


#: More values than this are not suggested.
_MOST_VALUES = 10_000_000


def values_to_pass(allowed: float, confidence: float) -> int:
    """Return the number of independent values that show a bad share of at most `allowed` if none of them is bad.

    This is ln(1 - confidence) / ln(1 - allowed), from the exact binomial bound for no bad value in n (Clopper and
    Pearson 1934). `allowed` is in (0, 1).
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-allowed))


def values_to_settle(share: float, allowed: float, confidence: float) -> int | None:
    """Return the number of independent values that decide a percentile limit if the bad share stays `share`.

    With this number of values, `allowed` is outside the exact binomial interval of `share` (Clopper and Pearson 1934).
    Both are in [0, 1]. The number is rounded up to two digits. It is None if both are equal, or beyond ten million.
    """
    n = 1.0
    while n <= _MOST_VALUES:
        low, high = distributions.share_bounds(share * n, n, confidence)
        if low > allowed or high <= allowed:
            unit = 10 ** max(0, len(str(int(n))) - 2)
            return int(-(-n // unit) * unit)
        n *= 1.05
    return None
