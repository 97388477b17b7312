"""A recorder without a file: a callback has one while its training is not recorded, so its user's calls still work."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from perfgate.recorder.profiled_work import LoopWork
from perfgate.recorder.recorded_series import Entry, RecordedSeries, SeriesTable
from perfgate.recorder.recorder import Recorder
from perfgate.recorder.turns import Turns
from perfgate.recorder.writer import Writer


class IdleRecorder(Recorder):
    """Checks what it is given as a Recorder does, and keeps nothing. It is never closed and never refuses a value."""

    def __init__(self) -> None:
        self.rank = self.world_size = None
        self.path = os.devnull
        self._given, self._written = {}, {}
        self._series = SeriesTable({})
        self._times = self._series.times
        self._doubted = set()
        self._writer = _IdleWriter()
        self._turns = Turns(None, None, join=False)
        self._counters = None
        self._watch = None
        self._work = LoopWork(self._writer, is_wanted=False)
        self._began = None


class _IdleWriter(Writer):
    """A writer that drops everything."""

    def __init__(self) -> None:
        self.path = os.devnull
        self.step = 0
        self.pending = _Nothing()
        self.due = sys.maxsize

    def add(self, series: RecordedSeries, number: float, step: int | None = None) -> None:
        """Drop a value."""

    def cuda_event(self) -> object:
        """Return nothing: no time is measured."""
        return None

    def add_cuda(self, series: RecordedSeries, began: object) -> None:
        """Drop a span."""

    def mark_incomplete(self, reason: str) -> None:
        """Drop a reason."""

    def write(self, now: int) -> None:
        """Do nothing."""

    def finish(self, facts: Mapping[str, object]) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def check_open(self) -> None:
        """Accept everything."""


class _Nothing(list[Entry]):
    def append(self, entry: Entry) -> None:
        """Drop it."""
