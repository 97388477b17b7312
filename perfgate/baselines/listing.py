"""The content of a store: `perfgate baseline list`, `show`, `diff`, `verify` and `prune`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.levels import ComparedRun, History, StoredRun
from perfgate.baselines.places import UnsafeName, environment_name, folder_of, kind_of
from perfgate.baselines.repository import environments, read_allowances, read_priors, read_stored_runs
from perfgate.baselines.runners import QUALIFICATION
from perfgate.baselines.stores import Store, each_signed, locked, open_store
from perfgate.core import Key, Problem, Run
from perfgate.core.summaries import LevelSummary, PriorSummary, RunSummary, StoredRunSummary
from perfgate.core.wording import plural
from perfgate.judge.measure import Method, NotAvailable, default_statistic
from perfgate.judge.series_summary import summary
from perfgate.workspace import surroundings
from perfgate.workspace.options import Refused

#: A place in the store, and the runs that are stored there.
PlaceRuns = tuple[str, tuple[Run, ...]]


def levels(path: str) -> tuple[list[LevelSummary], list[Problem]]:
    """Return every level with its changes, by environment, oldest first, and the problems of runs. Raises Refused."""
    found, problems = _runs(path, None)
    values = {run.path: _values(run) for run in found}
    summaries = []
    for place, runs in by_folder(found).items():
        history = History.of(runs)
        heads = history.heads()
        levels_of_place = {name: _changed_level(place, history, name, values) for name in history.levels}
        summaries += [replace(level, current=name in heads) for name, level in levels_of_place.items()]
    return summaries, problems


def _changed_level(place: str, history: History, name: str, values: Mapping[str, Mapping[Key, float]]) -> LevelSummary:
    """Return the summary of a level with its changes; `values` has the numbers of each run, by its path."""
    level, runs = history.level(name), history.levels[name]
    means = _means(map(ComparedRun, runs), values)
    if level.adopts:
        means = {key: mean for key, mean in means.items() if key.metric in level.adopts}
    before = history.compared(level.parent) if level.parent in history.levels else ()
    return replace(
        _level(f"{place}/{name}", runs),
        since_parent=_changes(_means(before, values), means),
        since_anchor={} if level.anchor else _changes(_means(history.anchor(name), values), means),
    )


def _changes(base: Mapping[Key, float], new: Mapping[Key, float]) -> dict[Key, float]:
    """Return new / base - 1 for each metric that both have, if its base is positive."""
    return {key: value / base[key] - 1 for key, value in sorted(new.items()) if base.get(key, 0.0) > 0}


def runs(path: str, place: str | None) -> tuple[list[StoredRunSummary], list[Problem]]:
    """Return the stored runs at SUITE[/ENVIRONMENT[/LEVEL[/RUN]]], oldest first, and problems. Raises Refused."""
    found, problems = _runs(path, place)
    summaries = []
    for stored in found:
        file, run = stored.file, stored.file.run(stored.path)
        what = f"commit {file.commit or 'unknown'}, {file.time}, added by {file.added_by}"
        series = tuple(summary(one) for one in run.series)
        # `what` is shown in the place of `recognised_by`; there are no parts and problems
        shown = RunSummary(stored.path, None, run.format, what, dict(sorted(run.environment.items())), series, ())
        level = _level(folder_of(stored.path, 3), [stored])
        summaries.append(StoredRunSummary(shown, level, run.files, file.left_out or 0))
    return summaries, problems


def priors(path: str, place: str | None = None) -> tuple[list[PriorSummary], list[Problem]]:
    """Return the calibrated noise of a store, or of SUITE[/ENVIRONMENT...], and the problems of its files."""
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    found: list[PriorSummary] = []
    problems: list[Problem] = []
    for suite in parts[:1] or _suites(store):
        for environment in parts[1:2] or environments(store, suite)[0]:
            stored, wrong, _ = read_priors(store, suite, environment)
            problems += wrong
            found += [PriorSummary(path, file.time, file.calibrated) for path, file in stored.items()]
    return found, problems


def sides(path: str, old: str | None, new: str | None) -> tuple[PlaceRuns, PlaceRuns]:
    """Return two places and their runs, the old one first. Raises Refused.

    The default of `new` is the newest level, and that of `old` the level that it replaced.
    """
    after = _side(path, new, after=None)
    return _side(path, old, after=after[0]), after


def _side(path: str, place: str | None, after: str | None) -> PlaceRuns:
    """Return a place and its runs. If the place names no level, it is the newest one, or the parent of `after`."""
    found, problems = _runs(path, place)
    if problems:
        raise Refused("the stored baselines are damaged:\n" + "\n".join(map(str, problems)), 3)
    if place is not None and len(place.strip("/").split("/")) >= 3:
        return place.strip("/"), tuple(ComparedRun(run).run() for run in found)
    folders = by_folder(found)
    if after is not None:
        folders = {name: runs for name, runs in folders.items() if after.startswith(f"{name}/")}
    if len(folders) != 1:
        raise Refused(f"which environment? name one of {', '.join(folders) or 'none'}; see `perfgate baseline list`")
    ((folder, held),) = folders.items()
    history = History.of(held)
    name = history.level(after.split("/")[2]).parent if after else history.heads()[-1]
    if name is None or name not in history.levels:
        raise Refused(f"{after} replaced no level: name two places", 3)
    return f"{folder}/{name}", tuple(run.run() for run in history.compared(name))


def _runs(path: str, place: str | None) -> tuple[list[StoredRun], list[Problem]]:
    """Return the stored runs below a place of the store, oldest first, and problems. Raises Refused without any."""
    store = open_store(path)
    parts = (place or "").strip("/").split("/") if place else []
    if "://" not in path and not os.path.isdir(path):
        raise Refused(f"there are no baselines yet: {path} is not a folder", 3)
    try:
        found, problems = read_all(store, parts)
    except UnsafeName as error:
        raise Refused(str(error)) from None
    if place and not found and not problems:
        raise Refused(f"there is no baseline at {place}: see `perfgate baseline list`", 3)
    return sorted(found, key=lambda run: run.age), problems


def read_all(store: Store, parts: Sequence[str] = ()) -> tuple[list[StoredRun], list[Problem]]:
    """Read every stored run below a path, given by its parts; returns them and problems. Raises UnsafeName."""
    found: list[StoredRun] = []
    problems: list[Problem] = []
    for suite in parts[:1] or _suites(store):
        names, refused = environments(store, suite)
        problems += refused
        for environment in parts[1:2] or names:
            stored, wrong, _ = read_stored_runs(store, suite, environment)
            found += stored
            problems += wrong
    # a run may be named without .json
    wanted = "/".join(parts).removesuffix(".json") + "/" if parts else ""
    return [run for run in found if f"{run.path.removesuffix('.json')}/".startswith(wanted)], problems


def _suites(store: Store) -> list[str]:
    """Return the suites that have a stored run or prior."""
    return _top_folders(path for path in store.paths()[0] if kind_of(path) in ("run", "prior"))


def _top_folders(paths: Iterable[str]) -> list[str]:
    return sorted({path.split("/")[0] for path in paths if "/" in path})


def by_folder(runs: Iterable[StoredRun]) -> dict[str, list[StoredRun]]:
    """Group runs by SUITE/ENVIRONMENT."""
    folders: dict[str, list[StoredRun]] = {}
    for run in runs:
        folders.setdefault(folder_of(run.path, 2), []).append(run)
    return folders


def _values(stored: StoredRun) -> dict[Key, float]:
    """Return one number for each metric of a stored run: the mean over ranks of its usual statistic."""
    found: dict[Key, list[float]] = {}
    for series in stored.file.run(stored.path).series:
        try:
            value = Method(default_statistic(series)).measure(series).value
        except NotAvailable:
            continue
        if value is not None:
            found.setdefault(series.key.without_members(), []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _means(runs: Iterable[ComparedRun], values: Mapping[str, Mapping[Key, float]]) -> dict[Key, float]:
    """Return the mean over runs of each metric; `values` has the numbers of each run, by its path."""
    found: dict[Key, list[float]] = {}
    for run in runs:
        for key, value in values[run.stored.path].items():
            if run.metrics is None or key.metric in run.metrics:
                found.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _level(place: str, runs: Sequence[StoredRun]) -> LevelSummary:
    """Return the summary of the level of these runs, without its changes."""
    level, first, last = runs[0].head.level, runs[0].head.time, runs[-1].head.time
    adopts = tuple(level.adopts)
    return LevelSummary(place, len(runs), first, last, level.by, level.reason, level.pr, level.anchor, adopts)


def verify(path: str) -> tuple[list[str], list[Problem]]:
    """Check a store; returns a line with the number of its runs, and all problems."""
    store = open_store(path)
    paths, problems = store.paths()
    runs, damaged = read_all(store)
    problems += [problem for problem in damaged if problem not in problems]
    stray = "is not a baseline: no command reads a file with this path; remove it, or move it to its place"
    problems += [Problem("error", stray, store.location(path)) for path in paths if kind_of(path) is None]
    problems += [problem for suite in _top_folders(paths) for problem in read_allowances(store, suite)[1]]
    problems += priors(path)[1]
    list(each_signed(store, paths, "machine", QUALIFICATION, problems))  # adds the problems of damaged files
    problems += [problem for run in runs if (problem := _unsound(store, run)) is not None]
    environments = by_folder(runs)
    wrong = [found for place, held in environments.items() for found in _wrong_together(place, held)]
    problems += [Problem("error", message, store.location(at)) for at, message in wrong]
    return [f"{plural(len(runs), 'run')} in {plural(len(environments), 'environment')} of {store.shown}"], problems


def _wrong_together(place: str, runs: Sequence[StoredRun]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the runs of an environment together, not with one file, as (path, message)."""
    names = [environment_name(run.head.identity) for run in runs]
    for run, name in zip(runs, names, strict=True):
        if name != names[0]:
            yield run.path, f"is of another environment than its folder: it belongs to {name}"
    heads = History.of(runs).heads()
    if len(heads) > 1:
        yield place, f"two approvals do not follow each other, {' and '.join(heads)}: approve new runs to replace both"


def _unsound(store: Store, run: StoredRun) -> Problem | None:
    """Return the problem of the numbers of a run, or None; other commands read only those that they compare."""
    at = store.location(run.path)
    try:
        file, wrong = STORED_RUN.decode(str(at), store.read(run.path))
    except OSError as error:
        return Problem("error", f"cannot be read any more: {error.strerror or error}", at)
    return None if file is not None else wrong[0]


def prune(path: str, *, dry_run: bool = False) -> list[str]:
    """Remove files that no command needs any more; returns the lines to print.

    These are runs that nothing is compared with, and expired allowances. The first run of each level stays, so that the
    history is complete, and so do all runs of heads and of anchors. Raises Refused if a run or an allowance is damaged.
    """
    store = open_store(path)
    with locked(store):
        runs, problems = read_all(store)
        allowances = {}
        for suite in _top_folders(store.paths()[0]):
            found, wrong = read_allowances(store, suite)
            allowances.update(found)
            problems += wrong
        if problems:
            raise Refused("nothing was removed: the store is damaged\n" + "\n".join(map(str, problems)), 3)
        unneeded = [path for held in by_folder(runs).values() for path in _unneeded(History.of(held))]
        today = surroundings.today()
        unneeded += [path for path, file in allowances.items() if file.allowance().expires < today]
        for stale in () if dry_run else unneeded:
            store.remove(stale)
    verb = "would remove" if dry_run else "removed"
    return [f"{verb} {store.location(stale)}" for stale in unneeded] or ["there is nothing to remove"]


def _unneeded(history: History) -> Iterator[str]:
    """Yield the paths of the runs that nothing is compared with, except the first one of each level."""
    needed: set[str] = set()
    for head in history.heads():
        needed |= {run.stored.path for run in (*history.compared(head), *history.anchor(head))}
        needed |= {run.path for run in history.levels[head]}
    for name, runs in history.levels.items():
        is_anchor = history.level(name).anchor
        yield from (run.path for run in runs[1:] if run.path not in needed and not is_anchor)
