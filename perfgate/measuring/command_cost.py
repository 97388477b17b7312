"""Measure the time, CPU time and instructions of a whole command, and write them to the file beside its results.

The counters of the CPU are opened here, disabled, for the thread that starts the command. The command inherits them,
and they begin when it replaces this program in the new process (`enable_on_exec`). So only the command and the
processes that it starts are counted.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from perfgate.core.wording import COMMAND, MACHINE_FILE
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
from perfgate.recorder.watch import sampled, sidecar_of

#: Takes a metric, its value and its unit.
Note = Callable[[str, float, str], None]


@contextmanager
def command_cost(note: Note, opened: OpenCounter | None = None) -> Iterator[None]:
    """Note the cost of the commands that a block starts in this thread and waits for; nothing if the block raises.

    `note` is called with `command.time` and `command.cpu_time` in s, and with `command.instructions` and
    `command.cycles` if the CPU may be counted. `opened`: replaces the function that opens a counter, in tests.
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
            if reading.ran and reading.number:  # if it shared its register, it ran for a part of the wanted time
                whole = reading.number * max(reading.wanted / reading.ran, 1.0)
                note(f"{COMMAND}{name}", whole, COUNTED[name])


def _cpu_time() -> float | None:
    """Return the CPU time of all processes that this one has waited for, in s; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def cost_beside(results: Path) -> Iterator[None]:
    """Write the cost of a block's commands to the file beside their results, unless their Recorder wrote that file."""
    rows = list[dict[str, str | float]]()
    with command_cost(lambda name, value, unit: rows.append({"metric": name, "value": value, "unit": unit})):
        yield
    path = sidecar_of(results)
    if rows and not os.path.exists(path):
        Path(path).write_text(json.dumps({"schema": "perfgate.results/1", "series": rows}) + "\n", encoding="utf-8")


@contextmanager
def sampled_into(scratch: Path, results: Sequence[Path]) -> Iterator[None]:
    """Sample the machine while a block runs a command, and put the file with the samples beside the command's result.

    The file is removed if the command wrote several results or none, because its run would be unknown; and if the
    command itself wrote such a file, as a Recorder on another host does.

    `scratch`: a path for the file meanwhile. `results`: a list to which the block adds the command's files and folders.
    """
    began = time.time()
    with sampled(scratch) as note, command_cost(note):
        yield
    made = Path(f"{scratch}{MACHINE_FILE}")
    if not made.exists():
        return
    target = Path(f"{results[0]}{MACHINE_FILE}") if len(results) == 1 else None
    if target is None or (target.exists() and target.stat().st_mtime >= began):
        made.unlink()
    else:
        shutil.move(made, target)


def move_results(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Move results into a new folder, each with the machine's file beside it; return their new paths."""
    shutil.rmtree(folder, ignore_errors=True)
    moved = []
    for path in paths:
        target = folder / Path(*(part for part in Path(os.path.relpath(path)).parts if part != ".."))
        target.parent.mkdir(parents=True, exist_ok=True)
        moved.append(Path(shutil.move(path, target)))
        if (beside := Path(f"{path}{MACHINE_FILE}")).is_file():  # left here, it would belong to the next run
            shutil.move(beside, f"{target}{MACHINE_FILE}")
    return moved
