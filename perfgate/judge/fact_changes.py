"""The facts of the environment that differ between the base runs and the new runs of a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perfgate.core import Fact, fact_text
from perfgate.core.details import FactChange
from perfgate.core.runs import THROTTLE, same_fact
from perfgate.judge.case import Case

#: Readings of a moment. They differ between any two runs, so a difference counts from this share on.
_READINGS, _LEAST_SHARE = ("gpu_temperature_c", "sm_clock_mhz", "memory_clock_mhz"), 0.1


def fact_changes(case: Case) -> tuple[FactChange, ...]:
    """Return the facts that a new run has and no base run has, sorted by name. A fact that a side lacks is left out.

    What `--env` or the machine of the command says is true of the new runs, and of both sides of pairs. Verdicts have
    a note about throttling, so it is left out.
    """
    is_paired = case.baseline.pairing is not None
    given = {name: fact for name, fact in case.facts.items() if name not in case.claimed and not is_paired}
    base = _values(run.environment for run in case.baseline.runs)
    new = _values({**run.environment, **given} for run in case.new)
    return tuple(
        FactChange(name, tuple(base[name]), tuple(new[name]), name not in given)
        for name in sorted({*base} & {*new} - {THROTTLE})
        if any(not any(_alike(name, one, other) for other in base[name].values()) for one in new[name].values())
    )


def _values(environments: Iterable[Mapping[str, Fact]]) -> dict[str, dict[str, Fact]]:
    """Return the different values of each fact, by their texts."""
    found: dict[str, dict[str, Fact]] = {}
    for environment in environments:
        for name, fact in environment.items():
            found.setdefault(name, {})[fact_text(fact)] = fact
    return found


def _alike(name: str, one: Fact, other: Fact) -> bool:
    if name not in _READINGS:
        return same_fact(one, other)
    if isinstance(one, str) or isinstance(other, str):  # of several GPUs
        return True
    return abs(one - other) < _LEAST_SHARE * max(abs(one), abs(other), 1e-9)
