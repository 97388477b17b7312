"""Spans of time: on the clock of the host, on the GPU, and with the counters of the CPU beside the time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from time import perf_counter_ns
from typing import ParamSpec, TypeVar

from perfgate.recorder.counters import ProcessCounters, Reading, grown
from perfgate.recorder.process import Turns, wait_for_gpu
from perfgate.recorder.recorded_series import RecordedSeries
from perfgate.recorder.writer import Writer

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Timed = TypeVar("Timed", bound="TimedSpan")
Counted = TypeVar("Counted", bound="CountedSpan")
Step = TypeVar("Step", bound="StepSpan")
Marked = TypeVar("Marked", bound="MarkedSpan")
_RUN_LATER = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


class TimedSpan:
    """A span of time on the host's monotonic clock. If the work raises, nothing is recorded.

    Every span runs this code: `benchmarks/recorder.py` measures its cost.
    """

    __slots__ = ("_began", "_series", "_writer")

    def __init__(self, writer: Writer, series: RecordedSeries) -> None:
        self._writer = writer
        self._series = series

    def start(self: Timed) -> Timed:
        """Begin now."""
        self._began = perf_counter_ns()
        return self

    def stop(self) -> None:
        """End now, and record the time since `start`."""
        now = perf_counter_ns()
        writer = self._writer
        writer.pending.append((self._series, writer.step, now - self._began))  # Writer.add without the cost of a call
        if now >= writer.due:
            writer.write(now)

    def elapsed(self) -> int:
        """Return the nanoseconds since `start`; nothing is recorded."""
        return perf_counter_ns() - self._began

    __enter__ = start

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.stop()


class CountedSpan(TimedSpan):
    """A span with the CPU time and the counters of the process beside its time.

    The counters are read outside of the measured time. But a span around this one becomes longer by their reading.
    """

    __slots__ = ("_before", "_counted", "_counters")
    _before: tuple[int, tuple[Reading, ...]]

    def __init__(
        self, writer: Writer, series: RecordedSeries, counters: ProcessCounters, counted: Sequence[RecordedSeries]
    ) -> None:
        super().__init__(writer, series)
        self._counters, self._counted = counters, counted

    def start(self: Counted) -> Counted:
        """Begin now."""
        self._before = self._counters.read()
        self._began = perf_counter_ns()
        return self

    def stop(self) -> None:
        """End now, and record the time since `start` and what was counted."""
        now = perf_counter_ns()
        counted = grown(self._before, self._counters.read())
        writer, step = self._writer, self._writer.step
        writer.pending.append((self._series, step, now - self._began))
        for series, number in zip(self._counted, counted, strict=False):  # closed counters have no numbers
            if number is not None:
                writer.pending.append((series, step, number))
        if now >= writer.due:
            writer.write(now)

    __enter__ = start


class StepSpan(TimedSpan):
    """A whole step, measured by `span`. In a program that takes turns, its end waits for the GPU.

    `turns` are those of this process. The end of the step calls `begin_next`.
    """

    __slots__ = ("_begin_next", "_span", "_turns")

    def __init__(self, span: TimedSpan, turns: Turns, begin_next: Callable[[], None]) -> None:
        self._span, self._turns, self._begin_next = span, turns, begin_next

    def start(self: Step) -> Step:
        """Begin now."""
        self._span.start()
        return self

    def stop(self) -> None:
        """End now, record the time since `start`, and begin the next step."""
        if self._turns.are_taken:
            wait_for_gpu()
        self._span.stop()
        self._begin_next()

    def elapsed(self) -> int:
        """Return the nanoseconds since `start`; nothing is recorded."""
        return self._span.elapsed()

    __enter__ = start


class CudaSpan(TimedSpan):
    """A span of time on the GPU, between two marks in a CUDA stream."""

    __slots__ = ("_event",)

    def start(self: Timed) -> Timed:
        """Mark the beginning in the current stream."""
        self._event = self._writer.cuda_event()
        return self

    def stop(self) -> None:
        """Mark the end in the current stream. The time is recorded after the GPU has passed both marks."""
        self._writer.add_cuda(self._series, self._event)

    __enter__ = start


class MarkedSpan(TimedSpan):
    """A span that is also a range of the running profile: `mark` is the context manager of the range."""

    __slots__ = ("_mark", "_span")

    def __init__(self, span: TimedSpan, mark: AbstractContextManager[object]) -> None:
        self._span, self._mark = span, mark

    def start(self: Marked) -> Marked:
        """Begin now."""
        self._mark.__enter__()
        self._span.start()
        return self

    def stop(self) -> None:
        """End now, and record the time since `start`."""
        self.__exit__(None, None, None)

    def elapsed(self) -> int:
        """Return the nanoseconds since `start`; nothing is recorded."""
        return self._span.elapsed()

    __enter__ = start

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self._span.stop()
        self._mark.__exit__(None, None, None)


def marked(span: TimedSpan, name: str, mark: Callable[[str], AbstractContextManager[object]] | None) -> TimedSpan:
    """Return the span; if a profile runs, it becomes a range of the profile, too. `mark` makes a range, or is None."""
    return span if mark is None else MarkedSpan(span, mark(name))


def timed(span: Callable[[], TimedSpan], function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the function with a span around each call. Raises TypeError for a generator or coroutine function."""
    if any(runs_later(function) for runs_later in _RUN_LATER):
        raise TypeError(f"{function.__qualname__} runs after its call returns: use `with span(...)` inside it")

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with span():
            return function(*args, **kwargs)

    return call
