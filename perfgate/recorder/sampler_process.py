"""The process that samples the machine beside a program (`perfgate.machine.sampler`): its start and its end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress

from perfgate.core.wording import MACHINE_FILE
from perfgate.recorder.process import perfgate_module

#: This environment variable says that the machine is watched already: the host, and the time in ns of the first
#: reading, on the monotonic clock, which all processes of a host share.
WATCHED = "PERFGATE_SAMPLER"
#: The longest time that the sampler may take to write its file, in s.
_PATIENCE_S = 10.0


def sidecar_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the file beside a file or folder of results."""
    return os.fspath(path).rstrip("/") + MACHINE_FILE


class SamplerProcess:
    """A running sampler. It ends by itself if this process dies. Raises OSError if no process can be started."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._told: list[dict[str, str | float]] = []
        command, environment = perfgate_module("perfgate.machine.sampler", path)
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
