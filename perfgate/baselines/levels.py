"""Levels: the runs of one environment, ordered by the decisions about them.

`approve` opens a level, and `add` adds runs to it. A level names its parent, the level that it replaces. A level that
no other one replaces is a head: new runs are compared with its runs. If two branches each approve, there are two heads
until an approval replaces both.

The anchor of a metric is the level from which a chain of small changes is measured: the first one, or the last one that
an approval chose for it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.baselines.files import STORED_RUN, BaselineFile, RunHead, StoredLevel
from perfgate.baselines.stores import Store
from perfgate.core import Run
from perfgate.workspace.options import Refused

#: The largest number of runs of a level that are compared with, and kept.
RUNS_KEPT = 10
#: The largest number of runs of the anchor that are compared with.
ANCHOR_RUNS = 5


class RunBytes(Struct, frozen=True):
    """The bytes of a stored run whose hash was right; they stay in memory, or are read from the store again."""

    store: Store
    path: str
    #: The end of the file, which contains its hash.
    end: bytes
    #: All bytes; None if they are read again.
    kept: bytes | None

    def read(self) -> bytes:
        """Return the bytes. Raises Refused, also if they are no longer the same."""
        if self.kept is not None:
            return self.kept
        at = self.store.location(self.path)
        try:
            data = self.store.read(self.path)
        except OSError as error:
            raise Refused(f"{at}: cannot be read any more: {error.strerror or error}", 3) from None
        if not data.endswith(self.end) or not STORED_RUN.is_whole(data):
            raise Refused(f"{at}: was changed while it was read: run the command again", 3)
        return data

    def file(self) -> BaselineFile:
        """Return the whole stored run. Raises Refused, also if it is unsound."""
        file, wrong = STORED_RUN.decode(str(self.store.location(self.path)), self.read())
        if file is None:
            raise Refused(str(wrong[0]), 3)
        return file

    def samples(self) -> bytes:
        """Return a hash of the series. Raises Refused."""
        return _hash_of_series(self.read())


def _hash_of_series(data: bytes) -> bytes:
    """Return a hash of the series in the bytes of a stored run as `encode` writes them."""
    begin = data.find(b'"series": [')  # on lines of its own
    return hashlib.sha256(memoryview(data)[begin : data.find(b"\n  ]", begin)]).digest()


class StoredRun(Struct, frozen=True, dict=True):
    """A stored run by its path, `SUITE/ENVIRONMENT/LEVEL/RUN.json`. Its numbers are read when they are needed."""

    path: str
    head: RunHead
    #: The names of its metrics.
    names: frozenset[str]
    _read: Callable[[], BaselineFile]
    #: Returns bytes that are equal for runs with the same samples. Raises Refused if they cannot be read any more.
    samples: Callable[[], bytes]

    @classmethod
    def of(cls, path: str, file: BaselineFile) -> StoredRun:
        """Return a run whose file is in memory."""
        return cls(
            path, file, frozenset(file.metrics()), lambda: file, lambda: _hash_of_series(STORED_RUN.encode(file))
        )

    @cached_property
    def file(self) -> BaselineFile:
        """The whole file. Raises Refused if it cannot be read any more."""
        return self._read()

    @cached_property
    def run(self) -> Run:
        """The run as the judge sees it: its arrays take a quarter of the memory of the file. Raises Refused."""
        return self._read().run(self.path)

    @property
    def age(self) -> tuple[str, str]:
        """A sort key, from the oldest to the newest."""
        return (self.head.time, self.path)


class ComparedRun(Struct, frozen=True):
    """A stored run that new ones are compared with, in the metrics of `metrics` only, or in all (None)."""

    stored: StoredRun
    metrics: frozenset[str] | None = None

    def run(self) -> Run:
        """Return the run as the judge sees it, with the metrics that it is compared in."""
        run = self.stored.run
        if self.metrics is None:
            return run
        return replace(run, series=tuple(s for s in run.series if s.key.metric in self.metrics), partial=True)


class History(Struct, frozen=True):
    """All levels of one environment."""

    #: By name of the level: its runs, oldest first.
    levels: dict[str, tuple[StoredRun, ...]]
    #: The answer of `anchor` for each level, kept because a list of thousands of levels asks for all of them.
    _anchored: dict[str, _Anchored] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[StoredRun]) -> History:
        """Group runs by level, oldest first."""
        levels: dict[str, list[StoredRun]] = {}
        for run in sorted(runs, key=lambda run: run.age):
            levels.setdefault(run.head.level.name, []).append(run)
        return cls({name: tuple(found) for name, found in levels.items()})

    def level(self, name: str) -> StoredLevel:
        """Return the record of a level, which is the same in all its runs."""
        return self.levels[name][0].head.level

    def heads(self) -> list[str]:
        """Return the levels that no other level replaces, oldest first: one, or more if the history has forked.

        The list is empty if there are no levels, or if they name each other as parents.
        """
        levels = [self.level(name) for name in self.levels]
        replaced = {level.parent for level in levels} | {name for level in levels for name in level.settles}
        return [name for name in self.levels if name not in replaced]

    def chain(self, head: str) -> Iterator[str]:
        """Yield a level, its parent, and so on: the newest first."""
        seen: set[str] = set()
        name: str | None = head
        while name in self.levels and name not in seen:
            seen.add(name)
            yield name
            name = self.level(name).parent

    def compared(self, head: str) -> tuple[ComparedRun, ...]:
        """Return the runs that new ones are compared with, oldest first.

        A level that adopts some metrics replaces the runs of only these. So each metric has a newest level of its own.
        """
        chain: list[str] = []  # the levels back to one that adopts all metrics
        for name in self.chain(head):
            chain.append(name)
            if not self.level(name).adopts:
                break
        if len(chain) == 1:
            return tuple(ComparedRun(run) for run in self.levels[head][-RUNS_KEPT:])
        names = frozenset(name for level in chain for run in self.levels[level] for name in run.names)
        return _compared({metric: self._current(metric, chain) for metric in names}, names)

    def anchor(self, head: str) -> tuple[ComparedRun, ...]:
        """Return for each metric the first runs in or after the level that is its anchor."""
        unknown: list[str] = []  # the levels whose answer is not kept yet, the newest first
        for name in self.chain(head):
            if name in self._anchored:
                break
            unknown.append(name)
        for name in reversed(unknown):
            level = self.level(name)
            before = self._anchored.get(level.parent or "", _Anchored())
            self._anchored[name] = before.followed_by(level, self.levels[name])
        return self._anchored[head].runs if head in self._anchored else ()

    def _current(self, metric: str, chain: Sequence[str]) -> list[StoredRun]:
        """Return the newest runs that have a metric, back to the level that adopted it."""
        found: list[StoredRun] = []
        for name in chain:
            found += [run for run in self.levels[name] if metric in run.names]
            if not (adopts := self.level(name).adopts) or metric in adopts:
                break
        return sorted(found, key=lambda run: run.age)[-RUNS_KEPT:]


class _Anchored(Struct, frozen=True):
    """The anchors of all metrics as one level sees them; a level that changes none shares the value of its parent."""

    #: By metric: its first runs in or after the level that is its anchor; empty if no level since then had the metric.
    #: A metric that is absent here has an anchor without runs if `all_metrics`, and otherwise no anchor.
    first: Mapping[str, Sequence[StoredRun]] = field(default_factory=dict)
    #: True if a level is the anchor of every metric, but for those whose anchor moved later.
    all_metrics: bool = False
    #: The metrics of all levels since the anchor of every metric.
    names: frozenset[str] = frozenset()
    #: The runs of `first`, as `History.anchor` returns them.
    runs: tuple[ComparedRun, ...] = ()

    def followed_by(self, level: StoredLevel, runs: Sequence[StoredRun]) -> _Anchored:
        """Return the anchors as the next level sees them; it has these runs."""
        by_metric: dict[str, list[StoredRun]] = {}
        for run in runs:
            for metric in run.names:
                by_metric.setdefault(metric, []).append(run)
        if level.anchor and not level.adopts:  # the anchor of every metric
            here = {name: found[:ANCHOR_RUNS] for name, found in by_metric.items()}
            names = frozenset(by_metric)
            return _Anchored(here, all_metrics=True, names=names, runs=_compared(here, names))
        first = dict(self.first)
        if level.anchor:  # the anchor of only the metrics that it adopts
            first.update(dict.fromkeys(level.adopts, ()))
        # a metric gets its first runs here if it has an anchor, and no level since then had the metric
        other: Sequence[StoredRun] | None = () if self.all_metrics else None
        without_runs = [metric for metric in by_metric if first.get(metric, other) == ()]
        if not without_runs and not level.anchor and self.names.issuperset(by_metric):
            return self
        first.update((metric, by_metric[metric][:ANCHOR_RUNS]) for metric in without_runs)
        names = self.names.union(by_metric)
        return _Anchored(first, self.all_metrics, names, _compared(first, names))


def _compared(chosen: Mapping[str, Sequence[StoredRun]], names: frozenset[str]) -> tuple[ComparedRun, ...]:
    """Return the runs that are chosen for any metric, oldest first, each with the metrics that it is chosen for.

    A run that is chosen for all of `names` is compared in all metrics.
    """
    runs: dict[str, StoredRun] = {}
    metrics: dict[str, set[str]] = {}
    for metric, found in chosen.items():
        for run in found:
            runs[run.path] = run
            metrics.setdefault(run.path, set()).add(metric)
    ordered = sorted(runs.values(), key=lambda run: run.age)
    return tuple(
        ComparedRun(run, None if metrics[run.path] == names else frozenset(metrics[run.path])) for run in ordered
    )


def contradictions(runs: Sequence[StoredRun], suite: str) -> list[tuple[str, str]]:
    """Return the contradictions between the files of one environment as (path, message)."""
    levels: dict[str, StoredLevel] = {}  # as the first run of each describes it
    copied: dict[tuple[str, bytes, bytes], str] = {}  # by content: the path of its first run
    found: list[tuple[str, str]] = []
    # only runs of one level from the same files can be copies: the samples of others are not read
    origins = [(run.head.level.name, msgspec.json.encode(run.head.sources)) for run in runs]
    times = Counter(origins)
    for run, origin in zip(runs, origins, strict=True):
        level = run.head.level
        if run.head.suite != suite or run.path.split("/")[-2] != level.name:
            found.append((run.path, f"was moved: it belongs to {run.head.suite}/.../{level.name}"))
        if level != levels.setdefault(level.name, level):
            found.append((run.path, f"describes level {level.name} differently from its other runs"))
        if times[origin] > 1:
            original = copied.setdefault((*origin, run.samples()), run.path)
            if original != run.path:
                found.append((run.path, f"is a copy of {original}: one run counts once"))
    found += [
        (runs[0].path, f"level {level.name} has the parent {level.parent}, which does not exist")
        for level in levels.values()
        if level.parent is not None and level.parent not in levels
    ]
    if runs and not History.of(runs).heads():
        found.append((runs[0].path, "the levels name each other as parents: none is the newest"))
    return found
