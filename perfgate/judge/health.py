"""What the environment says against a measurement: a processor that was slowed down, or clocks that were free to move.

The facts are those of `perfgate env`; see NVML's clocks event reasons for what each one means.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.core import Fact
from perfgate.core.runs import THROTTLE

#: Too much heat and a failing supply make a measurement worthless.
_UNHEALTHY = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake", "sw_thermal_slowdown")
_HARMLESS = ("", "none", "gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost")


def throttling(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Why the processor was slowed down, in NVML's words; empty where it was not, or nobody knows."""
    words = [word.strip().lower() for word in str(facts.get(THROTTLE, "")).split(",")]
    return tuple(word for word in words if word not in _HARMLESS)


def unhealthy(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Reasons that make a measurement unfit for a baseline; a power cap that was reached is not among them."""
    return tuple(word for word in throttling(facts) if word in _UNHEALTHY)


def notes(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """What every verdict says of the machine."""
    slowed = throttling(facts)
    found = [f"the GPU was throttled: {', '.join(slowed)}"] if slowed else []
    if str(facts.get("clocks_locked", "")).lower() == "false":
        found.append("the GPU's clocks are not locked")
    return tuple(found)
