"""The referee of interleaved runs: two programs take steps by turns, in the order base, new, new, base.

This is the other end of `perfgate.recorder.turns`. A side is ready when all its processes wait at a step boundary. The
first step of each side is free, so that both may set up at the same time. From the first boundary on, one side runs at
a time. When a side has ended, the other goes on alone.
"""

from __future__ import annotations

import json
import selectors
import socket
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from perfgate.measuring.programs import Program, ending
from perfgate.recorder.turns import DONE, GO, LEAVE

SIDES = ("base", "new")
#: The fault of programs that take no turns.
NO_HOOK = "the program does not take turns: it makes no step of a perfgate.Recorder"
#: The time between two looks at the processes while no message arrives, in seconds.
_LOOK_EVERY_S = 0.05
_LONGEST_HELLO = 200


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds: for the first messages of both programs, and for any message."""

    hook: float = 60.0
    silence: float = 600.0


@dataclass(frozen=True, slots=True)
class Played:
    """How a pair went: whether both sides took turns, the steps of each, and what went wrong, in words."""

    by_turns: bool
    steps: dict[str, int]
    fault: str | None = None


@dataclass(slots=True)
class _SideState:
    """One program: its process, the connections of its ranks, and which of them wait."""

    name: str
    program: Program
    size: int = 0
    members: dict[int, socket.socket] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    joined: bool = False
    steps: int = 0
    #: Its exit code at the last look; None while it runs.
    code: int | None = None

    @property
    def is_ready(self) -> bool:
        return bool(self.members) and len(self.waiting) == len(self.members) == self.size

    @property
    def has_left(self) -> bool:
        return (self.joined and not self.members) or self.code is not None

    def go(self) -> None:
        """Let every process of the side take a step."""
        self.steps += 1
        waiting, self.waiting = self.waiting, set()
        for rank in waiting:
            _say(self.members[rank], GO)


class Referee(AbstractContextManager["Referee"]):
    """A socket at which programs take turns; `play` watches one pair of them to its end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="perfgate-")
        self.address = str(Path(self._folder.name) / "turns")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        self._socket.listen()
        self._socket.setblocking(False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self._folder.cleanup()

    def play(self, programs: dict[str, Program], base_first: bool, patience: Patience) -> Played:
        """Let two programs, `base` and `new`, take turns until both have ended. A fault ends the watch, not them."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return _Game(selector, self._socket, programs, base_first, patience).play()


class _Game:
    """One pair of programs."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        programs: dict[str, Program],
        base_first: bool,
        patience: Patience,
    ) -> None:
        self._selector = selector
        self._listener = listener
        self._sides = {name: _SideState(name, programs[name]) for name in SIDES}
        self._base_first = base_first
        self._patience = patience
        self._heard = time.monotonic()
        #: The number of turns so far; None before both sides were ready.
        self._turn: int | None = None
        self._current: _SideState | None = None

    def play(self) -> Played:
        """Give turns until both programs have ended or something goes wrong; close all connections in the end."""
        fault, looked = None, time.monotonic()
        sides = self._sides.values()
        try:
            while fault is None and any(side.code is None for side in sides):
                for key, _ in self._selector.select(_LOOK_EVERY_S):
                    self._hear(key)
                self._give()
                # To look at a process takes longer than a turn, so it is not done at every turn.
                if time.monotonic() - looked > _LOOK_EVERY_S:
                    fault, looked = self._look(), time.monotonic()
        finally:
            for side in sides:
                for connection in side.members.values():
                    connection.close()
                side.members.clear()
        return Played(self._turn is not None, {side.name: side.steps for side in sides}, fault)

    def _look(self) -> str | None:
        """Look at the processes and the clock; return why the watch ends early, or None."""
        sides = self._sides.values()
        for side in sides:
            side.code = side.program.exit_code()
        for side in sides:
            if side.code:
                return f"the {side.name} side {ending(side.code, side.program.log)}"
        now = time.monotonic()
        silent = [side for side in sides if not side.joined]
        is_late = any(side.code == 0 or now - side.program.began > self._patience.hook for side in silent)
        if self._turn is None and is_late:
            return NO_HOOK
        if now - self._heard > self._patience.silence:
            side = self._current or next(s for s in sides if s.code is None)
            return f"the {side.name} side hangs: nothing for {self._patience.silence:g} s after step {side.steps}"
        return None

    # --- messages ------------------------------------------------------------------------------------------------

    def _hear(self, key: selectors.SelectorKey) -> None:
        """Take a message: a new process, the end of a step, or the end of a process."""
        self._heard = time.monotonic()
        if key.fileobj is self._listener:
            self._welcome()
            return
        side, rank = key.data
        connection = side.members[rank]
        try:
            message = connection.recv(1)
        except OSError:
            message = b""
        if message == DONE:
            side.waiting.add(rank)
            return
        self._selector.unregister(connection)
        connection.close()
        del side.members[rank]
        side.waiting.discard(rank)
        side.size -= 1

    def _welcome(self) -> None:
        """Add a process to its side. One without a place there need not wait."""
        connection, _ = self._listener.accept()
        connection.settimeout(1.0)
        try:
            who = json.loads(_line(connection))
            side, rank = self._sides[who["side"]], int(who["rank"])
            if rank in side.members or side.has_left:
                raise ValueError("the place is taken")
        except (OSError, ValueError, KeyError, TypeError):
            _say(connection, LEAVE)
            connection.close()
            return
        side.size = side.size or int(who["size"])
        side.members[rank] = connection
        side.joined = True
        self._selector.register(connection, selectors.EVENT_READ, (side, rank))

    # --- turns ---------------------------------------------------------------------------------------------------

    def _give(self) -> None:
        """Give the next turn if the last one is over. A side goes on alone after the other has ended."""
        sides = self._sides.values()
        if any(side.has_left for side in sides):
            for side in sides:
                if side.is_ready:
                    side.go()
            return
        if self._turn is None:
            if not all(side.is_ready for side in sides):
                return
            self._turn = 0
        if self._current is not None and not self._current.is_ready:
            return
        self._current = self._sides[whose(self._turn, self._base_first)]
        self._turn += 1
        self._current.go()


def whose(turn: int, base_first: bool) -> str:
    """Return the side of a turn, from 0. With `base_first`, base is first in even steps; step 0 is free."""
    step, second = turn // 2 + 1, turn % 2 == 1
    return SIDES[((step % 2 == 0) == base_first) == second]


def _line(connection: socket.socket) -> bytes:
    """Read a line byte by byte: the bytes after it are messages of their own. Raises OSError."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_HELLO:
        byte = connection.recv(1)
        if not byte:
            raise OSError("the connection ended")
        line += byte
    return line


def _say(connection: socket.socket, word: bytes) -> None:
    try:
        connection.sendall(word)
    except OSError:
        return  # the process has ended: its exit code or its silence shows that, too
