"""Which steps are a restart's that shows only in a counter going back: the counter is printed after its first steps.

A counter tells how many steps a run has made, and timers how many have ended on the only rank that prints them. Where
the difference of the two was the same all through the run before, a restart at step 0 that has come to n has made as
many steps less that difference, and they are the last ones before the line. A restart that goes on from a checkpoint
has a counter beyond that, and is told apart at the line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Seen:
    """A counter at its last line."""

    #: How far it was ahead of the steps that had ended, how many those were, and whether it always was as far ahead.
    ahead: int
    ended: int
    steady: bool


class Progress:
    """The counters of one run beside its steps."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, counter: str, value: int, ended: int) -> None:
        """A counter's value where so many steps have ended."""
        before = self._seen.get(counter)
        ahead = value - ended
        self._seen[counter] = _Seen(ahead, ended, before is None or (before.steady and before.ahead == ahead))

    def steps_of_restart(self, counter: str, value: int, ended: int) -> int | None:
        """How many of the ended steps are of a restart that has come to `value`; None if that cannot be told."""
        seen = self._seen.get(counter)
        if seen is None or not seen.steady or seen.ahead not in (0, 1):  # this run itself did not begin at 0
            return None
        steps = value - seen.ahead
        return steps if 0 <= steps <= ended - seen.ended else None
