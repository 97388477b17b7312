"""What the resolution of a clock adds to the noise of a statistic."""

from __future__ import annotations

import numpy as np

from perfgate.stats.quantiles import FloatArray, sample_quantile


def clock_variance(x: FloatArray) -> float:
    """The variance that the resolution of the clock adds to the logarithm of a statistic of n >= 1 values.

    A clock with ticks rounds each value by up to half a tick: tick^2 / 12, relative to the median. Half of
    the values have to be repeated before a gap between values is taken for a tick.
    """
    ordered = np.sort(x)
    median = sample_quantile(ordered, 0.5)
    gaps = np.diff(ordered)
    distinct = 1 + np.count_nonzero(gaps)
    ticks = gaps[gaps >= 1e-9 * np.abs(x).max()]  # a smaller gap is rounding in the last digits
    if 2 * distinct > len(x) or not median > 0 or not len(ticks):
        return 0.0
    return float(np.square(ticks.min() / median)) / 12
