"""Levels: the runs of one environment, ordered by the decisions about them.

`approve` opens a level and `add` adds runs to it. A level names its parent. Two branches that each approve leave two
heads, until an approval replaces both. Runs of replaced levels are not compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from perfgate.baselines.files import BaselineFile, StoredLevel
from perfgate.core import Run

#: The largest number of runs of a level that are compared with, and kept.
RUNS_KEPT = 10
#: The largest number of runs of the anchor that are compared with.
ANCHOR_RUNS = 5


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A baseline file and the path it was read from, `SUITE/ENVIRONMENT/LEVEL/RUN.json`."""

    path: str
    file: BaselineFile

    @property
    def age(self) -> tuple[str, str]:
        """A sort key, from the oldest to the newest."""
        return (self.file.time, self.path)

    def metrics(self) -> set[str]:
        """Return the names of the metrics that the run has."""
        return {row.metric for row in self.file.series}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A stored run that new ones are compared with: in all metrics, or in some only."""

    stored: StoredRun
    metrics: frozenset[str] | None = None

    def run(self) -> Run:
        """Return the run as the judge sees it, with the metrics that it is compared in."""
        run = self.stored.file.run(self.stored.path)
        if self.metrics is None:
            return run
        return replace(run, series=tuple(s for s in run.series if s.key.metric in self.metrics), partial=True)


@dataclass(frozen=True, slots=True)
class History:
    """All levels of one environment."""

    levels: dict[str, tuple[StoredRun, ...]]

    @classmethod
    def of(cls, runs: Iterable[StoredRun]) -> History:
        """Group runs by level, oldest first."""
        levels: dict[str, list[StoredRun]] = {}
        for run in sorted(runs, key=lambda run: run.age):
            levels.setdefault(run.file.level.name, []).append(run)
        return cls({name: tuple(found) for name, found in levels.items()})

    def level(self, name: str) -> StoredLevel:
        """Return the record of a level, which is the same in all its runs."""
        return self.levels[name][0].file.level

    def heads(self) -> list[str]:
        """Return the levels that no other level replaces: one, or more if the history has forked."""
        levels = [self.level(name) for name in self.levels]
        replaced = {level.parent for level in levels} | {name for level in levels for name in level.settles}
        return [name for name in self.levels if name not in replaced]

    def chain(self, head: str) -> list[str]:
        """Return a level, its parent, and so on: the newest first."""
        names: list[str] = []
        name: str | None = head
        while name in self.levels and name not in names:
            names.append(name)
            name = self.level(name).parent
        return names

    def compared(self, head: str) -> tuple[ComparedRun, ...]:
        """Return the runs that new ones are compared with, oldest first.

        A level that adopts some metrics replaces the runs of these only. So each metric has a newest level of its own.
        """
        chain = self.chain(head)
        whole = next((i for i, name in enumerate(chain) if not self.level(name).adopts), len(chain) - 1)
        if whole == 0:
            return tuple(ComparedRun(run) for run in self.levels[head][-RUNS_KEPT:])
        return self._picked(chain[: whole + 1], self._current)

    def anchor(self, head: str) -> tuple[ComparedRun, ...]:
        """Return the first runs of each metric since its anchor was set; a chain of steps is compared with them."""
        chain = self.chain(head)
        levels = [self.level(name) for name in chain]
        whole = next((i for i, level in enumerate(levels) if level.anchor and not level.adopts), len(chain) - 1)
        return self._picked(chain[: whole + 1], self._since_anchor)

    def _picked(
        self, chain: Sequence[str], pick: Callable[[str, Sequence[str]], list[StoredRun]]
    ) -> tuple[ComparedRun, ...]:
        """Return the runs that `pick` chooses from a chain of levels for any metric, each with its metrics."""
        names = {name for level in chain for run in self.levels[level] for name in run.metrics()}
        chosen: dict[str, set[str]] = {}
        for metric in names:
            for run in pick(metric, chain):
                chosen.setdefault(run.path, set()).add(metric)
        runs = sorted((run for level in chain for run in self.levels[level]), key=lambda run: run.age)
        return tuple(
            ComparedRun(run, None if chosen[run.path] == names else frozenset(chosen[run.path]))
            for run in runs
            if run.path in chosen
        )

    def _current(self, metric: str, chain: Sequence[str]) -> list[StoredRun]:
        """Return the newest runs that have a metric, back to the level that adopted it."""
        found: list[StoredRun] = []
        for name in chain:
            found += [run for run in self.levels[name] if metric in run.metrics()]
            if not (adopts := self.level(name).adopts) or metric in adopts:
                break
        return sorted(found, key=lambda run: run.age)[-RUNS_KEPT:]

    def _since_anchor(self, metric: str, chain: Sequence[str]) -> list[StoredRun]:
        """Return the first runs that have a metric, in or after the nearest level that is an anchor of it."""
        levels = enumerate(map(self.level, chain))
        anchored = [i for i, level in levels if level.anchor and (not level.adopts or metric in level.adopts)]
        for name in reversed(chain[: anchored[0] + 1] if anchored else ()):
            found = [run for run in self.levels[name] if metric in run.metrics()]
            if found:
                return found[:ANCHOR_RUNS]
        return []


def contradictions(runs: Sequence[StoredRun], suite: str) -> list[tuple[str, str]]:
    """Return, as (path, message), what the files of one environment state that cannot all be true."""
    levels: dict[str, StoredLevel] = {}
    seen: dict[tuple[str, bytes], str] = {}
    found: list[tuple[str, str]] = []
    for run in runs:
        level = run.file.level
        content = (level.name, msgspec.json.encode((run.file.sources, run.file.series)))
        first = levels.setdefault(level.name, level)
        if run.file.suite != suite or run.path.split("/")[-2] != level.name:
            found.append((run.path, f"was moved: it belongs to {run.file.suite}/.../{level.name}"))
        if first != level:
            found.append((run.path, f"describes level {level.name} differently from its other runs"))
        if content in seen:
            found.append((run.path, f"is a copy of {seen[content]}: one run may count once only"))
        seen.setdefault(content, run.path)
    found += [
        (runs[0].path, f"level {level.name} has the parent {level.parent}, which does not exist")
        for level in levels.values()
        if level.parent is not None and level.parent not in levels
    ]
    if runs and not History.of(runs).heads():
        found.append((runs[0].path, "the levels name each other as parents: none is the newest"))
    return found
