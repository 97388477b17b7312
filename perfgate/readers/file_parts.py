"""A large local file that several processes read in parts: the interface of readers and `workspace.parallel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Part = TypeVar("Part")


class NotInParts(Exception):
    """A file cannot be read in parts: read it as a whole."""


class FileParts(Protocol):
    """A local file. Other processes can read parts of it."""

    @property
    def size(self) -> int:
        """The number of bytes in the file."""

    @property
    def shares(self) -> Sequence[float]:
        """The shares of the work where the others end, one after the other; the rest is for this process."""

    def read(self, begin: int, size: int) -> bytes:
        """Return at most `size` bytes of the file."""

    def each(self, read: Callable[[Iterator[bytes], int], Part], ranges: Sequence[tuple[int, int]]) -> Iterator[Part]:
        """Let another process read each range: its bytes, and where it begins. The results come in order."""
