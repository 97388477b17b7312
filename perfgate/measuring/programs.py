"""The user's program: one run of it, with what it wrote, and a process that can be ended with all that it started."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from types import FrameType
from typing import NoReturn
from uuid import uuid4

from perfgate.workspace.errors import Refused
from perfgate.workspace.options import shown_path

#: The time that a process has to end by itself, in seconds.
GRACE_S = 5.0
#: This environment variable marks every process that a program starts, whatever process group it moves to.
_MARK = "PERFGATE_PROCESS"
#: Errors of allocators: torch on CUDA, ROCm and the host; cuBLAS and cuDNN; NumPy and Python; malloc.
_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED|MemoryError|Cannot allocate memory|Unable to allocate", re.I)


class RunFailed(Exception):
    """Why no further run can be made: a command that fails, hangs or writes nothing."""


class Stopped(RunFailed):
    """A signal asked for the end."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Turn the first SIGTERM or SIGINT into Stopped, so that what was measured is kept. Later ones are ignored."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for known in before:
            signal.signal(known, signal.SIG_IGN)
        raise Stopped(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- one run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where one run is kept: the folder of its files, and the log of what the command printed."""

    results: Path
    log: Path


@contextmanager
def run_folder(path: Path) -> Iterator[RunFolder]:
    """Make a new folder for a run. If the run fails, a file beside the folder says why. Raises Refused."""
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"{shown_path(str(path))}: cannot keep runs there: {error.strerror}") from None
    results = path.resolve()
    try:
        yield RunFolder(results, results.with_name(f"{results.name}.log"))
    except BaseException as error:
        why = str(error) or type(error).__name__
        results.with_name(f"{results.name}.FAILED.txt").write_text(why + "\n", encoding="utf-8")
        raise


@dataclass(frozen=True, slots=True)
class Command:
    """A command to start: its words, its folder, and further environment variables."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    #: The file for its output; None to show it.
    log: Path | None


@dataclass(frozen=True, slots=True)
class ProgramSide:
    """The program of one side: a command with the placeholders `{run}` and `{results}`, and where it runs."""

    words: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, place: RunFolder, number: int, more: Mapping[str, str] | None = None) -> Command:
        """Return the command of one run; `more` are further environment variables."""
        run, results = str(number), str(place.results)
        words = tuple(word.replace("{run}", run).replace("{results}", results) for word in self.words)
        environment = {"PERFGATE_RUN": run, "PERFGATE_RESULTS": results, **self.environment, **(more or {})}
        return Command(words, self.folder, environment, place.log)


def run_once(command: Command, timeout: float) -> None:
    """Run a command to its end, and end the processes that it leaves. Raises RunFailed if it fails or hangs."""
    program = Program(command)
    try:
        code = program.wait(timeout)
        if code is None:
            raise RunFailed(f"the command hangs: it was ended after {timeout:g} s")
        if code:
            raise RunFailed(f"the command {ending(code, command.log)}")
    finally:
        program.end()


class NewFiles:
    """The files that match globs and that a run creates or changes."""

    def __init__(self, globs: Sequence[str], folder: Path) -> None:
        """Note the files that exist before the run. Globs are relative to the folder of the command."""
        self._globs = globs
        self._folder = folder.resolve()
        self._before = self._stamps()

    def collect(self, place: RunFolder) -> Path:
        """Copy the new files into the folder of the run; return the run's file or folder. Raises RunFailed.

        A file outside of the command's folder is kept with its whole path.
        """
        for path, stamp in sorted(self._stamps().items()):
            if self._before.get(path) != stamp and not path.is_relative_to(place.results):
                top = self._folder if path.is_relative_to(self._folder) else path.anchor
                target = place.results / path.relative_to(top)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        files = [path for path in place.results.rglob("*") if path.is_file() and not path.name.startswith(".")]
        if not files and self._globs:
            raise RunFailed(f"the command wrote nothing that matches {' or '.join(self._globs)}")
        if not files and place.log.stat().st_size == 0:
            raise RunFailed("the command printed nothing and wrote nothing to $PERFGATE_RESULTS ({results})")
        if not files:
            return place.log
        return files[0] if len(files) == 1 else place.results

    def _stamps(self) -> dict[Path, tuple[int, int, int]]:
        """Return the matching files, each with facts that change when it is written."""
        found = (Path(name) for pattern in self._globs for name in glob(str(self._folder / pattern), recursive=True))
        files = {path.resolve(): path.stat() for path in found if path.is_file()}
        return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items()}


# --- processes ---------------------------------------------------------------------------------------------------


class Program:
    """A running command, in a process group of its own."""

    def __init__(self, command: Command) -> None:
        """Start it. Raises RunFailed if that is impossible."""
        self._mark = uuid4().hex
        self._has_ended = False
        self.log = command.log
        self.began = time.monotonic()
        try:
            with nullcontext() if command.log is None else command.log.open("wb") as log:
                self._process = subprocess.Popen(
                    command.words,
                    cwd=command.folder,
                    env={**os.environ, **command.environment, _MARK: self._mark},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=None if log is None else subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise RunFailed(f"{command.words[0]} cannot be started: {error.strerror or error}") from None

    def exit_code(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, or None if it still runs after this time."""
        try:
            return self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def ask_to_end(self) -> None:
        """Send SIGTERM if it still runs."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)

    def end(self) -> None:
        """End it and every process that it started: first with SIGTERM, then with SIGKILL. Later calls do nothing."""
        if self._has_ended:
            return
        self.ask_to_end()
        self.wait(GRACE_S)
        self._signal(signal.SIGKILL)
        for process in _marked(self._mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._has_ended = True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def end_all(programs: Sequence[Program]) -> None:
    """End several programs. All get SIGTERM before the wait for any of them begins."""
    for program in programs:
        program.ask_to_end()
    for program in programs:
        program.end()


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
