r"""Turn the bytes of a file into numbered lines of text. Nothing here raises for bad data, and memory is bounded.

Bytes: gzip is inflated (RFC 1952), UTF-16 becomes UTF-8 (RFC 2781, byte order marks).
Lines: they end at `\n` and at `\r`, but only `\n` is counted, as in editors. Escape sequences (ECMA-48 CSI and OSC) and
NUL bytes are dropped, and bytes that are not UTF-8 become U+FFFD. A line longer than the limit `line_bytes` comes in
pieces. So the output of terminals, of progress bars and of killed jobs can be read, too.
"""

from __future__ import annotations

import codecs
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from perfgate.core import Location, Problem, Severity
from perfgate.core.resource_limits import DEFAULT, Limits, OverLimit
from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.coverage import FileCoverage
from perfgate.readers.line_blocks import (
    BLOCK,
    FileParts,
    Line,
    Take,
    TakenLines,
    inflate,
    is_json,
    last_parts,
    reblock,
    select,
    transcode,
)

if TYPE_CHECKING:
    from perfgate.large_values.array import OpenScratch

#: How the time of a step in a trace is divided: corrected, or as torch_tb_profiler does it.
TraceMode = Literal["corrected", "tensorboard"]
#: The limits that a file can exceed while it is read.
Counted = Literal["series", "runs", "problems", "facts"]
#: The first bytes of an SQLite database, as Nsight Systems exports.
SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: Deflate reaches 1032:1 on a line of one letter, so a high ratio is suspect only from this number of bytes on.
_RATIO_FROM = 64 << 20


class Source(Struct, frozen=True):
    """The input of a reader: the name that the user gave, the bytes, and the limits. `chunks` can be walked once."""

    name: str
    chunks: Iterable[bytes]
    limits: Limits = DEFAULT
    trace_mode: TraceMode = "corrected"
    #: The names of more fields of results that are conditions, from the rule files.
    conditions: Sequence[str] = ()
    #: False if nobody asks for the call tree of a trace.
    with_calls: bool = True
    #: A large file that may be read in parts; None for any other.
    parts: FileParts | None = None
    #: Opens a temporary file for values that are too many for memory; None if there is none.
    scratch: OpenScratch | None = None


class InputFile:
    """One file while it is read: its text, once, and the problems found on the way.

    Walk it with one of `lines`, `whole` and `blocks`; `head` can be called before.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.limits = source.limits
        #: The faults of the bytes and lines so far; complete after the file has been walked.
        self.problems: list[Problem] = []
        self.coverage = FileCoverage()
        self._stream = self._text_blocks()
        self._head: deque[bytes] = deque()
        #: The last two blocks of the text that was read so far: its end may say that the job failed.
        self.last_blocks: tuple[bytes, bytes] = (b"", b"")
        self._counts: Counter[str] = Counter()
        #: The lines that were handed out last, and an iterator that knows how many of them were taken.
        self._handed: tuple[list[Line], Iterator[Line]] = ([], iter(()))
        #: The number of the last line that is read in pieces, because it is too long.
        self.cut_line = 0
        #: Reads many lines at once, for the readers that have it.
        self.alike: AlikeLines | None = None
        #: True if the line that is being read has more than its numbers, such as a fact or a fault.
        self.is_odd = False

    def problem(self, severity: Severity, message: str, line: int | None = None) -> Problem:
        """Return a problem at a line of this file."""
        return Problem(severity, message, Location(self.name, line))

    def count(self, limit: Counted, line: int | None = None, before: Sequence[Problem] = ()) -> None:
        """Count one more item against a limit. Raises OverLimit, at the line that is being read."""
        self._counts[limit] += 1
        if self._counts[limit] > getattr(self.limits, limit):
            message = self.limits.beyond(limit, f"reading stops here: this file has more {limit}")
            raise OverLimit(self.problem("error", message, line or self._line() or None), before)

    def _line(self) -> int:
        """Return the number of the line that is being read, 0 if none is."""
        lines, rest = self._handed
        taken = len(lines) - length_hint(rest)
        return lines[taken - 1][0] if taken else 0

    def heading(self, line: int = 0) -> str:
        """Return the last heading above a line, or above the one that is being read."""
        return self.coverage.lines.headings.above(line or self._line())

    def head(self, size: int = 1 << 16) -> bytes:
        """Return the first `size` bytes, or all there are, without consuming them."""
        self._fill(size)
        return b"".join(self._head)[:size]

    def _fill(self, size: int) -> int:
        """Read until at least `size` bytes are there, or all; return how many are there."""
        have = sum(map(len, self._head))
        while have < size and (block := next(self._stream, b"")):
            self._head.append(block)
            have += len(block)
        return have

    def is_json(self) -> bool:
        """Return whether the file begins as a JSON object or array does."""
        return is_json(self.head().decode("utf-8", "replace"))

    def blocks(self) -> Iterator[bytes]:
        """Yield the inflated bytes in blocks, for readers that parse bytes."""
        while self._head:
            yield self._head.popleft()
        yield from self._stream

    def whole(self, advice: str = "") -> str | None:
        """Return all the text, for formats such as JSON; None, and a problem with advice, if it is over the limit."""
        if (text := self.within(self.limits.document_bytes)) is None:
            message = self.limits.beyond("document_bytes", "this document is larger")
            self.problems.append(self.problem("error", message + advice))
        return text

    def whole_bytes(self) -> bytes | None:
        """Return all the bytes, for binary formats; None if there are more than the limit `document_bytes`."""
        return self._bytes_within(self.limits.document_bytes)

    def within(self, most: int) -> str | None:
        """Return all the text if it has at most `most` bytes; None, and nothing is consumed, if it has more."""
        data = self._bytes_within(most)
        return None if data is None else data.decode("utf-8", "replace")

    def _bytes_within(self, most: int) -> bytes | None:
        if self._fill(most + 1) > most:
            return None
        data = b"".join(self._head)
        self._head.clear()  # frees memory
        return data

    def lines(
        self, words: Sequence[str] = ("",), around: Sequence[str] = (), take: Take | None = None
    ) -> Iterator[Line]:
        """Yield the lines (`Line`) in order; with `words`, only those that contain one of them, which is much faster.

        In a block with a word of `around`, and in the block after it, every line is yielded, and so is the line before:
        what is printed there (a title, the rows of a table) has a meaning only beside it.

        With `alike`, usual lines (see `alike_lines`) are read many at once, and only the others are yielded.

        With `take`, the reader is asked for each long block which lines it takes. These are not yielded, but read in
        their turn among the others. A reader has `take` or `alike`, never both.
        """
        marks = [word.encode() for word in around]
        number, rest = 1, b""
        wide, line_before = 0, b""  # how many blocks from here on are yielded whole, and the line before this block
        for block in self.blocks():
            text, line_end, rest = (rest + block).rpartition(b"\n")
            if line_end:
                numbers = range(number, number + text.count(b"\n") + 1)
                is_full = len(block) == BLOCK
                taken = take(text, number) if take and is_full else None
                others = taken.rest if taken else text
                has_mark = any(mark in others for mark in marks)
                if has_mark and not wide:
                    yield from _without(words, line_before, number - 1)
                wide = 2 if has_mark else max(wide - 1, 0)
                line_before = text.rpartition(b"\n")[2]
                alike = self.alike if is_full and not wide else None
                yield from self._of_block(text, numbers, ("", *words) if wide else words, taken, alike)
                number = numbers.stop
            while len(rest) > self.limits.line_bytes:
                piece, rest = self._cut(rest, number)
                yield from last_parts(piece, number, words)
        self.coverage.lines.keep(rest, (number,))
        yield from last_parts(rest, number, ("", *words) if wide else words)

    def _of_block(
        self, text: bytes, numbers: range, words: Sequence[str], taken: TakenLines | None, alike: AlikeLines | None
    ) -> Iterator[Line]:
        """Yield the lines of a block that contain a word: of its whole lines, without the last line end."""
        others, others_numbers = (taken.rest, taken.numbers) if taken else (text, numbers)
        kept = self.coverage.lines.keep(others, others_numbers)  # examples: which of their numbers are read?
        if alike and alike.is_worth(text):
            for line in alike.walk(text, numbers.start, words, kept):
                self._handed = ([line], iter(()))
                yield line
            return
        found = select(others, others_numbers, words)
        handed = iter(found)
        self._handed = (found, handed)
        for line in handed:
            if taken:
                taken.read_until(line[0])
            yield line
        if taken:
            taken.read_until(numbers.stop)
        self._handed = (found[-1:], iter(()))

    def _cut(self, rest: bytes, number: int) -> tuple[bytes, bytes]:
        """Return a piece of an endless line, and the rest: cut after a line end, else at a blank, else anywhere."""
        longest = self.limits.line_bytes
        if end := rest.rfind(b"\r", 0, longest) + 1:
            return rest[:end], rest[end:]
        if self.cut_line != number:
            self.cut_line = number
            message = self.limits.beyond("line_bytes", "a line is read in pieces because it is longer")
            self.problems.append(self.problem("warning", message, number))
        if end := rest.rfind(b" ", 0, longest) + 1:
            return rest[: end - 1] + b"\r", rest[end:]  # a whole line, as no word is cut
        end = longest
        while end > longest - 4 and rest[end] & 0xC0 == 0x80:  # inside a UTF-8 character
            end -= 1
        return rest[:end], rest[end:]

    def _text_blocks(self) -> Iterator[bytes]:
        """Yield the bytes as UTF-8, in blocks of `BLOCK` bytes (the last may be shorter).

        The block size does not depend on the chunks of the source, so no result can depend on how the file was cut.
        """
        stream = reblock(self.source.chunks)
        first = next(stream, b"")
        if first.startswith(_GZIP):
            stream = reblock(self._gunzip(chain([first], stream)))
            first = next(stream, b"")
        if encoding := _UTF16.get(first[:2]):
            stream = reblock(transcode(chain([first], stream), encoding))
            first = next(stream, b"")
        elif first.startswith(codecs.BOM_UTF8):
            stream = reblock(chain([first.removeprefix(codecs.BOM_UTF8)], stream))
            first = next(stream, b"")
        for block in chain([first] if first else [], stream):
            self.last_blocks = (self.last_blocks[1], block)
            yield block

    def _gunzip(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Inflate gzip, until it is damaged or exceeds a limit: then a problem says which lines are missing."""
        inflated = lines = 0
        try:
            for text, read in inflate(chunks):
                inflated += len(text)
                lines += int(np.count_nonzero(np.frombuffer(text, np.uint8) == 0x0A))  # faster than `count`
                yield text
                if excess := self._excess(inflated, read):
                    return self._stop(excess, lines)
        except zlib.error as error:
            self._stop(f"the gzip stream is damaged ({error})", lines)
        except EOFError:
            self._stop("the gzip stream is cut off", lines)
        return None

    def _excess(self, inflated: int, read: int) -> str | None:
        """Return the message for more inflated bytes than the limits allow; `read`: the compressed bytes."""
        if inflated > self.limits.inflated_bytes:
            return self.limits.beyond("inflated_bytes", "this file inflates to more")
        if inflated > _RATIO_FROM and inflated > self.limits.inflation * read:
            return self.limits.beyond(
                "inflation", f"this file inflates to {inflated >> 20} MiB, which is more times its size"
            )
        return None

    def _stop(self, message: str, lines: int) -> None:
        place = f"; everything after line {lines} is missing" if lines else ""
        self.problems.append(self.problem("error", message + place, lines + 1))


def _without(words: Sequence[str], line: bytes, number: int) -> Iterator[Line]:
    """Yield the line with this number, unless it is empty, or was yielded before because it has one of the words."""
    for part in select(line, (number,), ("",)):
        if part[1] and not any(word in part[1] for word in words):
            yield part
