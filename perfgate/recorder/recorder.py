"""`perfgate.Recorder`: times and numbers of a running program, in the form that perfgate reads."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from time import perf_counter_ns
from types import TracebackType
from typing import NoReturn, ParamSpec, SupportsFloat, TypeVar

from perfgate.core.runs import Fact
from perfgate.recorder.columns import (
    Columns,
    Labels,
    as_number,
    can_be_measured,
    check_step,
    checked_commit,
    checked_facts,
)
from perfgate.recorder.form import RECORDING, SPAN_UNIT, Column
from perfgate.recorder.process import known_facts, path_of_rank, place_in_job
from perfgate.recorder.spans import CudaSpan, Span, StepSpan, TurnSpan
from perfgate.recorder.turns import Turns
from perfgate.recorder.writer import Writer, warn

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

#: The metric of `Recorder.step_span`.
STEP_TIME = "step.time"


class Recorder:
    """Records one process of one run into a file, which is `perfgate.results/1` once it is closed.

        with perfgate.Recorder("results.json", environment={"gpu": "NVIDIA H200"}) as rec:
            for batch in loader:
                with rec.step_span(), rec.span("forward"):
                    loss = model(batch)

    In a job of several processes each writes its own file, and every series is labelled with the rank: the name
    `run/results.json` becomes `run/results-rank3.json`, and `{rank}` in a path is filled in. `rank` and `world_size`
    are asked of torch.distributed if that is initialised, else of RANK, LOCAL_RANK and WORLD_SIZE. `environment` are
    facts about the run; world size and, where torch is imported, its version and the GPU's name are added. `commit`
    names the code that is measured.

    Until it is closed, the file holds a recording that perfgate reads with a warning: after a crash, even by SIGKILL,
    all is there but what was recorded in the last second. An exception that leaves the `with` block, or a recorder that
    nobody closes, leaves such a file. A disk without room is a warning and is tried again; the program goes on. Threads
    may share a recorder; a forked process needs its own, and a process records a file once.

    Raises RecorderError if the file cannot be had or the rank is not known, ValueError for a fact or commit that
    cannot be.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rank: int | None = None,
        world_size: int | None = None,
        environment: Mapping[str, Fact] | None = None,
        commit: str | None = None,
    ) -> None:
        self.rank, self.world_size = place_in_job(rank, world_size)
        self._given = checked_facts(environment or {})
        self._written = self._facts()
        label = None if self.rank is None or self.world_size == 1 else str(self.rank)
        self._columns = Columns({} if label is None else {"rank": label})
        self._times = self._columns.times  # looked up for every span
        self._doubted: set[Column] = set()
        #: The file of this process.
        self.path = path_of_rank(os.fspath(path), label)
        head = {"schema": RECORDING, "environment": self._written, "commit": checked_commit(commit)}
        self._writer = Writer(self.path, head)
        self._turns = Turns.joined(self.rank, self.world_size)

    def _facts(self) -> dict[str, Fact]:
        size = {} if self.world_size is None else {"world_size": self.world_size}
        return {**size, **known_facts(), **self._given}

    def span(self, metric: str, labels: Labels | None = None) -> Span:
        """Time a `with` block on the host's monotonic clock, as a value of `metric` in nanoseconds.

        What a GPU does meanwhile is not waited for: see `cuda_span`. A span can also be started and stopped by hand.
        Raises ValueError for a name that no series of times can have.
        """
        column = self._times.get(metric) if labels is None else None
        return Span(self._writer, column or self._columns.find(metric, SPAN_UNIT, labels))

    def cuda_span(self, metric: str, labels: Labels | None = None) -> Span:
        """Time on the GPU what a `with` block queues in the current CUDA stream, in nanoseconds, by two CUDA events.

        Nothing waits for the GPU before `close`. Entering raises RecorderError where torch is not imported or has no
        GPU.
        """
        return CudaSpan(self._writer, self._columns.find(metric, SPAN_UNIT, labels))

    def time(
        self, metric: str, labels: Labels | None = None
    ) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
        """Decorate a function so that each call is a span. Raises TypeError for a generator or coroutine function."""

        def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
            if any(runs_later(function) for runs_later in _RUN_LATER):
                raise TypeError(f"{function.__qualname__} runs after its call returns: use `with span(...)` inside it")

            @wraps(function)
            def timed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
                with self.span(metric, labels):
                    return function(*args, **kwargs)

            return timed

        return decorate

    def record(
        self,
        metric: str,
        value: SupportsFloat,
        *,
        unit: str,
        labels: Labels | None = None,
        step: int | None = None,
    ) -> None:
        """Record the next value of a metric, in a unit that rules know (`1` for a plain number).

        NaN, infinity and times below zero are recorded with a warning: reading refuses them, so that no rule on that
        metric passes. Raises ValueError for an unknown unit, for another unit than before, and for a name, label or
        step that cannot be; TypeError for what is no number.
        """
        if step is not None:
            check_step(step)
        self._add(self._columns.find(metric, unit, labels), value, step)

    def value(self, metric: str, value: SupportsFloat, *, unit: str, labels: Labels | None = None) -> None:
        """Record the one value that a metric has in the whole run, such as peak memory; of several the last one counts.

        Raises as `record` does.
        """
        self._add(self._columns.find(metric, unit, labels, single=True), value, None)

    def _add(self, column: Column, value: SupportsFloat, step: int | None) -> None:
        number = as_number(value)
        if not can_be_measured(column, number) and column not in self._doubted:
            self._doubted.add(column)
            warn(f"{column.metric}: {number} {column.unit} is no measurement: no rule on this metric will pass")
        self._writer.add(column, number, perf_counter_ns(), step)

    def step(self, number: int | None = None) -> None:
        """The boundary between two steps: what follows belongs to step `number`, or else to the next one.

        The first step is 0. Raises ValueError for what is no number of a step.
        """
        if number is not None:
            check_step(number)
        self._writer.step = self._writer.step + 1 if number is None else number
        self._writer.look(perf_counter_ns())
        if self._turns is not None:
            self._turns.pass_on()

    def step_span(self) -> Span:
        """Time a whole step as `step.time`; the step ends with the block."""
        column = self._times.get(STEP_TIME) or self._columns.find(STEP_TIME, SPAN_UNIT)
        if self._turns is not None:
            return TurnSpan(self._writer, column, self.step)
        return StepSpan(self._writer, column, self.step)

    def close(self) -> None:
        """Wait for the spans on the GPU, and make the file a results document; again, or in a fork, it does nothing.

        What cannot be written is a warning, and the file keeps what it has.
        """
        if self._turns is not None:
            self._turns.leave()
        if self._writer.is_open:
            if not len(self._columns):
                warn(f"{self.path}: nothing was recorded")
            facts = self._facts()
            self._writer.finish(facts if facts != self._written else {})

    def abort(self) -> None:
        """End without closing: all is kept, and readers are told that the program ended early."""
        if self._turns is not None:
            self._turns.leave()
        self._writer.abort()

    def __enter__(self) -> Recorder:
        self._writer.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
        else:
            self.abort()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Recorder cannot be sent to another process: make one there, with a file of its own")


_RUN_LATER = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
