"""Which direction is worse: it follows from the unit, the rule may override it."""

from __future__ import annotations

from perfgate.core import Better

_BY_UNIT: dict[str, Better] = {
    "s": "lower",
    "B": "lower",
    "1/s": "higher",
    "B/s": "higher",
    "FLOP/s": "higher",
}

#: Shares of what the hardware could do: more is better, though their unit does not say so.
_HIGHER_IS_BETTER = ("utilization", "efficiency", "occupancy", "overlap", "tensor_core_share")


def direction(metric: str, unit: str, override: Better | None) -> Better | None:
    """Which values of a metric are better; None where neither the unit nor the name tells."""
    if override is not None:
        return override
    if unit == "1" and metric.endswith(_HIGHER_IS_BETTER):
        return "higher"
    return _BY_UNIT.get(unit)
