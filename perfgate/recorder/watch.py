"""Watch the machine while a program is recorded: start and end the sampler, a process that reads the sensors.

One process of a host starts the sampler, unless `perfgate run` or `perfgate record` has started one. The same process
records `machine.elapsed`, the times at which some of its steps began, so that the samples can be put beside the steps.

The file with the samples is beside the results, and has their name with `.machine` at the end: `results.json.machine`
for `results.json`. Globs for results do not match it, and perfgate reads it together with the results.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from perfgate.core.wording import MACHINE_FILE
from perfgate.recorder.process import perfgate_module

#: An environment variable, set if the machine is watched already. It has the host and the time in ns of the first
#: reading, on the monotonic clock, which all processes of a host share.
WATCHED = "PERFGATE_SAMPLER"
#: The longest time that the sampler may take to write its file, in s.
_PATIENCE_S = 10.0
#: The longest time that the sampler may take to start, in s: drivers of many GPUs take seconds.
_START_S = 60.0
#: What the sampler prints when it is ready.
_READY = b"ready\n"


def sidecar_of(path: str | os.PathLike[str]) -> str:
    """Return the path of the file with the samples for a file or folder of results."""
    return os.fspath(path).rstrip("/") + MACHINE_FILE


class SamplerProcess:
    """A sampler, which writes its file at the `end`, or when this process dies. Raises OSError if it cannot start."""

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
        said, until = b"", time.monotonic() + _START_S
        # A driver may print lines of its own, half a line, or without end.
        while said != _READY and select.select([self._process.stdout], [], [], max(until - time.monotonic(), 0))[0]:
            if not (more := os.read(self._process.stdout.fileno(), 4096)):
                break
            said = (said + more)[-len(_READY) :]
        #: False if the sampler could not start: its file cannot be written, another one writes it, or a driver hangs.
        self.is_ready = said == _READY
        #: The time of the first reading in ns, on the monotonic clock.
        self.began = time.monotonic_ns()
        self._process.stdout.close()

    def note(self, metric: str, value: float, unit: str) -> None:
        """Let the sampler also write this value of the whole run."""
        self._told.append({"metric": metric, "value": value, "unit": unit})

    def end(self) -> None:
        """Let the sampler write its file."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in self._told))
            self._process.stdin.close()
        # If the program forked, the pipe stays open in the other process, so the sampler needs a signal.
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def words(self) -> str:
        """The value of `WATCHED` for programs that run meanwhile."""
        return f"{os.uname().nodename} {self.began}"


def watched_since() -> int | None:
    """Return the time of the first reading, as `WATCHED` has it; None if this host is not watched."""
    host, _, began = os.environ.get(WATCHED, "").rpartition(" ")
    if not began.isdecimal() or not hasattr(os, "uname") or host != os.uname().nodename:
        return None
    # A time to come is of another boot, or of another machine with this name.
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


#: The least time between two marks, in ns. It doubles after each `_MARKS` marks, so that a long recording stays small.
_EVERY, _MARKS = 1_000_000_000, 1024
#: The variables in which launchers say the place of a process on its host, and its rank.
_PLACES = (
    ("LOCAL_RANK", "RANK"),
    ("SLURM_LOCALID", "SLURM_PROCID"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK"),
)
#: Records a time in s and the number of a step.
AddMark = Callable[[float, int], None]


class MachineWatch:
    """The marks of a recording, which say when steps began; and the sampler, if this process started it.

    `add`: records a mark. `began`: the time of the first reading in ns, on the monotonic clock.
    """

    def __init__(self, add: AddMark, began: int, sampler: SamplerProcess | None) -> None:
        self._add, self._began, self._sampler = add, began, sampler
        self._process, self._due, self._marks = os.getpid(), 0, 0
        self._last: tuple[float, int] | None = None
        if sampler is not None:
            atexit.register(self.end)

    def mark(self, step: int) -> None:
        """Note that a step begins now."""
        now = time.monotonic_ns()
        elapsed = round((now - self._began) / 1e9, 4)
        if now < self._due:
            self._last = elapsed, step
            return
        self._add(elapsed, step)
        self._last, self._marks = None, self._marks + 1
        self._due = now + _EVERY * 2 ** (self._marks // _MARKS)

    def mark_last(self) -> None:
        """Record the beginning of the last step, unless it was recorded."""
        if self._last is not None:
            self._add(*self._last)
            self._last = None

    def end(self) -> None:
        """End the sampler, which writes its file. Does nothing again, or in a fork."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None and os.getpid() == self._process:
            atexit.unregister(self.end)
            sampler.end()


def watch(
    path: str, rank: int | None, add: AddMark, warn: Callable[[str], None], *, starts: bool
) -> MachineWatch | None:
    """Return the watch of a recording; None for all processes of a host but one, and if the machine is not watched.

    `path`: the file of the recording. `rank`: that of this process. `add`: records a mark. `warn`: prints a problem; a
    training goes on without a sampler. `starts`: start a sampler if none is running.
    """
    began = watched_since()
    if not (starts or began) or not is_first_of_host(rank):
        return None
    if began is not None:
        return MachineWatch(add, began, None)
    try:
        sampler = SamplerProcess(sidecar_of(path))
    except OSError as error:
        warn(f"{path}: the machine is not watched: {error.strerror or error}")
        return None
    if not sampler.is_ready:
        sampler.end()
        warn(f"{path}: the machine is not watched: the sampler did not start, or {sidecar_of(path)} cannot be written")
        return None
    return MachineWatch(add, sampler.began, sampler)


def is_first_of_host(rank: int | None) -> bool:
    """Return whether this process is the first of its host, as the variables of its launcher say; or else, of rank 0.

    The variables count only if they have the rank of this process: a process that a rank starts inherits them.
    """
    for place, whole in _PLACES:
        local, known = os.environ.get(place, ""), os.environ.get(whole, "")
        if local.isdecimal() and (rank is None or not known or known == str(rank)):
            return int(local) == 0
    return rank in (None, 0)
