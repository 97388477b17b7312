"""What `InputFile.lines` knows of code that reads many lines of a block at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from perfgate.readers.digit_runs import Numbers

#: A line: its number from 1, its text without the line end, the words that it may contain (of those asked for), and
#: True if it had a line end. A last line without a line end may be cut inside a number: never use what touches its end.
Line = tuple[int, str, Sequence[str], bool]


class TakenLines(Protocol):
    """A block of whole lines; a reader reads some of them by itself, many at once."""

    @property
    def rest(self) -> bytes:
        """The other lines of the block, joined."""

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the other lines in the file."""

    @property
    def end(self) -> int:
        """The number of the first line after the block."""

    def read_until(self, number: int) -> None:
        """Read the taken lines before this line of the file."""


class AlikeReader(Protocol):
    """Reads most lines of a block by itself, many at once."""

    def is_worth(self, text: bytes) -> bool:
        """Return whether it looks for such lines in a block."""

    def walk(self, text: bytes, number: int, words: Sequence[str], kept: Sequence[int]) -> Iterator[Line]:
        """Yield the other lines of a block that have one of the words, and those that are kept."""

    def plain(self) -> None:
        """Note that the reader did nothing with this line but what it said."""

    def number(self, column: Numbers, text: str, at: int) -> None:
        """Note that a number of the line was added to a series."""

    def step(self, text: str, at: int, first: int | None, follow: Callable[..., Any], *arguments: str | None) -> None:
        """Note the printed step of this line."""

    def same(self, begin: int, end: int) -> None:
        """Note that the digits in this part of the line matter by themselves."""

    def place_of(self, column: Numbers) -> tuple[str, int]:
        """Return the number of the line that was added to a series."""

    def call(self, function: Callable[..., object], *numbers: tuple[str, int]) -> None:
        """Note that a function was called with the number of the line, its text, and these numbers of it."""

    def forget(self) -> None:
        """Forget what is done with lines: a new run begins."""


#: Takes lines of a block: its text without the last line end, and the number of its first line.
Take = Callable[[bytes, int], TakenLines]
