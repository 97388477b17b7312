"""Student's t, the beta distribution, quantiles of a sample, and many comparisons at once.

`scipy.special` is imported where it is called: `inspect` does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def t_quantile(degrees_of_freedom: float, probability: float) -> float:
    """The point that Student's t stays below with this probability; the degrees may be fractional."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, probability))


def t_tail(degrees_of_freedom: float, t: float) -> float:
    """The probability that Student's t exceeds `t`.

    By symmetry it is the distribution function at `-t`, which keeps its digits far out in the tail.
    """
    from scipy.special import stdtr

    return float(stdtr(degrees_of_freedom, -t))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """The point that a beta(a, b) variable stays below with this probability."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))


def sample_quantile(ordered: FloatArray, q: float) -> float:
    """The quantile `q` in [0, 1] of ascending values, n >= 1, by linear interpolation at q (n - 1).

    This is type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), the default of
    numpy.
    """
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (position - below) * (high - low)


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses to reject so that at most a share `rate` of the rejected ones is true on average.

    Benjamini and Hochberg, "Controlling the false discovery rate" (1995): of n sorted p-values all up to the largest
    that is at most rate * rank / n. It holds for metrics that rise and fall together, too (Benjamini and Yekutieli
    2001), as those of one run do.
    """
    n = len(p_values)
    kept = (p for rank, p in enumerate(sorted(p_values), 1) if p <= rate * rank / n)
    largest = max(kept, default=-1.0)
    return [p <= largest for p in p_values]
