"""The common part of the framework callbacks: they own a recording, and time spans from one hook to another.

A hook never raises and never stops a training. Without an open recording, the callback has an idle recorder, so a
framework may call the hooks in any order, and calls of the user's own still work. A problem is one warning; the
recording, if there is one, says that it is incomplete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from perfgate.integrations.measures import COMPILE_TIME, IdleRecorder, compile_seconds, record_peak_memory
from perfgate.recorder import RecorderError
from perfgate.recorder.journal import add_reason
from perfgate.recorder.process import path_of_rank
from perfgate.recorder.recorded_series import check_facts
from perfgate.recorder.recorder import STEP_TIME, Recorder
from perfgate.recorder.spans import TimedSpan
from perfgate.recorder.writer import forget, warn_safely

if TYPE_CHECKING:
    from perfgate.core.runs import Fact

#: The wait for the next batch.
DATA_TIME = "data_time"
CHECKPOINT_TIME = "checkpoint_time"
EVALUATION_TIME = "evaluation_time"
#: The fields that pickling leaves out: a copy in another process has no recording.
_OF_THIS_PROCESS = ("_open_recorder", "_idle", "_process", "_begun", "_on_gpu", "_with_loading", "_compiled")


class RecordingCallback:
    """A callback that opens a recording when a training begins; the parameters are those of `perfgate.Recorder`.

    It never raises while training; a problem is one RecorderWarning. After an exception the recording stays unclosed,
    and reading warns; another training then replaces it. One callback records one training: a later one is not
    recorded, and the recording says so. A training that is resumed is recorded from its step on, and the recording says
    so. A copy in another process has its own recording. `recorder` is for your own spans and values, and drops them
    outside a recorded training.

    Raises ValueError for an invalid fact or commit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        environment: Mapping[str, Fact] | None = None,
        commit: str | None = None,
        counters: bool = False,
        machine: bool = False,
        work: bool = False,
    ) -> None:
        self._path, self._counters, self._machine, self._work = os.fspath(path), counters, machine, work
        self._environment, self._commit = dict(environment or {}), commit
        check_facts(self._environment, commit)
        self._start_idle()

    def _start_idle(self) -> None:
        self._idle = IdleRecorder()
        self._open_recorder: Recorder | None = None
        #: The process that the open recorder belongs to.
        self._process = os.getpid()
        #: The open spans by metric, and the metrics whose spans are timed on the GPU.
        self._begun: dict[str, TimedSpan] = {}
        self._on_gpu: Collection[str] = ()
        #: The span of the current step that began with the loading of its data.
        self._with_loading: TimedSpan | None = None
        #: The time of torch.compile so far, in s.
        self._compiled = 0.0
        self._has_warned = False
        #: Whether the last training was not recorded, because an earlier one was.
        self._is_refused = False

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the recording, which stays with this process."""
        return {name: part for name, part in self.__dict__.items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._start_idle()
        self.__dict__.update(state)

    @property
    def recorder(self) -> Recorder:
        """The recorder for spans and values of the user's own; outside a recorded training it drops them."""
        recorder = self._open_recorder
        return recorder if recorder is not None and self._process == os.getpid() else self._idle

    def _open(self, rank: int, world_size: int, on_gpu: Collection[str]) -> None:
        """Open the recording of this rank; the spans of `on_gpu` are timed on the GPU.

        A recording that is still open belongs to a training that has failed, so it is replaced.
        """
        self._abort()
        try:
            self._open_recorder = Recorder(
                self._path,
                rank=rank,
                world_size=world_size,
                environment=self._environment,
                commit=self._commit,
                counters=self._counters,
                machine=self._machine,
                goodput=True,
                work=self._work,
            )
        except RecorderError as error:
            if not self._is_refused:
                self._is_refused, self._has_warned = True, False  # warn, even after a warning about the first one
                with suppress(OSError):  # it may be unwritable; a file of something else stays as it is
                    label = None if world_size == 1 else str(rank)
                    add_reason(path_of_rank(self._path, label), "a later training of the same program is not recorded")
            self._say(f"this training is not recorded: {error}")
            return
        self._process, self._on_gpu = os.getpid(), on_gpu
        self._has_warned = self._is_refused = False

    def _begin_at(self, step: int) -> None:
        """Begin at a step; a later one than the first is a training that was resumed."""
        if self._open_recorder is None:
            return
        self.recorder.step(step)
        self.recorder.end_start()
        self._pass_over_compilation()
        if step:
            reason = f"the training began at step {step}, so earlier steps are missing"
            self.recorder.mark_incomplete(reason)
            self._say(f"{self.recorder.path}: the recording is incomplete: {reason}")

    def _close(self) -> None:
        """Close the recording; the training has ended."""
        if self._open_recorder is not None and self._process == os.getpid():
            recorder, self._open_recorder = self._open_recorder, None
            record_peak_memory(recorder)
            recorder.close()

    def _abort(self) -> None:
        """Leave the recording unclosed; the training has failed, and the next one may record the same file."""
        self._begun.clear()
        self._with_loading = None
        if self._open_recorder is not None and self._process == os.getpid():
            recorder, self._open_recorder = self._open_recorder, None
            recorder.abort()
            forget(recorder.path)

    def _give_up(self, error: Exception) -> None:
        """Stop recording after an error of the recorder itself; the training continues."""
        what = f"{type(error).__name__}: {error}"
        if (recorder := self._open_recorder) is None:
            self._say(f"{self._path}: the training continues, but its recording has failed: {what}")
            return
        with suppress(Exception):
            recorder.mark_incomplete(f"the recording ended at step {recorder.current_step}: {what}")
        with suppress(Exception):
            self._abort()
        self._open_recorder = None
        self._say(f"{recorder.path}: the training continues, but its recording has ended: {what}")

    def _say(self, message: str) -> None:
        """Warn once."""
        if not self._has_warned:
            self._has_warned = True
            warn_safely(message)

    def _begin_step(self, *metrics: str) -> None:
        """End the loading of data, and begin the step and these metrics."""
        loading = self._begun.get(DATA_TIME)
        # A checkpoint's span begins after each step in transformers. If it has not ended, nothing was saved.
        self._change(drop=(CHECKPOINT_TIME,), end=(DATA_TIME,), begin=(STEP_TIME, *metrics))
        self._with_loading = loading or self._begun[STEP_TIME]  # `elapsed` counts from the start of an ended span, too

    def _pass_over_compilation(self) -> None:
        """Leave out the time of torch.compile so far: it was not in a step."""
        self._compiled = compile_seconds()

    def _record_compilation(self) -> None:
        """Record the time of torch.compile in the step that ends, if it compiled anything."""
        before = self._compiled
        self._pass_over_compilation()
        if self._compiled > before:
            self.recorder.record(COMPILE_TIME, self._compiled - before, unit="s")

    def _elapsed(self) -> int:
        """Return the nanoseconds of the step that ends, with the loading of its data; 0 if it has not begun."""
        span, self._with_loading = self._with_loading, None
        return span.elapsed() if span else 0

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
        recorder = self._open_recorder or self._idle
        if restart:
            begin = (*begin, *(metric for metric in restart if metric in self._begun))
        for metric in begin:
            make = recorder.cuda_span if metric in self._on_gpu else recorder.span
            self._begun[metric] = make(metric).start()


def guarded(method: Callable[..., None]) -> Callable[..., None]:
    """Make a method a hook that never raises, and does nothing without a recording in this process."""
    attempt = opening(method)

    @wraps(method)
    def guard(self: RecordingCallback, *args: object, **kwargs: object) -> None:
        if self._open_recorder is not None and self._process == os.getpid():
            attempt(self, *args, **kwargs)

    return guard


def opening(method: Callable[..., None]) -> Callable[..., None]:
    """Make a method a hook that never raises: its errors end the recording."""

    @wraps(method)
    def attempt(self: RecordingCallback, *args: object, **kwargs: object) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self._give_up(error)

    return attempt


def hook(
    *, drop: Sequence[str] = (), end: Sequence[str] = (), begin: Sequence[str] = (), restart: Sequence[str] = ()
) -> Callable[..., None]:
    """Return a method for a framework's hook that changes the open spans, as `RecordingCallback._change` does."""

    def change(self: RecordingCallback, *_: object, **__: object) -> None:
        self._change(drop, end, begin, restart)

    return guarded(change)
