"""Large stored runs: only the series that rules name are kept, and the others are read again when they are used.

An older perfgate stored every sample, so a run may have several megabytes. A check makes a short copy of the file,
without the samples of series that no rule names, and decodes this copy. The samples of such a series are decoded from
the file when they are first used: to find the causes of a failure, or a change that no rule watches.

    LargeRuns.run -> Run with an _UnreadSeries for each such series -> _Later -> LargeRuns.numbers -> _Numbers
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.files import STORED_RUN, BaselineFile, RunHead, StoredSeries
from perfgate.baselines.levels import RunBytes
from perfgate.core import Key, Run, Series
from perfgate.core.runs import Steps, Values

#: A run that was read again this often is decoded as a whole and kept: a caller reads several runs by turns.
_WHOLE_FROM = 4
_NO_VALUES = msgspec.Raw(b"[]")
_NO_STEPS = msgspec.Raw(b"null")


class _RawSeries(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A series of a file whose numbers are not decoded."""

    metric: str
    unit: str
    kind: str
    labels: dict[str, str] = {}
    values: msgspec.Raw = _NO_VALUES
    steps: msgspec.Raw = _NO_STEPS
    aggregate: dict[str, float] = {}
    thinned_from: int | None = None

    @property
    def key(self) -> Key:
        return Key(self.metric, tuple(sorted(self.labels.items())))

    def decoded(self) -> StoredSeries:
        """Return the series with its numbers. Raises MsgspecError."""
        values = msgspec.json.decode(self.values, type=list[float])
        steps = msgspec.json.decode(self.steps, type=list[int] | None)
        rest = self.aggregate, self.thinned_from
        return StoredSeries(self.metric, self.unit, self.kind, self.labels, values, steps, *rest)


class _RawRun(RunHead, frozen=True, forbid_unknown_fields=True):
    """A stored run whose numbers are not decoded."""

    series: list[_RawSeries]
    content_sha256: str = ""
    summaries: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    call_tree: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class LargeRuns:
    """The large stored runs of one environment. `is_named` is True for a series that a rule names.

    Of the runs that were read again, the last one, and those that are used often, stay in memory.
    """

    def __init__(self, is_named: Callable[[Key], bool]) -> None:
        self._is_named = is_named
        #: By path: the runs that stay in memory, and how often each run was read again.
        self._open: dict[str, _Numbers] = {}
        self._times: Counter[str] = Counter()

    def shortened(self, data: bytes) -> bytes | None:
        """Return a stored run without the samples that no rule names; None if the file is damaged or unusual.

        `content_sha256` of the shorter run is still the hash of the whole one.
        """
        rows = STORED_RUN.outline(data, _RawRun)
        if rows is None:
            return None
        series = [
            row
            if row.kind != "samples" or self._is_named(row.key)
            else replace(row, values=_NO_VALUES, steps=_NO_STEPS)
            for row in rows.series
        ]
        return msgspec.json.encode(replace(rows, series=series))

    def run(self, source: RunBytes, short: bytes | None) -> Run:
        """Return a run as the judge sees it. `short` is its shortened file; if None, the file is read again.

        Raises Refused, also if the series that rules name are unsound.
        """
        with suppress(msgspec.MsgspecError):
            short = short or self.shortened(source.read()) or b""  # b"" cannot be decoded
            file = msgspec.json.decode(short, type=BaselineFile)
            if file.fault() is None:
                run = file.run(source.path)
                head = replace(file, series=[], summaries=msgspec.UNSET, call_tree=msgspec.UNSET)
                series = list(run.series)
                for at, one in enumerate(series):
                    if one.kind == "samples" and not len(one.values):
                        later: Any = _Later(self, source, head, one.key)
                        unread = one.key, one.unit, one.kind, later, later
                        series[at] = _UnreadSeries(*unread, thinned_from=one.thinned_from)
                return replace(run, series=tuple(series))
        return source.file().run(source.path)  # something is wrong: raises the usual message

    def numbers(self, source: RunBytes, head: BaselineFile) -> _Numbers:
        """Return the numbers of a run, whose file without series is `head`. Raises Refused."""
        path = source.path
        if path not in self._open:
            self._times[path] += 1
            self._open = {name: kept for name, kept in self._open.items() if self._times[name] >= _WHOLE_FROM}
            self._open[path] = _Numbers(source, head)
            if self._times[path] >= _WHOLE_FROM:
                self._open[path].decode_all()
        return self._open[path]


class _Numbers:
    """The series of one large run, each decoded when it is first used. `head` is the run without series."""

    def __init__(self, source: RunBytes, head: BaselineFile) -> None:
        self._source = source
        self._head = head
        self._rows = {row.key: row for row in msgspec.json.decode(source.read(), type=_RawRun).series}
        self._known: dict[Key, Series] = {}

    def series(self, key: Key) -> Series:
        """Return a series with its numbers. Raises Refused if they are unsound."""
        if key not in self._known:
            with suppress(msgspec.MsgspecError):
                alone = replace(self._head, series=[self._rows[key].decoded()])
                if alone.fault() is None:
                    self._known[key] = alone.run("").series[0]
            if key not in self._known:
                whole = self._source.file().run("")  # raises the usual message
                self._known[key] = next(one for one in whole.series if one.key == key)
            del self._rows[key]
        return self._known[key]

    def decode_all(self) -> None:
        """Decode every series, which also frees the bytes of the file. Raises Refused."""
        for key in list(self._rows):
            self.series(key)


class _Later(Struct, frozen=True):
    """The numbers of one series that are not decoded yet."""

    runs: LargeRuns
    source: RunBytes
    head: BaselineFile
    key: Key

    def series(self) -> Series:
        """Return the series with its numbers. Raises Refused."""
        return self.runs.numbers(self.source, self.head).series(self.key)


class _UnreadSeries(Series, frozen=True):
    """A series with `_Later` in place of its numbers, which are decoded when they are used. Raises Refused."""

    @property  # type: ignore[misc]
    def values(self) -> Values:
        found: Any = super().values
        return found.series().values if isinstance(found, _Later) else found

    @property  # type: ignore[misc]
    def steps(self) -> Steps | None:
        found: Any = super().steps
        return found.series().steps if isinstance(found, _Later) else found
