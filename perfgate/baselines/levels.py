"""Levels: the runs of one environment, ordered by the decisions that were made about them.

A level is opened by `approve` and grows by `add`. It names its parent, so that two branches that each approve leave
two heads, which somebody has to settle; runs of older levels are never compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def newest(self, name: str) -> tuple[StoredRun, ...]:
        """The runs of a level that new ones are compared with, oldest first."""
        return self.levels[name][-RUNS_KEPT:]

    def replaceable(self, name: str) -> tuple[StoredRun, ...]:
        """The runs of a level that newer ones may replace, oldest first: those that stand for the anchor stay."""
        return self.levels[name][ANCHOR_RUNS:] if self.level(name).anchor else self.levels[name]

    def anchor(self, head: str) -> tuple[StoredRun, ...]:
        """The first runs of the nearest level above the head, itself included, that is an anchor."""
        name: str | None = head
        seen: set[str] = set()
        while name in self.levels and name not in seen:
            seen.add(name)
            if self.level(name).anchor:
                return self.levels[name][:ANCHOR_RUNS]
            name = self.level(name).parent
        return ()


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
