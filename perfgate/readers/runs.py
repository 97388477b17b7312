"""Several runs in one log: restarts that were appended to the same file are told apart, never merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from perfgate.core import Run
from perfgate.readers.builder import RunBuilder

#: So many starts of runs are named.
_STARTS_SAID = 20

AnyBuilder = TypeVar("AnyBuilder", bound=RunBuilder)


class Runs(Generic[AnyBuilder]):
    """The run that is being read, and the ones before it in the same file."""

    def __init__(self, make: Callable[[], AnyBuilder]) -> None:
        self._make = make
        #: Every run so far with the line on which it begins; its builder holds whatever a reader knows of a run.
        self._begun: list[tuple[AnyBuilder, int]] = []
        self._begin(1)

    def _begin(self, line: int) -> None:
        self.run = self._make()
        self.run.document.count("runs", line, self._begun[0][0].problems if self._begun else ())
        self._begun.append((self.run, line))
        self._counters: dict[str, int] = {}

    def banner(self, line: int) -> None:
        """A launcher starts here: a new run, unless this one has measured nothing yet."""
        if self.run.has_measured:
            self._begin(line)

    def count(self, counter: str, value: int, line: int, fraction: float = 1.0) -> None:
        """A printed step counter: under `fraction` of its last value it belongs to a new run, of the same facts."""
        if value < self._counters.get(counter, 0) * fraction and self.run.has_measured:
            facts = self.run.facts
            self._begin(line)
            self.run.facts = dict(facts)
        self._counters[counter] = value

    def finish(self) -> tuple[Run, ...]:
        """The finished runs. A start after which nothing was measured is no run, but is said."""
        while len(self._begun) > 1 and not self.run.has_measured:
            empty, line = self._begun.pop()
            self.run = self._begun[-1][0]
            self.run.problems += empty.problems
            self.run.say("warning", "a start without a measurement after it", line)
        if len(self._begun) == 1:
            return (self.run.run(),)
        starts = [line for _, line in self._begun[1:]]
        more = f" and {len(starts) - _STARTS_SAID} more" if len(starts) > _STARTS_SAID else ""
        lines = ", ".join(map(str, starts[:_STARTS_SAID])) + more
        told = f"{len(self._begun)} runs in one file, told apart at line {lines}"
        for run, line in self._begun:
            run.say("warning", told, max(line, starts[0]))
        return tuple(run.run(part) for part, (run, _) in enumerate(self._begun, 1))
