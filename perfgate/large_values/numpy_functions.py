"""The functions of numpy that can be called with a `LargeArray`, in bounded memory: sorting, quantiles, and so on.

They work after this module is imported, which adds them to FUNCTIONS of `array`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from perfgate.large_values.array import FUNCTIONS, AnyArray, LargeArray, Ordered, Spool, as_values, elementwise

#: The number of values that are sorted at once, in memory.
CHUNK = 1 << 22
#: The number of values in the sample of a sorted chunk, and of pieces in the sample of an array.
_SAMPLES = 256
#: The number of sorted ranges that are kept: each is an open file, and a process can have a few hundred.
_KEPT = 8
#: The sorted ranges that are kept, the last used one last. A key is the id of a dictionary `LargeArray.ordered`, with
#: start and stop of a range in it; the value is that dictionary, from which the range is removed with the key.
_RECENT: dict[tuple[int, int, int], Ordered] = {}


def ascending(x: LargeArray) -> AnyArray:
    """Return the values in ascending order, NaN last. The newest results are kept."""
    kept, place = x.ordered, (x.start, x.stop)
    if place not in kept:
        if len(x) > CHUNK:
            kept[place] = _sorted_outside(x)
        else:
            found = Spool(x.dtype, x.scratch)
            found.add(np.sort(np.asarray(x)))
            kept[place] = as_values(found.array(0, found.size))
    recent = (id(kept), *place)
    _RECENT.pop(recent, None)
    _RECENT[recent] = kept
    while len(_RECENT) > _KEPT:
        oldest = next(iter(_RECENT))
        _RECENT.pop(oldest).pop(oldest[1:])
    return kept[place]


def _sorted_outside(x: LargeArray) -> AnyArray:
    """Sort each chunk in memory; then for each interval of values, merge the values of all chunks in this interval.

    Knuth, "The Art of Computer Programming" (volume 3, 5.4). The edges of the intervals are values of a sample, as in
    Shi and Schaeffer, "Parallel sorting by regular sampling" (1992). The value of each edge is an interval of its own,
    so that many equal values do not make another interval too large for memory.
    """
    chunks, samples, parts = Spool(x.dtype, x.scratch), [], []
    for start in range(0, len(x), CHUNK):
        chunk = np.sort(x.read(start, min(start + CHUNK, len(x))))
        chunks.add(chunk)
        samples.append(chunk[:: max(1, len(chunk) // _SAMPLES)].copy())
        parts.append((start, start + len(chunk)))
    every = np.sort(np.concatenate(samples))
    # a chunk has _SAMPLES in it, so about half a chunk of values, which fits into memory, is between two edges
    edges = every[_SAMPLES // 2 :: _SAMPLES // 2]
    after = np.nextafter(edges, np.inf) if x.dtype.kind == "f" else edges + 1
    merged = Spool(x.dtype, x.scratch)
    begins = [start for start, _ in parts]
    for edge in (*np.unique(np.concatenate([edges, after])), None):
        ends = []
        for begin, (_, stop) in zip(begins, parts, strict=True):
            rest = chunks.array(begin, stop)
            ends.append(stop if edge is None else begin + bisect_left(rest, edge))
        _merge(chunks, [*zip(begins, ends, strict=True)], merged)
        begins = ends
    return merged.array(0, merged.size)  # type: ignore[return-value]


def _merge(chunks: Spool, ranges: Sequence[tuple[int, int]], merged: Spool) -> None:
    """Write the values of several ascending ranges in order."""
    pieces = [chunks.array(*one) for one in ranges if one[0] < one[1]]
    # equal values, of which there may be too many for memory, need no sorting
    if pieces and min(piece[0] for piece in pieces) == max(piece[-1] for piece in pieces):
        for block in (block for piece in pieces for block in piece.blocks()):
            merged.add(block)
    elif pieces:
        merged.add(np.sort(np.concatenate([np.asarray(piece) for piece in pieces]), kind="stable"))


def _median(x: LargeArray) -> Any:
    return np.mean(_between(x, (len(x) - 1) // 2, len(x) // 2))  # of one value, or of two


def _between(x: LargeArray, first: int, last: int) -> AnyArray:
    """Return the values from rank `first` to rank `last` (from 0), which are close to each other.

    A sample gives an interval that probably includes them, and only the values in it are sorted. If they are not in it,
    all values are sorted.
    """
    if (x.start, x.stop) not in x.ordered and len(x) > CHUNK:
        pieces = [x.read(start, start + _SAMPLES) for start in range(0, len(x) - _SAMPLES, len(x) // _SAMPLES)]
        sample = np.sort(np.concatenate(pieces))
        # in ranks of the sample; the margin, on each side, is an eighth of what is sorted at once
        near, margin = first / len(x) * len(sample), CHUNK / 8 / len(x) * len(sample)
        low, high = sample[[max(0, int(near - margin)), min(len(sample) - 1, int(near + margin) + 1)]]
        below, found, size = 0, [], 0  # the number of values below `low`; the values from `low` to `high`; their number
        for block in x.blocks():
            below += int(np.count_nonzero(block < low))
            found.append(block[(block >= low) & (block <= high)])
            size += len(found[-1])
            if size > CHUNK:
                break
        if size <= CHUNK and below <= first and last < below + size:
            return np.sort(np.concatenate(found))[first - below : last - below + 1]
    return ascending(x)[first : last + 1]


def _quantile(x: LargeArray, q: Any) -> Any:
    """Return quantiles as numpy interpolates them, to the last bit."""
    ordered = ascending(x)
    places = np.asarray(q, np.float64) * (len(x) - 1)
    below = np.clip(np.floor(places), 0, len(x) - 1).astype(np.int64)
    low, high = ordered[np.atleast_1d(below)], ordered[np.atleast_1d(np.minimum(below + 1, len(x) - 1))]
    share = np.atleast_1d(places - below)
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return found if np.ndim(q) else found[0]


def _unique(x: LargeArray, return_counts: bool = False) -> Any:
    """Return the different values; they fit into memory, unless `x` is in ascending order without equal values."""
    if not return_counts and bool((x[1:] > x[:-1]).all()):
        return x
    values, counts = np.empty(0, x.dtype), np.empty(0, np.int64)
    for block in x.blocks():
        found, times = np.unique(block, return_counts=True)
        values, places = np.unique(np.concatenate([values, found]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, times]), len(values)).astype(np.int64)
    return (values, counts) if return_counts else values


def _cumsum(x: LargeArray) -> AnyArray:
    sums, last = Spool(np.result_type(x.dtype, np.int64 if x.dtype.kind in "bi" else x.dtype), x.scratch), None
    for block in x.blocks():  # each begins with the last sum before it
        found = np.cumsum(block if last is None else np.concatenate([[last], block]))
        sums.add(found if last is None else found[1:])
        last = found[-1]
    return as_values(sums.array(0, sums.size))


def _concatenate(parts: Sequence[AnyArray | LargeArray]) -> AnyArray:
    if len(parts) == 1:
        return parts[0]  # type: ignore[return-value]
    scratch = next(part.scratch for part in parts if isinstance(part, LargeArray))
    joined = Spool(np.result_type(*(part.dtype for part in parts)), scratch)
    for part in parts:
        for block in part.blocks() if isinstance(part, LargeArray) else [part]:
            joined.add(block)
    return as_values(joined.array(0, joined.size))


def _isin(elements: Any, among: Any) -> AnyArray:
    """Return a mask of the elements that are among some values; either may be a LargeArray."""
    if isinstance(elements, LargeArray):
        return elementwise(lambda block: np.isin(block, np.asarray(among)), elements)  # type: ignore[no-any-return]
    found = np.zeros(len(elements), np.bool_)
    for block in among.blocks():
        found |= np.isin(elements, block)
    return found


def _bounded(of: Callable[[Any], Any], x: LargeArray, initial: Any, choose: Callable[[Any, Any], Any]) -> Any:
    """Return a minimum or maximum; `initial` counts as one more value, as in numpy."""
    return of(x) if initial is None else choose(of(x), initial) if len(x) else initial


FUNCTIONS |= {
    np.sort: lambda x, kind=None: ascending(x),
    np.median: _median,
    np.quantile: _quantile,
    np.unique: _unique,
    np.cumsum: _cumsum,
    np.diff: lambda x: x[1:] - x[:-1],
    np.atleast_1d: lambda x: x,
    np.bincount: lambda x, minlength: sum(np.bincount(block, minlength=minlength) for block in x.blocks()),
    np.clip: lambda x, low, high: elementwise(np.clip, x, low, high),
    np.concatenate: _concatenate,
    np.array_equal: lambda a, b: np.shape(a) == np.shape(b) and bool((a == b).all()),
    np.isin: _isin,
    np.count_nonzero: lambda x: sum(int(np.count_nonzero(block)) for block in x.blocks()),
    np.sum: lambda x: x.sum(),
    np.mean: lambda x: x.mean(),
    np.var: lambda x, ddof=0: x.var(ddof),
    np.min: lambda x, initial=None: _bounded(LargeArray.min, x, initial, min),
    np.max: lambda x, initial=None: _bounded(LargeArray.max, x, initial, max),
    np.all: lambda x: x.all(),
    np.any: lambda x: x.any(),
    np.argmin: lambda x: x.argmin(),
    np.argmax: lambda x: x.argmax(),
    np.shape: lambda x: x.shape,
    np.size: len,
    np.ndim: lambda x: 1,
}
