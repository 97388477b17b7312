"""The common part of the framework callbacks: they own a recording, and time spans from one call to another."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from perfgate.recorder.recorded_series import Fact
from perfgate.recorder.recorder import Recorder
from perfgate.recorder.spans import Span


class Phases:
    """The open spans of a recording, at most one for each metric; those in `on_gpu` are timed on the GPU."""

    def __init__(self, recorder: Recorder, on_gpu: Collection[str] = ()) -> None:
        self._recorder = recorder
        self._on_gpu = on_gpu
        self._begun: dict[str, Span] = {}

    def begin(self, metric: str) -> None:
        """Begin a span, or begin it again."""
        make = self._recorder.cuda_span if metric in self._on_gpu else self._recorder.span
        self._begun[metric] = make(metric).start()

    def end(self, metric: str) -> None:
        """End and record a span. Does nothing if it is not open: a framework may skip a call."""
        span = self._begun.pop(metric, None)
        if span is not None:
            span.stop()

    def begin_again(self, metric: str) -> None:
        """Restart a span if it is open."""
        if metric in self._begun:
            self.begin(metric)

    def drop(self, metric: str) -> None:
        """End a span without recording it."""
        self._begun.pop(metric, None)


class RecordingCallback:
    """A callback that opens a recording when a training begins; the parameters are those of `perfgate.Recorder`."""

    #: The open recording, for spans and values of the user's own.
    recorder: Recorder

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        environment: Mapping[str, Fact] | None = None,
        commit: str | None = None,
    ) -> None:
        self._path = path
        self._environment = environment
        self._commit = commit

    def _open(self, rank: int, world_size: int, on_gpu: Collection[str]) -> None:
        """Open the recording of this rank. Raises RecorderError."""
        self.recorder = Recorder(
            self._path, rank=rank, world_size=world_size, environment=self._environment, commit=self._commit
        )
        self._phases = Phases(self.recorder, on_gpu)
