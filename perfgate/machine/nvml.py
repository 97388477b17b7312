"""NVIDIA GPUs, through NVML (nvidia-ml-py).

Names and units are those of nvml.h: clocks in MHz, power in mW, energy in mJ since the driver was loaded, violation
times in ns. A violation time counts how long a policy held the clocks down, so nothing between two readings is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from time import thread_time
from typing import Any

from perfgate.machine.channels import NAN, Channel

#: The performance policies of nvmlPerfPolicyType_t.
_POLICIES = {"power": 0, "thermal": 1, "sync_boost": 2, "board_limit": 3, "reliability": 5}
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_LINKS, _LINK_ERRORS = 18, 4
#: A GPU draws less than this: mJ in a second.
_MOST_POWER = 5e6
#: A counter that takes more CPU time to ask than this is asked once a second, in s. Waiting costs nothing.
_LONG = 2e-4

Ask = Callable[[], float]


class NvmlDevice:
    """One GPU. Quantities that a board does not support are left out; a GPU that is lost later has no readings.

    A fast device has what is asked ten times a second. Its slow `companion` has the rest: slow quantities, and counters
    that take long to ask, because the driver asks the firmware of the GPU. On an H100 the energy takes 3.9 ms and each
    violation time 0.7 ms; everything else takes 1 to 3 µs. Counters miss nothing between two readings.
    """

    def __init__(self, nvml: Any, index: int) -> None:
        self.is_slow = False
        self._nvml = nvml
        self._labels = {"device": str(index)}
        self._device = nvml.nvmlDeviceGetHandleByIndex(index)
        fast, slow = ([one for one in found if self._try(one[1]) is not None] for found in (self._fast(), self._slow()))
        costly = [one for one in fast if one[0].kind == "total" and self._takes_long(one[1])]
        self._asked = [one for one in fast if one not in costly]
        self.companion = copy(self)
        self.companion.is_slow, self.companion._asked = True, [*costly, *slow]

    def _takes_long(self, ask: Ask) -> bool:
        began = thread_time()
        self._try(ask)
        return thread_time() - began > _LONG

    def _try(self, ask: Ask) -> float | None:
        try:
            return float(ask())
        except (self._nvml.NVMLError, AttributeError, TypeError):  # older bindings lack functions
            return None

    def channels(self) -> Sequence[Channel]:
        """Return what this board supports."""
        return tuple(channel for channel, _ in self._asked)

    def read(self) -> Sequence[float]:
        """Return the readings of now."""
        readings = (self._try(ask) for _, ask in self._asked)
        return [NAN if reading is None else reading for reading in readings]

    def _channel(self, metric: str, unit: str, scale: float = 1.0) -> Channel:
        return Channel(metric, unit, "level", self._labels, scale)

    def _fast(self) -> list[tuple[Channel, Ask]]:
        nvml, device, labels = self._nvml, self._device, self._labels
        energy = Channel("power", "W", "total", labels, 1e-3, _MOST_POWER, "machine.energy", "J")
        found: list[tuple[Channel, Ask]] = [
            (self._channel("clock.sm", "MHz"), partial(self._busy_clock, 1)),
            (self._channel("clock.memory", "MHz"), partial(self._busy_clock, 2)),
            (energy, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device)),
            (self._channel("machine.gpu.busy", "%"), lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu),
        ]
        if self._try(found[2][1]) is None:  # boards before Volta have no energy counter
            found[2] = (self._channel("power", "W", 1e-3), lambda: nvml.nvmlDeviceGetPowerUsage(device))
        for name, policy in _POLICIES.items():
            lost = Channel(f"machine.gpu.throttled.{name}", "%", "total", labels, 1e-7, 2e9)
            found.append((lost, partial(self._violation_time, policy)))
        return found

    def _busy_clock(self, kind: int) -> float:
        """The clock while the GPU works; an idle one lowers it, and how long a program starts is not its speed."""
        is_busy = self._nvml.nvmlDeviceGetUtilizationRates(self._device).gpu > 0
        return float(self._nvml.nvmlDeviceGetClockInfo(self._device, kind)) if is_busy else NAN

    def _violation_time(self, policy: int) -> float:
        return float(self._nvml.nvmlDeviceGetViolationStatus(self._device, policy).violationTime)

    def _slow(self) -> list[tuple[Channel, Ask]]:
        nvml, device, labels = self._nvml, self._device, self._labels

        def ecc() -> float:
            return float(
                sum(nvml.nvmlDeviceGetTotalEccErrors(device, kind, _VOLATILE) for kind in (_CORRECTED, _UNCORRECTED))
            )

        def link_errors() -> float:
            asks = (
                partial(nvml.nvmlDeviceGetNvLinkErrorCounter, device, link, counter)
                for link in range(_LINKS)
                for counter in range(_LINK_ERRORS)
            )
            counts = [count for ask in asks if (count := self._try(ask)) is not None]
            if not counts:
                raise TypeError("no NVLink")
            return sum(counts)

        def processes() -> float:
            return len(nvml.nvmlDeviceGetComputeRunningProcesses(device))

        heat = self._channel("machine.gpu.temperature", "°C")
        return [
            (heat, lambda: nvml.nvmlDeviceGetTemperature(device, 0)),
            (Channel("machine.gpu.ecc_errors", "/s", "total", labels, whole="machine.gpu.ecc_error_count"), ecc),
            (
                Channel("machine.gpu.nvlink_errors", "/s", "total", labels, whole="machine.gpu.nvlink_error_count"),
                link_errors,
            ),
            (self._channel("machine.gpu.processes", "1"), processes),
        ]


def load_nvml() -> Any:
    """Return the module `pynvml`; None if it is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def nvml_sensors(nvml: Any = None) -> tuple[list[NvmlDevice], str | None]:
    """Return the sensors of every GPU, and why there are none although the machine may have one.

    Parameters
    ----------
    nvml : the module `pynvml`, or a stand-in.
    """
    nvml = load_nvml() if nvml is None else nvml
    if nvml is None:
        return [], None
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        devices = [own for i in range(count) for fast in [NvmlDevice(nvml, i)] for own in (fast, fast.companion)]
    except nvml.NVMLError as error:
        return [], f"NVML failed: {error}"
    return devices, None
