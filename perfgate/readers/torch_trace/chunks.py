"""The list of events, decoded in chunks of one buffer: the cut between two chunks is proven by decoding, not guessed.

The start of the list, closed with `]`, decodes only if the cut is between two of its elements. If the cut is inside a
string or a nested object, an earlier cut is tried. Text that decodes nowhere takes the slow path, element by element.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
import numpy as np
from msgspec import Struct, field

from perfgate.readers.torch_trace import repair
from perfgate.readers.torch_trace.event_fields import EXACT, FAST, Decoder, Event
from perfgate.readers.torch_trace.repair import Fault

BUFFER_SIZE = 2 << 20
#: Real events and values of the header are smaller; a larger one is damage or an attack.
LARGEST = 32 << 20

#: The comma between two events, in any layout.
BOUNDARY = re.compile(rb"\}\s*(,)\s*\{")
#: The distances from the end of the buffer in which to search for a boundary, in turn.
REACH = (1 << 10, 1 << 14, 1 << 18)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Buffer:
    """A part of a document's bytes: `data[start:end]` is read and not yet consumed.

    `data[start - 1]` may be overwritten. The buffer is filled up to the next multiple of its size in the document, so
    that events are in the same chunks wherever reading begins, and the result is the same for any number of processes.
    It grows only for an element that is larger than it.
    """

    def __init__(self, blocks: Iterator[bytes], size: int | None = None, position: int = 0) -> None:
        self._blocks = blocks
        self._rest = b""
        self.size = size or BUFFER_SIZE
        self.data = bytearray(1 + 2 * self.size)
        self.start = self.end = 1
        #: The line of the first byte that is not consumed.
        self.line = 1
        #: The number of bytes of the document before `start`.
        self.position = position
        #: True if the document has no further bytes.
        self.ended = False

    def skip(self, to: int) -> None:
        """Consume the bytes before `to`."""
        if to - self.start < 4096:  # a token of a header; numpy is slower for these
            self.line += self.data.count(b"\n", self.start, to)
        else:
            self.line += int(np.count_nonzero(np.frombuffer(self.data, np.uint8)[self.start : to] == 0x0A))
        self.position += to - self.start
        self.start = to

    def more(self) -> bool:
        """Read more bytes; grow first if nothing was consumed. Return False if there are none, or no room for them."""
        if self.ended or self.is_full:
            return False
        if self.start == 1 and self.end == len(self.data):
            self.data.extend(bytes(len(self.data)))
        left = self.end - self.start  # bytes that are not consumed
        self.data[1 : 1 + left] = self.data[self.start : self.end]
        self.start, self.end = 1, 1 + left
        room = self.size - (self.position + left) % self.size  # up to the next multiple in the document
        last = min(len(self.data), self.end + room)
        while self.end < last:
            self._rest = self._rest or next(self._blocks, b"")
            if not self._rest:
                self.ended = True
                return self.end > 1 + left
            fits = last - self.end
            piece, self._rest = self._rest[:fits], self._rest[fits:]
            self.data[self.end : self.end + len(piece)] = piece
            self.end += len(piece)
        return True

    @property
    def is_full(self) -> bool:
        """Return whether it can neither grow nor read before some bytes are consumed."""
        return self.start == 1 and self.end == len(self.data) and len(self.data) > LARGEST


class Chunk(Struct):
    """Consecutive events of a file. Call its methods before the next chunk is made: they use the buffer."""

    events: Sequence[Event]
    #: The list of these events is `data[_start:_end]` of the buffer, and begins on line `_line`.
    _buffer: Buffer
    _start: int
    _end: int
    _line: int
    #: The line of each event, if it is known: the slow path finds it.
    _lines: Sequence[int] | None = None

    def exact(self) -> Sequence[Event]:
        """Return the same events with times as decimals."""
        if self._lines is None:
            self.events = _decode(EXACT, self._buffer, self._start, self._end)
        return self.events

    def line(self, index: int) -> int:
        """Return the line on which an event begins."""
        if self._lines is None:
            text = bytes(self._buffer.data[self._start + 1 : self._end])
            self._lines = repair.read(text, self._line, ended=True).lines
        return self._lines[index]


class Chunks(Struct):
    """The events of one list. `buffer` starts after the opening bracket, and ends after the closing one."""

    buffer: Buffer
    faults: list[Fault] = field(default_factory=list)
    #: True after the closing bracket.
    closed: bool = False
    #: True if a chunk was not valid JSON as it was.
    broken: bool = False
    #: The numbers of unreadable and repaired events; with too many, reading stops.
    unreadable: int = 0
    repaired: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        while not self.closed and not self.has_too_many_faults:
            # Read on while less than half of the buffer is not consumed.
            while self.buffer.end - self.buffer.start < self.buffer.size // 2 and self.buffer.more():
                pass
            if chunk := self._fast() or self._slow():
                yield chunk
            elif not self.buffer.more():
                return

    @property
    def has_too_many_faults(self) -> bool:
        """Return whether the text is too damaged to be a trace."""
        return self.unreadable > repair.MOST_UNREADABLE or self.repaired > repair.MOST_REPAIRED

    def _fast(self) -> Chunk | None:
        """Return the events in the buffer up to a cut, decoded by type; None if they do not decode."""
        for cut in _cuts(self.buffer):
            is_comma = cut < self.buffer.end
            try:
                return self._typed(cut + 1 if is_comma else cut, is_comma=is_comma)
            except msgspec.ValidationError:  # a field of an unexpected type
                return None
            except _UNREADABLE as error:
                if trailing := _TRAILING.search(str(error)):  # the list is closed before the cut
                    return self._end_of_list(int(trailing[1]))
                if "truncated" not in str(error):  # truncated: inside an event, so try an earlier cut
                    return None
        return None

    def _end_of_list(self, size: int) -> Chunk | None:
        """Return the events of a list that ends in the next bytes, before other text; None if they do not decode."""
        start = self.buffer.start - 1
        with suppress(*_UNREADABLE):
            return self._typed(self.buffer.data.rfind(b"]", start, start + size) + 1, is_comma=False)
        return None

    def _typed(self, end: int, *, is_comma: bool) -> Chunk:
        """Return the events before `end`, which is after a comma between two events or after the list.

        The bytes around them are overwritten with brackets. Raises DecodeError, and then puts the comma back.
        """
        buffer, start, line = self.buffer, self.buffer.start - 1, self.buffer.line
        buffer.data[start] = 0x5B  # [
        if is_comma:
            buffer.data[end - 1] = 0x5D  # ]
        try:
            events = _decode(FAST, buffer, start, end)
        except _UNREADABLE:
            if is_comma:
                buffer.data[end - 1] = 0x2C  # ,
            raise
        self.closed = not is_comma
        buffer.skip(end)
        return Chunk(events, buffer, start, end, line)

    def _slow(self) -> Chunk | None:
        """Return the events of text that is broken JSON; None if the buffer lacks a part of the next event."""
        buffer, line = self.buffer, self.buffer.line
        found = repair.read(bytes(buffer.data[buffer.start : buffer.end]), line, ended=buffer.ended or buffer.is_full)
        self.faults += found.faults
        self.unreadable += found.unreadable
        self.repaired += found.repaired
        self.closed = found.closed
        start = buffer.start
        buffer.skip(start + found.consumed)
        self.broken = self.broken or found.consumed > 0
        # Nothing is decoded again: the lines are known, and the times are exact already.
        return Chunk(found.events, buffer, start, start, line, found.lines) if found.consumed else None


def _cuts(buffer: Buffer) -> Iterator[int]:
    """Yield places where the list may be cut, from the end backwards; without any, the end of the bytes.

    The whole buffer is only searched if there is no place near its end. A document that has ended needs no cut: the end
    of the list is in the buffer.
    """
    tried: set[int] = set()
    for reach in () if buffer.ended else (*REACH, len(buffer.data)):
        found = BOUNDARY.search(buffer.data, max(buffer.start, buffer.end - reach), buffer.end)
        if found and found.start(1) not in tried and (reach in REACH or not tried):
            tried.add(found.start(1))
            yield found.start(1)
    if not tried:
        yield buffer.end


def _decode(decoder: Decoder, buffer: Buffer, start: int, end: int) -> Sequence[Event]:
    # Shapes of operators are lists, so Python would look for garbage again and again, and there is none.
    collects = gc.isenabled()
    gc.disable()
    try:
        with memoryview(buffer.data) as view, view[start:end] as text:
            return decoder.decode(text)
    finally:
        if collects:
            gc.enable()
