"""The rows of a long file by month: most of them wait in a temporary file, so that memory holds one month."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.core.remembered_runs import HistoryValue
from perfgate.history.imports.imported_runs import AboutRun, ImportedRun, values_by_run
from perfgate.large_values.array import Spool
from perfgate.workspace.input_files import open_scratch

#: The run of a number, the number, and the id of the run, which is empty if perfgate did not export it.
Row: TypeAlias = tuple[AboutRun, HistoryValue, str]
#: The rows that may be in memory while a file is read.
_MOST_ROWS = 1 << 14


class WaitingRows:
    """Rows in any order; iteration gives their runs in the order of time, as often as wanted."""

    def __init__(self) -> None:
        #: The number of runs of each branch; rows of one time, commit, branch and host count as one run.
        self.refs: Counter[str | None] = Counter()
        self._known: set[int] = set()
        self._rows: dict[str, list[Row]] = {}
        self._count = 0
        #: The rows that wait, and where those of a month are.
        self._waiting: Spool | None = None
        self._places: dict[str, list[tuple[int, int]]] = {}
        #: The month of each id; ids that several months have are not used.
        self._months: dict[str, str] = {}
        self._unclear: set[str] = set()

    def add(self, about: AboutRun, value: HistoryValue, run: str) -> None:
        """Add a row."""
        month, mark = about.time[:7], hash(about)
        if mark not in self._known:
            self._known.add(mark)
            self.refs[about.ref] += 1
        if run and self._months.setdefault(run, month) != month:
            self._unclear.add(run)
        self._rows.setdefault(month, []).append((about, value, run))
        self._count += 1
        if self._count == _MOST_ROWS:
            self._put_away()

    def __iter__(self) -> Iterator[ImportedRun]:
        for month in sorted({*self._rows, *self._places}):
            yield from self._runs_of(month)

    def _runs_of(self, month: str) -> list[ImportedRun]:
        own: dict[str, list[tuple[AboutRun, HistoryValue]]] = {"": []}
        abouts: dict[AboutRun, AboutRun] = {}
        for rows in (*(self._stored(*place) for place in self._places.get(month, ())), self._rows.get(month, [])):
            for about, value, run in rows:
                own.setdefault(run, []).append((abouts.setdefault(about, about), value))
        found = [*values_by_run(own.pop(""))]
        for run, values in own.items():
            several = values_by_run(values)
            is_id = len(several) == 1 and run not in self._unclear
            found += [replace(one, id=run) if is_id else one for one in several]
        return sorted(found, key=lambda one: one.time)

    def _put_away(self) -> None:
        self._waiting = self._waiting or Spool(np.uint8, open_scratch)
        for month, rows in self._rows.items():
            start = self._waiting.size
            self._waiting.add(np.frombuffer(pickle.dumps(rows), np.uint8))
            self._places.setdefault(month, []).append((start, self._waiting.size))
        self._rows, self._count = {}, 0

    def _stored(self, start: int, stop: int) -> list[Row]:
        assert self._waiting is not None
        found: list[Row] = pickle.loads(self._waiting.read(start, stop).data)  # this process wrote them
        return found
