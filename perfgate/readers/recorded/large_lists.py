"""Separate a results document with very many numbers: the rest of the document, and numbers in temporary files.

The lists `"values": [...]` and `"steps": [...]` are decoded piece by piece. A list leaves in the document its index
among all lists, its *odd* items, which are not numbers of the right kind (such as NaN), and its first negative values,
which may be wrong: these are in the file of numbers, too. So the rest is small, has every fault, and is read as
strictly as any document. `Cuts` translates its places to those in the whole document.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec
import numpy as np
from msgspec.structs import replace

import perfgate.large_values.numpy_functions  # for the arrays of the lists  # noqa: F401
from perfgate.core import Location
from perfgate.large_values.array import AnyArray, OpenScratch, Spool
from perfgate.readers.recorded.number_lists import LARGEST_STEP, AnyDecoder

_LIST = re.compile(rb'"(values|steps)"[ \t\n\r]*:[ \t\n\r]*\[')
#: The beginning of a list, if the rest of it is in the next block.
_BEGINS = re.compile(rb'"[a-z]{0,6}"?[ \t\n\r]*:?[ \t\n\r]*\Z')
_EMPTY = re.compile(rb"[ \t\n\r]*\]")
_BLANKS = re.compile(rb"[ \t\n\r]*")
#: The blocks of the file that are taken together, and the bytes of a list that are decoded at once.
_BLOCKS = 8
_PIECE = 1 << 20
#: The bytes of the longest odd item, such as a text, and the least bytes of memory that are counted for such an item.
_ODD_BYTES = 1 << 16
_ODD_COSTS = 64
#: The negative values of a list that are left in the document: no more are shown.
_SHOWN = 20
_DECODERS: dict[str, AnyDecoder] = {
    "values": msgspec.json.Decoder(list[float]),
    "steps": msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=LARGEST_STEP)]]),
}
#: Finds the end of any value; `float` accepts numbers of any length.
_ANY = json.JSONDecoder(parse_int=float)


class RestTooLarge(Exception):
    """Without its lists of numbers, the document is still too large."""


class Cuts:
    """The places where text was cut out of a document, or put in."""

    def __init__(self) -> None:
        #: For each cut: its place, the byte of the rest behind it; the line ends that were cut out; the letters that
        #: were cut out behind the last line end; and the letters that were put in before the place.
        self.rows: list[tuple[int, int, int, int]] = []
        #: The line and the column of each cut in the rest.
        self._places: list[tuple[int, int]] = []

    def add(self, at: int, text: bytes, put: bytes = b"") -> None:
        """Note that a text was cut out before the byte `at` of the rest, where the bytes `put` were put in instead."""
        lines = text.count(b"\n")
        width = len(text) - text.rfind(b"\n") - 1 if lines else len(text)
        letters_put = len(put)
        # `at` is behind the bytes put in. Nothing of the file is left between this cut and the last: one larger cut.
        if self.rows and self.rows[-1][0] == at - len(put):
            _, lines_before, width_before, put_before = self.rows.pop()
            width = width if lines else width_before + width
            lines, letters_put = lines_before + lines, put_before + letters_put
        self.rows.append((at, lines, width, letters_put))

    def locate(self, rest: bytes) -> None:
        """Find the line and column of each cut in the rest."""
        line, begin, last, found = 1, 0, 0, []
        for at, *_ in self.rows:
            line += rest.count(b"\n", last, at)
            begin = max(begin, rest.rfind(b"\n", last, at) + 1)
            found.append((line, len(rest[begin:at].decode("utf-8", "replace")) + 1))
            last = at
        self._places = found

    def moved(self, at: Location) -> Location:
        """Return a place in the rest as a place in the whole document."""
        line, column = at.line or 1, at.column or 1
        count = bisect_right(self._places, (line, column))
        lines = shift = 0
        cuts = zip(self._places[:count], self.rows[:count], strict=True)
        for (cut_line, cut_column), (_, lines_cut, width, put) in cuts:
            lines += lines_cut
            if cut_line == line:  # behind line ends that were cut out, columns begin again
                shift = width + 1 - cut_column if lines_cut else shift + width - put
        return replace(at, line=line + lines, column=column + shift)


class NumberList:
    """One list: its numbers, without the odd items, are those of a spool (a temporary file) from `start` to `stop`."""

    def __init__(self, spool: Spool) -> None:
        self.spool, self.start, self.stop = spool, spool.size, spool.size
        #: The indices of all items that are left in the document, and of the odd items alone. The other items that are
        #: left are negative numbers, which the spool has, too.
        self.left: list[int] = []
        self.odd: list[int] = []
        self.has_negative = False

    def __len__(self) -> int:
        return self.stop - self.start + len(self.odd)

    @property
    def shows_negative(self) -> bool:
        """Return whether the next negative number is left in the document, to be shown."""
        return len(self.left) - len(self.odd) < _SHOWN

    def add(self, numbers: AnyArray) -> None:
        """Add numbers to the end."""
        self.spool.add(numbers)
        self.stop = self.spool.size


class LargeLists:
    """A document in blocks of bytes, without its lists, which are in temporary files."""

    def __init__(self, blocks: Iterator[bytes], scratch: OpenScratch, most: int) -> None:
        self.lists: list[NumberList] = []
        self.cuts = Cuts()
        self._blocks, self._scratch, self._most = blocks, scratch, most
        self._spools: dict[str, Spool] = {}
        #: The rest of the document so far: its pieces, its bytes, and the bytes of memory that it counts as.
        self._rest: list[bytes] = []
        self._size = self._cost = 0
        #: The bytes that are being read, and the place in them.
        self._data, self._at = b"", 0
        #: True after something that is not JSON, and after the last byte of the file.
        self._is_broken = self._has_ended = False

    def read(self) -> str:
        """Return the document without its lists, up to the first thing that is not JSON.

        Raises RestTooLarge.
        """
        while not self._is_broken:
            if found := _LIST.search(self._data, self._at):
                self._keep(found.end())
                self._list(found[1].decode())
                continue
            if len(self._data) - self._at > _ODD_BYTES and not self._data[-_ODD_BYTES:].strip():
                raise RestTooLarge  # a list may begin before these blanks, and they do not fit into memory
            begins = _BEGINS.search(self._data, max(self._at, len(self._data) - _ODD_BYTES))
            self._keep(begins.start() if begins else len(self._data))
            if not self._more():
                self._keep(len(self._data))
                break
        rest = b"".join(self._rest)
        self.cuts.locate(rest)
        return rest.decode("utf-8", "replace")

    def _more(self) -> bool:
        """Read more of the file; False at its end."""
        blocks = list(islice(self._blocks, _BLOCKS))
        self._data = b"".join([self._data[self._at :], *blocks])
        self._at = 0
        self._has_ended = not blocks
        return bool(blocks)

    def _keep(self, end: int) -> None:
        """Leave the data up to `end` in the document."""
        self._put(self._data[self._at : end])
        self._at = end

    def _put(self, text: bytes, cost: int = 0) -> None:
        """Add text to the rest; it counts as at least `cost` bytes of memory. Raises RestTooLarge."""
        self._rest.append(text)
        self._size += len(text)
        self._cost += max(len(text), cost)
        if self._cost > self._most:
            raise RestTooLarge

    def _list(self, kind: str) -> None:
        """Read a list from behind its opening bracket up to its closing bracket, which stays in the rest."""
        while (blanks := _BLANKS.match(self._data, self._at)) and blanks.end() == len(self._data) and self._more():
            pass  # the first item is in the next blocks
        if _EMPTY.match(self._data, self._at) or self._at == len(self._data):
            return
        if kind not in self._spools:
            self._spools[kind] = Spool(np.float64 if kind == "values" else np.int64, self._scratch)
        numbers, decoder = NumberList(self._spools[kind]), _DECODERS[kind]
        self._put(index := str(len(self.lists)).encode())
        self.cuts.add(self._size, b"", index)
        self.lists.append(numbers)
        comma = b""  # before the next piece
        while True:
            end = self._end_of_piece()
            if not self._plain(numbers, decoder, comma, end):
                self._careful(numbers, decoder, comma, end)
            if self._is_broken or self._data[self._at : self._at + 1] != b",":
                return
            self._at += 1
            comma = b","

    def _end_of_piece(self) -> int:
        """Return the end of the last whole item in the next piece."""
        while len(self._data) - self._at < _PIECE + _ODD_BYTES and self._more():
            pass
        most = self._at + _PIECE
        if (end := self._data.find(b"]", self._at, most)) >= 0:
            return end  # the list ends, unless the bracket is in an odd item
        if (cut := self._data.rfind(b",", self._at, most)) >= 0 and len(self._data) > most:
            return cut
        # a single item that is longer than the piece, or the file ends in the list
        ends = [end for letter in (b",", b"]") if (end := self._data.find(letter, most)) >= 0]
        if not ends and not self._has_ended:
            raise RestTooLarge
        return min(ends, default=len(self._data))

    def _plain(self, numbers: NumberList, decoder: AnyDecoder, comma: bytes, end: int) -> bool:
        """Take the items up to `end`; False if one is not a number, or is negative and may have to be shown."""
        text = self._data[self._at : end]
        try:
            items = decoder.decode(b"[" + text + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        found = np.fromiter(items, numbers.spool.dtype, len(items))
        if not len(found) or (found.min() < 0 and numbers.shows_negative):
            return False
        numbers.has_negative |= bool(found.min() < 0)
        numbers.add(found)
        self.cuts.add(self._size, comma + text)
        self._at = end
        return True

    def _careful(self, numbers: NumberList, decoder: AnyDecoder, comma: bytes, end: int) -> None:
        """Take the items up to `end` one by one, and leave the odd ones; an odd item may be longer."""
        waiting: list[float] = []
        begin = start = self._at  # what is cut out begins at `begin`, with `comma` before it; the item at `start`
        while True:
            stop = self._data.find(b",", start, end)
            stop = end if stop < 0 else stop
            number = _one(self._data[start:stop], decoder)
            if number is None or (number < 0 and numbers.shows_negative):  # left, with the comma before it
                is_first = not comma and start == begin
                cut = comma + self._data[begin:start].removesuffix(b",") if start > begin else b""
                self.cuts.add(self._size, cut)
                self._take(numbers, waiting)  # `_leave` needs the number of items before this one
                stop = self._leave(numbers, start, stop, is_odd=number is None, is_first=is_first)
                begin, comma = stop + 1, b","
            if number is not None:
                waiting.append(number)
                numbers.has_negative |= number < 0
            if self._is_broken or stop >= end or self._data[stop : stop + 1] != b",":
                break
            start = stop + 1
        if begin < stop:
            self.cuts.add(self._size, comma + self._data[begin:stop])
        self._take(numbers, waiting)
        self._at = stop

    def _take(self, numbers: NumberList, waiting: list[float]) -> None:
        numbers.add(np.array(waiting, numbers.spool.dtype))
        waiting.clear()

    def _leave(self, numbers: NumberList, start: int, stop: int, *, is_odd: bool, is_first: bool) -> int:
        """Leave an item in the document, with a comma before it; return its end. If none is found, reading stops."""
        self._put(b",", _ODD_COSTS)
        if is_first:  # the comma behind the index is not in the file
            self.cuts.add(self._size, b"", b",")
        numbers.left.append(len(numbers))
        if is_odd:
            numbers.odd.append(len(numbers))
            stop = self._end_of_value(start)
        if self._is_broken:  # so that the rest has a fault here, too
            stop = start + _ODD_BYTES
        self._put(self._data[start:stop])
        return stop

    def _end_of_value(self, start: int) -> int:
        """Return the end of a JSON value and its blanks, or -1; reading stops if no comma or bracket follows."""
        text = self._data[start : start + _ODD_BYTES].decode("latin-1")  # a letter for each byte
        try:
            begin = _BLANKS.match(self._data, start).end() - start  # type: ignore[union-attr]
            _, end = _ANY.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = -1
        end = -1 if end < 0 else _BLANKS.match(self._data, start + end).end()  # type: ignore[union-attr]
        self._is_broken = self._data[end : end + 1] not in (b",", b"]") if end >= 0 else True
        return end


def _one(item: bytes, decoder: AnyDecoder) -> float | None:
    """Return the number that an item is; None for anything else."""
    try:
        (number,) = decoder.decode(b"[" + item + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    return number
