"""The GPUs of this machine: those of NVIDIA through NVML (nvidia-ml-py), those of AMD through amdsmi.

Names and units are those of nvml.h: clocks in MHz, power in mW, energy in mJ since the driver was loaded, violation
times in ns. A violation time is a counter of the time in which a policy lowered the clocks.

`amdsmi_get_gpu_metrics_info` returns everything at once: clocks in MHz, power in W, the energy counter in units of
15.259 µJ, and, on MI300 and later, the firmware ticks in which each limit lowered the clocks (`*_residency_acc`), and
all ticks (`accumulation_counter`). Fields that a board lacks are `N/A`, or have all bits set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import product
from time import thread_time
from typing import Any

from perfgate.machine.channels import NAN, Channel

#: The performance policies of nvmlPerfPolicyType_t.
_POLICIES = {"power": 0, "thermal": 1, "sync_boost": 2, "board_limit": 3, "reliability": 5}
#: NVML's numbers for kinds of ECC errors: the errors since the last start of the driver.
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
#: NVML's numbers for two clocks (nvmlClockType_t) and for the sensor of the chip's temperature.
_SM_CLOCK, _MEMORY_CLOCK, _CHIP = 1, 2, 0
#: The most NVLinks of a board, and the number of NVML's error counters of each.
_LINKS, _LINK_ERRORS = 18, 4
#: More mJ than any GPU needs in a second.
_MOST_POWER = 5e6
#: A counter that takes more CPU time to read than this, in s, is read once a second.
_LONG = 2e-4
#: Returns one reading, or raises an exception of the driver.
Ask = Callable[[], float]


class NvmlDevice:
    """One GPU. Quantities that a board does not support are left out; a GPU that is lost later has no readings.

    This sensor has the quantities that are read ten times a second. Its slow `companion` has the rest: slow quantities,
    and counters that take long to read, because the driver asks the firmware of the GPU. On an H100 the energy takes
    3.9 ms and each violation time 0.7 ms; everything else takes 1 to 3 µs.
    """

    def __init__(self, nvml: Any, index: int) -> None:
        self.is_slow = False
        self._nvml = nvml
        self._labels = {"device": str(index)}
        self._device = nvml.nvmlDeviceGetHandleByIndex(index)
        fast, slow = ([one for one in found if self._try(one[1]) is not None] for found in (self._fast(), self._slow()))
        # Only totals: the growth of a counter includes everything between two readings.
        costly = [one for one in fast if one[0].kind == "total" and self._takes_long(one[1])]
        #: The channels of this sensor, each with its reading.
        self._asked = [one for one in fast if one not in costly]
        self.companion = copy(self)
        self.companion.is_slow, self.companion._asked = True, [*costly, *slow]

    def _takes_long(self, ask: Ask) -> bool:
        began = thread_time()
        self._try(ask)
        return thread_time() - began > _LONG

    def _try(self, ask: Ask) -> float | None:
        """Return a reading; None if the board does not have it, or cannot be read."""
        try:
            return float(ask())
        except Exception:  # of the driver, or of a binding that does not fit it
            return None

    def channels(self) -> Sequence[Channel]:
        """Return the channels that this board supports."""
        return tuple(channel for channel, _ in self._asked)

    def read(self) -> Sequence[float]:
        """Return the readings of now."""
        readings = (self._try(ask) for _, ask in self._asked)
        return [NAN if reading is None else reading for reading in readings]

    def _channel(self, metric: str, unit: str, scale: float = 1.0) -> Channel:
        return Channel(metric, unit, "level", self._labels, scale)

    def _fast(self) -> list[tuple[Channel, Ask]]:
        """The fast channels of NVML with their readings, whether or not the board has them."""
        nvml, device, labels = self._nvml, self._device, self._labels
        energy = Channel(
            "power", "W", "total", labels, scale=1e-3, most=_MOST_POWER, whole="machine.energy", whole_unit="J"
        )
        power: tuple[Channel, Ask] = energy, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device)
        if self._try(power[1]) is None:  # boards before Volta have no energy counter
            power = self._channel("power", "W", scale=1e-3), lambda: nvml.nvmlDeviceGetPowerUsage(device)
        found: list[tuple[Channel, Ask]] = [
            (self._channel("clock.sm", "MHz"), partial(self._busy_clock, _SM_CLOCK)),
            (self._channel("clock.memory", "MHz"), partial(self._busy_clock, _MEMORY_CLOCK)),
            power,
            (self._channel("machine.gpu.busy", "%"), lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu),
        ]
        for name, policy in _POLICIES.items():  # ns in a second, as %; `most` is twice the largest possible growth
            lost = Channel(f"machine.gpu.throttled.{name}", "%", "total", labels, scale=1e-7, most=2e9)
            found.append((lost, partial(self._violation_time, policy)))
        return found

    def _busy_clock(self, kind: int) -> float:
        """The clock while the GPU works, else NaN: an idle GPU lowers its clock, which says nothing of its speed."""
        is_busy = self._nvml.nvmlDeviceGetUtilizationRates(self._device).gpu > 0
        return float(self._nvml.nvmlDeviceGetClockInfo(self._device, kind)) if is_busy else NAN

    def _violation_time(self, policy: int) -> float:
        return float(self._nvml.nvmlDeviceGetViolationStatus(self._device, policy).violationTime)

    def _slow(self) -> list[tuple[Channel, Ask]]:
        """The slow channels of NVML with their readings, whether or not the board has them."""
        nvml, device, labels = self._nvml, self._device, self._labels

        def ecc() -> float:
            kinds = (_CORRECTED, _UNCORRECTED)
            return float(sum(nvml.nvmlDeviceGetTotalEccErrors(device, kind, _VOLATILE) for kind in kinds))

        def link_errors() -> float:
            places = product(range(_LINKS), range(_LINK_ERRORS))
            asks = (partial(nvml.nvmlDeviceGetNvLinkErrorCounter, device, *place) for place in places)
            counts = [count for ask in asks if (count := self._try(ask)) is not None]
            if not counts:
                raise TypeError("no NVLink")
            return sum(counts)

        def errors(name: str) -> Channel:
            return Channel(f"machine.gpu.{name}_errors", "/s", "total", labels, whole=f"machine.gpu.{name}_error_count")

        heat, processes = self._channel("machine.gpu.temperature", "°C"), self._channel("machine.gpu.processes", "1")
        return [
            (heat, lambda: nvml.nvmlDeviceGetTemperature(device, _CHIP)),
            (errors("ecc"), ecc),
            (errors("nvlink"), link_errors),
            (processes, lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(device))),
        ]


def load_nvml() -> Any:
    """Return the module `pynvml`; None if it is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def nvml_sensors(nvml: Any = None) -> tuple[list[NvmlDevice], str | None]:
    """Return the sensors of every GPU, or none and the error of NVML. `nvml`: the module `pynvml`, or a stand-in."""
    nvml = load_nvml() if nvml is None else nvml
    if nvml is None:
        return [], None
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        devices = [own for i in range(count) for fast in [NvmlDevice(nvml, i)] for own in (fast, fast.companion)]
    except Exception as error:
        return [], f"NVML failed: {error}"
    return devices, None


_ENERGY_UNIT_J = 15.259e-6
#: More units than any GPU needs in a second: 5000 W.
_MOST_TICKS_OF_ENERGY = 5000 / _ENERGY_UNIT_J
#: The values of fields that a board lacks: all bits are set.
_ABSENT = {2.0**16 - 1, 2.0**32 - 1, 2.0**64 - 1}
#: By field of amdsmi: the metric and its unit.
_LEVELS = {
    "current_gfxclk": ("clock.sm", "MHz"),
    "current_uclk": ("clock.memory", "MHz"),
    "average_gfx_activity": ("machine.gpu.busy", "%"),
    "temperature_hotspot": ("machine.gpu.temperature", "°C"),
}
#: Clocks count only while the GPU works, because an idle one lowers them: the field of its activity, and the clocks.
_BUSY, _BUSY_CLOCKS = "average_gfx_activity", ("current_gfxclk", "current_uclk")
#: The fields of the power; the first that a board has is used if it has no energy counter.
_POWER = ("current_socket_power", "average_socket_power")
#: By field: the limit whose ticks it counts; and the field of all ticks.
_RESIDENCIES = {
    "ppt_residency_acc": "power",
    "socket_thm_residency_acc": "thermal",
    "hbm_thm_residency_acc": "memory_thermal",
    "vr_thm_residency_acc": "regulator_thermal",
    "prochot_residency_acc": "hot",
}
_TICKS = "accumulation_counter"


class AmdDevice:
    """One GPU of AMD, with the channels that its first answer has."""

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
            most, whole = _MOST_TICKS_OF_ENERGY, "machine.energy"
            self._channels["energy_accumulator"] = Channel(
                "power", "W", "total", labels, scale=_ENERGY_UNIT_J, most=most, whole=whole, whole_unit="J"
            )
        elif power:
            self._channels[power] = Channel("power", "W", "level", labels)
        for name, limit in _RESIDENCIES.items():
            if name in found and _TICKS in found:
                # A level, because `read` returns the share of the ticks.
                self._channels[name] = Channel(f"machine.gpu.throttled.{limit}", "%", "level", labels, scale=100.0)
        self._before = found

    def _ask(self) -> Mapping[str, float]:
        """Return the fields that have a number; empty if the GPU does not answer."""
        try:
            answer = self._smi.amdsmi_get_gpu_metrics_info(self._handle)
        except self._smi.AmdSmiException:
            return {}
        numbers = {name: float(value) for name, value in answer.items() if isinstance(value, int | float)}
        return {name: value for name, value in numbers.items() if value not in _ABSENT}

    def channels(self) -> Sequence[Channel]:
        """Return the channels of this board."""
        return tuple(self._channels.values())

    def read(self) -> Sequence[float]:
        """Return the readings of now; a share of throttled ticks is that since the last reading."""
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
    """Return the sensors of every GPU, or none and the error of amdsmi. `smi`: the module `amdsmi`, or a stand-in."""
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
