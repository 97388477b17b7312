"""Distributions, quantiles, autocorrelation, and a correction for many comparisons.

Single numbers need no scipy, whose import takes longer than a small check (`special.py`); arrays do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from perfgate.core.runs import is_large
from perfgate.stats.special import beta_power, incomplete_beta, incomplete_gamma_above

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
_NORMAL = NormalDist()
#: The degrees of freedom from which Student's t is computed by its expansion around the normal distribution.
_ALMOST_NORMAL = 3e4
#: A quantile whose logarithm is larger, such as that of a hundredth of a degree of freedom, counts as infinite.
_FAR = 345


@lru_cache(maxsize=4096)
def t_quantile(degrees_of_freedom: float, probability: float) -> float:
    """Return the quantile of Student's t; the degrees of freedom may be fractional or infinite."""
    if math.isinf(degrees_of_freedom):
        return normal_quantile(probability)
    tail = min(probability, 1 - probability)
    t = _t_beyond(degrees_of_freedom, tail) if tail < 0.5 else 0.0
    return t if probability > 0.5 else -t


def _t_beyond(df: float, tail: float) -> float:
    """Return the t > 0 that Student's t exceeds with the probability `tail` < 0.5."""
    if tail <= 0:
        return math.inf
    # Newton's method; beyond 1 on logarithms, which are almost a line there. It begins at the expansion around the
    # normal quantile, or at the quantile for df = 1.
    z = -normal_quantile(tail)
    t = z + (z**3 + z) / (4 * df) if df >= 3 else 1 / math.tan(math.pi * tail)
    for _ in range(100):
        x, y = _t_as_beta(df, t)
        found, density = t_tail(df, t), beta_power(df / 2, 0.5, x, y) / t
        before = t
        if t < 1:
            t = max(t + (found - tail) / density, t / 4)
        else:
            step = math.log(found / tail) * found / (t * density)
            if math.log(t) + step > _FAR:
                return math.inf
            t *= math.exp(step)
        if abs(t - before) <= 1e-9 * t:  # the error is the square of this
            break
    return t


def _t_as_beta(df: float, t: float) -> tuple[float, float]:
    """Return df / (df + t^2) and t^2 / (df + t^2), whose distribution is a beta distribution."""
    total = df + t * t
    return df / total, t * t / total


def t_tail(degrees_of_freedom: float, t: float) -> float:
    """Return the probability that Student's t exceeds `t`."""
    df = degrees_of_freedom
    if t < 0:
        return 1 - t_tail(df, -t)  # only here: for a small tail, the difference would lose digits
    if df <= _ALMOST_NORMAL:
        return incomplete_beta(df / 2, 0.5, *_t_as_beta(df, t)) / 2
    # The expansion in 1 / df around the normal distribution: Fisher, "Expansion of Student's integral" (1925).
    s = t * t
    terms = (
        (s + 1) / 4,
        (((3 * s - 7) * s - 5) * s - 3) / 96,
        (((((s - 11) * s + 14) * s + 6) * s - 3) * s - 15) / 384,
    )
    correction = sum(term / df**power for power, term in enumerate(terms, 1))
    return normal_tail(t) + t * correction * math.exp(-s / 2) / math.sqrt(2 * math.pi)


def f_tail(above: float, below: float, f: float) -> float:
    """Return the probability that Fisher's F with these degrees of freedom exceeds `f`; `below` may be infinite."""
    if math.isinf(below):
        return incomplete_gamma_above(above / 2, above * f / 2)
    total = below + above * f
    return incomplete_beta(below / 2, above / 2, below / total, above * f / total)


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution; infinite for a probability of 0 or 1."""
    if not 0 < probability < 1:
        return math.copysign(math.inf, probability - 0.5)
    return _NORMAL.inv_cdf(probability)


@overload
def normal_tail(z: float) -> float: ...
@overload
def normal_tail(z: FloatArray) -> FloatArray: ...
def normal_tail(z: float | FloatArray) -> float | FloatArray:
    """Return the probability that a standard normal variable exceeds `z`, for each element of an array."""
    if isinstance(z, float):
        return math.erfc(z / math.sqrt(2)) / 2
    from scipy.special import ndtr

    tail: FloatArray = ndtr(-z)
    return tail


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, probability: float) -> float:
    """Return the quantile of the beta(a, b) distribution."""
    low, high = 0.0, 1.0
    x = a / (a + b)
    for _ in range(400):
        found, density = beta_below(a, b, x), beta_power(a, b, x, 1 - x) / (x * (1 - x))
        low, high = (x, high) if found < probability else (low, x)
        before = x
        # Newton's method; below the median on logarithms, because the lower tail is a power of x.
        if probability >= 0.5:
            x += (probability - found) / density if density else math.inf
        else:
            x *= math.exp(min(math.log(probability / found) * found / (x * density), 50.0)) if found else math.inf
        if not low < x < high:
            x = (low + high) / 2
        if abs(x - before) <= 1e-13 * x or x < 1e-300:
            break
    return x


def beta_below(a: float, b: float, x: float) -> float:
    """Return the probability that a variable of the beta(a, b) distribution is below `x`."""
    return incomplete_beta(a, b, x, 1 - x)


def sample_quantile(ordered: FloatArray, q: float) -> float:
    """Return the quantile `q` in [0, 1] of ascending values, n >= 1, by linear interpolation at q (n - 1).

    This is type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), the default of numpy.
    """
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (position - below) * (high - low)


def time_constant(series: FloatArray) -> float:
    """Return the integrated autocorrelation time of a series in order of time, in values; at least 1.

    n / time_constant is the effective sample size: as many independent values give a mean of the same uncertainty. The
    result is the larger of two estimates: the first-order process works for short series, and the summed
    autocorrelations for slow changes. It is at most n / 4, and at most 2 for fewer than 8 values. Series of fewer than
    5 values, which are too short for an estimate, and constant series have 1.
    """
    n = len(series)
    if n < 5 or series.max() == series.min():
        return 1.0
    # The sample autocorrelations from lag 1: lagged products over the total sum of squares.
    longest_lag = max(3, min(n // 3, 200))
    if is_large(series):
        from perfgate.stats.large_runs import lagged_products

        products = lagged_products(series, longest_lag)
    else:
        size = 1 << (n + longest_lag - 1).bit_length()  # padded so that the products do not wrap around
        spectrum = np.fft.rfft(series - series.mean(), size)
        products = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    correlations = products[1 : longest_lag + 1] / products[0]
    if not np.isfinite(correlations).all():  # the squares of the differences underflow or overflow
        return 1.0
    # A first-order autoregression has (1 + a) / (1 - a), unless the correlation may be chance. The lag-one
    # autocorrelation is biased by -(1 + 3 a) / n (Marriott and Pope 1954; Kendall 1954).
    lag_one = float(correlations[0])
    # At most 0.97, because the time constant is infinite at 1.
    a = min(0.97, lag_one + (1 + 3 * max(lag_one, 0.0)) / n)
    first_order = (1 + a) / (1 - a) if a > 2 / math.sqrt(n) else 1.0
    longest = n / 4 if n >= 8 else 2.0
    return min(max(1.0, first_order, _summed(correlations, n)), longest)


def _summed(correlations: FloatArray, n: int) -> float:
    """Return 1 + 2 times the sum of autocorrelations, added in pairs until a pair is not significant.

    The initial positive sequence of Geyer, "Practical Markov chain Monte Carlo" (1992). Each correlation is corrected
    for its bias of -1 / n.
    """
    even = len(correlations) // 2 * 2
    pairs = correlations[0:even:2] + correlations[1:even:2] + 2 / n
    lost = pairs <= 1 / math.sqrt(n)
    end = int(lost.argmax()) if lost.any() else len(pairs)
    return 1 + 2 * float(pairs[:end].sum())


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Return which hypotheses to reject, with a false discovery rate of at most `rate`.

    Benjamini and Hochberg, "Controlling the false discovery rate" (1995): of n sorted p-values, all up to the largest
    one that is at most rate * rank / n. This is valid for positively correlated metrics, too (Benjamini and Yekutieli
    2001), as the metrics of one run are.
    """
    n = len(p_values)
    kept = (p for rank, p in enumerate(sorted(p_values), 1) if p <= rate * rank / n)
    largest = max(kept, default=-1.0)
    return [p <= largest for p in p_values]


def share_bounds(count: float, total: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact one-sided bounds of a share, `count` of `total` (Clopper and Pearson 1934)."""
    low = beta_quantile(count, total - count + 1, 1 - confidence) if count > 0 else 0.0
    return low, beta_quantile(count + 1, total - count, confidence) if count < total else 1.0
