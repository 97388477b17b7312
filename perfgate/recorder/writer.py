"""Values on their way to the file: kept in memory for a second at most, then appended in one write."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter_ns
from typing import NoReturn

from perfgate.recorder.cuda import CudaClock
from perfgate.recorder.errors import RecorderError, RecorderWarning
from perfgate.recorder.form import Column, Entry, pieces
from perfgate.recorder.journal import Journal

#: How often is written, and how long a full disk is left alone, in nanoseconds.
_WRITE_EVERY, _TRY_AGAIN_AFTER = 1_000_000_000, 10_000_000_000
#: More values than these do not wait for room on the disk.
_MOST_WAITING = 200_000

#: The writers of this process whose files are open.
_open: set[Writer] = set()
#: Every file that this process has recorded.
_recorded: set[str] = set()


class Writer:
    """The values of one recording, and its file. Several threads may add to it; the first that is late writes."""

    def __init__(self, path: str, head: Mapping[str, object]) -> None:
        if os.path.realpath(path) in _recorded and os.path.exists(path):
            message = "this process has recorded that file before: give each recording a file of its own, or remove it"
            raise RecorderError(f"{path}: {message}")
        self.path = path
        #: The number of the current step.
        self.step = 0
        #: What is not yet written, and when to write it (perf_counter_ns).
        self.pending: list[Entry] = []
        self.due = perf_counter_ns() + _WRITE_EVERY
        self._cuda = CudaClock()
        self._lost = 0
        self._warned = False
        self._writing = threading.RLock()  # a signal handler may close in the middle of a write
        self._journal = Journal(path)
        self._start(head)

    def _start(self, head: Mapping[str, object]) -> None:
        try:
            self._journal.append([head])
        except OSError as error:
            self._journal.release()
            raise RecorderError(f"{self.path}: cannot record there: {error.strerror or error}") from None
        _recorded.add(os.path.realpath(self.path))
        _open.add(self)

    # --- while the program runs ------------------------------------------------------------------------------------

    def add(self, column: Column, number: float, now: int, step: int | None = None) -> None:
        """The next value of a series, at `now` (perf_counter_ns), in the current step unless one is given."""
        self.pending.append((column, self.step if step is None else step, number))
        if now >= self.due:
            self.write(now)

    def cuda_event(self) -> object:
        """A mark in the current CUDA stream."""
        return self._cuda.now()

    def add_cuda(self, column: Column, began: object) -> None:
        """A span on the GPU that ends in the stream here."""
        self.check_open()
        self._cuda.add(column, self.step, began, self._cuda.now())
        self.look(perf_counter_ns())

    def look(self, now: int) -> None:
        """Write if it is time to."""
        if now >= self.due:
            self.write(now)

    def write(self, now: int) -> None:
        """Append what is waiting to the file; if that fails, it waits on. Raises RecorderError after the end."""
        self.check_open()
        if not self._writing.acquire(blocking=False):
            return  # another thread is at it
        try:
            self.due = now + _WRITE_EVERY
            self._fetch(wait=False)
            self._append()
        finally:
            self._writing.release()

    def _append(self) -> None:
        taken = self.pending[:]  # others may add to the list meanwhile
        try:
            if taken:
                self._journal.append(pieces(taken))
            del self.pending[: len(taken)]
        except OSError as error:
            self.due += _TRY_AGAIN_AFTER
            self._lost += max(0, len(self.pending) - _MOST_WAITING)
            del self.pending[_MOST_WAITING:]
            self._warn_once(f"cannot be written, its values wait in memory: {error.strerror or error}")

    def _fetch(self, *, wait: bool) -> None:
        try:
            self._cuda.fetch(self.pending, wait=wait)
        except RuntimeError as error:
            lost = self._cuda.forget()
            self._lost += lost
            self._warn_once(f"{lost} spans on the GPU are lost, for CUDA failed: {error}")

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warn(f"{self.path}: {message}")

    # --- the end ---------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether values can be added."""
        return self in _open

    def finish(self, facts: Mapping[str, object]) -> None:
        """Wait for the GPU's spans, write the rest and these facts, and close the file as a results document."""
        left = self._drain("is closed", facts, wait=True)
        if left:
            self._journal.release()
            warn(f"{self.path}: {left} values could not be written: the recording is not complete")
            return
        try:
            self._journal.finish()
        except OSError as error:
            warn(f"{self.path}: stays a recording in lines, which perfgate reads: {error.strerror or error}")

    def abort(self) -> None:
        """Write the rest, and leave the file unclosed; the GPU is not waited for, for it may be what has failed."""
        if self.is_open:
            self._drain("was aborted", {}, wait=False)
            self._journal.release()

    def _drain(self, why: str, facts: Mapping[str, object], *, wait: bool) -> int:
        """Write what is waiting and accept nothing more; returns how many values are lost."""
        with self._writing:
            self._fetch(wait=wait)
            self._append()
            left = len(self.pending) + self._lost
            with suppress(OSError):
                self._journal.append([{"environment": facts}] if facts else [])
            self._end(f"the recording {self.path} {why}: make another Recorder")
        return left

    def _end(self, why: str) -> None:
        self.pending = _Ended(why)
        self.due = 0
        _open.discard(self)

    def check_open(self) -> None:
        """Raises RecorderError after the end."""
        if isinstance(self.pending, _Ended):
            self.pending.refuse()

    def in_child(self) -> None:
        """What a fork leaves of the writer in the child: the file and the values are the parent's."""
        self._end(f"{self.path} is recorded by the parent process: make a Recorder of its own in the forked one")
        self._journal.release()


class _Ended(list[Entry]):
    """Where values go after the end: nowhere, and the caller is told."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def append(self, entry: Entry) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        raise RecorderError(self._why)


def warn(message: str) -> None:
    """A warning at the line of the program that called the recorder."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("perfgate."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RecorderWarning, stacklevel=level)


def _abort_all() -> None:
    for writer in [*_open]:
        writer.abort()


def _forget_all() -> None:
    for writer in [*_open]:
        writer.in_child()


atexit.register(_abort_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
