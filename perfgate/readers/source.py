"""What a reader is given: the name that the user gave, the bytes, in chunks, read once, and how much to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfgate.limits import DEFAULT, Limits
from perfgate.model import Location, Problem, Severity


@dataclass(frozen=True, slots=True)
class Source:
    """A named stream of bytes; `chunks` can be walked once."""

    name: str
    chunks: Iterable[bytes]
    limits: Limits = DEFAULT

    def problem(self, severity: Severity, message: str, line: int | None = None) -> Problem:
        """A problem at a line of this source."""
        return Problem(severity, message, Location(self.name, line))
