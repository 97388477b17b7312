"""Which process of a job this is, and what it runs on. torch is asked only if the program has imported it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import ModuleType

from perfgate.recorder.errors import RecorderError


def torch_module() -> ModuleType | None:
    """torch, if the program has imported it."""
    return sys.modules.get("torch")


def place_in_job(rank: int | None, world_size: int | None) -> tuple[int | None, int | None]:
    """(rank, world size) as given, else of torch.distributed, else of RANK, LOCAL_RANK and WORLD_SIZE; None if unknown.

    Raises RecorderError for a rank that cannot be, and for a job of several processes without one.
    """
    known_rank, known_size = _distributed() or (_number("RANK", "LOCAL_RANK"), _number("WORLD_SIZE"))
    rank = known_rank if rank is None else rank
    size = known_size if world_size is None else world_size
    if size is not None and size > 1 and rank is None:
        raise RecorderError(f"the job has {size} processes, and this one's rank is not known: give rank=...")
    if rank is not None and not 0 <= rank < (size if size is not None else rank + 1):
        of = "" if size is None else f" of {size} processes"
        raise RecorderError(f"rank {rank}{of} cannot be: ranks count from 0")
    return rank, size


def _distributed() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _number(*names: str) -> int | None:
    """The first of these environment variables that is set."""
    for name in names:
        text = os.environ.get(name, "").strip()
        if text:
            if not (text.isascii() and text.isdigit()):
                raise RecorderError(f"{name} is {text!r}, which is no number: give rank=... and world_size=...")
            return int(text)
    return None


def known_facts() -> dict[str, str]:
    """Facts of a program that uses torch; of the GPU only once CUDA is in use, for asking would begin to use it."""
    torch = torch_module()
    if torch is None or not hasattr(torch, "__version__") or not hasattr(torch, "cuda"):
        return {}
    facts = {"torch": str(torch.__version__)}
    with suppress(RuntimeError):  # CUDA that has failed says nothing more
        if torch.cuda.is_initialized():
            facts |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return facts


def path_of_rank(path: str, rank: str | None) -> str:
    """`results.json` of rank 3 is `results-rank3.json`, as readers of folders know it; `{rank}` in a path is filled in.

    A process that is alone has no rank in its file's name, and is rank 0 where the path asks for one.
    """
    if "{rank}" in path:
        return path.replace("{rank}", rank or "0")
    stem, suffix = os.path.splitext(path)
    return path if rank is None else f"{stem}-rank{rank}{suffix}"
