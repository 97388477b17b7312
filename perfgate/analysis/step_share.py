"""The share of metrics in the time of the steps: timers inside each other count once, by the table of `causes.nesting`.

Without a timer of the whole step, the step is the sum of the known timers that are not inside each other: forward,
backward and step for DeepSpeed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from msgspec import Struct

from perfgate.causes.nesting import (
    WHOLES,
    around,
    hook_of,
    is_known,
    is_redundant,
    kind_of_timer,
    may_be_whole,
    nesting_of,
)

_MICRO = "_microstep"


class WholeStep(Struct, frozen=True):
    """The time of all steps of a run in s, 0 if it is unknown."""

    seconds: float
    #: True if a timer measured it; otherwise it is the sum of known timers, and other timers have no share in it.
    is_measured: bool
    format: str

    def share(self, metric: str, seconds: float) -> float | None:
        """Return the share of a metric; None if it is unknown or the metric is not a part of the steps."""
        if self.seconds <= 0 or seconds > self.seconds:
            return None
        return seconds / self.seconds if self.is_measured or _is_part(metric, self.format) else None


def step_time(times: Mapping[str, float], format: str) -> WholeStep:
    """Return the time of all steps, from the total time of each metric of a run in s."""
    own = _without_redundant(times)
    for whole in WHOLES:
        if found := [time for name, time in own.items() if hook_of(name) == whole]:
            return WholeStep(max(found), True, format)
    tops = _tops(own, format)
    perhaps = {name for name in tops if may_be_whole(name, format)}
    whole_time = max((own[name] for name in perhaps), default=0.0)
    parts = {name: own[name] for name in tops if _is_part(name, format)}
    if 0 < whole_time >= math.fsum(time for name, time in parts.items() if name not in perhaps):
        return WholeStep(whole_time, True, format)
    return WholeStep(math.fsum(parts.values()), False, format)


def time_named(times: Mapping[str, float], named: Collection[str], format: str) -> tuple[float, float]:
    """Return the time that the named metrics measure and the time that all metrics measure, both in s."""
    own = _without_redundant(times)
    seen_names = {name for name in own if name in named or name + _MICRO in named}
    nesting, hooks = nesting_of(format), {hook_of(name) for name in own}
    below: dict[str | None, list[str]] = {}
    for name in own:
        below.setdefault(around(name, hooks, nesting), []).append(name)

    def seen(name: str, outer: frozenset[str]) -> float:
        hook = hook_of(name)
        if name in seen_names or hook in outer:
            return own[name] if name in seen_names else 0.0
        return min(own[name], math.fsum(seen(one, outer | {hook}) for one in below.get(hook, ())))

    tops = below.get(None, [])
    found = math.fsum(seen(name, frozenset()) for name in tops)
    whole = step_time(times, format)
    total = whole.seconds if whole.is_measured else math.fsum(own[name] for name in tops)
    return min(found, total), total


def _without_redundant(times: Mapping[str, float]) -> dict[str, float]:
    return {name: time for name, time in times.items() if not is_redundant(name, times.keys())}


def _tops(times: Mapping[str, float], format: str) -> list[str]:
    """The timers that are in no other timer of the run."""
    nesting, hooks = nesting_of(format), {hook_of(name) for name in times}
    return [name for name in times if around(name, hooks, nesting) is None]


def _is_part(metric: str, format: str) -> bool:
    return is_known(metric.removesuffix(_MICRO), nesting_of(format)) or kind_of_timer(metric) == "loader"
