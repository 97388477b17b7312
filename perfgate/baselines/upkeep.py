"""`perfgate baseline verify` and `prune`: check everything that is stored, and remove what no command reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfgate.baselines.levels import History, StoredRun
from perfgate.baselines.listing import by_folder, priors, read_all
from perfgate.baselines.places import environment_name, kind_of
from perfgate.baselines.repository import read_allowances
from perfgate.baselines.stores import Store, locked, open_store
from perfgate.core import Problem
from perfgate.core.wording import plural
from perfgate.workspace import surroundings
from perfgate.workspace.options import Refused


def verify(path: str) -> tuple[list[str], list[Problem]]:
    """Check a store; returns a line with what is stored, and everything that is wrong with it."""
    store = open_store(path)
    paths, problems = store.paths()
    runs, damaged = read_all(store)
    problems += [problem for problem in damaged if problem not in problems]
    stray = "is not a baseline: no command reads a file with this path; remove it, or move it to its place"
    problems += [Problem("error", stray, store.location(path)) for path in paths if kind_of(path) is None]
    problems += [problem for suite in _folders(paths) for problem in read_allowances(store, suite)[1]]
    problems += priors(path)[1]
    environments = by_folder(runs)
    for place, held in environments.items():
        problems += _of_environment(store, place, held)
    return [f"{plural(len(runs), 'run')} in {plural(len(environments), 'environment')} of {store.shown}"], problems


def _folders(paths: Iterable[str]) -> list[str]:
    return sorted({path.split("/")[0] for path in paths if "/" in path})


def _of_environment(store: Store, place: str, runs: list[StoredRun]) -> list[Problem]:
    """Return a problem for each run of another environment, and one for a history with two heads."""
    first = environment_name(runs[0].file.identity)
    problems = [
        Problem("error", f"is of another environment than its folder: it belongs to {name}", store.location(run.path))
        for run in runs
        if (name := environment_name(run.file.identity)) != first
    ]
    heads = History.of(runs).heads()
    if len(heads) > 1:
        message = f"two approvals have the same parent, {' and '.join(heads)}: approve new runs to replace both"
        problems.append(Problem("error", message, store.location(place)))
    return problems


def prune(path: str, *, dry_run: bool = False) -> list[str]:
    """Remove what no command reads any more; returns the lines to print. Raises Refused if anything is damaged.

    One run of each level is kept, so that the history stays complete; so are all runs of the current level, of the
    levels that it builds on, and of anchors. Expired allowances are removed.
    """
    store = open_store(path)
    with locked(store):
        runs, problems = read_all(store)
        allowances = {}
        for suite in _folders(store.paths()[0]):
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
    """Yield the runs after the first of each level that nothing is compared with."""
    needed: set[str] = set()
    for head in history.heads():
        needed |= {run.stored.path for run in (*history.compared(head), *history.anchor(head))}
        needed |= {run.path for run in history.levels[head]}
    for name, runs in history.levels.items():
        is_anchor = history.level(name).anchor
        yield from (run.path for run in runs[1:] if run.path not in needed and not is_anchor)
