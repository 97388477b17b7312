"""What the other modules use: quantiles, autocorrelation, and a correction for many comparisons.

`scipy.special` is imported where it is called, because `inspect` does not need it. `scipy.stats` has the same
distributions, but takes half a second to import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def t_quantile(degrees_of_freedom: float, probability: float) -> float:
    """Return the quantile of Student's t; the degrees of freedom may be fractional."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, probability))


def t_tail(degrees_of_freedom: float, t: float) -> float:
    """Return the probability that Student's t exceeds `t`."""
    from scipy.special import stdtr

    return float(stdtr(degrees_of_freedom, -t))  # by symmetry; 1 - stdtr(t) would lose digits in the tail


def f_tail(above: float, below: float, f: float) -> float:
    """Return the probability that Fisher's F with these degrees of freedom exceeds `f`; `below` may be infinite."""
    from scipy.special import chdtrc, fdtrc

    return float(chdtrc(above, above * f) if math.isinf(below) else fdtrc(above, below, f))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(probability))


@overload
def normal_tail(z: float) -> float: ...
@overload
def normal_tail(z: FloatArray) -> FloatArray: ...
def normal_tail(z: float | FloatArray) -> float | FloatArray:
    """Return the probability that a standard normal variable exceeds `z`, for each element of an array."""
    from scipy.special import ndtr

    tail: FloatArray = ndtr(-np.asarray(z))
    return float(tail) if isinstance(z, float) else tail


def beta_quantile(a: float, b: float, probability: float) -> float:
    """Return the quantile of the beta(a, b) distribution."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))


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
    size = 1 << (n + longest_lag - 1).bit_length()  # padded so that the products do not wrap around
    spectrum = np.fft.rfft(series - series.mean(), size)
    products = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    correlations = products[1 : longest_lag + 1] / products[0]
    if not np.isfinite(correlations).all():  # the squares of the differences underflow or overflow
        return 1.0
    # A first-order autoregression has (1 + a) / (1 - a), unless the correlation may be chance. The lag-one
    # autocorrelation is biased by -(1 + 3 a) / n (Marriott and Pope 1954; Kendall 1954).
    lag_one = float(correlations[0])
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
