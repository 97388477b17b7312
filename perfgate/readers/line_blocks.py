r"""Turn blocks of bytes into lines of text that contain a word, without escape sequences (ECMA-48) and NUL.

At the end: the interfaces of code that reads many lines of a block, or parts of a large file, by itself.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

#: A line: its number from 1, its text without the line end, the words that it may contain (of those asked for), and
#: True if it had a line end. A last line without a line end may be cut inside a number: never use what touches its end.
Line = tuple[int, str, Sequence[str], bool]
Part = TypeVar("Part")

#: The bytes of a block.
BLOCK = 1 << 17
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
#: `{"`, `[{`, `["`, and arrays of numbers that go on as arrays do; not `[2024-02-20 09:55]` or `[1,0]<stdout>:`.
_JSON = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[[\s\[]*[{"]|\[[\s\[\]\d.eE+\-,]*(?:\]\s*$|$))')
#: `trace_rank3.json`, `rank_3.log`, `rank-3.log`
_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


def reblock(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in blocks of `BLOCK` bytes; the last may be shorter."""
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


def transcode(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield UTF-16, as PowerShell's `>` writes it, as UTF-8 without the byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(next(blocks))
    yield text.removeprefix("\ufeff").encode("utf-8", "replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def inflate(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of the text of gzip, each with the number of compressed bytes so far.

    Several members are one text (RFC 1952, 2.2), and zero padding after a member is allowed. Raises zlib.error if the
    stream is damaged, and EOFError if it is cut off.
    """
    member = zlib.decompressobj(wbits=31)
    read = 0
    for chunk in chunks:
        read += len(chunk)
        data = chunk.lstrip(b"\0") if member.eof else chunk
        while data:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            yield member.decompress(data, BLOCK), read
            data = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
    yield member.flush(), read  # what a full output buffer held back
    if not member.eof:
        raise EOFError


def select(data: bytes, numbers: Sequence[int], words: Sequence[str]) -> list[Line]:
    """Return the lines that contain a word; `data` are lines with these numbers, without the last line end.

    Most lines of a log contain the same word, and a reader itself looks for others in them. So here the other words are
    searched for only in the lines without that word.
    """
    text = clean(data.decode("utf-8", "replace"))
    first = next((word for word in words if word in text), None)
    if first is None:
        return []
    lines = text.split("\n")
    if first:
        rest = "\n".join([line for line in lines if first not in line])
        others = [word for word in words if word in rest]
    else:  # every line
        others = words = [word for word in words if word in text]
    found: list[Line] = []
    for number, line in zip(numbers, lines, strict=False):  # without lines, `data` is one empty text and no number
        if first in line:
            found.append((number, line, words, True))
        elif others and any(word in line for word in others):
            found.append((number, line, others, True))
    return [part for line in found for part in _parts(line)] if "\r" in text else found


def _parts(line: Line) -> Iterator[Line]:
    r"""Yield the parts of a line: a progress bar prints itself again after each `\r`, and each time it is a line."""
    number, text, words, ended = line
    for part in text.removesuffix("\r").split("\r"):
        if any(word in part for word in words):
            yield number, part, words, ended


def last_parts(rest: bytes, number: int, words: Sequence[str]) -> Iterator[Line]:
    r"""Yield the parts of a line without `\n`; all parts but the last have a line end."""
    *ended, last = clean(rest.decode("utf-8", "replace")).split("\r")
    yield from ((number, part, words, True) for part in ended if any(word in part for word in words))
    if last and any(word in last for word in words):
        yield number, last, words, False


def clean(text: str) -> str:
    """Return the text without NUL bytes and terminal escape sequences."""
    if "\0" in text:
        text = text.replace("\0", "")
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def is_json(text: str) -> bool:
    """Return whether a text begins as a JSON object or array does."""
    return bool(_JSON.match(text))


def rank_in_name(name: str) -> str | None:
    """Return the rank in the name of a file, without leading zeros; names of folders do not count."""
    found = _RANK.search(name.replace("\\", "/").rpartition("/")[2])
    return str(int(found[1])) if found else None


class TakenLines(Protocol):
    """The lines of a block that a reader takes from the file, to read them by itself and many at once."""

    @property
    def rest(self) -> bytes:
        """The other lines of the block, joined."""

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the other lines in the file."""

    def read_until(self, number: int) -> None:
        """Read the taken lines before this line of the file."""


#: Takes lines of a block. Arguments: the text without the last line end, and the number of the first line.
Take = Callable[[bytes, int], TakenLines]


class NotInParts(Exception):
    """A file cannot be read in parts: read it as a whole."""


class FileParts(Protocol):
    """A local file. Other processes can read parts of it."""

    @property
    def size(self) -> int:
        """The number of bytes in the file."""

    @property
    def shares(self) -> Sequence[float]:
        """Where in the file (0 to 1) the part of each other process ends; the rest is for this process."""

    def read(self, begin: int, size: int) -> bytes:
        """Return at most `size` bytes of the file."""

    def each(self, read: Callable[[Iterator[bytes], int], Part], ranges: Sequence[tuple[int, int]]) -> Iterator[Part]:
        """Let another process read each range: its bytes, and where it begins. The results come in order."""
