"""How long a series remembers: the number of consecutive values that are worth one independent value."""

from __future__ import annotations

import math

import numpy as np

from perfgate.stats.quantiles import FloatArray


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
