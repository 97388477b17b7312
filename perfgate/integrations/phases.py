"""Spans that begin in one callback of a framework and end in another."""

from __future__ import annotations

from collections.abc import Collection

from perfgate.recorder.recorder import Recorder
from perfgate.recorder.spans import Span


class Phases:
    """The spans of a recording that have begun, one of a metric at a time; those `on_gpu` are timed there."""

    def __init__(self, recorder: Recorder, on_gpu: Collection[str] = ()) -> None:
        self._recorder = recorder
        self._on_gpu = on_gpu
        self._begun: dict[str, Span] = {}

    def begin(self, metric: str) -> None:
        """Begin, or begin anew."""
        make = self._recorder.cuda_span if metric in self._on_gpu else self._recorder.span
        self._begun[metric] = make(metric).start()

    def end(self, metric: str) -> None:
        """End and record; nothing if it has not begun, for callbacks may come without their others."""
        span = self._begun.pop(metric, None)
        if span is not None:
            span.stop()

    def begin_again(self, metric: str) -> None:
        """Leave out what has passed since it began, if it has."""
        if metric in self._begun:
            self.begin(metric)

    def drop(self, metric: str) -> None:
        """Record nothing of it."""
        self._begun.pop(metric, None)
