"""The exact work of a few steps: profiled with torch.profiler, and read in a process of its own.

The reader of traces needs numpy and memory, which a training is not given: `perfgate.commands.work_of_trace` reads the
trace, and prints the counts `work.*` of each step and the call tree. The trace is deleted. Whatever goes wrong is
NotProfiled: a training goes on, with one warning.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

from perfgate.core.wording import show_labels
from perfgate.recorder import RecorderError
from perfgate.recorder.process import perfgate_module
from perfgate.recorder.turns import wait_for_gpu
from perfgate.recorder.writer import Writer, warn_safely

#: The steps of a loop before the profiler starts, and those that are kept; the first profiled step is slow and dropped.
WARM_UP, KEPT = 5, 3
#: A loop has to have at least this many steps.
LEAST_STEPS = WARM_UP + 1 + KEPT
#: Values are kept again from this step on: a callback records some values of a step in the next one.
_LAST = LEAST_STEPS + 2
#: `work_of` calls its function so often before it profiles.
_WARM_UP_CALLS = 2
#: The longest time that reading a trace may take, in s.
_PATIENCE_S = 600.0

#: The profilers of this module: they are not those of the program, which may keep them a while.
_own: WeakSet[Any] = WeakSet()


class NotProfiled(Exception):
    """The reason why there is no work."""


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
    call_tree: str
    #: The time that profiling and reading took in s, with the steps, and by how many bytes the process grew meanwhile.
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
        for one in self.series:
            if (one["unit"] == "s") == is_time:
                name = one["metric"] + show_labels(tuple(one["labels"].items()))
                yield name, sum(one["values"]) / len(one["values"])


class Profile:
    """A running torch.profiler, with marks around steps as the reader of traces knows them. Raises NotProfiled."""

    @_explained()
    def __init__(self) -> None:
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "profiler"):
            raise NotProfiled("the program has not imported torch")
        if torch.autograd._profiler_enabled() or _others(torch):
            raise NotProfiled("the program has a torch.profiler of its own")
        self._torch = torch
        self._mark: Any = None
        #: The time until the profile was stopped, in s.
        self.seconds = 0.0
        self._uses_gpu = bool(torch.cuda.is_initialized())
        self._began, self._memory = perf_counter_ns(), _resident()
        kinds = torch.profiler.ProfilerActivity
        wait_for_gpu()
        self._profiler: Any = torch.profiler.profile(
            activities=[kinds.CPU, kinds.CUDA] if self._uses_gpu else [kinds.CPU],
            record_shapes=True,  # for work.flops
            profile_memory=True,  # for work.allocations on a CPU
        )
        _own.add(self._profiler)
        self._profiler.start()

    def step(self, number: int) -> None:
        """Begin a step, which ends the one before."""
        self._end_step()
        self._mark = self._torch.profiler.record_function(f"ProfilerStep#{number}")
        self._mark.__enter__()

    def _end_step(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    @_explained()
    def stop(self) -> None:
        """End the last step and the profile.

        If the program has begun to profile meanwhile, that has replaced this profile, so nothing may be stopped.
        """
        profiler, self._profiler = self._profiler, None
        self._end_step()
        wait_for_gpu()
        if not self._torch.autograd._profiler_enabled() or _others(self._torch):
            raise NotProfiled("the program has begun to profile meanwhile")
        profiler.stop()
        self._profiler = profiler
        self.seconds = (perf_counter_ns() - self._began) / 1e9
        self._memory = max(0, _resident() - self._memory)

    @_explained()
    def read(self, rank: str) -> StepWork:
        """Return the work of the steps, of this rank."""
        began = perf_counter_ns()
        profiler, self._profiler = self._profiler, None
        with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
            trace = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(trace)
            found = _read(trace, rank)
        if self._uses_gpu and all(one["metric"] != "work.device_time" for one in found["series"]):
            raise NotProfiled("the trace has no kernels: another tool, such as nsys or ncu, may profile this GPU")
        seconds = self.seconds + (perf_counter_ns() - began) / 1e9
        return StepWork(found["series"], found["call_tree"], seconds, self._memory)


class LoopWork:
    """Profiles some steps of a recorded loop. It never raises: what goes wrong is one warning.

    Neither the profiled steps nor the one after them are measured: the processes of a job go on at different times.

    Parameters
    ----------
    writer : of the recording.
    is_wanted : False in a recording without work.
    """

    def __init__(self, writer: Writer, *, is_wanted: bool) -> None:
        self._writer, self._steps = writer, 0 if is_wanted else _LAST
        self._profile: Profile | None = None
        self._is_over = not is_wanted

    def step(self, number: int) -> None:
        """Tell that a step begins. Every step of the loop runs this."""
        if self._steps == _LAST:
            return
        self._steps += 1
        if WARM_UP <= self._steps <= LEAST_STEPS and not self._is_over:
            self._attempt(self._profile_step, number)
        elif self._steps == _LAST:
            self._measure()

    def _profile_step(self, number: int) -> None:
        if self._profile is None:
            self._profile = Profile()
        elif self._steps < LEAST_STEPS:
            self._profile.step(number)
        else:
            self._is_over = True
            self._profile.stop()
        self._writer.unmeasured.add(number)

    def end(self, add: Callable[[StepWork], None], rank: str) -> None:
        """Read the profile, and add its work to the recording."""
        self._attempt(self._end, add, rank)
        self._measure()

    def _end(self, add: Callable[[StepWork], None], rank: str) -> None:
        profile, self._profile = self._profile, None
        if profile is not None and self._is_over:
            work = profile.read(rank)
            self._measure()
            add(work)
        elif not self._is_over:
            self._stop(profile)
            raise NotProfiled(f"the loop has fewer than {LEAST_STEPS} steps")

    @property
    def nanoseconds(self) -> int:
        """The time that the program has lost so far: it is not part of the run."""
        return round(1e9 * self._profile.seconds) if self._profile is not None and self._is_over else 0

    def abandon(self) -> None:
        """Stop without reading."""
        profile, self._profile = self._profile, None
        self._stop(None if self._is_over else profile)

    def _stop(self, profile: Profile | None) -> None:
        self._is_over = True
        if profile is not None:
            with suppress(NotProfiled):
                profile.stop()

    def _measure(self) -> None:
        """Measure from now on; what waits of the steps that are not measured is dropped."""
        if self._writer.unmeasured:
            self._writer.drop_unmeasured()
            self._writer.unmeasured.clear()

    def _attempt(self, part: Callable[..., None], *arguments: object) -> None:
        try:
            part(*arguments)
        except Exception as error:
            self._is_over, self._profile = True, None
            message = f"the work of a step is not recorded: {error}"
            with suppress(RecorderError):
                self._writer.mark_incomplete(message)
            warn_safely(f"{self._writer.path}: {message}")


def work_of(step: Callable[[], object], n: int = 3) -> StepWork:
    """Return the exact work of a function, from n profiled calls after three others.

    Raises RecorderError if it cannot be profiled: torch is not imported, or another profiler runs. Raises what the
    function raises.
    """
    if n < 1:
        raise ValueError(f"n is {n}: profile at least one call")
    for _ in range(_WARM_UP_CALLS):
        step()
    try:
        profile = Profile()
        try:
            step()
            for number in range(n):
                profile.step(number)
                step()
        except BaseException:
            with suppress(NotProfiled):
                profile.stop()
            raise
        profile.stop()
        return profile.read("")
    except NotProfiled as error:
        raise RecorderError(f"the work is not known: {error}") from None


def _others(torch: Any) -> bool:
    """Return whether the program has a profiler: a waiting one may start in any step, and there can be only one."""
    kinds = torch.profiler.profile, torch.autograd.profiler.profile
    own = {id(each) for one in [*_own] for each in (one, one.profiler)}
    return any(issubclass(type(one), kinds) and id(one) not in own for one in gc.get_objects())


def _resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _read(trace: str, rank: str) -> dict[str, Any]:
    """Return the series and the call tree of a trace."""
    command, environment = perfgate_module("perfgate.commands.work_of_trace", trace, rank)
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotProfiled(f"its trace cannot be read: {last or f'exit {done.returncode}'}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
