"""The exact work of a few steps, such as their numbers of operators and copies, from a profile of torch.profiler.

The reader of traces needs numpy and memory, which a training cannot spare. So `perfgate.commands.work_of_trace` reads
the trace in another process, and prints the counts `work.*` of each step and the call tree. Then the trace is deleted.
Every failure is NotProfiled: a training goes on, with one warning.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import perf_counter_ns
from typing import Any

from perfgate.core.wording import show_labels
from perfgate.recorder import RecorderError
from perfgate.recorder.process import perfgate_module, wait_for_gpu
from perfgate.recorder.writer import Writer, warn_safely

#: The steps before the profiler starts, and the profiled steps that are kept. The first profiled one is slow: dropped.
WARM_UP, KEPT = 5, 3
#: A loop must have at least this many steps.
LEAST_STEPS = WARM_UP + 1 + KEPT
#: The last call of `LoopWork.step` that counts: until it, a callback may record values of the last unmeasured step.
_LAST = LEAST_STEPS + 2
_WARM_UP_CALLS = 2  # of `work_of`, before it profiles
_PATIENCE_S = 600.0  # the longest time for reading a trace
_TRACE = "/trace.json"
_MEANWHILE = "the program has begun to profile meanwhile"


class NotProfiled(Exception):
    """The work is not known; the message is the reason."""


@contextmanager
def _explained() -> Iterator[None]:
    """Raise any error as NotProfiled."""
    try:
        yield
    except NotProfiled:
        raise
    except Exception as error:
        raise NotProfiled(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class StepWork:
    """The exact work of a few steps; `Recorder.add_work` writes it to a file."""

    #: The series `work.*` as in `perfgate.results/1`, with a value for each step.
    series: Sequence[Mapping[str, Any]]
    #: The call tree as stored runs have it; empty if it was too large.
    call_tree: str = field(repr=False)
    #: The seconds that the profiled steps and the reading took, and the bytes by which the process grew meanwhile.
    seconds: float
    memory: int

    @cached_property
    def counts(self) -> dict[str, float]:
        """The mean of each count per step, by its name: `work.ops`, `work.copies{kind="DtoH"}`."""
        return dict(self._means(is_time=False))

    @property
    def device_time(self) -> float:
        """The time of all kernels, copies and memsets of a step in s, the mean of the steps; 0 without a device."""
        return sum(mean for _, mean in self._means(is_time=True))

    def _means(self, *, is_time: bool) -> Iterator[tuple[str, float]]:
        """Yield the name and the mean per step of each time, or of each count."""
        for one in self.series:
            if (one["unit"] == "s") == is_time:
                name = one["metric"] + show_labels(tuple(one["labels"].items()))
                yield name, sum(one["values"]) / len(one["values"])


class Profile:
    """A running torch.profiler. Call `step` before each step, then `stop` and `read`, and always `remove`."""

    @_explained()
    def __init__(self) -> None:
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "profiler"):
            raise NotProfiled("the program has not imported torch")
        if torch.autograd._profiler_enabled():
            raise NotProfiled("the program is being profiled")
        self._torch = torch
        self.range: Callable[[str], AbstractContextManager[object]] = torch.profiler.record_function
        self._mark: Any = None
        self.seconds = 0.0  # from the beginning until the trace was written
        self._folder, self._process = "", os.getpid()
        self._uses_gpu = bool(torch.cuda.is_initialized())
        self._began, self._memory = perf_counter_ns(), _resident()
        kinds = torch.profiler.ProfilerActivity
        wait_for_gpu()
        self._profiler: Any = torch.profiler.profile(
            activities=[kinds.CPU, kinds.CUDA] if self._uses_gpu else [kinds.CPU],
            record_shapes=True,  # for work.flops
            profile_memory=True,  # for work.allocations on a CPU
        )
        self._profiler.start()
        self._give_way()

    def _give_way(self) -> None:
        """Make torch end this profile before the program begins one of its own: torch crashes if there are two."""
        theirs = self._torch.autograd.profiler.profile
        begin = theirs.__init__

        def first_end(profiler: object, *arguments: object, **named: object) -> None:
            self.end()
            begin(profiler, *arguments, **named)

        theirs.__init__ = first_end
        self._undo = partial(setattr, theirs, "__init__", begin)

    def end(self) -> Any:
        """Stop, and return the profiler; None if it was stopped before."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            self._undo()
            self._end_step()
            wait_for_gpu()
            profiler.stop()
        return profiler

    def step(self, number: int) -> None:
        """Begin a step, with the mark by which the reader of traces knows it; end the step before."""
        self._end_step()
        if self._profiler is None:
            raise NotProfiled(_MEANWHILE)
        self._mark = self.range(f"ProfilerStep#{number}")
        self._mark.__enter__()

    def _end_step(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    @_explained()
    def stop(self) -> None:
        """End the last step and the profile, and write the trace."""
        if (profiler := self.end()) is None:
            raise NotProfiled(_MEANWHILE)
        self._memory = max(0, _resident() - self._memory)
        self._folder = tempfile.mkdtemp(prefix="perfgate-")
        atexit.register(self.remove)
        profiler.export_chrome_trace(self._folder + _TRACE)  # not later: the events take 4 KB of memory per operator
        self.seconds = (perf_counter_ns() - self._began) / 1e9

    def remove(self) -> None:
        """End the profile if it runs, and delete the trace if there is one. Does nothing in a fork."""
        with suppress(Exception):
            self.end()
        if self._folder and os.getpid() == self._process:
            atexit.unregister(self.remove)
            shutil.rmtree(self._folder, ignore_errors=True)

    @_explained()
    def read(self, rank: str) -> StepWork:
        """Return the work of the steps, from the trace of this rank."""
        began = perf_counter_ns()
        found = _read(self._folder + _TRACE, rank)
        if self._uses_gpu and all(one["metric"] != "work.device_time" for one in found["series"]):
            raise NotProfiled("the trace has no kernels: another tool, such as nsys or ncu, may profile this GPU")
        seconds = self.seconds + (perf_counter_ns() - began) / 1e9
        return StepWork(found["series"], found["call_tree"], seconds, self._memory)


class LoopWork:
    """Profiles some steps of a recorded loop, if `is_wanted`. It never raises: a failure is one warning.

    These steps and the next one are not measured: the processes of a job end their profiles at different times.
    """

    def __init__(self, writer: Writer, *, is_wanted: bool) -> None:
        self._writer, self._steps = writer, 0 if is_wanted else _LAST
        self._profile: Profile | None = None
        self._is_over = not is_wanted  # no further step is profiled
        #: Makes a named range of the profile; None while nothing is profiled.
        self.mark: Callable[[str], AbstractContextManager[object]] | None = None

    def step(self, number: int) -> None:
        """Note that a step begins."""
        if self._steps == _LAST:
            return
        self._steps += 1  # after `step_span`, the first call begins the second step
        if WARM_UP <= self._steps <= LEAST_STEPS and not self._is_over:
            self._attempt(self._profile_step, number)
        elif self._steps == _LAST:
            self._measure()

    def _profile_step(self, number: int) -> None:
        """Begin the profile (call 5 of `step`) or a step in it (6 to 8), or end it (9); do not measure this step."""
        if self._profile is None:
            self._profile = Profile()
            self.mark = self._profile.range
        elif self._steps < LEAST_STEPS:
            self._profile.step(number)
        else:
            self._is_over, self.mark = True, None
            self._profile.stop()
        self._writer.unmeasured.add(number)

    def end(self, add: Callable[[StepWork], None], rank: str) -> None:
        """Read the profile, and add its work to the recording."""
        self._attempt(self._end, add, rank)
        self._measure()

    def _end(self, add: Callable[[StepWork], None], rank: str) -> None:
        if not self._is_over:
            raise NotProfiled(f"the loop has fewer than {LEAST_STEPS} steps")
        if self._profile is not None:
            work = self._profile.read(rank)
            self._measure()  # first: the work has the numbers of unmeasured steps, and would be dropped
            add(work)
            self.abandon()

    @property
    def nanoseconds(self) -> int:
        """The time in ns that a finished profile cost the program, else 0; it does not count as time of the run."""
        return round(1e9 * self._profile.seconds) if self._profile is not None and self._is_over else 0

    def abandon(self) -> None:
        """Stop without reading."""
        profile, self._profile = self._profile, None
        self._is_over, self.mark = True, None
        if profile is not None:
            profile.remove()

    def _measure(self) -> None:
        """Measure from now on, and drop the waiting values of unmeasured steps."""
        if self._writer.unmeasured:
            self._writer.drop_unmeasured()
            self._writer.unmeasured.clear()

    def _attempt(self, part: Callable[..., None], *arguments: object) -> None:
        """Do a part; if it fails, give up with a warning."""
        try:
            part(*arguments)
        except Exception as error:
            self.abandon()
            message = f"the work of a step is not recorded: {error}"
            with suppress(RecorderError):
                self._writer.mark_incomplete(message)
            warn_safely(f"{self._writer.path}: {message}")


def work_of(step: Callable[[], object], n: int = 3) -> StepWork:
    """Return the exact work of a function, from n profiled calls after three others.

    Raises RecorderError without torch or beside another profiler, and the errors of the function.
    """
    if n < 1:
        raise ValueError(f"n is {n}: profile at least one call")
    for _ in range(_WARM_UP_CALLS):
        step()
    try:
        profile = Profile()
        try:
            step()  # slow: without a mark, the reader ignores it
            for number in range(n):
                profile.step(number)
                step()
            profile.stop()
            return profile.read(rank="")
        finally:
            profile.remove()
    except NotProfiled as error:
        raise RecorderError(f"the work is not known: {error}") from None


def _resident() -> int:
    """Return the bytes of memory that this process has; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # proc(5): size, resident, ...
    except (OSError, ValueError, AttributeError):
        return 0


def _read(trace: str, rank: str) -> dict[str, Any]:
    """Return `series` and `call_tree` of a trace, as `perfgate.commands.work_of_trace` prints them."""
    command, environment = perfgate_module("perfgate.commands.work_of_trace", trace, rank)
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotProfiled(f"its trace cannot be read: {last or f'exit {done.returncode}'}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
