"""Statistics of values that are too many for memory, where numpy's functions alone would need all of them at once."""

from __future__ import annotations

from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from perfgate.large_values.array import LargeArray, Spool, elementwise

FloatArray: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int64]
#: The length of a Fourier transform; it is many times as long as the longest lag.
_TRANSFORM = 1 << 16
#: A rank is counted in this many of the sorted values, so it is right to one part in _KNOTS.
_KNOTS = 1 << 14


def lagged_products(series: FloatArray, longest_lag: int) -> FloatArray:
    """Return, for each lag from 0 to `longest_lag`, the sum of the products of differences from the mean at that lag.

    The values are transformed in pieces: the products of each piece with itself and with the values after it are added
    as spectra. The sums differ from those of one transform only by rounding, about 1e-15 of the sum of squares.
    """
    centred = cast(LargeArray, series - series.mean())
    piece = _TRANSFORM - longest_lag
    spectrum = np.zeros(_TRANSFORM // 2 + 1, np.complex128)
    for start in range(0, len(centred), piece):
        values = centred.read(start, min(start + _TRANSFORM, len(centred)))
        own = np.fft.rfft(values[:piece], _TRANSFORM)
        spectrum += np.conj(own) * np.fft.rfft(values, _TRANSFORM)
    products: FloatArray = np.fft.irfft(spectrum, _TRANSFORM)[: longest_lag + 1]
    return products


def middle_ranks(x: FloatArray) -> FloatArray:
    """Return the rank of each value; equal values have the mean of their ranks. Beyond _KNOTS values, it is rounded."""
    ordered = np.sort(x)
    knots = ordered[np.linspace(0, len(x) - 1, min(len(x), _KNOTS)).astype(np.int64)]
    scale = len(x) / len(knots) / 2
    large = cast(LargeArray, x)
    # Twice the rank of each value among the knots, less 1: the number of knots below it, plus the number up to it.
    doubled = Spool(np.uint16, large.scratch)  # searching takes long, and the ranks are read several times
    for block in large.blocks():
        below = np.searchsorted(knots, block)
        up_to = below.copy()
        is_knot = knots[below] == block
        up_to[is_knot] = np.searchsorted(knots, block[is_knot], "right")
        doubled.add(below + up_to)
    return cast(FloatArray, elementwise(lambda block: (block + 1.0) * scale, doubled.array(0, doubled.size)))


def counted(like: FloatArray) -> Places:
    """Return 1, 2, 3, ... as a large array: one number for each value of another one."""
    large = cast(LargeArray, like)
    return cast(Places, LargeArray(np.arange, 1, len(large) + 1, np.int64, large.scratch))


def drawn_places(values: FloatArray, most: int) -> Places:
    """Return the places of the smallest and the largest value of each of `most` // 2 equal stretches, ascending."""
    size, more = divmod(len(values), most // 2)
    ends = np.cumsum([size + (part < more) for part in range(most // 2)]).tolist()
    begins = [0, *ends[:-1]]
    stretches = [(begin, values[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    return np.unique([begin + int(place) for begin, one in stretches for place in (one.argmin(), one.argmax())])
