r"""Bytes of text -> numbered lines; the output of terminals, of progress bars and of killed jobs included.

Lines end at `\n` and at `\r`; numbers count only `\n`, as editors do. Escape sequences (ECMA-48 CSI and OSC) and
NUL bytes are dropped, and bytes that are no UTF-8 become U+FFFD. Memory is bounded: a longer line than the limit
`line_bytes` is handed on in pieces.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from operator import length_hint

from perfgate.core import Problem, Severity
from perfgate.core.resource_limits import OverLimit
from perfgate.readers.inflate import Inflation
from perfgate.readers.source import Source

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")

#: A line: its number from 1, its text without the line end, those of the words looked for that it may hold, and
#: whether it had a line end. A last line without one may be cut in a number: nothing that touches its end is true.
Line = tuple[int, str, Sequence[str], bool]


class Document:
    """One file while it is read: its text, once, and the problems met on the way.

    Walk it by one of `lines`, `whole` and `blocks`; `head` may be looked at before.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.limits = source.limits
        self._inflation = Inflation(source)
        self._stream = self._inflation.blocks()
        self._head: deque[bytes] = deque()
        self._warned: list[Problem] = []
        self._counts: Counter[str] = Counter()
        #: The lines that were last handed on, and how far they have been taken.
        self._handed: tuple[list[Line], Iterator[Line]] = ([], iter(()))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was wrong with the bytes and lines so far; complete once the document has been walked."""
        return (*self._inflation.problems, *self._warned)

    def problem(self, severity: Severity, message: str, line: int | None = None) -> Problem:
        """A problem at a line of this document."""
        return self.source.problem(severity, message, line)

    def count(self, limit: str, line: int | None = None, before: Sequence[Problem] = ()) -> None:
        """Count one more of what the limit of this name bounds. Raises OverLimit, at the line that is being read."""
        self._counts[limit] += 1
        if self._counts[limit] > getattr(self.limits, limit):
            message = self.limits.beyond(limit, f"reading stops here, for this file holds more {limit}")
            raise OverLimit(self.problem("error", message, line or self._line()), before)

    def _line(self) -> int | None:
        """The number of the line that was handed on last."""
        lines, rest = self._handed
        taken = len(lines) - length_hint(rest)
        return lines[taken - 1][0] if taken else None

    def head(self, size: int) -> bytes:
        """The first `size` bytes, or all there are, without consuming them."""
        have = sum(map(len, self._head))
        while have < size and (block := next(self._stream, b"")):
            self._head.append(block)
            have += len(block)
        return b"".join(self._head)[:size]

    def blocks(self) -> Iterator[bytes]:
        """The inflated bytes, in blocks: for readers that parse bytes."""
        while self._head:
            yield self._head.popleft()
        yield from self._stream

    def whole(self) -> str | None:
        """All the text, for documents that mean something only as a whole; None, and a problem, beyond the limit."""
        parts = []
        size = 0
        for block in self.blocks():
            parts.append(block)
            size += len(block)
            if size > self.limits.document_bytes:
                message = self.limits.beyond("document_bytes", "this document is larger")
                self._warned.append(self.problem("error", message))
                return None
        return b"".join(parts).decode("utf-8", "replace")

    def lines(self, words: Sequence[str] = ("",), around: Sequence[str] = ()) -> Iterator[Line]:
        """The lines in order; with `words`, only lines that hold one of them, which is a good deal faster.

        Where a word of `around` stands, every line of its block is handed on, with the one before and those of the
        block behind: what is printed there (a title, the rows of a table) has a meaning only beside it.
        """
        number = 1
        rest = before = b""
        wide = 0
        for block in self.blocks():
            data = rest + block
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                text = data[: end - 1].decode("utf-8", "replace")
                begins = any(word in text for word in around)
                if begins and not wide:
                    yield from _unless(words, before, number - 1)
                wide = 2 if begins else wide - bool(wide)
                found = _select(text, number, ("", *words) if wide else words)
                before = data[data.rfind(b"\n", 0, end - 1) + 1 : end - 1] if around else b""
                number += text.count("\n") + 1
                del block, data, text  # a text of long lines is large enough once
                yield from self._hand_on(found)
                found.clear()
            while len(rest) > self.limits.line_bytes:
                piece, rest = self._cut(rest, number)
                yield from _last(piece, number, words)
        yield from _last(rest, number, ("", *words) if wide else words)

    def _hand_on(self, lines: list[Line]) -> Iterator[Line]:
        """These lines, while it is known which of them is being read."""
        self._handed = (lines, iter(lines))
        yield from self._handed[1]
        self._handed = (lines[-1:], iter(()))

    def _cut(self, rest: bytes, number: int) -> tuple[bytes, bytes]:
        """A piece of an endless line and what is left of it: cut after a line end, else a blank, else anywhere."""
        longest = self.limits.line_bytes
        end = rest.rfind(b"\r", 0, longest) + 1
        if end:
            return rest[:end], rest[end:]
        if not self._warned or self._warned[-1].at.line != number:
            message = self.limits.beyond("line_bytes", "a line is read in pieces, for it is longer")
            self._warned.append(self.problem("warning", message, number))
        end = rest.rfind(b" ", 0, longest) + 1
        if end:
            return rest[: end - 1] + b"\r", rest[end:]
        end = longest
        while end > longest - 4 and rest[end] & 0xC0 == 0x80:  # inside a UTF-8 character
            end -= 1
        return rest[:end], rest[end:]


def _select(text: str, number: int, words: Sequence[str]) -> list[Line]:
    """The lines that hold a word, of a text without its last line end, whose first line is `number`.

    Most lines of a log hold one and the same word, and which others they hold only their reader asks; so the others
    are looked for in what is left without those lines.
    """
    text = clean(text)
    first = next((word for word in words if word in text), None)
    if first is None:
        return []
    lines = text.split("\n")
    if first:
        rest = "\n".join([line for line in lines if first not in line])
        others = [word for word in words if word in rest]
    else:
        others = words = [word for word in words if word in text]
    found: list[Line] = [
        (at, line, words if first in line else others, True)
        for at, line in enumerate(lines, number)
        if first in line or (others and any(word in line for word in others))
    ]
    if "\r" not in text:
        return found
    return [part for at, line, held, _ in found for part in _parts(line.removesuffix("\r").split("\r"), at, held, True)]


def _unless(words: Sequence[str], line: bytes, number: int) -> Iterator[Line]:
    """A line that was passed over, for it holds none of the words."""
    text = clean(line.decode("utf-8", "replace"))
    if text and not any(word in text for word in words):
        yield number, text, ("",), True


def _last(rest: bytes, number: int, words: Sequence[str]) -> Iterator[Line]:
    """The parts of a line that has not ended; all but the last part have."""
    *ended, last = clean(rest.decode("utf-8", "replace")).split("\r")
    yield from _parts(ended, number, words, True)
    if last:
        yield from _parts([last], number, words, False)


def _parts(parts: list[str], number: int, words: Sequence[str], ended: bool) -> Iterator[Line]:
    return ((number, part, words, ended) for part in parts if any(word in part for word in words))


def clean(text: str) -> str:
    """Text without NUL bytes and terminal escape sequences."""
    if "\0" in text:
        text = text.replace("\0", "")
    return _ESCAPES.sub("", text) if "\x1b" in text else text
