"""Read the CPU time, instructions and cycles of this process or of a command.

CPU time comes from the clock of the process. Instructions and cycles come from `perf_event_open` of Linux, called
through ctypes. Only work in user space counts, not that of the kernel or the hypervisor, so `perf_event_paranoid` may
be 2, the usual value. Sources: perf_event_open(2); include/uapi/linux/perf_event.h for `perf_event_attr`; the numbers
of the system call are in arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.

On a machine that refuses counters, their metrics are absent, and never 0.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import process_time_ns

#: The number of the system call on machines with 64 bits.
_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
#: The type of hardware events, and two of its events.
_HARDWARE, _CYCLES, _INSTRUCTIONS = 0, 0, 1
#: The size of the first version of `perf_event_attr`, which every kernel accepts.
_ATTR_SIZE = 64
#: Bits of `perf_event_attr`.
DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR, ON_EXEC = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 12
#: Threads inherit a counter, child processes do not. Kernels before 5.13 refuse this bit.
ONLY_THREADS = 1 << 35
#: The format of a reading: the count, and the times in ns that the counter was wanted and that it ran.
_WITH_TIMES = 3
_READING = struct.Struct("QQQ")
#: A flag of the call: a program that this process starts does not get the descriptor.
_CLOSED_ON_EXEC = 1 << 3
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
CPU_TIME, INSTRUCTIONS, CYCLES = "cpu_time", "instructions", "cycles"
#: The quantities that are counted beside the wall time, in this order, with their units.
COUNTED = {CPU_TIME: "ns", INSTRUCTIONS: "count", CYCLES: "count"}
#: Opens a counter: gets the bytes of the attributes and the thread; returns a descriptor, or a negative error number.
OpenCounter = Callable[[bytes, int], int]


class NotCounted(Exception):
    """This machine does not count instructions; the message is the reason."""


def perf_event_open(attributes: bytes, thread: int) -> int:
    """Open a counter of a thread on all CPUs, as `OpenCounter` says; 0 is the calling thread."""
    number = _CALL_NUMBERS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None
    if number is None:
        return -errno.ENOSYS
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    given = ctypes.create_string_buffer(attributes, len(attributes))
    every_cpu = no_group = ctypes.c_int(-1)
    arguments = (ctypes.c_int(thread), every_cpu, no_group, ctypes.c_ulong(_CLOSED_ON_EXEC))
    descriptor = int(call(ctypes.c_long(number), given, *arguments))
    return descriptor if descriptor >= 0 else -ctypes.get_errno()


def attributes_of(event: tuple[int, int], bits: int) -> bytes:
    """Return `perf_event_attr` for an event (type, config) in user space. Threads that start later inherit it."""
    bits |= _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    kind, config = event
    period = sampled = 0  # count, without samples
    fields = (kind, _ATTR_SIZE, config, period, sampled, _WITH_TIMES, bits)
    return struct.pack("=IIQQQQQ", *fields).ljust(_ATTR_SIZE, b"\0")


@dataclass(frozen=True, slots=True)
class Reading:
    """The number that a counter has reached, and the times in ns that it was wanted and that it ran.

    More counters than the hardware has take turns, so a counter can run for a part of the time only.
    """

    number: int
    wanted: int
    ran: int

    def since(self, before: Reading) -> float | None:
        """Return the growth, scaled to the whole time as `perf stat` does; None if the counter did not run."""
        wanted, ran = self.wanted - before.wanted, self.ran - before.ran
        if ran <= 0:
            return None
        grown = self.number - before.number
        return grown if ran >= wanted else grown * wanted / ran


class CpuCounters:
    """Open counters of the instructions and cycles of some threads and of all threads that they start.

    Parameters:
        threads: the ids of the threads; 0 is the calling one.
        bits: more bits of `perf_event_attr`.
        opened: replaces `perf_event_open` in tests.

    Raises NotCounted: if the machine does not count, with the reason.
    """

    def __init__(self, threads: Iterable[int] = (0,), bits: int = 0, opened: OpenCounter | None = None) -> None:
        self._descriptors: dict[str, list[int]] = {}
        try:
            for name, config in ((INSTRUCTIONS, _INSTRUCTIONS), (CYCLES, _CYCLES)):
                found = self._descriptors.setdefault(name, [])
                attributes = attributes_of((_HARDWARE, config), bits)
                for thread in threads:
                    descriptor = (opened or perf_event_open)(attributes, thread)
                    if descriptor == -errno.ESRCH:  # the thread has ended
                        continue
                    if descriptor < 0:
                        raise NotCounted(why_refused(-descriptor))
                    found.append(descriptor)
        except NotCounted:
            self.close()
            raise

    def read(self) -> tuple[Reading, ...]:
        """Return the instructions and the cycles so far, each the sum of all threads. Raises OSError."""
        sums = []
        for found in self._descriptors.values():
            each = [_READING.unpack(os.read(one, _READING.size)) for one in found]
            sums.append(Reading(*map(sum, zip((0, 0, 0), *each, strict=True))))  # 0 if all threads had ended
        return tuple(sums)

    def close(self) -> None:
        """Close the counters."""
        for descriptor in [one for found in self._descriptors.values() for one in found]:
            with suppress(OSError):
                os.close(descriptor)
        self._descriptors = {}


class ProcessCounters:
    """The CPU time of this process in ns and, if the machine allows it, its instructions and cycles.

    `opened` replaces `perf_event_open` in tests.
    """

    def __init__(self, opened: OpenCounter | None = None) -> None:
        #: The reason why instructions are not counted; None if they are.
        self.refusal: str | None = None
        self._counters: CpuCounters | None = None
        threads = _threads()
        try:
            try:
                self._counters = CpuCounters(threads, ONLY_THREADS, opened)
            except NotCounted:
                self._counters = CpuCounters(threads, 0, opened)  # an older kernel: child processes count, too
        except NotCounted as error:
            self.refusal = str(error)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the numbers that `grown` returns."""
        return (CPU_TIME,) if self._counters is None else (CPU_TIME, INSTRUCTIONS, CYCLES)

    def read(self) -> tuple[int, tuple[Reading, ...]]:
        """Return the CPU time, and the readings of the counters."""
        try:
            readings = () if self._counters is None else self._counters.read()
        except (OSError, struct.error):  # the descriptors were closed by the program
            readings = ()
        return process_time_ns(), readings

    def close(self) -> None:
        """Close the counters: from now on, only CPU time is read."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None


def grown(before: tuple[int, tuple[Reading, ...]], after: tuple[int, tuple[Reading, ...]]) -> list[float | None]:
    """Return the growth of each of `ProcessCounters.names` between two readings; None for a counter that did not run.

    The list ends after the CPU time if one of the readings has nothing else.
    """
    counted = [now.since(then) for then, now in zip(before[1], after[1], strict=False)]
    return [after[0] - before[0], *counted]


def _threads() -> list[int]:
    """Return the ids of the threads of this process; a library may have started some already."""
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except (OSError, ValueError):
        return [0]


def why_refused(code: int) -> str:
    """Return why the kernel gave no counter, and what helps."""
    if code in (errno.EACCES, errno.EPERM):
        level = "unknown"
        with suppress(OSError), open(_PARANOID, encoding="ascii") as file:
            level = file.read().strip()
        return (
            f"the kernel or the container forbids it (kernel.perf_event_paranoid is {level}; it must be 2 or less, and"
            " the seccomp profile of a container must allow perf_event_open)"
        )
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the CPU shows no counters, as in many virtual machines"
    if code == errno.ENOSYS:
        return "only Linux on x86-64 and aarch64 has them"
    return f"perf_event_open failed: {os.strerror(code)}"
