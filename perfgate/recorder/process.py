"""The rank and the environment of this process, and the start of another one. torch is never imported here."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from perfgate.recorder import RecorderError

#: A rank would be put into the names of files.
_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


def place_in_job(rank: int | None, world_size: int | None) -> tuple[int | None, int | None]:
    """Return (rank, world size): as given, from torch.distributed, or from environment variables; None if unknown.

    The variables are RANK, LOCAL_RANK and WORLD_SIZE. Raises RecorderError for an impossible rank, and if the rank is
    unknown in a job of several processes.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        known_rank, known_size = distributed.get_rank(), distributed.get_world_size()
    else:
        known_rank, known_size = _number("RANK", "LOCAL_RANK"), _number("WORLD_SIZE")
    rank = known_rank if rank is None else rank
    size = known_size if world_size is None else world_size
    if size is not None and size > 1 and rank is None:
        raise RecorderError(f"the job has {size} processes, but the rank of this one is unknown: give rank=...")
    if rank is not None and not 0 <= rank < (size if size is not None else rank + 1):
        of = "" if size is None else f" of {size} processes"
        raise RecorderError(f"rank {rank}{of} is impossible: ranks count from 0")
    return rank, size


def _number(*names: str) -> int | None:
    for name in names:
        if text := os.environ.get(name, "").strip():
            if not (text.isascii() and text.isdigit()):
                raise RecorderError(f"{name} is {text!r}, not a number: give rank=... and world_size=...")
            return int(text)
    return None


def known_facts() -> dict[str, str]:
    """Facts about torch, and about the GPU if CUDA is in use. Asking earlier would initialise CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "__version__") or not hasattr(torch, "cuda"):
        return {}
    facts = {"torch": str(torch.__version__)}
    with suppress(RuntimeError):  # CUDA has failed
        if torch.cuda.is_initialized():
            facts |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return facts


def path_of_rank(path: str, rank: str | None) -> str:
    """`results-rank3.json` for `results.json` and rank 3, the form that readers of folders know.

    `{rank}` in a path is replaced instead, by 0 in a job of one process. Otherwise such a job keeps its path.
    """
    if "{rank}" in path:
        return path.replace("{rank}", rank or "0")
    stem, suffix = os.path.splitext(path)
    return path if rank is None else f"{stem}-rank{rank}{suffix}"


def perfgate_module(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a process that runs a module of perfgate."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_RANK}
    # A folder `perfgate` in the working directory must not hide this package; Python 3.10 looks there first.
    package, given = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
    environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([package, *([given] if given else [])])}
    return [sys.executable, "-m", module, *arguments], environment
