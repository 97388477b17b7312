"""Interleaved runs: two or more programs take steps by turns, in the order base, new, new, base.

The processes talk to this module through `perfgate.recorder.process`. A side is ready when all its processes wait at a
step boundary. The first step of each side is free, so that all can set up at the same time. From the first boundary on,
one side runs at a time. When a side has ended, the others go on.
"""

from __future__ import annotations

import json
import selectors
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from perfgate.measuring.programs import GRACE_S, Program, ending
from perfgate.recorder.process import DONE, END, GO, LEAVE

SIDES = ("base", "new")
#: The fault of programs that take no turns.
NO_HOOK = "the program makes no step of a perfgate.Recorder"
#: The time between two looks at the processes while no message arrives, in seconds.
_LOOK_EVERY_S = 0.05
_LONGEST_HELLO = 200


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Open a socket, at an address of the file system, at which programs take turns."""
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder) / "turns"))
        listener.listen()
        listener.setblocking(False)
        yield listener


def play(
    listener: socket.socket,
    programs: dict[str, Program],
    base_first: bool,
    hook_s: float = 60.0,
    silence_s: float = 600,
    most_steps: int | None = None,
) -> tuple[bool, str | None]:
    """Let programs, such as `base` and `new`, take turns until all have ended or there is a fault.

    Returns whether all sides took turns, and what went wrong, in words. A fault ends the watch, not the programs.

    Parameters:
        programs: the program of each side, in the order of their turns.
        hook_s: how long to wait for the first messages of all programs, in seconds.
        silence_s: how long to wait for any message, in seconds.
        most_steps: how many steps each side takes by turns before all must end; None for all.
    """
    sides = {name: _SideState(name, program) for name, program in programs.items()}
    fault, looked = None, time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        game = _Game(selector, listener, sides, base_first, hook_s, silence_s, most_steps)
        try:
            while fault is None and any(side.code is None for side in sides.values()):
                for key, _ in selector.select(_LOOK_EVERY_S):
                    game.hear(key)
                game.give_turn()
                # To look at a process takes longer than a turn, so it is not done at every turn.
                if game.are_told_to_end and time.monotonic() - game.heard > GRACE_S:
                    break
                if time.monotonic() - looked > _LOOK_EVERY_S:
                    fault, looked = game.look(), time.monotonic()
        finally:
            for connection in [one for side in sides.values() for one in side.members.values()]:
                connection.close()
    return game.turn is not None, fault


def side_of_turn(turn: int, base_first: bool, sides: Sequence[str] = SIDES) -> str:
    """Return the side of a turn, counted from 0. Each step takes the sides in the reverse order of the step before.

    With `base_first`, even steps begin with base. Step 0 is free, so turn 0 belongs to step 1.
    """
    step, place = turn // len(sides) + 1, turn % len(sides)
    return sides[place if (step % 2 == 0) == base_first else -1 - place]


class _SideState(Struct):
    """One program: its process, the connections of its ranks, and which of them wait."""

    name: str
    program: Program
    size: int = 0
    members: dict[int, socket.socket] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    has_joined: bool = False
    has_left: bool = False
    steps: int = 0
    #: Its exit code at the last look; None while it runs.
    code: int | None = None

    @property
    def is_ready(self) -> bool:
        return bool(self.members) and len(self.waiting) == len(self.members) == self.size

    def go(self, answer: bytes = GO) -> None:
        """Let every process of the side take a step, or end. The next `look` finds processes that have ended."""
        self.steps += 1
        for rank in self.waiting:
            with suppress(OSError):
                self.members[rank].sendall(answer)
        self.waiting.clear()


class _Game(Struct):
    """The sides, whose turn it is, and the messages of their processes."""

    selector: selectors.BaseSelector
    listener: socket.socket
    sides: dict[str, _SideState]
    base_first: bool
    hook_s: float
    silence_s: float
    most_steps: int | None = None
    are_told_to_end: bool = False
    #: The time of the last message.
    heard: float = field(default_factory=time.monotonic)
    #: The number of turns so far; None before both sides were ready.
    turn: int | None = None
    current: _SideState | None = None

    def look(self) -> str | None:
        """Look at the processes and the clock; return why the watch ends early, or None."""
        sides = self.sides.values()
        for side in sides:
            side.code = side.program.process.poll()
            side.has_left = side.has_left or side.code is not None
        for side in sides:
            if side.code and not self.are_told_to_end:
                return f"the {side.name} side {ending(side.code, side.program.log)}"
        now = time.monotonic()
        silent = [side for side in sides if not side.has_joined]
        if self.turn is None and any(s.code == 0 or now - s.program.began > self.hook_s for s in silent):
            return NO_HOOK
        if now - self.heard > self.silence_s:
            side = self.current or next(s for s in sides if s.code is None)
            return f"the {side.name} side hangs: nothing for {self.silence_s:g} s after step {side.steps}"
        return None

    def hear(self, key: selectors.SelectorKey) -> None:
        """Take a message: a new process, the end of a step, or the end of a process."""
        self.heard = time.monotonic()
        if key.fileobj is self.listener:
            self._welcome()
            return
        side, rank = key.data
        connection = side.members[rank]
        message = b""
        with suppress(OSError):
            message = connection.recv(1)
        if message == DONE:
            side.waiting.add(rank)
            return
        self.selector.unregister(connection)
        connection.close()
        del side.members[rank]
        side.waiting.discard(rank)
        side.size -= 1
        side.has_left = side.has_left or not side.members

    def _welcome(self) -> None:
        """Add a process to its side. A process of no side gets the answer to run without turns."""
        connection, _ = self.listener.accept()
        connection.settimeout(1.0)
        try:
            # Without a buffer: the bytes after the line are messages of their own.
            with connection.makefile("rb", buffering=0) as lines:
                who = json.loads(lines.readline(_LONGEST_HELLO))
            side, rank = self.sides[who["side"]], int(who["rank"])
            if rank in side.members or side.has_left:
                raise ValueError("the place is taken")
        except (OSError, ValueError, KeyError, TypeError):
            with suppress(OSError):
                connection.sendall(LEAVE)
            connection.close()
            return
        side.size = side.size or int(who["size"])
        side.members[rank] = connection
        side.has_joined = True
        self.selector.register(connection, selectors.EVENT_READ, (side, rank))

    def give_turn(self) -> None:
        """Give the next turn if the last one is over. A side goes on alone after the other has ended."""
        sides = self.sides.values()
        if self.most_steps is not None and all(side.is_ready and side.steps >= self.most_steps for side in sides):
            self.are_told_to_end = True
            for side in sides:
                side.go(END)
        elif sum(not side.has_left for side in sides) < 2 or (self.turn is None and any(s.has_left for s in sides)):
            for side in sides:
                if side.is_ready:
                    side.go()
        elif self.current is None and all(side.is_ready for side in sides):
            for side in sides:
                side.program.starting = time.monotonic() - side.program.began
            self._next(0)
        elif self.current is not None and (self.current.is_ready or self.current.has_left):
            self._next(self.turn or 0)

    def _next(self, turn: int) -> None:
        """Give a turn to its side, or to the next one that has not left."""
        while (side := self.sides[side_of_turn(turn, self.base_first, [*self.sides])]).has_left:
            turn += 1
        if side.is_ready:
            self.turn, self.current = turn + 1, side
            side.go()
