"""Bytes as they are stored -> bytes of text: gzip inflated, UTF-16 as UTF-8, in blocks of one size.

Everything streams. What is wrong with the stream becomes a Problem in `Inflation.problems` while it is walked,
never an exception. Sources: RFC 1952 (gzip), RFC 2781 (UTF-16 byte order marks).
"""

from __future__ import annotations

import codecs
import itertools
import zlib
from collections.abc import Iterable, Iterator

from perfgate.core import Problem
from perfgate.readers.source import Source

BLOCK = 1 << 17
GZIP = b"\x1f\x8b"

#: Deflate reaches 1032:1 on a line of one letter, so a high ratio is suspect only from here on.
RATIO_FROM = 64 << 20

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Inflation:
    """The text bytes of a source, in blocks of exactly `BLOCK` bytes (the last may be shorter).

    One block size whatever the chunks of the source are: what comes after cannot depend on how the file was cut.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        #: What was wrong with the stream, as far as it has been walked.
        self.problems: list[Problem] = []

    def blocks(self) -> Iterator[bytes]:
        """The blocks, once."""
        first, stream = _peek(_reblock(self.source.chunks))
        if first.startswith(GZIP):
            first, stream = _peek(_reblock(self._gunzip(stream)))
        for mark, encoding in _UTF16.items():
            if first.startswith(mark):
                return _reblock(_transcode(stream, encoding))
        return _reblock(_without_mark(stream)) if first.startswith(codecs.BOM_UTF8) else stream

    def _gunzip(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Several members are one text (RFC 1952, 2.2); zero padding after the last one is no fault."""
        member = zlib.decompressobj(wbits=31)
        read = inflated = lines = 0
        for chunk in chunks:
            read += len(chunk)
            data = chunk
            while data:
                if member.eof:
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    member = zlib.decompressobj(wbits=31)
                try:
                    text = member.decompress(data, BLOCK)
                except zlib.error as error:
                    return self._fault(f"the gzip stream is damaged ({error})", lines)
                inflated += len(text)
                lines += text.count(b"\n")
                yield text
                if beyond := self._beyond(inflated, read):
                    return self._fault(beyond, lines)
                data = member.unused_data if member.eof else member.unconsumed_tail
        yield member.flush()  # what a full output buffer held back
        if not member.eof:
            self._fault("the gzip stream is cut off", lines)
        return None

    def _beyond(self, inflated: int, read: int) -> str | None:
        """Which limit the text so far goes beyond, if any."""
        limits = self.source.limits
        if inflated > limits.inflated_bytes:
            return limits.beyond("inflated_bytes", "this file inflates to more")
        if inflated > RATIO_FROM and inflated > limits.inflation * read:
            return limits.beyond("inflation", f"this file inflates to {inflated >> 20} MiB, more times its size")
        return None

    def _fault(self, message: str, lines: int) -> None:
        place = f"; what follows line {lines} is missing" if lines else ""
        self.problems.append(self.source.problem("error", message + place, lines + 1))


def _reblock(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of `BLOCK`."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size < BLOCK:
            continue
        joined = b"".join(waiting)
        whole = size - size % BLOCK
        for start in range(0, whole, BLOCK):
            yield joined[start : start + BLOCK]
        waiting, size = [joined[whole:]], size - whole
    if size:
        yield b"".join(waiting)


def _peek(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first block, and all of them."""
    first = next(blocks, b"")
    return first, itertools.chain([first] if first else [], blocks)


def _without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield next(blocks).removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _transcode(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """UTF-16 as PowerShell's `>` writes it, as UTF-8 without the byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(next(blocks))
    yield text.removeprefix("\ufeff").encode("utf-8", "replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
