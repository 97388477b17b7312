"""Values on their way to the file: they wait in memory for at most a second, and are appended in one write."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter_ns
from typing import Any, NoReturn

from perfgate.recorder import RecorderError, RecorderWarning
from perfgate.recorder.journal import Journal, pieces
from perfgate.recorder.recorded_series import Entry, RecordedSeries

#: The time between two writes, and the pause after a write to a full disk, in nanoseconds.
_WRITE_EVERY, _TRY_AGAIN_AFTER = 1_000_000_000, 10_000_000_000
#: The greatest number of values that wait for room on the disk.
_MOST_WAITING = 200_000
#: The writers of this process with an open file, and the real path of every file that it has recorded.
_open: set[Writer] = set()
_recorded: set[str] = set()


class Writer:
    """The values of one recording, and its file. Several threads may add values; the first after `due` writes them."""

    def __init__(self, path: str, head: Mapping[str, object]) -> None:
        if os.path.realpath(path) in _recorded and os.path.exists(path):
            raise RecorderError(f"{path}: this process has already recorded this file: use another file, or remove it")
        self.path = path
        #: The number of the current step.
        self.step = 0
        #: The values that are not written yet, and when to write them (perf_counter_ns).
        self.pending: list[Entry] = []
        self.due = perf_counter_ns() + _WRITE_EVERY
        #: Spans on the GPU: series, step and two CUDA events. Their time is known after the GPU has passed both events.
        self._on_gpu: deque[tuple[RecordedSeries, int, Any, Any]] = deque()
        self._event: Callable[..., Any] | None = None
        #: The number of values that were dropped because a full disk took none.
        self._lost = 0
        #: The numbers of steps whose values are dropped; single values are kept.
        self.unmeasured: set[int] = set()
        #: The reasons why the recording is incomplete that are not written yet.
        self._reasons: list[str] = []
        self._warned = False
        self._writing = threading.RLock()  # a signal handler may close the recorder during a write
        self._journal = Journal(path)
        try:
            self._journal.append([head])
        except OSError as error:
            self._journal.release()
            raise RecorderError(f"{path}: cannot write the recording: {error.strerror or error}") from None
        _recorded.add(os.path.realpath(path))
        _open.add(self)

    def add(self, series: RecordedSeries, number: float, step: int | None = None) -> None:
        """Add the next value of a series; the default is the current step."""
        self.pending.append((series, self.step if step is None else step, number))
        self.write_if_due()

    def cuda_event(self) -> object:
        """Return an event that marks this place in the current CUDA stream. Raises RecorderError without a GPU."""
        if self._event is None:
            torch = sys.modules.get("torch")
            if torch is None or not torch.cuda.is_available():
                raise RecorderError("cuda_span needs torch (imported) and a CUDA device: use span on the CPU")
            self._event = torch.cuda.Event
        event = self._event(enable_timing=True)
        event.record()
        return event

    def add_cuda(self, series: RecordedSeries, began: object) -> None:
        """Add a span on the GPU that ends here in the stream."""
        self.check_open()
        if self.step in self.unmeasured:
            return
        self._on_gpu.append((series, self.step, began, self.cuda_event()))
        self.write_if_due()

    def mark_incomplete(self, reason: str) -> None:
        """Write that the recording lacks something, and why, with the next values."""
        self.check_open()
        self._reasons.append(reason)

    def write_if_due(self) -> None:
        """Write if the last write is long enough ago."""
        if (now := perf_counter_ns()) >= self.due:
            self.write(now)

    def write(self, now: int) -> None:
        """Append the waiting values to the file; after a failure they wait on. Raises RecorderError if closed."""
        self.check_open()
        if not self._writing.acquire(blocking=False):
            return  # another thread writes
        try:
            self.due = now + _WRITE_EVERY
            self._append(wait=False)
        finally:
            self._writing.release()

    def _append(self, *, wait: bool) -> None:
        """Append the values and the finished spans on the GPU. With `wait`, wait until all spans have finished."""
        try:
            while self._on_gpu:
                series, step, began, ended = self._on_gpu[0]
                if not (wait or ended.query()):
                    break
                if wait:
                    ended.synchronize()
                self.pending.append((series, step, began.elapsed_time(ended) * 1e6))  # ms to ns
                self._on_gpu.popleft()
        except RuntimeError as error:  # CUDA has failed
            failed = f"CUDA failed, so {len(self._on_gpu)} spans on the GPU are lost: {error}"
            self._on_gpu.clear()
            self._reasons.append(failed)
            self._warn_once(failed)
        self.drop_unmeasured()
        taken, reasons = self.pending[:], self._reasons[:]  # other threads may append meanwhile
        try:
            if taken or reasons:
                self._journal.append([*pieces(taken), *({"incomplete": reason} for reason in reasons)])
            del self.pending[: len(taken)]
            del self._reasons[: len(reasons)]
        except OSError as error:
            self.due += _TRY_AGAIN_AFTER
            self._lost += max(0, len(self.pending) - _MOST_WAITING)
            del self.pending[_MOST_WAITING:]
            reason = error.strerror or error
            self._warn_once(f"cannot be written, so values may be missing; the program continues: {reason}")

    def drop_unmeasured(self) -> None:
        """Drop the values of unmeasured steps that wait."""
        if self.unmeasured:
            taken = self.pending[:]  # other threads may append meanwhile
            self.pending[: len(taken)] = [one for one in taken if one[0].single or one[1] not in self.unmeasured]

    def add_call_tree(self, text: str) -> None:
        """Write a call tree, as stored runs have it."""
        self.check_open()
        try:
            self._journal.append([{"call_tree": text}])
        except OSError as error:
            self._warn_once(f"the call tree cannot be written: {error.strerror or error}")

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warn(f"{self.path}: {message}")

    @property
    def is_open(self) -> bool:
        """True if values can be added."""
        return self in _open

    def finish(self, facts: Mapping[str, object]) -> None:
        """Wait for the spans on the GPU, write everything and these facts, and make the file a results document."""
        if not self._drain("is closed", facts, wait=True):
            self._journal.release()  # unclosed: readers warn
            return
        try:
            self._journal.finish()
        except (OSError, MemoryError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "too little memory"
            self._warn_once(f"could not become a results document; perfgate reads it as it is: {reason}")

    def abort(self) -> None:
        """Write everything and leave the file unclosed. Do not wait for the GPU, which may have failed."""
        if self.is_open:
            self._drain("was aborted", {}, wait=False)
            self._journal.release()

    def _drain(self, why: str, facts: Mapping[str, object], *, wait: bool) -> bool:
        """Write everything and accept no more values. Return whether everything was written."""
        with self._writing:
            if self._lost:
                self._reasons.append(f"{self._lost} values could not be written")
            self._append(wait=wait)
            is_written = not self.pending and not self._reasons
            with suppress(OSError):
                self._journal.append([{"environment": facts}] if facts else [])
            self._end(f"the recording {self.path} {why}: create another Recorder")
        return is_written

    def _end(self, why: str) -> None:
        self.pending, self.due = _Ended(why), 0  # always due: then `write` refuses, too
        _open.discard(self)

    def check_open(self) -> None:
        """Raise RecorderError if the recording has ended."""
        if isinstance(self.pending, _Ended):
            self.pending.refuse()

    def in_child(self) -> None:
        """End the writer in a forked process: the file and the values belong to the parent."""
        self._end(f"{self.path} is recorded by the parent process: create another Recorder in the forked process")
        self._journal.release()


def forget(path: str) -> None:
    """Allow this process to record a file again, after the training in the file failed."""
    _recorded.discard(os.path.realpath(path))


class _Ended(list[Entry]):
    """Replaces the list of values after the end: adding a value raises RecorderError."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def append(self, entry: Entry) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        raise RecorderError(self._why)


def warn(message: str) -> None:
    """Warn at the line of the program that called the recorder."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("perfgate."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RecorderWarning, stacklevel=level)


def warn_safely(message: str) -> None:
    """Warn. In a program that turns warnings into errors, print the message to stderr instead."""
    try:
        warn(message)
    except RecorderWarning:
        sys.stderr.write(f"perfgate: {message}\n")


def _for_all(end: Callable[[Writer], None]) -> None:
    for writer in [*_open]:
        end(writer)


atexit.register(_for_all, Writer.abort)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_for_all, Writer.in_child))
