"""Read results that are too large to be read as a whole: in bounded memory, with the same runs and problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from perfgate.core import Key, Location, Series, read_only
from perfgate.large_values.array import BLOCK, AnyArray, LargeArray, OpenScratch, Spool, as_values
from perfgate.readers.kit import MAX_FAULTS, InputFile, JsonDocument, JsonSource, Place, RunBuilder, in_base, load_json
from perfgate.readers.recorded.large_lists import Cuts, LargeLists, NumberList, RestTooLarge
from perfgate.readers.recorded.number_lists import ESCAPED_LETTER
from perfgate.readers.values import fault_in

#: The values of a file that may be in memory, if each of their series is small.
IN_MEMORY = 1 << 23
_TOO_LARGE = "this document is larger, without its `values` and `steps`,"
_ESCAPED = r"a name has a letter that is written as \u00.., which only a smaller document may have: write the letter"


class CutDocument(JsonSource):
    """A document without its numbers, whose places are those in the whole document."""

    def __init__(self, loaded: JsonDocument, cuts: Cuts) -> None:
        super().__init__(loaded)
        self._cuts = cuts

    def moved(self, at: Location) -> Location:
        """Return a place in what is left as a place in the file."""
        return self._cuts.moved(at)


class LargeNumbers:
    """The values or steps of one series: numbers in a file, and the items left in the document (see `large_lists`).

    Odd items are only in values, such as NaN: a series with an odd step was refused before, because of its form.
    """

    def __init__(self, numbers: NumberList, left: Sequence[float]) -> None:
        self.numbers, self._left = numbers, left

    def __len__(self) -> int:
        return len(self.numbers)

    def bad(self, unit: str) -> tuple[list[tuple[str, int]], int]:
        """Return the faults of the first bad values, their places in the list that is left, and the number of all."""
        odd = {*self.numbers.odd}
        found: list[tuple[str, int]] = []
        for place, at in enumerate(self.numbers.left):
            if (at in odd or unit == "s") and len(found) < MAX_FAULTS:  # others are negative: wrong only in s
                found.append((fault_in(self._left[place], unit), place + 1))  # behind the index of the list
        negative = sum(int((block < 0).sum()) for block in self._raw().blocks()) if self._are_wrong(unit) else 0
        return found, len(odd) + negative

    def good(self, unit: str) -> AnyArray:
        """Return the values that are measurements."""
        found = cast(AnyArray, self._raw())
        return found[found >= 0] if self._are_wrong(unit) else found

    def of_good(self, values: LargeNumbers, unit: str) -> AnyArray:
        """Return the steps of the values that are measurements."""
        steps, odd = self._raw(), values.numbers.odd
        if odd:  # copy what is between the steps of odd values
            kept = Spool(np.int64, self.numbers.spool.scratch)
            for begin, end in zip([0, *(at + 1 for at in odd)], [*odd, len(steps)], strict=True):
                for block in steps[begin:end].blocks():
                    kept.add(block)
            steps = kept.array(0, kept.size)
        return cast(AnyArray, steps[values._raw() >= 0] if values._are_wrong(unit) else steps)

    def _are_wrong(self, unit: str) -> bool:
        """Return whether some numbers are negative but must not be."""
        return unit == "s" and self.numbers.has_negative

    def _raw(self) -> LargeArray:
        return self.numbers.spool.array(self.numbers.start, self.numbers.stop)


class AllNumbers:
    """All lists of a document, and how much of them is in memory."""

    def __init__(self, lists: Sequence[NumberList]) -> None:
        self._lists, self._in_memory = lists, 0

    def of(self, left: Sequence[float]) -> LargeNumbers:
        """Return a list from what is left of it in the document: its index, odd items and first negative values."""
        return LargeNumbers(self._lists[int(left[0])], left[1:])

    def add_to(
        self,
        run: RunBuilder,
        key: Key,
        unit: str,
        values: LargeNumbers,
        at: Callable[[int], Place],
        *,
        per: float,
        steps: LargeNumbers | Sequence[int],
    ) -> None:
        """Add a series to a run, as `RunBuilder.samples` does."""
        faults, count = values.bad(unit)
        run.refuse_items(key, [(why, at(place)) for why, place in faults], count)
        if count < len(values):
            numbered = self._kept(steps.of_good(values, unit)) if isinstance(steps, LargeNumbers) else None
            run.finish(Series(key, unit, "samples", self._kept(in_base(values.good(unit), per)), numbered))

    def _kept(self, numbers: AnyArray) -> AnyArray:
        """Return numbers in memory, if they are few and there is room; else in their file."""
        if len(numbers) > BLOCK or self._in_memory + len(numbers) > IN_MEMORY:
            return numbers
        self._in_memory += len(numbers)
        return read_only(as_values(numbers))


def load_large(file: InputFile, scratch: OpenScratch) -> tuple[CutDocument, AllNumbers] | None:
    """Return a document without its numbers, and the numbers; None, and a problem, if that is not possible."""
    found = LargeLists(file.blocks(), scratch, file.limits.document_bytes)
    try:
        rest = found.read()
    except RestTooLarge:
        file.problems.append(file.problem("error", file.limits.beyond("document_bytes", _TOO_LARGE)))
        return None
    if ESCAPED_LETTER.search(rest):
        file.problems.append(file.problem("error", _ESCAPED))
        return None
    return CutDocument(load_json(rest, file.name, file.limits), found.cuts), AllNumbers(found.lists)
