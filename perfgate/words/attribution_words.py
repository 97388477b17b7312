"""The words about the effects of code and environment."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.core.attribution import Attribution, Changed, FactorEffect
from perfgate.core.units import format_change, format_confidence

_CHANGED: Mapping[Changed, str] = {
    "code": "changed by the code",
    "environment": "changed by the environment",
    "both": "changed by both",
    "neither": "changed by neither",
    "unclear": "changed by code or environment, more repetitions are needed to say which",
}
_COMBINATIONS = {
    "new-code": "the new code does not run in the old environment",
    "new-environment": "the old code does not run in the new environment",
}
#: Where each effect was measured, if a combination does not run.
_MEASURED = {
    "new-code": "the code was compared in the new environment, and the environment with the old code",
    "new-environment": "the code was compared in the old environment, and the environment with the new code",
}


def attribution(found: Attribution) -> str:
    """Return what changed, and the effects: `changed by the code: code +4.9% [+4.0%, +5.9%], environment ...`."""
    effects = f"code {_effect(found.code)}, environment {_effect(found.environment)}"
    size = f"({found.repetitions} repetitions, {format_confidence(found.confidence)} confidence)"
    parts = [f"{_CHANGED[found.changed]}: {effects} {size}"]
    if found.interaction is not None:
        more = format_change(found.interaction.estimate)
        parts.append(f"in the new environment the effect of the code is larger by {more}")
    if found.missing is not None:
        parts.append(_MEASURED[found.missing])
    return "; ".join(parts)


def _effect(effect: FactorEffect) -> str:
    return f"{format_change(effect.estimate)} [{format_change(effect.low)}, {format_change(effect.high)}]"


def does_not_run(cell: str, why: str, *, alone: bool) -> str:
    """Return the warning about a combination that does not run, and what that leaves open."""
    left = "their interaction is unknown" if alone else "only the whole change is known, not whose it is"
    return f"{_COMBINATIONS[cell]} ({why}): {left}"


def nothing_to_attribute() -> str:
    """Return the warning if no rule compares with the base."""
    return (
        "nothing to attribute: no rule compares with the baseline; add one, such as `step.time within 5% of baseline`"
    )
