"""The list of events, decoded by the buffer: cuts between two chunks are proven by decoding, never guessed.

A beginning of the list, closed with `]`, decodes only if it was cut between two of its elements. Inside a string or a
nested object it does not: then an earlier place is tried. What decodes nowhere goes the slow way, element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from perfgate.readers.torch_trace import repair
from perfgate.readers.torch_trace.events import EXACT, FAST, Decoder, Event
from perfgate.readers.torch_trace.repair import Fault
from perfgate.readers.torch_trace.window import Window

#: Where two events meet, in any layout.
_BOUNDARY = re.compile(rb"\}\s*(,)\s*\{")
#: How far back from the end of the buffer such a place is looked for, in turn.
_REACH = (1 << 10, 1 << 14, 1 << 18)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class Chunk:
    """Some events that follow each other in a file. Its methods may be asked before the next chunk is made."""

    events: Sequence[Event]
    _window: Window
    _start: int
    _end: int
    _line: int
    _lines: Sequence[int] | None = None

    def exact(self) -> Sequence[Event]:
        """The same events with their times as decimals."""
        if self._lines is None:
            self.events = _decode(EXACT, self._window, self._start, self._end)
        return self.events

    def line(self, index: int) -> int:
        """The line on which an event begins."""
        if self._lines is None:
            text = bytes(self._window.data[self._start + 1 : self._end])
            self._lines = repair.read(text, self._line, ended=True).lines
        return self._lines[index]


@dataclass(slots=True)
class Chunks:
    """The events of one list; `window` stands behind its opening bracket, and in the end behind the closing one."""

    window: Window
    #: What was wrong with the text so far.
    faults: list[Fault] = field(default_factory=list)
    #: Whether the closing bracket has been met.
    closed: bool = False
    #: How many events could not be read, and were repaired: too many end the reading.
    unreadable: int = 0
    repaired: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        while not self.closed and not self.has_too_many_faults:
            self.window.more()
            chunk = self._fast() or self._slow()
            if chunk:
                yield chunk
            elif self.window.ended or self.window.is_full:
                return

    @property
    def has_too_many_faults(self) -> bool:
        """Whether this is no trace that could be repaired."""
        return self.unreadable > repair.MOST_UNREADABLE or self.repaired > repair.MOST_REPAIRED

    def _fast(self) -> Chunk | None:
        """As many events as the buffer holds, typed; None where it does not decode."""
        window = self.window
        for cut in _cuts(window):
            try:
                return self._typed(cut)
            except msgspec.ValidationError:
                return None
            except _UNREADABLE as error:
                trailing = _TRAILING.search(str(error))
                if trailing:
                    start = window.start - 1
                    return self._last(window.data.rfind(b"]", start, start + int(trailing[1])) + 1)
                if "truncated" not in str(error):
                    return None
        return None

    def _typed(self, cut: int) -> Chunk:
        """The events before the comma at `cut`, or all if it is the end. Raises DecodeError."""
        window, data = self.window, self.window.data
        start, line, whole = window.start - 1, window.line, cut == window.end
        data[start] = 0x5B  # [
        if whole:
            events = _decode(FAST, window, start, cut)
            self.closed = True
        else:
            data[cut] = 0x5D  # ]
            try:
                events = _decode(FAST, window, start, cut + 1)
            except _UNREADABLE:
                data[cut] = 0x2C  # ,
                raise
        window.skip(cut if whole else cut + 1)
        return Chunk(events, window, start, cut if whole else cut + 1, line)

    def _last(self, end: int) -> Chunk | None:
        """The events of a list that ends before `end`."""
        window, start, line = self.window, self.window.start - 1, self.window.line
        try:
            events = _decode(FAST, window, start, end)
        except _UNREADABLE:
            return None
        self.closed = True
        window.skip(end)
        return Chunk(events, window, start, end, line)

    def _slow(self) -> Chunk | None:
        """The events of a text that is not the JSON it should be; None if the next one is not there as a whole."""
        window, line = self.window, self.window.line
        found = repair.read(bytes(window.data[window.start : window.end]), line, ended=window.ended or window.is_full)
        self.faults += found.faults
        self.unreadable += found.unreadable
        self.repaired += found.repaired
        self.closed = found.closed
        start = window.start
        window.skip(start + found.consumed)
        return Chunk(found.events, window, start, start, line, found.lines) if found.consumed else None


def _cuts(window: Window) -> Iterator[int]:
    """Places where the list may be cut, from the end backwards; where there is none, the end of what is there."""
    tried: set[int] = set()
    for reach in () if window.ended else (*_REACH, len(window.data)):
        found = _BOUNDARY.search(window.data, max(window.start, window.end - reach), window.end)
        if found and found.start(1) not in tried and (reach in _REACH or not tried):
            tried.add(found.start(1))
            yield found.start(1)
    if not tried:
        yield window.end


def _decode(decoder: Decoder, window: Window, start: int, end: int) -> Sequence[Event]:
    with memoryview(window.data) as view, view[start:end] as text:
        return decoder.decode(text)
