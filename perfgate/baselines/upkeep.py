"""`perfgate baseline verify` and `prune`: whether everything stored is sound, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfgate.baselines import allowances, layout
from perfgate.baselines.identity import environment_name
from perfgate.baselines.levels import History, StoredRun
from perfgate.baselines.listing import priors, read_all
from perfgate.baselines.stores import Store
from perfgate.core import Problem
from perfgate.core.wording import plural
from perfgate.workspace import surroundings
from perfgate.workspace.errors import Refused
from perfgate.workspace.rule_source import locked, open_store


def verify(path: str) -> tuple[list[str], list[Problem]]:
    """What is stored, in a line, and everything that is wrong with it: hashes, forms, duplicates, strays."""
    store = open_store(path)
    paths, problems = store.paths()
    runs, damaged = read_all(store)
    problems += [problem for problem in damaged if problem not in problems]
    problems += [Problem("error", why, store.location(stray)) for stray, why in _strays(paths)]
    problems += [problem for suite in _folders(paths) for problem in _allowed(store, suite)]
    problems += priors(path)[1]
    for place, held in _by_environment(runs).items():
        problems += _of_environment(store, place, held)
    environments = plural(len(_by_environment(runs)), "environment")
    return [f"{plural(len(runs), 'run')} in {environments} of {store.shown}"], problems


def _strays(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Files that no command would ever read."""
    for path in paths:
        if not (layout.is_run(path) or layout.is_allowance(path) or layout.is_prior(path)):
            yield path, "is no baseline: it lies where none is read from; remove it, or move it to its place"


def _folders(paths: Iterable[str]) -> list[str]:
    return sorted({path.split("/")[0] for path in paths if "/" in path})


def _allowed(store: Store, suite: str) -> list[Problem]:
    data, problems = layout.allowance_files(store, suite)
    for path, content in data:
        problems += allowances.decode(str(store.location(path)), content, suite)[1]
    return problems


def _by_environment(runs: Iterable[StoredRun]) -> dict[str, list[StoredRun]]:
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        found.setdefault("/".join(run.path.split("/")[:2]), []).append(run)
    return found


def _of_environment(store: Store, place: str, runs: list[StoredRun]) -> list[Problem]:
    """Runs in the folder of another environment, and a history with two ends."""
    problems = []
    for run in runs:
        names = {environment_name(run.file.identity), environment_name(runs[0].file.identity)}
        if len(names) > 1:
            message = (
                f"is of another environment than its neighbours: it belongs to {environment_name(run.file.identity)}"
            )
            problems.append(Problem("error", message, store.location(run.path)))
    heads = History.of(runs).heads()
    if len(heads) > 1:
        message = f"two approvals stand side by side, {' and '.join(heads)}: approve new runs to settle it"
        problems.append(Problem("error", message, store.location(place)))
    return problems


def prune(path: str, *, dry_run: bool = False) -> list[str]:
    """Remove what no command reads any more; returns the lines to print. Raises Refused where anything is damaged.

    Of each level one run stays, so that the history stays whole; the current level, what it builds upon and the
    anchors stay as they are. Allowances go when they have expired.
    """
    store = open_store(path)
    with locked(store):
        runs, problems = read_all(store)
        problems += [problem for suite in layout.suites(store) for problem in _allowed(store, suite)]
        if problems:
            raise Refused("nothing was removed, for the store is damaged:\n" + "\n".join(map(str, problems)), 3)
        unneeded = [path for held in _by_environment(runs).values() for path in _unneeded(History.of(held))]
        unneeded += _expired(store)
        for stale in () if dry_run else unneeded:
            store.remove(stale)
    verb = "would remove" if dry_run else "removed"
    return [f"{verb} {store.location(stale)}" for stale in unneeded] or ["there is nothing to remove"]


def _unneeded(history: History) -> Iterator[str]:
    """Runs that nothing is compared with, beyond the first of each level."""
    needed: set[str] = set()
    for head in history.heads():
        needed |= {run.run.path for run in (*history.compared(head), *history.anchor(head))}
        needed |= {run.path for run in history.levels[head]}
    for name, runs in history.levels.items():
        is_anchor = history.level(name).anchor
        yield from (run.path for run in runs[1:] if run.path not in needed and not is_anchor)


def _expired(store: Store) -> Iterator[str]:
    today = surroundings.today()
    for suite in _folders(store.paths()[0]):
        for path, content in layout.allowance_files(store, suite)[0]:
            stored, _ = allowances.decode(path, content, suite)
            if stored is not None and stored.allowance().expires < today:
                yield path
