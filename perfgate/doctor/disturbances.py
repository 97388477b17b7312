"""Conditions of this machine that make runs differ, from the files of the Linux kernel.

Counters are read in snapshots. Two snapshots while perfgate measured nothing show the CPU time and the waiting of other
programs; the first and the last one show the stolen and throttled time, and the heat, of the whole examination.

Sources beside those of `perfgate.machine.linux`: Documentation/admin-guide/pm/intel_pstate.rst and cpufreq.rst for
governor and turbo; Documentation/ABI/testing/sysfs-devices-system-cpu for SMT and thermal_throttle; cgroup-v2.rst for
cpu.max; transhuge.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from perfgate.core.summaries import Disturbance
from perfgate.core.wording import listed, plural
from perfgate.machine.gpus import load_nvml
from perfgate.machine.linux import cgroup_cpu, cpu_stat_files, pressure, reading

#: Other programs, steal, throttling and waiting disturb beyond this share of the processors, or of the time.
_DISTURBS = 0.02
#: A process is named if it used at least this share of a processor; at most this many are named.
_NAMED, _MOST_NAMED = 0.05, 3
_SYSTEM = "sys/devices/system/cpu"


class Snapshot(Struct, frozen=True):
    """Counters of the machine at one time, in s; None, no entry or 0 (`stolen`) if the system does not have one."""

    #: The time of a clock that never goes back.
    seconds: float
    #: The busy time by processor; -1 is their sum.
    busy: Mapping[int, float]
    #: The time that a hypervisor took from all processors.
    stolen: float
    #: The time in which a program waited for a processor.
    waited: float | None
    #: The time in which the control group was stopped by its CPU limit.
    throttled: float | None
    #: How often heat slowed the processors down, a count.
    heat_events: int | None
    #: By process: its CPU time and its name.
    processes: Mapping[int, tuple[float, str]]

    def since(self, before: Snapshot) -> float:
        """Return the seconds since an earlier snapshot."""
        return max(self.seconds - before.seconds, 1e-9)


def snapshot(root: Path, seconds: float) -> Snapshot:
    """Read the counters below `root`, the folder that has /proc and /sys."""
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    busy, stolen = _processors(_text(root / "proc/stat"), tick)
    waited = reading(pressure, _text(root / "proc/pressure/cpu"), "total")  # in µs
    throttled = next((reading(cgroup_cpu, _text(path), "throttled") for path in cpu_stat_files(root, None)), None)
    counts = [_text(path) for path in (root / _SYSTEM).glob("cpu*/thermal_throttle/core_throttle_count")]
    heat = sum(int(count) for count in counts if re.fullmatch(r"\d{1,18}", count.strip(), re.ASCII)) if counts else None
    processes = dict(_processes(root, tick))
    return Snapshot(seconds, busy, stolen, None if waited is None else waited / 1e6, throttled, heat, processes)


def quietest_cpu(before: Snapshot, after: Snapshot, allowed: Collection[int]) -> int | None:
    """Return the allowed processor that was used least between two snapshots, the last of equal ones; or None."""
    # The last one, because the system itself prefers the first processors.
    known = [cpu for cpu in sorted(allowed) if cpu in before.busy and cpu in after.busy]
    return min(reversed(known), key=lambda cpu: after.busy[cpu] - before.busy[cpu], default=None)


def disturbances(
    root: Path, idle: tuple[Snapshot, Snapshot], end: Snapshot, cpus: int, pinned_to: int | None
) -> list[Disturbance]:
    """Return the conditions of this machine: disturbances first, then harmless ones, unknown ones last.

    `idle`: two snapshots while nothing was measured. `end`: the snapshot after all measurements. `cpus`: the number of
    processors. `pinned_to`: the processor of pinned runs.
    """
    before, after = idle
    found = [
        _others(before, after, cpus),
        _load(root, cpus),
        _steal(before, end, cpus),
        _waiting(before, after),
        _limit(root, before, end),
        _governor(root),
        _turbo(root),
        _siblings(root, pinned_to),
        _heat(before, end),
        _memory(root),
    ]
    return sorted(found, key=lambda one: (not one.does_disturb, one.is_unknown))


def used_processors(before: Snapshot, after: Snapshot) -> float | None:
    """Return how many processors were busy between two snapshots, on average; None if the system does not show it."""
    if -1 not in before.busy or -1 not in after.busy:
        return None
    return max(after.busy[-1] - before.busy[-1], 0.0) / after.since(before)


def _unknown(name: str, text: str = "not shown here") -> Disturbance:
    return Disturbance(name, text, is_unknown=True)


def _others(before: Snapshot, after: Snapshot, cpus: int) -> Disturbance:
    name, used = "other programs", used_processors(before, after)
    if used is None:
        return _unknown(name)
    shares = [
        ((cpu_time - before.processes[pid][0]) / after.since(before), pid, command)
        for pid, (cpu_time, command) in after.processes.items()
        if pid in before.processes and pid != os.getpid()
    ]
    largest = sorted((one for one in shares if one[0] >= _NAMED), reverse=True)
    named = [f"{command} ({pid}) {100 * share:.0f}%" for share, pid, command in largest]
    named[:1] = [f"{first} of a processor" for first in named[:1]]  # only the first one names the unit
    text = f"used {used:.2f} of {cpus} processors while nothing was measured"
    text += f": {listed(named, _MOST_NAMED)}" if named else ""
    return Disturbance(name, text, does_disturb=used > _DISTURBS * cpus)


def _load(root: Path, cpus: int) -> Disturbance:
    if not (found := re.match(r"\d{1,6}\.\d\d\b", _text(root / "proc/loadavg"), re.ASCII)):
        return _unknown("load")
    text = f"{found[0]} in the last minute, with {cpus} processors"
    return Disturbance("load", text, does_disturb=float(found[0]) > cpus)


def _steal(before: Snapshot, end: Snapshot, cpus: int) -> Disturbance:
    if -1 not in end.busy:
        return _unknown("steal")
    share = (end.stolen - before.stolen) / end.since(before) / cpus
    text = f"the hypervisor ran other machines for {100 * share:.1f}% of the time"
    return Disturbance("steal", text, does_disturb=share > _DISTURBS)


def _waiting(before: Snapshot, after: Snapshot) -> Disturbance:
    if before.waited is None or after.waited is None:
        return _unknown("CPU pressure")
    share = (after.waited - before.waited) / after.since(before)
    text = f"programs waited for a processor in {100 * share:.0f}% of the time while nothing was measured"
    return Disturbance("CPU pressure", text, does_disturb=share > _DISTURBS)


def _limit(root: Path, before: Snapshot, end: Snapshot) -> Disturbance:
    """The CPU limit of the control group, and the share of the time in which it stopped the group."""
    name, quota = "CPU limit", None
    for path in cpu_stat_files(root, None):  # `cpu.max` of cgroup 2, two files of cgroup 1; no limit is `max` or -1
        words = _text(path.with_name("cpu.max")).split() or [
            _text(path.with_name(f"cpu.cfs_{one}_us")).strip() for one in ("quota", "period")
        ]
        with suppress(ValueError, ZeroDivisionError, IndexError):
            if float(words[0]) > 0:
                quota = float(words[0]) / float(words[1])
                break
    if before.throttled is None or end.throttled is None:
        return _unknown(name, "the control group does not show its throttled time")
    lost = (end.throttled - before.throttled) / end.since(before)
    limit = "none" if quota is None else f"{quota:g} processors"
    text = f"{limit}; the control group was stopped for {100 * lost:.1f}% of the time"
    return Disturbance(name, text, does_disturb=lost > _DISTURBS)


def _governor(root: Path) -> Disturbance:
    files = sorted((root / _SYSTEM).glob("cpu[0-9]*/cpufreq/scaling_governor"))
    names = sorted({_text(path).strip() for path in files} - {""})
    if not names:
        return _unknown("governor")
    steady = names == ["performance"]
    command = f"echo performance | sudo tee /{_SYSTEM}/cpu*/cpufreq/scaling_governor"
    text = f"the clock follows `{', '.join(names)}`"
    return Disturbance("governor", text, does_disturb=not steady, command=None if steady else command)


def _turbo(root: Path) -> Disturbance:
    for place, on, off in (("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")):
        if known := _text(root / _SYSTEM / place).strip():
            is_on = known == on
            command = f"echo {off} | sudo tee /{_SYSTEM}/{place}" if is_on else None
            text = "on: the clock depends on heat and on the other processors" if is_on else "off"
            return Disturbance("turbo", text, does_disturb=is_on, command=command)
    return _unknown("turbo")


def _siblings(root: Path, pinned_to: int | None) -> Disturbance:
    active = _text(root / _SYSTEM / "smt/active").strip()
    if not active:
        return _unknown("SMT")
    if active != "1":
        return Disturbance("SMT", "off, as far as this system sees: a virtual machine may share its cores")
    siblings = _text(root / _SYSTEM / f"cpu{pinned_to or 0}/topology/thread_siblings_list").strip()
    text = f"on: the processors {siblings} share one core"
    return Disturbance("SMT", text, does_disturb=True, command=f"echo off | sudo tee /{_SYSTEM}/smt/control")


def _heat(before: Snapshot, end: Snapshot) -> Disturbance:
    if before.heat_events is None or end.heat_events is None:
        return _unknown("heat")
    count = end.heat_events - before.heat_events
    text = f"the processors slowed down {plural(count, 'time')} because of heat"
    return Disturbance("heat", text, does_disturb=count > 0)


def _memory(root: Path) -> Disturbance:
    pages = re.search(r"\[(\w+)\]", _text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    nodes = len(list((root / "sys/devices/system/node").glob("node[0-9]*")))
    if pages is None and not nodes:
        return _unknown("memory")
    huge = f"huge pages `{pages[1]}`" if pages else "huge pages unknown"
    text = f"{huge}, {max(nodes, 1)} NUMA node{'s' if nodes > 1 else ''}"
    return Disturbance("memory", text, does_disturb=nodes > 1)


def _processors(text: str, tick: int) -> tuple[dict[int, float], float]:
    """Return the busy seconds of each processor and of all (-1), and the stolen seconds of all, from /proc/stat."""
    busy, stolen = dict[int, float](), 0.0
    # The line of all processors has two blanks. `(?!\d)`: a long number is not split in many ways.
    for found in re.finditer(r"^cpu(\d{0,9}) ((?: ?\d{1,20}(?!\d))+)$", text, re.MULTILINE):
        numbers = [float(word) / tick for word in found[2].split()]
        if len(numbers) >= 8:
            user, nice, system, _, _, irq, softirq, steal = numbers[:8]  # without idle and iowait
            busy[int(found[1] or -1)] = user + nice + system + irq + softirq
            stolen = steal if not found[1] else stolen
    return busy, stolen


def _processes(root: Path, tick: int) -> Iterator[tuple[int, tuple[float, str]]]:
    """Yield each process with its CPU seconds and its name, from /proc/PID/stat."""
    for path in (root / "proc").glob("[0-9]*/stat"):
        name, _, rest = _text(path).partition("(")[2].rpartition(")")
        words = rest.split()
        with suppress(ValueError, IndexError):  # utime and stime
            yield int(path.parent.name), ((float(words[11]) + float(words[12])) / tick, name)


def _text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace")
    return ""


#: NVML's number for the clock of the multiprocessors.
_SM = 1
#: The bits of nvmlClocksEventReasons of limits that lower the clocks, with their words.
_HELD = {1 << 2: "the power cap", 1 << 3: "the hardware", 1 << 5: "heat", 1 << 6: "heat", 1 << 7: "the power supply"}


def examine_cards(nvml: Any = None) -> list[Disturbance]:
    """Return the conditions of each GPU now, or that NVML failed; empty without GPUs or NVML.

    `nvml`: the module `pynvml`, or a stand-in.
    """
    if (nvml := nvml or load_nvml()) is None:
        return []
    try:
        nvml.nvmlInit()
        return [one for number in range(nvml.nvmlDeviceGetCount()) for one in _card(nvml, number)]
    except Exception as error:  # of the driver, or of a binding that does not fit it
        return [_unknown("GPU", f"NVML failed: {error}")]


def _card(nvml: Any, number: int) -> list[Disturbance]:
    """The conditions of one GPU: its clocks, and the programs that use it."""
    device, name = nvml.nvmlDeviceGetHandleByIndex(number), f"GPU {number}"
    most = nvml_answer(nvml, "nvmlDeviceGetMaxClockInfo", device, _SM)
    usual = nvml_answer(nvml, "nvmlDeviceGetDefaultApplicationsClock", device, _SM) or most
    lock = None if usual is None else f"sudo nvidia-smi -i {number} --lock-gpu-clocks={usual},{usual}"
    found = [Disturbance(name, "NVML does not show whether its clocks are locked; this locks them", command=lock)]
    processes = nvml_answer(nvml, "nvmlDeviceGetComputeRunningProcesses", device)
    if processes is None:
        found.append(_unknown(name, "does not show the programs that use it"))
    elif processes:
        others = ", ".join(str(getattr(one, "pid", "?")) for one in processes[:5])
        users = f"{len(processes)} programs use it" if len(processes) > 1 else "another program uses it"
        found.append(Disturbance(name, f"{users}: process {others}", does_disturb=True))
    bits = nvml_answer(nvml, "nvmlDeviceGetCurrentClocksEventReasons", device)
    if bits is None:  # the same under its older name
        bits = nvml_answer(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", device)
    if reasons := sorted({words for bit, words in _HELD.items() if (bits or 0) & bit}):
        found.append(Disturbance(name, f"its clocks are limited by {' and '.join(reasons)}", does_disturb=True))
    return found


def nvml_answer(nvml: Any, function: str, *given: Any) -> Any:
    """Return the answer of a function of NVML; None without NVML or the function, or if NVML refuses it."""
    try:
        return getattr(nvml, function)(*given) if nvml is not None else None
    except (nvml.NVMLError, AttributeError, TypeError):
        return None
