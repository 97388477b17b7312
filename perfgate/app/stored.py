"""`perfgate baseline list` and `show`: what is stored, in words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from perfgate.app.baselines import open_store, read_stored
from perfgate.app.errors import Refused
from perfgate.app.priors import prior_path, read_prior
from perfgate.baselines.files import run_of
from perfgate.baselines.levels import StoredRun
from perfgate.baselines.stores import DirectoryStore, UnsafeName
from perfgate.measure import summary
from perfgate.model import Problem, RunSummary
from perfgate.reporters.stored import LevelSummary, PriorSummary, StoredSummary


def levels(path: str) -> tuple[list[LevelSummary], list[Problem]]:
    """Every level of a store, oldest first, and what is wrong with it. Raises Refused."""
    runs, problems = _runs(path, None)
    return [_level(place, found) for place, found in _by_level(runs).items()], problems


def runs(path: str, place: str | None) -> tuple[list[StoredSummary], list[Problem]]:
    """The stored runs at SUITE[/ENVIRONMENT[/LEVEL[/RUN]]], oldest first. Raises Refused."""
    found, problems = _runs(path, place)
    by_level = {run.path: _level(where, [run]) for where, runs in _by_level(found).items() for run in runs}
    return [_summary(run, by_level[run.path]) for run in found], problems


def priors(path: str, place: str | None = None) -> tuple[list[PriorSummary], list[Problem]]:
    """The calibrated noise of every environment of a store, or of those at SUITE[/ENVIRONMENT...]."""
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    found: list[PriorSummary] = []
    problems: list[Problem] = []
    for suite in parts[:1] or store.suites():
        for environment in parts[1:2] or store.environments(suite):
            stored, wrong, _ = read_prior(store, suite, environment)
            problems += wrong
            if stored is not None:
                found.append(PriorSummary(prior_path(suite, environment), stored.time, stored.calibrated))
    return found, problems


def _runs(path: str, place: str | None) -> tuple[list[StoredRun], list[Problem]]:
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    if not os.path.isdir(path):
        raise Refused(f"{path} is no folder: there are no baselines yet", 3)
    try:
        found, problems = _below(store, parts)
    except UnsafeName as error:
        raise Refused(str(error)) from None
    if place and not found and not problems:
        raise Refused(f"there is no baseline at {place}: see `perfgate baseline list`", 3)
    return sorted(found, key=lambda run: run.age), problems


def _below(store: DirectoryStore, parts: Sequence[str]) -> tuple[list[StoredRun], list[Problem]]:
    found: list[StoredRun] = []
    problems: list[Problem] = []
    for suite in parts[:1] or store.suites():
        for environment in parts[1:2] or store.environments(suite):
            runs, wrong, _ = read_stored(store, suite, environment)
            found += runs
            problems += wrong
    wanted = "/".join(parts).removesuffix(".json") + "/" if parts else ""
    return [run for run in found if f"{run.path.removesuffix('.json')}/".startswith(wanted)], problems


def _by_level(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    levels: dict[str, list[StoredRun]] = {}
    for run in runs:
        levels.setdefault(run.path.rpartition("/")[0], []).append(run)
    return levels


def _level(place: str, runs: Sequence[StoredRun]) -> LevelSummary:
    level = runs[0].file.level
    times = (runs[0].file.time, runs[-1].file.time)
    return LevelSummary(place, len(runs), *times, level.by, level.reason, level.pr, level.anchor)


def _summary(stored: StoredRun, level: LevelSummary) -> StoredSummary:
    file, run = stored.file, run_of(stored.file, stored.path)
    what = f"commit {file.commit or 'unknown'}, {file.time}, added by {file.added_by}"
    series = tuple(summary(one) for one in run.series)
    shown = RunSummary(stored.path, None, run.format, what, dict(sorted(run.environment.items())), series, ())
    return StoredSummary(shown, level, run.files)
