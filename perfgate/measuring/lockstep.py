"""Whose turn it is: two programs take steps by turns, in the order base, new, new, base.

The other end of `perfgate.recorder.turns`. A side is ready when all its processes wait at a boundary. The first step
of each side is its own affair, so that both may set up at the same time; from the first boundary on, one side runs at
a time. When a side has left, the other goes on alone.
"""

from __future__ import annotations

import json
import selectors
import socket
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from perfgate.measuring.programs import Program, described, last_words
from perfgate.recorder.turns import DONE, GO, LEAVE

SIDES = ("base", "new")
#: How often the processes are looked at while nobody says anything, in seconds.
_LOOK_EVERY_S = 0.05
_LONGEST_HELLO = 200


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds: for both programs to say that they take turns, and for anything to happen."""

    hook: float = 60.0
    silence: float = 600.0


@dataclass(frozen=True, slots=True)
class Played:
    """How it went: whether both sides took turns, their steps, and what went wrong, in words."""

    by_turns: bool
    steps: dict[str, int]
    fault: str | None = None


@dataclass(slots=True)
class _Side:
    """One program: its process, who speaks for it, and who of them waits."""

    name: str
    program: Program
    size: int = 0
    members: dict[int, socket.socket] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    joined: bool = False
    steps: int = 0
    #: What the program had ended with when it was last looked at; None while it runs.
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


class Referee:
    """A socket at which programs take turns; `play` watches one pair of them to its end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="perfgate-")
        self.address = str(Path(self._folder.name) / "turns")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        self._socket.listen()
        self._socket.setblocking(False)

    def __enter__(self) -> Referee:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self._folder.cleanup()

    def play(self, programs: dict[str, Program], base_first: bool, patience: Patience) -> Played:
        """Let two programs, `base` and `new`, take turns until both have ended; a fault ends the watch, not them."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            game = _Game(selector, self._socket, programs, base_first, patience)
            try:
                return game.play()
            finally:
                game.dismiss()


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
        self._sides = {name: _Side(name, programs[name]) for name in SIDES}
        self._base_first = base_first
        self._patience = patience
        self._heard = time.monotonic()
        #: The turns given so far; None before both sides were ready.
        self._turn: int | None = None
        self._current: _Side | None = None

    def play(self) -> Played:
        fault, looked = None, time.monotonic()
        while fault is None and any(side.code is None for side in self._sides.values()):
            for key, _ in self._selector.select(_LOOK_EVERY_S):
                self._hear(key)
            self._give()
            # Asking after a process costs more than a turn, so it is not done at every one.
            if time.monotonic() - looked > _LOOK_EVERY_S:
                fault, looked = self._look(), time.monotonic()
        steps = {side.name: side.steps for side in self._sides.values()}
        return Played(self._turn is not None, steps, fault or self._failed())

    def dismiss(self) -> None:
        """Let go of everybody: who still waits takes no more turns."""
        for side in self._sides.values():
            for connection in side.members.values():
                connection.close()
            side.members.clear()

    def is_hookless(self) -> bool:
        """Whether it is certain that the programs do not take turns."""
        silent = [side for side in self._sides.values() if not side.joined]
        late = any(side.program.seconds > self._patience.hook for side in silent)
        return bool(silent) and (late or any(side.code == 0 for side in silent))

    def _look(self) -> str | None:
        """Look at the processes and the clock: why it is no use to go on, if so."""
        for side in self._sides.values():
            side.code = side.program.exit_code()
        if failed := self._failed():
            return failed
        if self._turn is None and self.is_hookless():
            return NO_HOOK
        if time.monotonic() - self._heard > self._patience.silence:
            side = self._current or next(s for s in self._sides.values() if s.code is None)
            return f"the {side.name} side hangs: nothing for {self._patience.silence:g} s after step {side.steps}"
        return None

    def _failed(self) -> str | None:
        for side in self._sides.values():
            if side.code:
                words = last_words(side.program.log)
                return f"the {side.name} side {described(side.code)}" + (f": {words}" if words else "")
        return None

    # --- what they say ---------------------------------------------------------------------------------------------

    def _hear(self, key: selectors.SelectorKey) -> None:
        self._heard = time.monotonic()
        if key.fileobj is self._listener:
            self._welcome()
            return
        side, rank = key.data
        connection = side.members[rank]
        try:
            said = connection.recv(1)
        except OSError:
            said = b""
        if said == DONE:
            side.waiting.add(rank)
            return
        self._selector.unregister(connection)
        connection.close()
        del side.members[rank]
        side.waiting.discard(rank)
        side.size -= 1

    def _welcome(self) -> None:
        """Seat a process at its side; one that has no place there need not wait."""
        connection, _ = self._listener.accept()
        connection.settimeout(1.0)
        try:
            who = json.loads(_line(connection))
            side, rank = self._sides[who["side"]], int(who["rank"])
            if rank in side.members or side.has_left:
                raise ValueError("the seat is taken")
        except (OSError, ValueError, KeyError, TypeError):
            _say(connection, LEAVE)
            connection.close()
            return
        side.size = side.size or int(who["size"])
        side.members[rank] = connection
        side.joined = True
        self._selector.register(connection, selectors.EVENT_READ, (side, rank))

    # --- whose turn it is ------------------------------------------------------------------------------------------

    def _give(self) -> None:
        """Give the next turn, if the last one is over; a side whose other has left goes on alone."""
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


#: The fault of programs that do not say that they take turns.
NO_HOOK = "the program does not take turns: it makes no step of a perfgate.Recorder"


def whose(turn: int, base_first: bool) -> str:
    """The side of a turn, from 0: base new, new base, ... where base goes first in even steps, and step 0 is over."""
    step, second = turn // 2 + 1, turn % 2 == 1
    return SIDES[((step % 2 == 0) == base_first) == second]


def _line(connection: socket.socket) -> bytes:
    """A line of a connection, byte by byte, for what follows it is not ours to take."""
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
        return  # it is gone, which its exit code or its silence tells, too
