"""What names and facts decide: which direction is better, and whether a machine was fit to be measured on."""

from __future__ import annotations

from typing import Any

import pytest

from perfgate.core.runs import machine_notes, throttling, unhealthy
from perfgate.judge.evidence import direction

DIRECTIONS = [
    # metric, unit, what the rule says, which values are better
    ("forward", "s", None, "lower"),
    ("memory", "B", None, "lower"),
    ("samples_per_second", "1/s", None, "higher"),
    ("bandwidth", "B/s", None, "higher"),
    ("flops", "FLOP/s", None, "higher"),
    ("work", "FLOP", None, None),
    ("loss", "1", None, None),
    ("gpu.utilization", "1", None, "higher"),
    ("gpu.sm_efficiency", "1", None, "higher"),
    ("gpu.occupancy", "1", None, "higher"),
    ("comm.overlap", "1", None, "higher"),
    ("gpu.tensor_core_share", "1", None, "higher"),
    ("gpu.utilization", "s", None, "lower"),
    ("utilization.loss", "1", None, None),
    ("loss", "1", "lower", "lower"),
    ("forward", "s", "higher", "higher"),
    ("forward", "s", "neither", "neither"),
]


@pytest.mark.parametrize(("metric", "unit", "override", "better"), DIRECTIONS)
def test_the_direction_follows_from_the_unit(metric: str, unit: str, override: Any, better: str | None) -> None:
    assert direction(metric, unit, override) == better


REASONS = [
    # as NVML says it, what slowed the GPU down, and what of it makes the measurement worthless
    (None, (), ()),
    ("", (), ()),
    ("none", (), ()),
    ("gpu_idle, applications_clocks_setting, display_clock_setting,sync_boost", (), ()),
    ("sw_power_cap", ("sw_power_cap",), ()),
    ("HW_Slowdown, gpu_idle", ("hw_slowdown",), ("hw_slowdown",)),
    ("hw_thermal_slowdown,hw_power_brake", *[("hw_thermal_slowdown", "hw_power_brake")] * 2),
    ("sw_power_cap , sw_thermal_slowdown", ("sw_power_cap", "sw_thermal_slowdown"), ("sw_thermal_slowdown",)),
]


@pytest.mark.parametrize(("reasons", "slowed", "unfit"), REASONS)
def test_what_slowed_the_gpu_down(reasons: str | None, slowed: tuple[str, ...], unfit: tuple[str, ...]) -> None:
    facts = {} if reasons is None else {"throttle_reasons": reasons}
    assert (throttling(facts), unhealthy(facts)) == (slowed, unfit)
    assert machine_notes(facts) == ((f"the GPU was throttled: {', '.join(slowed)}",) if slowed else ())


@pytest.mark.parametrize(
    ("locked", "said"), [(False, True), ("false", True), ("False", True), (True, False), (None, False)]
)
def test_clocks_that_are_free_to_move_are_said(locked: Any, said: bool) -> None:
    facts = {} if locked is None else {"clocks_locked": locked}
    assert machine_notes(facts) == (("the GPU's clocks are not locked",) if said else ())
