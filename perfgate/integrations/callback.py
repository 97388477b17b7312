"""The common part of the framework callbacks: they own a recording, and time spans from one hook to another."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from perfgate.core.runs import Fact
from perfgate.recorder.recorder import Recorder, TimedSpan


class RecordingCallback:
    """A callback that opens a recording when a training begins; the parameters are those of `perfgate.Recorder`."""

    #: The open recording, for spans and values of the user's own.
    recorder: Recorder

    def __init__(
        self, path: str | os.PathLike[str], *, environment: Mapping[str, Fact] | None = None, commit: str | None = None
    ) -> None:
        self._recorder = partial(Recorder, path, environment=environment, commit=commit)

    def _open(self, rank: int, world_size: int, on_gpu: Collection[str]) -> None:
        """Open the recording of this rank; the spans of `on_gpu` are timed on the GPU. Raises RecorderError."""
        self.recorder = self._recorder(rank=rank, world_size=world_size)
        self._on_gpu = on_gpu
        self._begun: dict[str, TimedSpan] = {}

    def _change(
        self, drop: Sequence[str] = (), end: Sequence[str] = (), begin: Sequence[str] = (), restart: Sequence[str] = ()
    ) -> None:
        """Drop, end, begin and restart the spans of these metrics, in this order.

        Only an open span can end or restart: a framework may skip a hook.
        """
        for metric in drop:
            self._begun.pop(metric, None)
        for metric in end:
            if span := self._begun.pop(metric, None):
                span.stop()
        for metric in (*begin, *(metric for metric in restart if metric in self._begun)):
            make = self.recorder.cuda_span if metric in self._on_gpu else self.recorder.span
            self._begun[metric] = make(metric).start()


def hook(
    *, drop: Sequence[str] = (), end: Sequence[str] = (), begin: Sequence[str] = (), restart: Sequence[str] = ()
) -> Callable[..., None]:
    """Return a method for a framework's hook that changes the open spans, as `RecordingCallback._change` does."""

    def method(self: RecordingCallback, *_: object, **__: object) -> None:
        self._change(drop, end, begin, restart)

    return method
