"""The context managers that `Recorder.span` and its variants return. They can also be started and stopped by hand."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TypeVar

from perfgate.recorder.recorded_series import RecordedSeries
from perfgate.recorder.turns import wait_for_gpu
from perfgate.recorder.writer import Writer

Timed = TypeVar("Timed", bound="TimedSpan")


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

    __enter__ = start

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.stop()


class StepSpan(TimedSpan):
    """A whole step; `boundary` begins the next one. With `takes_turns` it waits for the GPU before it ends."""

    __slots__ = ("_boundary", "_takes_turns")

    def __init__(
        self, writer: Writer, series: RecordedSeries, boundary: Callable[[], None], *, takes_turns: bool
    ) -> None:
        super().__init__(writer, series)
        self._boundary = boundary
        self._takes_turns = takes_turns

    def stop(self) -> None:
        """End now, record the time since `start`, and begin the next step."""
        if self._takes_turns:
            wait_for_gpu()
        super().stop()
        self._boundary()


class CudaSpan(TimedSpan):
    """A span of time on the GPU, between two marks in a CUDA stream."""

    __slots__ = ("_event",)

    def start(self: Timed) -> Timed:
        """Mark the beginning in the current stream."""
        self._event = self._writer.cuda.now()
        return self

    def stop(self) -> None:
        """Mark the end in the current stream. The time is recorded after the GPU has passed both marks."""
        self._writer.add_cuda(self._series, self._event)

    __enter__ = start
