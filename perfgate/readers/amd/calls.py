"""Times of calls, and counters of launches, on the agents of a ROCm profile."""

from __future__ import annotations

import re
from array import array

import numpy as np

from perfgate.core import Key, Series, read_only
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.values import checked, in_base

_NS = 1e9


class Calls:
    """The values of each metric and agent of one run, in the order in which they are added."""

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        self._found: dict[tuple[str, str, str], array[float]] = {}

    def add(self, metric: str, agent: str, value: object, at: Place, unit: str = "s") -> None:
        """Add a value in ns, or a counter, or a problem."""
        parsed, fault = checked(value, unit)
        if fault:
            self.run.refuse(Key(metric), fault, at)
            return
        if (metric, agent, unit) not in self._found:
            self.run.file.count("series")
        self._found.setdefault((metric, agent, unit), array("d")).append(parsed)

    def span(self, metric: str, agent: str, start: object, end: object, at: Place) -> None:
        """Add the time between two timestamps in ns, which are integers beyond the precision of floats."""
        times = [one for one in (_integer(start), _integer(end)) if one is not None]
        if len(times) < 2:
            self.run.refuse(Key(metric), f"{start!r} to {end!r} is not a time in ns; left out"[:200], at)
        else:
            self.add(metric, agent, times[1] - times[0], at)

    def finish(self) -> None:
        """Add all series to the run, with the label `device` if there are several agents."""
        several = len({agent for _, agent, _ in self._found} - {""}) > 1
        for (metric, agent, unit), values in self._found.items():
            labels = {"device": agent.removeprefix("Agent ")} if several and agent else {}
            numbers = in_base(np.frombuffer(values, np.float64), _NS if unit == "s" else 1.0)
            key = Key.of(metric, **labels)
            self.run.finished[key] = Series(key, unit, "samples", read_only(numbers))


def _integer(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\d{1,20}", value, re.ASCII) else None
    return value if type(value) is int else None
