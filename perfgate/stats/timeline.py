"""A run drawn small: which of its values to keep, and which of them are stalls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfgate.core import Better
from perfgate.stats.quantiles import BoolArray, FloatArray

#: A stall takes this many times as long as the run's median step.
STALL = 2.0


def kept_for_drawing(values: FloatArray, most: int) -> npt.NDArray[np.int64]:
    """Positions of at most `most` of the finite values, ascending: the extremes of equal stretches.

    The smallest and the largest value of every stretch are kept, so that no peak of a line drawn through them is
    lost; all finite values are kept where there are no more than `most`. `most` is at least 2.
    """
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= most:
        return finite
    stretches = np.array_split(finite, most // 2)
    extremes = [(stretch[np.argmin(values[stretch])], stretch[np.argmax(values[stretch])]) for stretch in stretches]
    return np.unique(np.array(extremes, dtype=np.int64))


def stalls(values: FloatArray, better: Better) -> BoolArray:
    """Which values of a steady run of times or rates are stalls: STALL times slower than the median.

    `better` says whether values are times ("lower", and "neither") or rates ("higher").
    """
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    usual = np.median(values)
    if not usual > 0:
        return np.zeros(len(values), dtype=np.bool_)
    return values <= usual / STALL if better == "higher" else values >= STALL * usual
