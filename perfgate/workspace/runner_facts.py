"""Facts by which a runner is recognised: its links, limits, memory and other users. They cost nothing to read.

Sources: nvml.h for the link of a card (its present width, and its generation), its clocks and its programs; for the
rest, Documentation/ABI/stable/sysfs-devices-node, Documentation/ABI/testing/sysfs-bus-pci (`numa_node`),
admin-guide/pm/cpufreq.rst and proc(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfgate.core.runs import TENANTS

#: The last performance state in which a card works: P0 to P2. An idle card lowers the speed of its link.
_WORKING_STATES = 2


def host_facts(root: Path = Path("/")) -> dict[str, str | int]:
    """Return governors, NUMA nodes and memory of a machine, as far as Linux shows them. `root` has /proc and /sys."""
    system = root / "sys/devices/system"
    governors = {_text(path) for path in system.glob("cpu/cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    nodes = len(list(system.glob("node/node[0-9]*")))
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    found: dict[str, str | int | None] = {
        "governor": " + ".join(sorted(governors)) or None,
        "numa_nodes": nodes or None,
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _generation(nvml: Any, device: Any) -> int | None:
    """Return the generation of PCIe that the link of a card has now; None while the card idles."""
    works = nvml.nvmlDeviceGetPerformanceState(device) <= _WORKING_STATES
    return int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(device)) if works else None


def _numa_distance(nvml: Any, device: Any) -> int | None:
    bus = nvml.nvmlDeviceGetPciInfo(device).busId
    return numa_distance(bus.decode() if isinstance(bus, bytes) else str(bus))


def numa_distance(bus: str, root: Path = Path("/")) -> int | None:
    """Return the distance from a card's NUMA node to the farthest processor that may be used; 10 is the same node.

    None if the system does not say it. `bus` is the PCI address as NVML writes it, `00000000:3B:00.0`.
    """
    node = _text(root / "sys/bus/pci/devices" / bus[-12:].lower() / "numa_node")  # Linux writes `0000:3b:00.0`
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    own = next((path for path in nodes if path.name == f"node{node}"), None)
    distances = _text(own / "distance").split() if own else []
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    used = [
        int(distance)
        for path, distance in zip(nodes, distances, strict=False)
        if allowed & _processors(_text(path / "cpulist"))
    ]
    return max(used, default=None)


def _processors(text: str) -> set[int]:
    """Return the processors of a list such as `0-3,8`."""
    parts = (part.split("-") for part in text.split(",") if part)
    return {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


#: For each fact, a function of NVML's module and a card that returns its value; None if it says nothing now. Before a
#: measurement, all programs on the card are of other users.
CARD_FACTS: Mapping[str, Callable[[Any, Any], int | None]] = {
    "pcie_width": lambda nvml, device: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(device)),
    "pcie_generation": _generation,
    "application_clock_mhz": lambda nvml, device: int(nvml.nvmlDeviceGetApplicationsClock(device, nvml.NVML_CLOCK_SM)),
    TENANTS: lambda nvml, device: len(nvml.nvmlDeviceGetComputeRunningProcesses(device)),
    "gpu_numa_distance": _numa_distance,
}
