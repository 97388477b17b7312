"""The process that samples the machine beside a program (`perfgate.machine.sampler`): its start and its end.

It lies beside the results, and has their name with `.machine` at the end: `results.json.machine` for `results.json`.
Globs for results do not match it, and perfgate reads it together with the results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perfgate.core.wording import MACHINE_FILE

#: This environment variable says that the machine is watched already: the host, and the time in ns of the first
#: reading, on the monotonic clock, which all processes of a host share.
WATCHED = "PERFGATE_SAMPLER"
#: The longest time that the sampler may take to write its file, in s.
_PATIENCE_S = 10.0
#: A rank would be put into the name of the sampler's file.
_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


def sidecar_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the file beside a file or folder of results."""
    return os.fspath(path).rstrip("/") + MACHINE_FILE


class SamplerProcess:
    """A running sampler. It ends by itself if this process dies. Raises OSError if no process can be started."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._told: list[dict[str, str | float]] = []
        command = [sys.executable, "-m", "perfgate.machine.sampler", path]
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_RANK}
        # A folder `perfgate` in the working directory must not hide this package; Python 3.10 looks there first.
        package, given = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
        environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([package, *([given] if given else [])])}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        assert self._process.stdout is not None
        #: False if the sampler could not start: its file cannot be written, or another one writes it.
        self.is_ready = bool(self._process.stdout.readline())
        #: The time of the first reading in ns, on the monotonic clock.
        self.began = time.monotonic_ns()
        self._process.stdout.close()

    def note(self, metric: str, value: float, unit: str) -> None:
        """Let the sampler write a value of the whole run, too."""
        self._told.append({"metric": metric, "value": value, "unit": unit})

    def end(self) -> None:
        """Let the sampler write its file."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in self._told))
            self._process.stdin.close()
        # A process that the program forked keeps its end of the pipe open.
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def words(self) -> str:
        """The value of the environment variable for programs that run meanwhile."""
        return f"{os.uname().nodename} {self.began}"


def watched_since() -> int | None:
    """Return when another process of this host began to watch the machine for this one, in ns; None if none does."""
    host, _, began = os.environ.get(WATCHED, "").rpartition(" ")
    if not began.isdigit() or not hasattr(os, "uname") or host != os.uname().nodename:
        return None
    return int(began) if int(began) <= time.monotonic_ns() else None


@contextmanager
def sampled(path: str | os.PathLike[str]) -> Iterator[Callable[[str, float, str], None]]:
    """Sample the machine while a block runs, into the file beside the results in `path`. Never raises by itself.

    The block gets a function that notes a value of the whole run there: its metric, its value and its unit.
    """
    process, before = None, os.environ.get(WATCHED)
    with suppress(OSError):  # no room for a process, or a folder that cannot be written
        process = SamplerProcess(sidecar_of(path))
    if process is not None and process.is_ready:
        os.environ[WATCHED] = process.words  # a Recorder in the command starts no second sampler
    try:
        yield process.note if process is not None else lambda metric, value, unit: None
    finally:
        if process is not None:
            process.end()
        if before is None:
            os.environ.pop(WATCHED, None)
        else:
            os.environ[WATCHED] = before
