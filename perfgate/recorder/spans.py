"""What `Recorder.span` and its like return: context managers that can be started and stopped by hand, too."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from perfgate.recorder.turns import settle

if TYPE_CHECKING:
    from perfgate.recorder.form import Column
    from perfgate.recorder.writer import Writer

Timed = TypeVar("Timed", bound="Span")


class Span:
    """A span of time on the host's monotonic clock; work that raises is not recorded, for it was not done.

    This is the hot path: `benchmarks/recorder.py` says what it costs.
    """

    __slots__ = ("_began", "_column", "_writer")

    def __init__(self, writer: Writer, column: Column) -> None:
        self._writer = writer
        self._column = column

    def start(self: Timed) -> Timed:
        """Begin now."""
        self._began = perf_counter_ns()
        return self

    def stop(self) -> None:
        """End now, and record the time since `start`."""
        now = perf_counter_ns()
        writer = self._writer
        writer.pending.append((self._column, writer.step, now - self._began))  # as Writer.add, without a call
        if now >= writer.due:
            writer.write(now)

    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()


class StepSpan(Span):
    """A whole step; `boundary` ends it."""

    __slots__ = ("_boundary",)

    def __init__(self, writer: Writer, column: Column, boundary: Callable[[], None]) -> None:
        super().__init__(writer, column)
        self._boundary = boundary

    def stop(self) -> None:
        """End now, record the time since `start`, and go on to the next step."""
        super().stop()
        self._boundary()


class TurnSpan(StepSpan):
    """A step of a program that takes turns: what the GPU still does of it belongs to it, for nothing else follows."""

    __slots__ = ()

    def stop(self) -> None:
        """Wait for the GPU, then end the step."""
        settle()
        super().stop()


class CudaSpan(Span):
    """A span of time on the GPU: between what its stream does at `start` and what it does at `stop`."""

    __slots__ = ("_event",)

    def start(self: Timed) -> Timed:
        """Mark the beginning in the current stream."""
        self._event = self._writer.cuda_event()
        return self

    def stop(self) -> None:
        """Mark the end in the current stream; the time between is recorded when the GPU has passed both."""
        self._writer.add_cuda(self._column, self._event)

    __enter__ = start
