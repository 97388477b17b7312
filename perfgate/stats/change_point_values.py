"""The values of a history on the scale of the search: steps 1 and 2 of `change_points`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from perfgate.stats.distributions import FloatArray

IntArray = npt.NDArray[np.int64]
#: The fewest runs of a level; those of the newest are the fewest that may belong to it.
FEWEST_RUNS = 5
_CLIP = 3.0
#: Differences from the median of 9 neighbours are smaller than those from the level by about this factor.
_TO_LEVEL = 1.1
_NEIGHBOURS = 4
#: Relative differences below this are rounding.
ROUNDING = 1e-9
#: The squares of larger values would not fit into a float.
_LARGEST = 1e100


class HistoryValues(NamedTuple):
    """The runs that have a value.

    `at` (n,) are their indices, `x` (n,) the values less `offset`, `y` (n,) the same clipped, `weights` (n,) at most 1,
    `noise` the standard deviation of a run. `sums` (3, n + 1) are cumulative sums of the weights, of weight x y and of
    weight x y^2. A level is `unit` x exp(y + offset), or without the exponential if `logs` is False.
    """

    at: IntArray
    x: FloatArray
    y: FloatArray
    weights: FloatArray
    noise: float
    sums: FloatArray
    unit: float
    offset: float
    logs: bool

    def level(self, y: float) -> float:
        """Return a level in the unit of the values."""
        return self.unit * (math.exp(y + self.offset) if self.logs else y + self.offset)


class Stretches(NamedTuple):
    """The weight, the mean and the variance of stretches of runs."""

    weight: FloatArray
    mean: FloatArray
    variance: FloatArray


def prepare(values: Sequence[float] | FloatArray, errors: Sequence[float] | FloatArray | None) -> HistoryValues | None:
    """Steps 1 and 2; None if no point is possible."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise ValueError(f"values must be a sequence of numbers, not {given.ndim}-dimensional")
    at = np.flatnonzero(np.isfinite(given))
    known = _known_errors(errors, len(given))[at]
    x = given[at]
    if len(x) < 2 * FEWEST_RUNS or x.min() == x.max():
        return None
    unit = float(np.median(np.abs(x))) or float(np.abs(x).max())
    logs = bool(x.min() > 0)
    scaled = np.log(x / unit) if logs else x / unit
    scaled = np.clip(scaled, -_LARGEST, _LARGEST)
    centre = _running_median(scaled)
    noise = _TO_LEVEL * _spread(scaled - centre)
    y = np.clip(scaled, centre - _CLIP * noise, centre + _CLIP * noise)
    noise = max(noise if noise > 0 else float(y.std()), ROUNDING)
    weights = _weights(known / (x if logs else unit), noise)
    offset = float(np.median(y))
    y = y - offset  # so that the sums keep their digits
    sums = np.zeros((3, len(y) + 1))
    np.cumsum([weights, weights * y, weights * y * y], axis=1, out=sums[:, 1:])
    return HistoryValues(at, scaled - offset, y, weights, noise, sums, unit, offset, logs)


def _known_errors(errors: Sequence[float] | FloatArray | None, n: int) -> FloatArray:
    """Return the errors (n,), NaN where they are not known."""
    if errors is None:
        return np.full(n, np.nan)
    known = np.asarray(errors, dtype=np.float64)
    if known.shape != (n,):
        raise ValueError(f"errors must have one number for each of the {n} values, not the shape {known.shape}")
    if (known < 0).any():
        raise ValueError("an error is a standard error and must not be negative")
    return np.where(known > 0, known, np.nan)


def _weights(relative_errors: FloatArray, noise: float) -> FloatArray:
    """Return s^2 / (s^2 + e^2 - m^2), at most 1: the noise s includes the usual error, the median m."""
    if np.isnan(relative_errors).all():
        return np.ones(len(relative_errors))
    squares = np.square(np.nan_to_num(relative_errors, nan=0.0))
    usual = float(np.nanmedian(np.square(relative_errors)))
    weights = noise**2 / (noise**2 + np.maximum(squares - usual, 0.0))
    return np.maximum(weights, ROUNDING)


def _running_median(x: FloatArray) -> FloatArray:
    """Return the median of each value and up to 4 neighbours on each side; fewer at the ends."""
    h = _NEIGHBOURS
    centre = np.empty(len(x))
    centre[h:-h] = np.partition(sliding_window_view(x, 2 * h + 1), h, axis=1)[:, h]  # three times as fast as np.median
    for i in range(h):
        centre[i] = np.median(x[: i + h + 1])
        centre[-1 - i] = np.median(x[-1 - i - h :])
    return centre


def _spread(residuals: FloatArray) -> float:
    """Return the larger of the MAD and the 10-90 % range, as a standard deviation: with two modes the MAD is 0."""
    low, high = np.quantile(residuals, (0.1, 0.9))
    return float(max(1.4826 * np.median(np.abs(residuals)), (high - low) / 2.563))


def levels_of(history: HistoryValues, start: IntArray, end: IntArray) -> Stretches:
    """Return the weight, the mean and the variance of the runs from each `start` to before each `end`."""
    weight, total, squares = history.sums[:, end] - history.sums[:, start]
    mean = total / weight
    return Stretches(weight, mean, np.maximum(squares / weight - mean * mean, 0.0))
