"""The events and steps of a profile of JAX or XLA."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct, field


class Event(Struct):
    """One event, in ps since 1970."""

    name: str
    start: int
    duration: int
    step: int | None = None
    is_op: bool = False
    #: The number that a call of the host and what it launched share, and what XLA says of a kernel or a copy.
    correlation: int | None = None
    details: str = ""


class Steps(Struct):
    """The steps of the host: where each begins, and its number."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def of(self, start: int) -> int | None:
        """Return the index of the step in which an event begins; the time until the next step belongs to a step."""
        index = bisect_right(self.starts, start) - 1
        is_last = index == len(self.starts) - 1
        return None if index < 0 or (is_last and start >= self.ends[index]) else index
