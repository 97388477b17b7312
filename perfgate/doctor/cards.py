"""NVIDIA GPUs that are not ready for a measurement, through NVML: programs of others, clocks that idle, heat."""

from __future__ import annotations

from typing import Any

from perfgate.core.examination import Disturbance
from perfgate.machine.nvml import load_nvml

_SM = 1
#: Bits of nvmlClocksEventReasons that say that the clocks are held down: power, hardware, heat.
_HELD = {1 << 2: "the power cap", 1 << 3: "the hardware", 1 << 5: "heat", 1 << 6: "heat", 1 << 7: "the power supply"}


def examine_cards(nvml: Any = None) -> list[Disturbance]:
    """Return the disturbances of each GPU before anything is measured; empty without GPUs or NVML.

    Parameters
    ----------
    nvml : the module `pynvml`, or a stand-in.
    """
    if nvml is None:
        nvml = load_nvml()
    if nvml is None:
        return []
    try:
        nvml.nvmlInit()
        found = [_card(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        return [Disturbance("GPU", f"NVML failed: {error}", is_unknown=True)]
    return [one for own in found for one in own]


def _card(nvml: Any, number: int) -> list[Disturbance]:
    device, name = nvml.nvmlDeviceGetHandleByIndex(number), f"GPU {number}"
    most = _ask(nvml, "nvmlDeviceGetMaxClockInfo", device, _SM)
    usual = _ask(nvml, "nvmlDeviceGetDefaultApplicationsClock", device, _SM) or most
    lock = None if usual is None else f"sudo nvidia-smi -i {number} --lock-gpu-clocks={usual},{usual}"
    found = [Disturbance(name, "NVML does not show whether its clocks are locked; this locks them", command=lock)]
    processes = _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", device)
    if processes is None:
        found.append(Disturbance(name, "does not show the programs that use it", is_unknown=True))
    elif processes:
        others = ", ".join(str(getattr(one, "pid", "?")) for one in processes[:5])
        text = f"{len(processes)} programs use it" if len(processes) > 1 else "another program uses it"
        text += f": process {others}"
        found.append(Disturbance(name, text, does_disturb=True))
    bits = _ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", device)
    if bits is None:
        bits = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", device)
    if reasons := sorted({words for bit, words in _HELD.items() if (bits or 0) & bit}):
        found.append(Disturbance(name, f"its clocks are held down by {' and '.join(reasons)}", does_disturb=True))
    return found


def _ask(nvml: Any, function: str, *given: Any) -> Any:
    """Return the answer of a function of NVML; None if the library or the board does not have it."""
    try:
        return getattr(nvml, function)(*given)
    except (nvml.NVMLError, AttributeError, TypeError):
        return None
