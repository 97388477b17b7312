"""Levels: the runs of one environment, ordered by the decisions that were made about them.

A level is opened by `approve` and grows by `add`. It names its parent, so that two branches that each approve leave
two heads, which somebody has to settle; runs of older levels are never compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from perfgate.baselines.files import BaselineFile, Level

#: How many runs of a level are compared with, and kept.
RUNS_KEPT = 10
#: How many runs of the anchor's level stand for it.
ANCHOR_RUNS = 5


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A baseline file and the path it was read from, `SUITE/ENVIRONMENT/LEVEL/RUN.json`."""

    path: str
    file: BaselineFile

    @property
    def age(self) -> tuple[str, str]:
        """Sorts runs from the oldest to the newest."""
        return (self.file.time, self.path)

    def metrics(self) -> set[str]:
        """The names of the metrics that the run holds."""
        return {row.metric for row in self.file.series}


@dataclass(frozen=True, slots=True)
class Compared:
    """A stored run that new ones are compared with, whole or in some metrics alone."""

    run: StoredRun
    metrics: frozenset[str] | None = None


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

    def level(self, name: str) -> Level:
        """What is recorded of a level: its runs all say the same."""
        return self.levels[name][0].file.level

    def heads(self) -> list[str]:
        """The levels that no other names as its parent: one, or the history has forked."""
        levels = [self.level(name) for name in self.levels]
        replaced = {level.parent for level in levels} | {name for level in levels for name in level.settles}
        return [name for name in self.levels if name not in replaced]

    def chain(self, head: str) -> list[str]:
        """A level, its parent, and so on: the newest first."""
        names: list[str] = []
        name: str | None = head
        while name in self.levels and name not in names:
            names.append(name)
            name = self.level(name).parent
        return names

    def compared(self, head: str) -> tuple[Compared, ...]:
        """The runs that new ones are compared with, oldest first: of each metric the newest of its own level.

        A level that adopts some metrics alone opens a new level of those; the others go on where they were.
        """
        chain = self.chain(head)
        whole = next((i for i, name in enumerate(chain) if not self.level(name).adopts), len(chain) - 1)
        if whole == 0:
            return tuple(Compared(run) for run in self.levels[head][-RUNS_KEPT:])
        return self._picked(chain[: whole + 1], self._current)

    def anchor(self, head: str) -> tuple[Compared, ...]:
        """The first runs after the anchor was last set, of each metric: what a chain of steps is held against."""
        chain = self.chain(head)
        levels = [self.level(name) for name in chain]
        whole = next((i for i, level in enumerate(levels) if level.anchor and not level.adopts), len(chain) - 1)
        return self._picked(chain[: whole + 1], self._since_anchor)

    def _picked(
        self, chain: Sequence[str], pick: Callable[[str, Sequence[str]], list[StoredRun]]
    ) -> tuple[Compared, ...]:
        """What `pick` takes for each metric from a chain of levels, put together run by run."""
        held = {name for level in chain for run in self.levels[level] for name in run.metrics()}
        chosen: dict[str, set[str]] = {}
        for metric in held:
            for run in pick(metric, chain):
                chosen.setdefault(run.path, set()).add(metric)
        runs = sorted((run for level in chain for run in self.levels[level]), key=lambda run: run.age)
        return tuple(
            Compared(run, None if chosen[run.path] == held else frozenset(chosen[run.path]))
            for run in runs
            if run.path in chosen
        )

    def _current(self, metric: str, chain: Sequence[str]) -> list[StoredRun]:
        """The newest runs that hold a metric, back to the level that adopted it."""
        found: list[StoredRun] = []
        for name in chain:
            found += [run for run in self.levels[name] if metric in run.metrics()]
            if self._adopts(name, metric):
                break
        return sorted(found, key=lambda run: run.age)[-RUNS_KEPT:]

    def _since_anchor(self, metric: str, chain: Sequence[str]) -> list[StoredRun]:
        """The first runs that hold a metric, in or after the nearest level that is an anchor of it."""
        anchored = [i for i, name in enumerate(chain) if self.level(name).anchor and self._adopts(name, metric)]
        for name in reversed(chain[: anchored[0] + 1] if anchored else ()):
            found = [run for run in self.levels[name] if metric in run.metrics()]
            if found:
                return found[:ANCHOR_RUNS]
        return []

    def _adopts(self, name: str, metric: str) -> bool:
        adopts = self.level(name).adopts
        return not adopts or metric in adopts


def contradictions(runs: Sequence[StoredRun], suite: str) -> list[tuple[str, str]]:
    """What the files of one environment say that cannot be true together, as (path, message)."""
    levels: dict[str, Level] = {}
    seen: dict[tuple[str, bytes], str] = {}
    found: list[tuple[str, str]] = []
    for run in runs:
        level = run.file.level
        content = (level.name, msgspec.json.encode((run.file.sources, run.file.series)))
        first = levels.setdefault(level.name, level)
        if run.file.suite != suite or run.path.split("/")[-2] != level.name:
            found.append((run.path, f"was moved: it belongs to {run.file.suite}/.../{level.name}"))
        if first != level:
            found.append((run.path, f"tells of level {level.name} otherwise than its other runs"))
        if content in seen:
            found.append((run.path, f"holds the same run as {seen[content]}: a run counts once"))
        seen.setdefault(content, run.path)
    found += [
        (runs[0].path, f"level {level.name} names the parent {level.parent}, which is not there")
        for level in levels.values()
        if level.parent is not None and level.parent not in levels
    ]
    if runs and not History.of(runs).heads():
        found.append((runs[0].path, "the levels name each other as parents: there is no newest"))
    return found
