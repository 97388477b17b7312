"""A document's bytes through one buffer, which only an element larger than it can make grow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SIZE = 2 << 20
#: No event is larger; a header's value neither. What is, is an accident or an attack.
LARGEST = 32 << 20


class Window:
    """What has been read and not yet consumed: `data[start:end]`; `data[start - 1]` may be written over."""

    def __init__(self, blocks: Iterator[bytes], size: int | None = None) -> None:
        self._blocks = blocks
        self._rest = b""
        self.data = bytearray(1 + (size or SIZE))
        self.start = self.end = 1
        #: Of the first byte that is not consumed.
        self.line = 1
        #: Whether the document has no more bytes than these.
        self.ended = False

    def skip(self, to: int) -> None:
        """Consume the bytes before `to`."""
        self.line += self.lines(self.start, to)
        self.start = to

    def lines(self, start: int, end: int) -> int:
        """How many lines end in `data[start:end]`."""
        if end - start < 4096:  # one token of a header, of which there may be many
            return self.data.count(b"\n", start, end)
        return int(np.count_nonzero(np.frombuffer(self.data, np.uint8)[start:end] == 0x0A))

    def more(self) -> bool:
        """Read on, into a larger buffer if nothing of this one was consumed; False if that cannot be."""
        if self.ended or (self.start == 1 and self.end == len(self.data) and not self._grow()):
            return False
        size = self.end - self.start
        self.data[1 : 1 + size] = self.data[self.start : self.end]
        self.start, self.end = 1, 1 + size
        while self.end < len(self.data):
            self._rest = self._rest or next(self._blocks, b"")
            if not self._rest:
                self.ended = True
                return self.end > 1 + size
            fits = len(self.data) - self.end
            piece, self._rest = self._rest[:fits], self._rest[fits:]
            self.data[self.end : self.end + len(piece)] = piece
            self.end += len(piece)
        return True

    def _grow(self) -> bool:
        if len(self.data) > LARGEST:
            return False
        self.data.extend(bytes(len(self.data)))
        return True

    @property
    def is_full(self) -> bool:
        """Whether it can neither grow nor read on before something is consumed."""
        return self.start == 1 and self.end == len(self.data) and len(self.data) > LARGEST
