"""The user's program: one run of it, with what it wrote, and a process that can be ended with all that it started."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn
from uuid import uuid4

from msgspec import Struct, field

from perfgate.core.file_mappings import is_for_a_shell
from perfgate.core.wording import MACHINE_FILE
from perfgate.measuring.files_before import FilesBefore
from perfgate.measuring.pinning import pinned
from perfgate.workspace.options import Refused, shown_path

#: The time that a process has to end by itself, in seconds.
GRACE_S = 5.0
#: This environment variable marks every process that a program starts, whatever process group it moves to.
_MARK = "PERFGATE_PROCESS"
_GONE = (ProcessLookupError, PermissionError)
#: Errors of allocators: torch on CUDA, ROCm and the host; cuBLAS and cuDNN; NumPy and Python; malloc.
_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED|MemoryError|Cannot allocate memory|Unable to allocate", re.I)
#: A variable of random length. Where a process keeps its data depends on the lengths of its environment and its paths,
#: which differ between a worktree and the working tree. This can make the same program some percent slower, by the
#: same amount in every pair (Mytkowicz et al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
#: With this variable, such a bias is a part of the noise between pairs, which the interval includes.
_LAYOUT, _LONGEST_LAYOUT = "PERFGATE_LAYOUT", 4096
#: While one side waits for its turn, its threads must sleep. By default, those of OpenBLAS wait actively for 2^26
#: cycles (some 25 ms) and those of Intel's OpenMP for 200 ms, and take a processor from the other side. Between two
#: operations of one step they may wait actively: to wake a thread on a busy machine takes long.
_SLEEPING = {"OPENBLAS_THREAD_TIMEOUT": "18", "KMP_BLOCKTIME": "1"}


class RunFailed(Exception):
    """No further run can be made: the command failed, hung or wrote nothing."""


class Stopped(RunFailed):
    """A signal asked for the end. The exit code is 128 plus its number, whatever was measured before it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[list[Stopped]]:
    """Turn the first SIGTERM or SIGINT into Stopped, so that what was measured is kept. Later ones are ignored.

    Yields a list that gets the Stopped, for those who go on with what was measured.
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
    """Deliver SIGTERM and SIGINT after the block: inside of it, they would lose a process that was just started."""
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


class ProgramSide(Struct, frozen=True):
    """The program of one side: a command with the placeholders `{run}` and `{results}`, and where it runs."""

    words: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The processors that it may use; None for all.
    cpus: frozenset[int] | None = None


class NewRun(Struct, frozen=True):
    """A run of a side: its number, the folder of its files, and the log of what the command prints."""

    side: ProgramSide
    number: int
    results: Path
    log: Path
    #: The files that the run may create or change, as they are before it.
    before: FilesBefore

    def start(self, more: Mapping[str, str] | None = None) -> Program:
        """Start the command; `more` are further environment variables. Raises RunFailed."""
        side, run, results = self.side, str(self.number), str(self.results)
        words = tuple(word.replace("{run}", run).replace("{results}", results) for word in side.words)
        environment = {"PERFGATE_RUN": run, "PERFGATE_RESULTS": results, **side.environment, **(more or {})}
        if side.cpus is None:
            return Program(words, side.folder, environment, self.log)
        with pinned(side.cpus):
            return Program(words, side.folder, environment, self.log)

    def collect(self, warn: Callable[[str], None] = lambda message: None) -> Path:
        """Copy the new files into the folder of the run; return the run's file or folder. Raises RunFailed.

        A file outside of the command's folder is kept with its whole path. One that has the same content as before the
        first run does not count: `warn` gets a message, or the error says it.
        """
        folder, same = self.side.folder.resolve(), ""
        for path in self.before.changed():
            if self.before.is_old(path):
                name = shown_path(str(path))
                same = f"{name} has the same content as before the first run, so it does not count: remove it first"
                warn(f"warning: {same}")
            elif not path.is_relative_to(self.results):
                target = self.results / path.relative_to(folder if path.is_relative_to(folder) else path.anchor)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        run = result_of(self.results)
        if run is None and self.before.globs:
            raise RunFailed(same or f"the command wrote nothing that matches {' or '.join(self.before.globs)}")
        if run is None and self.log.stat().st_size == 0:
            raise RunFailed("the command printed nothing and wrote nothing to $PERFGATE_RESULTS ({results})")
        run = run or self.log
        if (machine := Path(f"{self.results}{MACHINE_FILE}")).exists():
            machine.replace(f"{run}{MACHINE_FILE}")
        return run


def result_of(folder: Path) -> Path | None:
    """Return what a run wrote to its folder: its only file, or the folder of several; None for nothing."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    files = [path for path in files if not path.name.endswith(MACHINE_FILE)]
    return (files[0] if len(files) == 1 else folder) if files else None


@contextmanager
def new_run(path: Path, side: ProgramSide, number: int, globs: Sequence[str] = ()) -> Iterator[NewRun]:
    """Make a new folder for a run. If the run fails, a file beside the folder says why. Raises Refused.

    Globs are relative to the folder of the command.
    """
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"{shown_path(str(path))}: cannot keep runs there: {error.strerror}") from None
    results = path.resolve()
    log = results.with_name(f"{results.name}.log")
    try:
        yield NewRun(side, number, results, log, FilesBefore.of(side.folder.resolve(), tuple(globs)))
    except BaseException as error:
        why = str(error) or type(error).__name__
        results.with_name(f"{results.name}.FAILED.txt").write_text(why + "\n", encoding="utf-8")
        raise


def fair_environment() -> dict[str, str]:
    """Return environment variables for one run of one side of a pair. Variables of the user are not changed."""
    own = {name: value for name, value in _SLEEPING.items() if name not in os.environ}
    return {**own, _LAYOUT: "x" * secrets.randbelow(_LONGEST_LAYOUT)}


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
        """Start it, with further environment variables. Without a log, its output is shown. Raises RunFailed."""
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
        except BaseException:  # a signal that waited
            end_all([self])
            raise


def end_all(programs: Iterable[Program]) -> None:
    """End programs and every process that they started: first with SIGTERM, then with SIGKILL.

    All get SIGTERM before the wait for any of them begins. A program that was ended already is left alone.
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
    """Yield the processes that inherited a mark. Only Linux shows them; elsewhere the process group has to do."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def build(path: Path, side: ProgramSide, timeout: float) -> None:
    """Run the build command of a side; its log is beside `path`. Raises RunFailed, and Stopped after a signal.

    `path`: a new folder, for the files of the build. `side`: the words of the command, and where it runs. `timeout`:
    its longest time in seconds.
    """
    try:
        with new_run(path, side, 0) as run:
            finish(run.start(), timeout)
    except Stopped:  # the user stopped the command: that says nothing about the build
        raise
    except RunFailed as error:
        hint = "; --build runs no shell: write sh -c '...'" if is_for_a_shell(side.words) else ""
        raise RunFailed(f"does not build: {error}{hint}") from None
