"""A restart that shows only in a step counter: which of the steps before the counter's line belong to it.

A counter shows how many steps a run has made, and timers how many have ended on the only rank that prints them. A
restart is noticed after its first steps. If the difference of the two numbers was constant in the run before, a restart
at step 0 whose counter is n has made n steps less that difference: the last ones before the line. A restart from a
checkpoint has a higher counter, and is told apart at the line.
"""

from __future__ import annotations

from msgspec import Struct, field


class _Seen(Struct, frozen=True):
    """A step counter at its last line."""

    #: How far it was ahead of the number of steps that had ended.
    ahead: int
    ended: int
    #: True if it was always as far ahead.
    steady: bool


class Progress(Struct, frozen=True):
    """The step counters of one run beside its steps."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def note(self, counter: str, value: int, ended: int) -> None:
        """Keep a counter's value and the number of steps that have ended."""
        before = self._seen.get(counter)
        ahead = value - ended
        self._seen[counter] = _Seen(ahead, ended, before is None or (before.steady and before.ahead == ahead))

    def steps_of_restart(self, counter: str, value: int, ended: int) -> int | None:
        """Return how many of the ended steps belong to a restart whose counter is `value`; None if unknown."""
        seen = self._seen.get(counter)
        if seen is None or not seen.steady or seen.ahead not in (0, 1):  # this run itself did not begin at 0
            return None
        steps = value - seen.ahead
        return steps if 0 <= steps <= ended - seen.ended else None
