"""Turns of a paired run: a program started by `perfgate run --paired` waits at each step boundary for its turn.

`PERFGATE_TURN` names the socket of the referee and `PERFGATE_SIDE` the side, `base` or `new`. Each process first sends
one line of JSON with its side and rank. At each boundary it sends one byte, and waits for one byte before it continues.
An error of the connection ends the turns, never the program.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress

#: The environment variables of a program that takes turns.
TURN, SIDE = "PERFGATE_TURN", "PERFGATE_SIDE"
#: The byte that is sent at a boundary, and the answers: continue, take no more turns, or end the program.
DONE, GO, LEAVE, END = b".", b"+", b"-", b"!"

#: The processes that take turns: only the first recorder of a process does, and none of its forks.
_taken: set[int] = set()


class Turns:
    """The connection of one process to the referee; None in a process that takes no turns."""

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
        except (OSError, AttributeError):  # the referee has ended, or the system has no such sockets
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
            # A fork may keep the same socket open, so closing alone would not reach the referee.
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
        self._connection = None


def wait_for_gpu() -> None:
    """Wait for the GPU if the program uses one, so that work of this side does not run in the other side's turn."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.synchronize()
