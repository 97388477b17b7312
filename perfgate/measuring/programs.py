"""Start the user's program, on chosen processors if asked, and end it with all processes that it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn
from uuid import uuid4

#: The time that a process has to end by itself, in seconds.
GRACE_S = 5.0
#: An environment variable that all processes of a program inherit, so that they are found in any process group.
_MARK = "PERFGATE_PROCESS"
#: The numbers of processors.
Cpus = frozenset[int]
#: Errors of a signal to a process that has ended, or whose number belongs to another user's process now.
_GONE = (ProcessLookupError, PermissionError)
#: Errors of allocators: torch on CUDA, ROCm and the host; cuBLAS and cuDNN; NumPy and Python; malloc.
_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED|MemoryError|Cannot allocate memory|Unable to allocate", re.I)


def allowed_cpus() -> Cpus | None:
    """Return the processors that this process may use; None if the system cannot pin programs."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def parse_cpus(text: str) -> Cpus:
    """Return the processors of `1`, `0,2` or `4-7`. Raises ValueError, with the reason."""
    found = set[int]()
    for part in text.split(","):
        given = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if given is None:
            raise ValueError(f"{text!r} is not a list of processors: write 1, 0,2 or 4-7")
        found |= set(range(int(given[1]), int(given[2] or given[1]) + 1))
    allowed = allowed_cpus()
    if allowed is None:
        raise ValueError("this system cannot pin programs to processors")
    if not found or not found <= allowed:
        usable = ", ".join(map(str, sorted(allowed)))
        raise ValueError(f"{text}: this process may use only the processors {usable}")
    return frozenset(found)


@contextmanager
def pinned(cpus: Collection[int] | None) -> Iterator[None]:
    """Let the processes that a block starts in this thread run on these processors only; None changes nothing."""
    before = allowed_cpus()
    if cpus is None or before is None:
        yield
        return
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class RunFailed(Exception):
    """No further run can be made: the command failed, hung or wrote nothing."""


class Stopped(RunFailed):
    """A signal stopped the command. The exit code is 128 plus the number of the signal, even if runs were judged."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[list[Stopped]]:
    """Turn the first SIGTERM or SIGINT into Stopped, so that what was measured is kept. Later ones are ignored.

    Yields a list to which the Stopped is added: a caller can judge what was measured, and then exit with its code.
    """
    seen: list[Stopped] = []

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for known in before:
            signal.signal(known, signal.SIG_IGN)
        seen.append(Stopped(number))
        raise seen[0]

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Deliver SIGTERM and SIGINT only after the block, so that a process that is being started is not lost."""
    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, lambda number, frame: waiting.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def finish(program: Program, timeout: float) -> None:
    """Wait for the end of a program, and end the processes that it leaves. Raises RunFailed if it fails or hangs."""
    try:
        code = program.process.wait(timeout)
        if code:
            raise RunFailed(f"the command {ending(code, program.log)}")
    except subprocess.TimeoutExpired:
        raise RunFailed(f"the command hangs: it was ended after {timeout:g} s") from None
    finally:
        end_all([program])


class Program:
    """A running command, in a process group of its own."""

    def __init__(
        self, words: tuple[str, ...], folder: Path, environment: Mapping[str, str], log: Path | None = None
    ) -> None:
        """Start it, with more environment variables; its output goes to the log, or is shown. Raises RunFailed."""
        self.mark = uuid4().hex
        self.has_ended = False
        self.log = log
        self.began = time.monotonic()
        #: The time until its first turn, in seconds; 0 without turns.
        self.starting = 0.0
        try:
            with nullcontext() if log is None else log.open("wb") as output, _signals_wait():
                self.process = subprocess.Popen(
                    words,
                    cwd=folder,
                    env={**os.environ, **environment, _MARK: self.mark},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=None if log is None else subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise RunFailed(f"{words[0]} cannot be started: {error.strerror or error}") from None
        except BaseException:  # a signal: one before the start, or one that waited
            if "process" in vars(self):
                end_all([self])
            raise


def end_all(programs: Iterable[Program]) -> None:
    """End programs and every process that they started: first with SIGTERM, then with SIGKILL.

    All get SIGTERM before the wait for any of them begins. If a program ended by itself, the processes that it left get
    only SIGKILL. A program that was ended here already is left alone.
    """
    running = [program for program in programs if not program.has_ended]
    for program in running:
        if program.process.poll() is None:
            with suppress(*_GONE):
                os.killpg(program.process.pid, signal.SIGTERM)
    for program in running:
        with suppress(subprocess.TimeoutExpired):
            program.process.wait(GRACE_S)
        with suppress(*_GONE):
            os.killpg(program.process.pid, signal.SIGKILL)
        for process in _marked(program.mark):
            with suppress(*_GONE):
                os.kill(process, signal.SIGKILL)
        program.process.wait()
        program.has_ended = True


def ending(code: int, log: Path | None) -> str:
    """Return how a program ended, with the last line that it printed: `was killed by SIGKILL: step 12`."""
    how = f"ended with exit code {code}"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"was killed by {names.get(-code, f'signal {-code}')}"
    lines = [line.strip() for line in _end_of(log, 4096).splitlines() if line.strip()] if log else []
    return f"{how}: {lines[-1][-200:]}" if lines else how


def ran_out_of_memory(log: Path) -> bool:
    """Return whether a log ends with an error of an allocator: torch's, a library's, or the system's."""
    return _NO_MEMORY.search(_end_of(log, 65536)) is not None


def _end_of(log: Path, most: int) -> str:
    with suppress(OSError):
        return log.read_bytes()[-most:].decode("utf-8", "backslashreplace")
    return ""


def _marked(mark: str) -> Iterator[int]:
    """Yield the processes that inherited a mark. Only Linux shows them; elsewhere, the process group must suffice."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
