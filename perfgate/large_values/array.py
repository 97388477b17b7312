"""Values that are too many for memory: arrays in temporary files, which numpy's functions read piece by piece.

A `LargeArray` can replace a one-dimensional float64, int64 or bool array: it has numpy's protocols for arrays of
other libraries, `__array_ufunc__` (NEP 13) and `__array_function__` (NEP 18). Arithmetic with it is done when its
results are read. Sums are added in numpy's order, so every result has the same bits as in memory, if no value is NaN.
All functions that are neither in this class nor in FUNCTIONS read the whole array into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partialmethod
from operator import index
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias, cast
from weakref import finalize

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]


class ScratchFile(Protocol):
    """A temporary file without a name: the system deletes it when the program ends."""

    def write(self, data: memoryview, /) -> int:
        """Write bytes, or some of them, and return how many."""

    def readinto(self, data: memoryview, /) -> int:
        """Read bytes into memory, and return how many."""

    def seek(self, place: int, /) -> int:
        """Go to a place."""

    def close(self) -> None:
        """Close the file."""


OpenScratch: TypeAlias = Callable[[], ScratchFile]
#: By start and stop of a range: its values in ascending order.
Ordered: TypeAlias = dict[tuple[int, int], AnyArray]
#: The number of values that are read at once.
BLOCK = 1 << 18
#: The value of one item that decides a reduction of truths.
_SETTLED_BY: dict[np.ufunc, bool] = {np.logical_or: True, np.maximum: True, np.logical_and: False, np.minimum: False}


class Spool:
    """Values of one type in a temporary file: first they are written, then they are read."""

    def __init__(self, dtype: npt.DTypeLike, scratch: OpenScratch) -> None:
        self.dtype, self.scratch = np.dtype(dtype), scratch
        self.size = 0
        #: The ranges that were sorted, for all arrays of this file.
        self._ordered: Ordered = {}
        self._file = scratch()
        finalize(self, self._file.close)

    def add(self, values: AnyArray) -> None:
        """Write values after the others."""
        written = np.ascontiguousarray(values, self.dtype)
        left = memoryview(written.data).cast("B") if len(written) else memoryview(b"")
        self._file.seek(self.size * self.dtype.itemsize)  # reading leaves another place
        while left:
            left = left[self._file.write(left) :]
        self.size += len(written)

    def read(self, start: int, stop: int) -> AnyArray:
        """Return the values from `start` to `stop`."""
        found = np.empty(stop - start, self.dtype)
        self._file.seek(start * self.dtype.itemsize)
        if len(found) and self._file.readinto(memoryview(found.data).cast("B")) < found.nbytes:
            raise EOFError("a temporary file lost its end")
        return found

    def array(self, start: int, stop: int) -> LargeArray:
        """Return a range of the values as an array. Nothing is written afterwards."""
        return LargeArray(self.read, start, stop, self.dtype, self.scratch, self._ordered)


#: By numpy's function: its replacement for a LargeArray. The module `numpy_functions` has them.
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}


class LargeArray(np.lib.mixins.NDArrayOperatorsMixin):
    """The values from `start` to `stop` of something that can be read in pieces: a file, or arithmetic with arrays."""

    ndim = 1
    #: As numpy says that an array cannot be changed.
    flags = SimpleNamespace(writeable=False)

    def __init__(
        self,
        read: Callable[[int, int], AnyArray],
        start: int,
        stop: int,
        dtype: npt.DTypeLike,
        scratch: OpenScratch,
        ordered: Ordered | None = None,
    ) -> None:
        self._read, self.start, self.stop = read, start, stop
        self.dtype, self.scratch = np.dtype(dtype), scratch
        #: The ranges of the same source that were sorted.
        self.ordered: Ordered = {} if ordered is None else ordered

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self)

    @property
    def shape(self) -> tuple[int]:
        """The number of values, as numpy has it."""
        return (len(self),)

    def read(self, start: int, stop: int) -> AnyArray:
        """Return the values from `start` to `stop` in memory."""
        return self._read(self.start + start, self.start + stop)

    def blocks(self) -> Iterator[AnyArray]:
        """Yield all values in memory, BLOCK at a time."""
        for start in range(0, len(self), BLOCK):
            yield self.read(start, min(start + BLOCK, len(self)))

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        found = np.empty(len(self), self.dtype)
        for start in range(0, len(self), BLOCK):
            found[start : start + BLOCK] = self.read(start, min(start + BLOCK, len(self)))
        return found if dtype is None else found.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Callable[..., LargeArray], tuple[AnyArray, OpenScratch]]:
        return _stored, (np.asarray(self), self.scratch)  # another process cannot open the file, but has its own

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            begin, end = self.start + start, self.start + max(start, stop)
            return LargeArray(self._read, begin, end, self.dtype, self.scratch, self.ordered)
        if isinstance(key, LargeArray) and key.dtype == np.bool_:  # the values for which it is true
            kept = Spool(self.dtype, self.scratch)
            for block, wanted in zip(self.blocks(), key.blocks(), strict=True):
                kept.add(block[wanted])
            return as_values(kept.array(0, kept.size))
        if isinstance(key, np.ndarray) and key.ndim == 1 and key.dtype.kind in "iu":
            return self._picked(key)
        if hasattr(key, "__index__") and not (isinstance(key, np.ndarray) and key.ndim):
            at = index(key)
            at = at + len(self) if at < 0 else at
            if not 0 <= at < len(self):
                raise IndexError(f"index {at} of {len(self)} values")
            return self.read(at, at + 1)[0]
        return np.asarray(self)[key]

    def _picked(self, places: AnyArray) -> AnyArray:
        """The values at these positions; each block is read once."""
        places = np.where(places < 0, places + len(self), places)
        found = np.empty(len(places), self.dtype)
        blocks = places // BLOCK
        for block in np.unique(blocks).tolist():
            inside = blocks == block
            start = block * BLOCK
            found[inside] = self.read(start, min(start + BLOCK, len(self)))[places[inside] - start]
        return found

    # --- numpy's functions --------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options and ufunc.nout == 1:
            return elementwise(ufunc, *inputs)
        if method == "reduce" and set(options) <= {"axis"}:
            return self._reduced(ufunc)
        plain = [np.asarray(one) if isinstance(one, LargeArray) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if (own := FUNCTIONS.get(function)) is not None:
            return own(*args, **options)
        return function(*map(in_memory, args), **{name: in_memory(one) for name, one in options.items()})

    def _reduced(self, ufunc: np.ufunc) -> Any:
        """All values combined by a function of two numbers, such as `np.minimum`."""
        if ufunc is np.add:
            return self._sum(0, len(self))
        found = None
        for block in self.blocks():
            part = ufunc.reduce(block)
            found = part if found is None else ufunc(found, part)
            if self.dtype == np.bool_ and _SETTLED_BY.get(ufunc) == found:
                break  # the rest changes nothing
        return ufunc.reduce(np.empty(0, self.dtype)) if found is None else found

    def _sum(self, start: int, stop: int) -> Any:
        """The sum in the order of numpy (pairwise summation): halves are added, and halves of these."""
        if stop - start <= BLOCK:
            return np.add.reduce(self.read(start, stop))
        half = (stop - start) // 2
        half -= half % 8  # as numpy does, which adds eight at once
        return self._sum(start, start + half) + self._sum(start + half, stop)

    sum = partialmethod(_reduced, np.add)
    min = partialmethod(_reduced, np.minimum)
    max = partialmethod(_reduced, np.maximum)
    all = partialmethod(_reduced, np.logical_and)
    any = partialmethod(_reduced, np.logical_or)

    def mean(self) -> Any:
        """Return the mean."""
        return np.float64(self.sum() / len(self))

    def var(self, ddof: int = 0) -> Any:
        """Return the variance."""
        return np.float64(np.square(self - self.mean()).sum() / (len(self) - ddof))

    def _place(self, of: Callable[[AnyArray], Any], is_beyond: np.ufunc) -> int:
        """The position of the first largest or smallest value: `of` finds it in a block, `is_beyond` compares two."""
        best, place = None, 0
        for at, block in enumerate(self.blocks()):
            inside = int(of(block))
            if best is None or is_beyond(block[inside], best):
                best, place = block[inside], at * BLOCK + inside
                if self.dtype == np.bool_ and best == (is_beyond is np.greater):
                    break  # no value is beyond this one
        return place

    argmax = partialmethod(_place, np.argmax, np.greater)
    argmin = partialmethod(_place, np.argmin, np.less)

    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> LargeArray:
        """Return the values as another type."""
        return LargeArray(lambda start, stop: self.read(start, stop).astype(dtype), 0, len(self), dtype, self.scratch)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of an array, from the whole array in memory."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def elementwise(function: Callable[..., AnyArray], *inputs: Any) -> Any:
    """Return a function of numbers for each value of arrays of one length; it is computed when it is read.

    `inputs`: arrays and single numbers, at least one LargeArray.
    """
    large = [one for one in inputs if isinstance(one, LargeArray)]
    size = len(large[0])
    # an array of one value is as a single number, unless the large ones have one value, too
    operands = [one.reshape(()) if isinstance(one, np.ndarray) and one.size == 1 != size else one for one in inputs]
    if any(isinstance(one, LargeArray | np.ndarray) and one.ndim and len(one) != size for one in operands):
        raise ValueError(f"arrays of {', '.join(str(np.size(one)) for one in operands)} values do not fit together")

    def read(start: int, stop: int) -> AnyArray:
        arrays = [one[start:stop] if isinstance(one, np.ndarray) and one.ndim else one for one in operands]
        return function(*(one.read(start, stop) if isinstance(one, LargeArray) else one for one in arrays))

    return LargeArray(read, 0, size, read(0, 0).dtype, large[0].scratch)


def _stored(values: AnyArray, scratch: OpenScratch) -> LargeArray:
    """Return values as a LargeArray with a file of its own."""
    spool = Spool(values.dtype, scratch)
    spool.add(values)
    return spool.array(0, spool.size)


def in_memory(value: Any) -> Any:
    """Return an argument of a function with every LargeArray in it read into memory."""
    if isinstance(value, list | tuple):
        return type(value)(map(in_memory, value))
    return np.asarray(value) if isinstance(value, LargeArray) else value


def as_values(values: AnyArray | LargeArray) -> AnyArray:
    """Return an array as the values of a series: in memory if it is one block, else as a LargeArray."""
    if isinstance(values, LargeArray) and len(values) > BLOCK:
        return cast(AnyArray, values)
    return np.asarray(values)
