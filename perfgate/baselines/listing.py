"""`perfgate baseline list`, `show` and `diff`: what is stored, in words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from perfgate.baselines import layout
from perfgate.baselines.files import run_of
from perfgate.baselines.ledger import Step, steps
from perfgate.baselines.levels import Compared, History, StoredRun
from perfgate.baselines.prior_store import read_priors
from perfgate.baselines.repository import compared_runs, read_stored
from perfgate.baselines.stores import Store, UnsafeName
from perfgate.commands.compare import compare_runs
from perfgate.core import Key, Problem, Report, Run, RunSummary
from perfgate.judge.measure import Measurer, NotAvailable, default_statistic, summary
from perfgate.reporters.stored_baselines import LevelSummary, PriorSummary, StoredSummary
from perfgate.workspace.errors import Refused
from perfgate.workspace.rule_source import open_store


def levels(path: str) -> tuple[list[LevelSummary], list[Problem]]:
    """Every level of a store, oldest first, with what it changed, and what is wrong with it. Raises Refused."""
    found, problems = _runs(path, None)
    summaries = []
    for place, runs in _by_folder(found, depth=2).items():
        history = History.of(runs)
        values = {run.path: _values(run) for run in runs}
        ledger = steps(history, lambda run, values=values: values[run.path])  # type: ignore[misc]
        heads = history.heads()
        summaries += [
            _level(f"{place}/{name}", held, ledger[name], name in heads) for name, held in history.levels.items()
        ]
    return summaries, problems


def runs(path: str, place: str | None) -> tuple[list[StoredSummary], list[Problem]]:
    """The stored runs at SUITE[/ENVIRONMENT[/LEVEL[/RUN]]], oldest first. Raises Refused."""
    found, problems = _runs(path, place)
    return [_summary(run) for run in found], problems


def diff(path: str, old: str | None, new: str | None) -> Report:
    """Two places of a store compared, metric by metric. Raises Refused.

    NEW is the newest level where it is left out, and OLD the one that NEW replaced.
    """
    after_place, after = _side(path, new, None)
    before_place, before = _side(path, old, after_place)
    return compare_runs(before, after, f"{before_place} → {after_place}")


def _values(stored: StoredRun) -> dict[Key, float]:
    """One number for each metric of a stored run: the mean over ranks of its usual statistic."""
    measurer = Measurer()
    found: dict[Key, list[float]] = {}
    for series in run_of(stored.file, stored.path).series:
        try:
            value = measurer.measure(series, default_statistic(series), "auto", "lower").value
        except NotAvailable:
            continue
        if value is not None:
            found.setdefault(series.key.without_members(), []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _side(path: str, place: str | None, after: str | None) -> tuple[str, tuple[Run, ...]]:
    """The runs of one side of a comparison, and where they are; without a place, a level that can be told."""
    found, problems = _runs(path, place)
    if problems:
        raise Refused("the stored baselines are damaged:\n" + "\n".join(map(str, problems)), 3)
    if place is not None and len(place.strip("/").split("/")) >= 3:
        return place.strip("/"), compared_runs(Compared(run) for run in found)
    folders = _by_folder(found, depth=2)
    if after is not None:
        folders = {name: runs for name, runs in folders.items() if after.startswith(f"{name}/")}
    if len(folders) != 1:
        raise Refused(f"which environment? name one of {', '.join(folders) or 'none'}; see `perfgate baseline list`")
    ((folder, held),) = folders.items()
    history = History.of(held)
    name = history.level(after.split("/")[2]).parent if after else history.heads()[-1]
    if name is None or name not in history.levels:
        raise Refused(f"{after} replaced no level: name two places", 3)
    return f"{folder}/{name}", compared_runs(history.compared(name))


def priors(path: str, place: str | None = None) -> tuple[list[PriorSummary], list[Problem]]:
    """The calibrated noise of every environment of a store, or of those at SUITE[/ENVIRONMENT...]."""
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    found: list[PriorSummary] = []
    problems: list[Problem] = []
    for suite in parts[:1] or layout.suites(store):
        for environment in parts[1:2] or layout.environments(store, suite)[0]:
            stored, wrong, _ = read_priors(store, suite, environment)
            problems += wrong
            found += [PriorSummary(path, file.time, file.calibrated) for path, file in stored.items()]
    return found, problems


def _runs(path: str, place: str | None) -> tuple[list[StoredRun], list[Problem]]:
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    if "://" not in path and not os.path.isdir(path):
        raise Refused(f"{path} is no folder: there are no baselines yet", 3)
    try:
        found, problems = read_all(store, parts)
    except UnsafeName as error:
        raise Refused(str(error)) from None
    if place and not found and not problems:
        raise Refused(f"there is no baseline at {place}: see `perfgate baseline list`", 3)
    return sorted(found, key=lambda run: run.age), problems


def read_all(store: Store, parts: Sequence[str] = ()) -> tuple[list[StoredRun], list[Problem]]:
    """Every stored run at a place, given by its parts, and what cannot be read. Raises UnsafeName."""
    found: list[StoredRun] = []
    problems: list[Problem] = []
    for suite in parts[:1] or layout.suites(store):
        environments, refused = layout.environments(store, suite)
        problems += refused
        for environment in parts[1:2] or environments:
            runs, wrong, _ = read_stored(store, suite, environment)
            found += runs
            problems += wrong
    wanted = "/".join(parts).removesuffix(".json") + "/" if parts else ""
    return [run for run in found if f"{run.path.removesuffix('.json')}/".startswith(wanted)], problems


def _by_folder(runs: Sequence[StoredRun], depth: int) -> dict[str, list[StoredRun]]:
    folders: dict[str, list[StoredRun]] = {}
    for run in runs:
        folders.setdefault("/".join(run.path.split("/")[:depth]), []).append(run)
    return folders


def _level(place: str, runs: Sequence[StoredRun], step: Step | None = None, current: bool = False) -> LevelSummary:
    level = runs[0].file.level
    return LevelSummary(
        place=place,
        runs=len(runs),
        first=runs[0].file.time,
        last=runs[-1].file.time,
        by=level.by,
        reason=level.reason,
        pr=level.pr,
        anchor=level.anchor,
        adopts=tuple(level.adopts),
        current=current,
        since_parent=step.since_parent if step else {},
        since_anchor=step.since_anchor if step and not level.anchor else {},
    )


def _summary(stored: StoredRun) -> StoredSummary:
    file, run = stored.file, run_of(stored.file, stored.path)
    what = f"commit {file.commit or 'unknown'}, {file.time}, added by {file.added_by}"
    series = tuple(summary(one) for one in run.series)
    shown = RunSummary(stored.path, None, run.format, what, dict(sorted(run.environment.items())), series, ())
    return StoredSummary(shown, _level(stored.path.rpartition("/")[0], [stored]), run.files)
