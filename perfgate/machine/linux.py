"""The CPU and the memory of this machine, from the files of the Linux kernel.

Sources: proc(5) for /proc/stat, /proc/meminfo and /proc/vmstat; Documentation/accounting/psi.rst for /proc/pressure;
Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst for cpu.stat; cpu-freq/cpufreq-stats for the clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from time import thread_time

from perfgate.machine.channels import NAN, Channel

#: The clock of only this many processors is read, because each reading interrupts its processor.
_CLOCKS_ASKED = 8
#: The first and the largest size of the buffer of a file. Most files are smaller than the first one, and a larger
#: buffer costs more to allocate than the file costs to read.
_FEW_BYTES, _MOST_BYTES = 1 << 12, 1 << 20
_LONGEST_NUMBER = 40
#: A file that takes more CPU time in s than this is read once a second, such as /proc/stat of many processors.
_LONG_READ = 3e-4
#: The numbers in a file by name.
Readings = Mapping[str, float]


def _after(name: str, text: str) -> float | None:
    """Return the number after a name at the beginning of a line; None without such a line."""
    is_first = text.startswith(name)
    at = 0 if is_first else text.find(f"\n{name}") + 1
    if at == 0 and not is_first:
        return None
    return float(text[at + len(name) : at + len(name) + _LONGEST_NUMBER].split(None, 1)[0])


def cpu_times(text: str) -> Readings:
    """Return the busy and the stolen ticks of all processors, and context switches, of /proc/stat."""
    user, nice, system, _, _, irq, softirq, steal = map(float, text.split(None, 9)[1:9])
    found, switches = {"busy": user + nice + system + irq + softirq, "steal": steal}, _after("ctxt ", text)
    return found if switches is None else {**found, "switches": switches}


def pressure(text: str) -> Readings:
    """Return the total stall time in µs of a file of /proc/pressure: `some ... total=N`."""
    at = text.find("total=") if text.startswith("some ") else -1
    return {"total": float(text[at + 6 : text.find("\n", at)])} if at >= 0 else {}


def cgroup_cpu(text: str) -> Readings:
    """Return the throttled time in s of cpu.stat: `throttled_usec` of cgroup 2, `throttled_time` (ns) of cgroup 1."""
    for name, per_second in (("throttled_usec ", 1e6), ("throttled_time ", 1e9)):
        if (found := _after(name, text)) is not None:
            return {"throttled": found / per_second}
    return {}


def reading(read: Callable[[str], Readings], text: str, name: str) -> float | None:
    """Return a finite number of a text; None without one, because a container may show a file in another form."""
    with suppress(ValueError, IndexError):
        found = read(text).get(name)
        return found if found is not None and isfinite(found) else None
    return None


def available_memory(text: str) -> Readings:
    """Return the bytes that programs can still get, of /proc/meminfo."""
    found = _after("MemAvailable:", text)
    return {} if found is None else {"available": found * 1024}


def swapping(text: str) -> Readings:
    """Return the pages that went to and from swap, and the faults that read a disk, of /proc/vmstat."""
    found = {"swapped": (_after("pswpin ", text) or 0.0) + (_after("pswpout ", text) or 0.0)}
    faults = _after("pgmajfault ", text)
    return found if faults is None else {**found, "faults": faults}


def one_clock(text: str) -> Readings:
    """Return the clock in Hz of scaling_cur_freq, which is in kHz."""
    return {"clock": float(text) * 1000}


def mean_clock(text: str) -> Readings:
    """Return the mean clock in Hz of /proc/cpuinfo."""
    found = [float(one) for one in re.findall(r"^cpu MHz\s*: ([\d.]+)", text, re.MULTILINE)]
    return {"clock": sum(found) / len(found) * 1e6} if found else {}


class KernelFile:
    """A file of the kernel as a sensor. It stays open and is read from its beginning each time.

    `parse` returns the numbers in a text; each has one of the `channels` of the same name.
    """

    def __init__(
        self, path: Path, parse: Callable[[str], Readings], channels: Mapping[str, Channel], *, is_slow: bool = False
    ) -> None:
        self._path, self._parse, self._file, self._size = path, parse, -1, _FEW_BYTES
        found = self._understand(self.take())
        self._channels = {name: channel for name, channel in channels.items() if name in found}
        began = thread_time()
        self.read()
        self.is_slow = is_slow or thread_time() - began > _LONG_READ

    def take(self) -> bytes:
        """Return the text of the file as it is now; empty if it cannot be read."""
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            found = os.pread(self._file, self._size, 0)
            while len(found) == self._size < _MOST_BYTES:
                self._size *= 4
                found = os.pread(self._file, self._size, 0)
            return found
        except OSError:  # absent, or not allowed
            return b""

    def _understand(self, text: bytes) -> Readings:
        """Return the numbers in a text; none if it has another form."""
        try:
            return self._parse(text.decode("ascii", "replace")) if text else {}
        except (ValueError, IndexError):
            return {}

    def channels(self) -> Sequence[Channel]:
        """Return the channels of the file."""
        return tuple(self._channels.values())

    def readings(self, text: bytes) -> Sequence[float]:
        """Return the readings in a text of the file."""
        found = self._understand(text)
        return [found.get(name, NAN) for name in self._channels]

    def read(self) -> Sequence[float]:
        """Return the readings of the file as it is now."""
        return self.readings(self.take())


def linux_sensors(root: Path = Path("/"), pid: int | None = None) -> list[KernelFile]:
    """Return the sensors of this machine that can be read; none on another system.

    `root`: the folder that has /proc and /sys; another one in tests. `pid`: the process whose control group counts; the
    default is this process.
    """
    processors = os.cpu_count() or 1
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    times = {  # ticks in a second, as % of all processors; `most` is four times the possible, because times vary
        name: Channel(
            f"machine.cpu.{name}", "%", "total", scale=100 / ticks / processors, most=4.0 * ticks * processors
        )
        for name in ("busy", "steal")
    }
    times["switches"] = Channel("machine.context_switches", "/s", "total")
    proc = root / "proc"
    found = [KernelFile(proc / "stat", cpu_times, times)]
    for kind in ("cpu", "memory", "io"):
        # µs of stall in a second, as %; `most` is twice the largest possible growth
        total = {"total": Channel(f"machine.pressure.{kind}", "%", "total", scale=1e-4, most=2e6)}
        found.append(KernelFile(proc / "pressure" / kind, pressure, total, is_slow=kind != "cpu"))
    throttled = Channel("machine.cgroup.throttled", "%", "total", scale=100.0)
    found += [KernelFile(path, cgroup_cpu, {"throttled": throttled}) for path in cpu_stat_files(root, pid)[:1]]
    memory = {"available": Channel("machine.memory.available", "B")}
    swap = {"swapped": Channel("machine.swap", "/s", "total"), "faults": Channel("machine.major_faults", "/s", "total")}
    found.append(KernelFile(proc / "meminfo", available_memory, memory, is_slow=True))
    found.append(KernelFile(proc / "vmstat", swapping, swap, is_slow=True))
    # the clocks of the first processors, or their mean if the kernel shows only that
    cores = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))[:_CLOCKS_ASKED]
    for path in cores:
        labels = {"cpu": path.parent.parent.name.removeprefix("cpu")}
        clock = {"clock": Channel("clock.cpu", "MHz", labels=labels, scale=1e-6)}
        found.append(KernelFile(path, one_clock, clock, is_slow=True))
    if not cores and processors <= _CLOCKS_ASKED:  # this file has the clocks of all processors
        clock = {"clock": Channel("clock.cpu", "MHz", scale=1e-6)}
        found.append(KernelFile(proc / "cpuinfo", mean_clock, clock, is_slow=True))
    return [sensor for sensor in found if sensor.channels()]


def cpu_stat_files(root: Path, pid: int | None) -> list[Path]:
    """Return the existing cpu.stat files of the control group of a process (None: this one), the nearest first."""
    try:
        rows = (root / "proc" / (str(pid) if pid else "self") / "cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    paths: list[Path] = []
    for row in rows:  # `0::/place` of cgroup 2, `4:cpu,cpuacct:/place` of cgroup 1
        _, controllers, place = (*row.split(":", 2), "", "")[:3]  # a row of another form has no place
        if not controllers:
            tops: tuple[str, ...] = ("",)
        else:  # the folder has the names of all controllers of the row, or only `cpu`
            tops = (controllers, "cpu") if "cpu" in controllers.split(",") else ()
        for top in tops:
            folder = root / "sys/fs/cgroup" / top / place.lstrip("/")
            # In a container, its own group may be at the top.
            paths += [folder / "cpu.stat", root / "sys/fs/cgroup" / top / "cpu.stat"]
    return [path for path in paths if path.is_file()]
