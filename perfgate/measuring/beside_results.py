"""The files with the metrics of the machine beside results that lie where the command writes them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perfgate.core.wording import MACHINE_FILE
from perfgate.machine.sidecar import sampled
from perfgate.measuring.command_cost import command_cost


@contextmanager
def sampled_into(scratch: Path, results: Sequence[Path]) -> Iterator[None]:
    """Sample the machine while a block runs a command, and put the file beside what the command wrote.

    Unless the command wrote exactly one result, no file is kept, because its run would be unknown. A file of the
    machine that the command itself wrote stays, such as that of a Recorder on another host.

    Parameters
    ----------
    scratch : a path for the file meanwhile.
    results : the files and folders that the command wrote; the block fills it.
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
    """Move results into a new folder, each with its file of the machine; return where they are now."""
    shutil.rmtree(folder, ignore_errors=True)
    moved = []
    for path in paths:
        target = folder / Path(*(part for part in Path(os.path.relpath(path)).parts if part != ".."))
        target.parent.mkdir(parents=True, exist_ok=True)
        moved.append(Path(shutil.move(path, target)))
        if (beside := Path(f"{path}{MACHINE_FILE}")).is_file():  # left here, it would belong to the next run
            shutil.move(beside, f"{target}{MACHINE_FILE}")
    return moved
