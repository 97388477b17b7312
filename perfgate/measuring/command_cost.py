"""The cost of a whole command: its time, its CPU time and, where the machine counts them, instructions and cycles.

The counters are opened here, disabled, for the thread that starts the command. The command inherits them and they begin
when it replaces this program (`enable_on_exec`), so that only the command is counted, with all that it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from perfgate.core.wording import COMMAND
from perfgate.recorder.counters import (
    COUNTED,
    CYCLES,
    DISABLED,
    INSTRUCTIONS,
    ON_EXEC,
    CpuCounters,
    NotCounted,
    OpenCounter,
)

#: Takes a metric, its value and its unit.
Note = Callable[[str, float, str], None]


@contextmanager
def command_cost(note: Note, opened: OpenCounter | None = None) -> Iterator[None]:
    """Note the cost of the commands that a block starts in this thread and waits for; nothing if the block raises.

    Parameters
    ----------
    note : gets `command.time` and `command.cpu_time` in s, and `command.instructions` and `command.cycles`.
    opened : opens a counter; another one in tests.
    """
    counters = None
    with suppress(NotCounted):
        counters = CpuCounters(bits=DISABLED | ON_EXEC, opened=opened)
    began, before = time.monotonic(), _cpu_time()
    try:
        yield
        took, after = time.monotonic() - began, _cpu_time()
        note(f"{COMMAND}time", took, "s")
        if before is not None and after is not None:
            note(f"{COMMAND}cpu_time", after - before, "s")
        if counters is not None:
            _note_counters(counters, note)
    finally:
        if counters is not None:
            counters.close()


def _note_counters(counters: CpuCounters, note: Note) -> None:
    with suppress(OSError):
        for name, reading in zip((INSTRUCTIONS, CYCLES), counters.read(), strict=True):
            if reading.ran and reading.number:
                whole = reading.number * max(reading.wanted / reading.ran, 1.0)
                note(f"{COMMAND}{name}", whole, COUNTED[name])


def _cpu_time() -> float | None:
    """Return the CPU time of all processes that this one has waited for, in s; None on other systems."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
