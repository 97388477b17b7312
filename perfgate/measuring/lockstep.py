"""Interleaved runs: two or more programs take steps by turns, in the order base, new, new, base.

Each program is a side, with one process for each rank. A process connects to a socket through
`perfgate.recorder.process`, and waits at the end of each of its steps for an answer. A side is ready when all its
processes wait. The first step of each side needs no answer, so that all sides can set up at the same time. Then one
side runs at a time. When a side has ended, the others go on.
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
#: Why programs take no turns: at least one of them never connected.
NO_HOOK = "the program makes no step of a perfgate.Recorder"
#: The time between two looks at the processes while no message arrives, in seconds.
_LOOK_EVERY_S = 0.05
#: The longest first message of a process, in bytes.
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

    Returns whether the sides took turns, and the fault in words, or None. The caller ends the programs.

    Parameters:
        programs: the program of each side, in the order of their turns.
        base_first: whether even steps begin with base: see `side_of_turn`.
        hook_s: how long to wait for the first messages of all programs, in seconds.
        silence_s: how long to wait for any message, in seconds.
        most_steps: how many steps each side takes by turns before all must end; None for all.
    """
    sides = {name: _SideState(name, program) for name, program in programs.items()}
    fault, looked = None, time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        turns = _Turns(selector, listener, sides, base_first, hook_s, silence_s, most_steps)
        try:
            while fault is None and any(side.code is None for side in sides.values()):
                for key, _ in selector.select(_LOOK_EVERY_S):
                    turns.hear(key)
                turns.give()
                if turns.are_told_to_end and time.monotonic() - turns.heard > GRACE_S:
                    break  # some have not ended in time: the caller ends them
                if time.monotonic() - looked > _LOOK_EVERY_S:  # not at every turn: it takes longer than a turn
                    fault, looked = turns.look(), time.monotonic()
        finally:
            for connection in [one for side in sides.values() for one in side.members.values()]:
                connection.close()
    return turns.next_turn is not None, fault


def side_of_turn(turn: int, base_first: bool, sides: Sequence[str] = SIDES) -> str:
    """Return the side of a turn, counted from 0. Each step takes the sides in the reverse order of the step before.

    With `base_first`, even steps begin with base. Step 0 has no turns, so turn 0 belongs to step 1.
    """
    step, place = turn // len(sides) + 1, turn % len(sides)
    return sides[place if (step % 2 == 0) == base_first else -1 - place]


class _SideState(Struct):
    """The state of one side: its program, and the connections of its processes."""

    name: str
    program: Program
    #: The number of its processes that have not ended. The first that connects says it; it is 0 before.
    size: int = 0
    #: The connections by rank, and the ranks that wait at the end of a step.
    members: dict[int, socket.socket] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    #: True once a process connected, and once all of them or the program ended.
    has_joined: bool = False
    has_left: bool = False
    #: The number of steps that it was allowed to take.
    steps: int = 0
    #: Its exit code at the last look; None while it runs.
    code: int | None = None

    @property
    def is_ready(self) -> bool:
        return bool(self.members) and len(self.waiting) == len(self.members) == self.size

    def go(self, answer: bytes = GO) -> None:
        """Let every process of the side take a step, or end. If one has ended, the next `look` finds it."""
        self.steps += 1
        for rank in self.waiting:
            with suppress(OSError):
                self.members[rank].sendall(answer)
        self.waiting.clear()


class _Turns(Struct):
    """The turns of all sides. `play` calls `hear` for each message, then `give`, and now and then `look`."""

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
    #: The number of the next turn; None before all sides were ready.
    next_turn: int | None = None
    #: The side that has the turn.
    current: _SideState | None = None

    def look(self) -> str | None:
        """Look at the processes and the clock; return the fault that ends the turns early, or None."""
        sides = self.sides.values()
        for side in sides:
            side.code = side.program.process.poll()
            side.has_left = side.has_left or side.code is not None
        for side in sides:
            if side.code and not self.are_told_to_end:
                return f"the {side.name} side {ending(side.code, side.program.log)}"
        now = time.monotonic()
        silent = [side for side in sides if not side.has_joined]
        if self.next_turn is None and any(s.code == 0 or now - s.program.began > self.hook_s for s in silent):
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
        """Read who a new process is (side, rank, size), and add it to its side, or let it run without turns."""
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

    def give(self) -> None:
        """Give the next turn if the last one is over. A side goes on alone after the others have ended."""
        sides = self.sides.values()
        ready = [side for side in sides if side.is_ready]
        running = sum(not side.has_left for side in sides)
        never_began = running < len(sides) and self.next_turn is None
        if self.most_steps is not None and len(ready) == len(sides) and min(s.steps for s in sides) >= self.most_steps:
            self.are_told_to_end = True
            for side in sides:
                side.go(END)
        elif running < 2 or never_began:  # one side is alone, or one left before the turns began: nobody waits
            for side in ready:
                side.go()
        elif self.current is None and len(ready) == len(sides):  # all have taken their first step: the turns begin
            for side in sides:
                side.program.starting = time.monotonic() - side.program.began
            self._start(0)
        elif self.current is not None and (self.current.is_ready or self.current.has_left):  # its turn is over
            self._start(self.next_turn or 0)

    def _start(self, turn: int) -> None:
        """Give a turn to its side; if that has left, give the first later turn of a side that has not left."""
        while (side := self.sides[side_of_turn(turn, self.base_first, [*self.sides])]).has_left:
            turn += 1
        if side.is_ready:  # otherwise `give` comes here again after the next message
            self.next_turn, self.current = turn + 1, side
            side.go()
