"""The user's program as a process that can be ended with everything it has started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

#: How long a process has for its own way to end, in seconds.
GRACE_S = 5.0
#: The environment variable by which everything that a process starts is known, whatever group it moves to.
_MARK = "PERFGATE_PROCESS"
#: Torch on CUDA, ROCm and the host; cuBLAS and cuDNN; NumPy and Python; malloc.
_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED|MemoryError|Cannot allocate memory|Unable to allocate", re.I)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: its words, where, with which further environment variables, and the file for what it prints."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    log: Path


class Program:
    """A running command, in a process group of its own."""

    def __init__(self, command: Command) -> None:
        """Start it. Raises OSError where it cannot be started."""
        self._mark = uuid4().hex
        self._has_ended = False
        self.log = command.log
        self.began = time.monotonic()
        with command.log.open("wb") as log:
            self._process = subprocess.Popen(
                command.words,
                cwd=command.folder,
                env={**os.environ, **command.environment, _MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.began

    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or None if it still runs after so many seconds."""
        try:
            return self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End it and everything that it has started: politely, then not. Again, it does nothing."""
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

    def ask_to_end(self) -> None:
        """SIGTERM, if it still runs."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def described(code: int) -> str:
    """An exit code in words: `ended with exit code 1`, `was killed by SIGKILL`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def last_words(log: Path, most: int = 200) -> str:
    """The last line that a program printed, for messages; empty where there is none."""
    lines = [line.strip() for line in _end_of(log, 4096).splitlines() if line.strip()]
    return lines[-1][-most:] if lines else ""


def ran_out_of_memory(log: Path) -> bool:
    """Whether a program ended with the words of an allocator, torch's or a library's, that had no more to give."""
    return _NO_MEMORY.search(_end_of(log, 65536)) is not None


def _end_of(log: Path, most: int) -> str:
    with suppress(OSError):
        return log.read_bytes()[-most:].decode("utf-8", "backslashreplace")
    return ""


def _marked(mark: str) -> Iterator[int]:
    """The processes that inherited a mark; only Linux tells, elsewhere the process group is all that is known."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def end_all(programs: Sequence[Program]) -> None:
    """End several programs; all are told before any is waited for."""
    for program in programs:
        program.ask_to_end()
    for program in programs:
        program.end()
