"""AMD GPUs, through amdsmi.

`amdsmi_get_gpu_metrics_info` gives everything at once: clocks in MHz, power in W, the energy counter in units of
15.259 µJ, and, on MI300 and later, how many firmware ticks each limit held the clocks down (`*_residency_acc`) of all
ticks (`accumulation_counter`). Fields that a board lacks are `N/A` or all ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfgate.machine.channels import NAN, Channel

_ENERGY_UNIT_J = 15.259e-6
_MOST_POWER = 5000 / _ENERGY_UNIT_J
#: Unsigned fields without a value have all bits set.
_ABSENT = {2.0**16 - 1, 2.0**32 - 1, 2.0**64 - 1}
_LEVELS = {
    "current_gfxclk": ("clock.sm", "MHz"),
    "current_uclk": ("clock.memory", "MHz"),
    "average_gfx_activity": ("machine.gpu.busy", "%"),
    "temperature_hotspot": ("machine.gpu.temperature", "°C"),
}
#: Clocks count while the GPU works: an idle one lowers them.
_BUSY, _BUSY_CLOCKS = "average_gfx_activity", ("current_gfxclk", "current_uclk")
_POWER = ("current_socket_power", "average_socket_power")
_RESIDENCIES = {
    "ppt_residency_acc": "power",
    "socket_thm_residency_acc": "thermal",
    "hbm_thm_residency_acc": "memory_thermal",
    "vr_thm_residency_acc": "regulator_thermal",
    "prochot_residency_acc": "hot",
}
_TICKS = "accumulation_counter"


class AmdDevice:
    """One GPU."""

    is_slow = False

    def __init__(self, smi: Any, index: int, handle: Any) -> None:
        self._smi, self._handle = smi, handle
        labels = {"device": str(index)}
        found = self._ask()
        self._channels: dict[str, Channel] = {
            name: Channel(metric, unit, "level", labels) for name, (metric, unit) in _LEVELS.items() if name in found
        }
        power = next((name for name in _POWER if name in found), None)
        if "energy_accumulator" in found:
            energy = Channel("power", "W", "total", labels, _ENERGY_UNIT_J, _MOST_POWER, "machine.energy", "J")
            self._channels["energy_accumulator"] = energy
        elif power:
            self._channels[power] = Channel("power", "W", "level", labels)
        for name, limit in _RESIDENCIES.items():
            if name in found and _TICKS in found:
                self._channels[name] = Channel(f"machine.gpu.throttled.{limit}", "%", "level", labels, 100.0)
        self._before = found

    def _ask(self) -> Mapping[str, float]:
        try:
            answer = self._smi.amdsmi_get_gpu_metrics_info(self._handle)
        except self._smi.AmdSmiException:
            return {}
        numbers = {name: float(value) for name, value in answer.items() if isinstance(value, int | float)}
        return {name: value for name, value in numbers.items() if value not in _ABSENT}

    def channels(self) -> Sequence[Channel]:
        """Return what this board has."""
        return tuple(self._channels.values())

    def read(self) -> Sequence[float]:
        """Return the readings of now; a share of throttled ticks covers all the time since the last reading."""
        now, before = self._ask(), self._before
        self._before = now or before
        ticks = now.get(_TICKS, NAN) - before.get(_TICKS, NAN)
        is_idle = now.get(_BUSY) == 0
        readings = []
        for name in self._channels:
            reading = NAN if is_idle and name in _BUSY_CLOCKS else now.get(name, NAN)
            if name in _RESIDENCIES:
                grown = reading - before.get(name, NAN)
                reading = grown / ticks if ticks > 0 and grown >= 0 else NAN
            readings.append(reading)
        return readings


def amd_sensors(smi: Any = None) -> tuple[list[AmdDevice], str | None]:
    """Return the sensors of every GPU, and why there are none although the machine may have one.

    Parameters
    ----------
    smi : the module `amdsmi`, or a stand-in.
    """
    if smi is None:
        try:
            import amdsmi
        except (ImportError, OSError, KeyError):  # the package looks for the library of ROCm when it is imported
            return [], None
        smi = amdsmi
    try:
        smi.amdsmi_init()
        return [AmdDevice(smi, i, handle) for i, handle in enumerate(smi.amdsmi_get_processor_handles())], None
    except smi.AmdSmiException as error:
        return [], f"amdsmi failed: {error}"
