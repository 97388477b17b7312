"""This process: its rank, its environment, and its turns in a paired run; and the start of another process.

`perfgate run --paired` starts programs that wait at each step boundary for their turn. `PERFGATE_TURN` names the socket
at which it gives turns, and `PERFGATE_SIDE` the side, such as `base` or `new`. Each process first sends one line of
JSON with its side, its rank and the number of ranks. At each boundary it sends one byte, and waits for one byte before
it continues. An error of the connection ends the turns, never the program. torch is never imported here.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from perfgate.recorder import RecorderError

#: The variables that another process must not inherit: it would put the rank into the names of its files.
_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


def place_in_job(rank: int | None, world_size: int | None) -> tuple[int | None, int | None]:
    """Return (rank, world size): as given, from torch.distributed, or from environment variables; None if unknown.

    The variables are RANK, LOCAL_RANK and WORLD_SIZE. Raises RecorderError for an impossible rank, for a
    needed variable that is not a number, and if the rank is unknown in a job of several processes.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        known_rank, known_size = distributed.get_rank(), distributed.get_world_size()
    else:
        known_rank = _number("RANK", "LOCAL_RANK") if rank is None else None
        known_size = _number("WORLD_SIZE") if world_size is None else None
    rank = known_rank if rank is None else rank
    size = known_size if world_size is None else world_size
    if size is not None and size > 1 and rank is None:
        raise RecorderError(f"the job has {size} processes, but the rank of this one is unknown: give rank=...")
    if rank is not None and not 0 <= rank < (size if size is not None else rank + 1):
        of = "" if size is None else f" of {size} processes"
        raise RecorderError(f"rank {rank}{of} is impossible: ranks count from 0")
    return rank, size


def _number(*names: str) -> int | None:
    """Return the number in the first of these environment variables that is set. Raises RecorderError."""
    for name in names:
        if text := os.environ.get(name, "").strip():
            if not (text.isascii() and text.isdigit()):
                raise RecorderError(f"{name} is {text!r}, not a number: give rank=... and world_size=...")
            return int(text)
    return None


def known_facts() -> dict[str, str]:
    """Return facts about torch, and about the GPU if the program uses CUDA already: asking would initialise it."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "__version__") or not hasattr(torch, "cuda"):
        return {}
    facts = {"torch": str(torch.__version__)}
    with suppress(RuntimeError):  # CUDA has failed
        if torch.cuda.is_initialized():
            facts |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return facts


def path_of_rank(path: str, rank: str | None) -> str:
    """Return `results-rank3.json` for `results.json` and rank 3, as readers of folders expect it.

    If the path contains `{rank}`, the rank replaces it. In a job of one process (None), that is 0, or the path stays.
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


#: The environment variables of a program that takes turns.
TURN, SIDE = "PERFGATE_TURN", "PERFGATE_SIDE"
#: The byte that is sent at a boundary, and the answers: continue, take no more turns, or end the program.
DONE, GO, LEAVE, END = b".", b"+", b"-", b"!"
#: The ids of processes that take turns, each with its first recorder. A fork does not take the turns of its parent.
_taken: set[int] = set()


class Turns:
    """The turns of this process. `pass_on` ends each step, and does nothing in a process that takes no turns.

    Without `join`, the process takes none.
    """

    def __init__(self, rank: int | None, world_size: int | None, *, join: bool = True) -> None:
        self._connection: socket.socket | None = None
        self._process = os.getpid()
        #: True if this process has taken turns, even if it takes no more.
        self.are_taken = False
        address, side = os.environ.get(TURN), os.environ.get(SIDE)
        if not join or not address or side is None or self._process in _taken:
            return
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(address)
            who = {"side": side, "rank": rank or 0, "size": world_size or 1}
            connection.sendall(json.dumps(who).encode() + b"\n")
        except (OSError, AttributeError):  # `perfgate run` has ended, or the system has no such sockets
            return
        _taken.add(self._process)
        self._connection, self.are_taken = connection, True

    def pass_on(self) -> bool:
        """End a step: wait for its work on the GPU, then for the next turn. Return whether the program shall end."""
        connection = self._connection
        if connection is None or os.getpid() != self._process:
            return False
        wait_for_gpu()
        answer = LEAVE
        with suppress(OSError):
            connection.sendall(DONE)
            answer = connection.recv(1)
        if answer != GO:
            self.leave()
        return answer == END

    def leave(self) -> None:
        """Take no more turns; the other side no longer waits."""
        if self._connection is not None and os.getpid() == self._process:
            # A fork may keep the same socket open, so closing alone would not end the connection.
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
        self._connection = None


def wait_for_gpu() -> None:
    """Wait for the GPU if the program uses one, so that work of this side does not run in the other side's turn."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.synchronize()
