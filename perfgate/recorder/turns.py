"""Steps by turns: a program that `perfgate run --paired` has started waits at each boundary until it is its turn.

`PERFGATE_TURN` names the socket of the referee and `PERFGATE_SIDE` the side, `base` or `new`. Each process of a side
says once, in a line of JSON, who it is; then a byte at each boundary says that it is done, and a byte in answer that it
may go on. Whatever goes wrong with that ends the turns, never the program.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress

from perfgate.recorder.process import torch_module

#: The environment variables that a program is started with.
TURN, SIDE = "PERFGATE_TURN", "PERFGATE_SIDE"
#: What is said at a boundary, and what is answered: go on, or nobody waits for you.
DONE, GO, LEAVE = b".", b"+", b"-"

#: The process that takes turns here: its first recorder does, and neither its forks nor its other recorders.
_taken: set[int] = set()


class Turns:
    """The connection of one process to the referee."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: socket.socket | None = connection
        self._process = os.getpid()

    @classmethod
    def joined(cls, rank: int | None, world_size: int | None) -> Turns | None:
        """The turns of this process, or None where it was not started to take any."""
        address, side = os.environ.get(TURN), os.environ.get(SIDE)
        if not address or side is None or os.getpid() in _taken:
            return None
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(address)
            who = {"side": side, "rank": rank or 0, "size": world_size or 1}
            connection.sendall(json.dumps(who).encode() + b"\n")
        except (OSError, AttributeError):  # the referee is gone, or a system without such sockets
            return None
        _taken.add(os.getpid())
        return cls(connection)

    def pass_on(self) -> None:
        """End a step and wait until the next one may begin; the GPU's work of the step is waited for first."""
        connection = self._connection
        if connection is None or os.getpid() != self._process:
            return
        settle()
        try:
            connection.sendall(DONE)
            if connection.recv(1) != GO:
                self.leave()
        except OSError:
            self.leave()

    def leave(self) -> None:
        """Take no more turns: the other side need not wait."""
        if self._connection is not None and os.getpid() == self._process:
            # A fork that outlives this process may hold the same socket: closing it alone would tell nobody.
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
        self._connection = None


def settle() -> None:
    """Wait for the GPU if the program uses one, so that no work of this side runs in the other's turn."""
    torch = torch_module()
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.synchronize()
