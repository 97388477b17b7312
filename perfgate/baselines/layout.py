"""Where things are in a store.

    SUITE/ENVIRONMENT/LEVEL/RUN.json     one stored run
    SUITE/ENVIRONMENT/prior.json         the run-to-run noise that was measured there
    SUITE/ENVIRONMENT/prior-in-turn.json that between pairs, for each way in which they are made
    SUITE/_allowances/NAME.json          what a commit was allowed to be worse in

A name of a suite, an environment or a level never begins with `_`, so that nothing can be confused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfgate.baselines.stores import SAFE_NAME, Store, UnsafeName
from perfgate.core import Problem

ALLOWANCES = "_allowances"
_PRIOR = re.compile(r"prior(?:-([a-z-]+))?\.json")
_RUN_DEPTH = 4


def is_run(path: str) -> bool:
    """Whether a path is that of a stored run."""
    parts = path.split("/")
    safe = all(SAFE_NAME.fullmatch(part) for part in parts[:-1])
    return len(parts) == _RUN_DEPTH and safe and parts[-1].endswith(".json")


def is_prior(path: str) -> bool:
    """Whether a path is that of a calibrated prior."""
    parts = path.split("/")
    safe = all(SAFE_NAME.fullmatch(part) for part in parts)
    return len(parts) == 3 and safe and _PRIOR.fullmatch(parts[2]) is not None


def prior_path(suite: str, environment: str, pairing: str | None = None) -> str:
    """Where the noise of an environment is kept: that between runs, or between pairs that are made in a way."""
    return f"{suite}/{environment}/prior{f'-{pairing}' if pairing else ''}.json"


def pairing_of(path: str) -> str | None:
    """The pairs that a prior is of, by its path; None for single runs."""
    found = _PRIOR.fullmatch(path.rsplit("/", 1)[-1])
    return found[1] if found else None


def is_allowance(path: str) -> bool:
    """Whether a path is that of an allowance."""
    parts = path.split("/")
    return len(parts) == 3 and parts[1] == ALLOWANCES and parts[2].endswith(".json")


def suites(store: Store) -> list[str]:
    """The suites that have anything stored."""
    return sorted({path.split("/")[0] for path in store.paths()[0] if is_run(path) or is_prior(path)})


def environments(store: Store, suite: str) -> tuple[list[str], list[Problem]]:
    """The environments of a suite that have anything stored, and what stands in their place and is refused."""
    paths, problems = store.paths(suite)
    inside = len(str(store.location(f"{suite}/")).split("/"))
    refused = [problem for problem in problems if len(problem.at.file.split("/")) <= inside]
    return sorted({path.split("/")[1] for path in paths if is_run(path) or is_prior(path)}), refused


def run_files(store: Store, suite: str, environment: str) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """Every stored run of an environment, as (path, bytes), sorted; what cannot be read is a problem."""
    paths, problems = store.paths(f"{suite}/{environment}")
    files, unread = _contents(store, filter(is_run, paths))
    return files, problems + unread


def prior_files(store: Store, suite: str, environment: str) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """Every prior of an environment, as (path, bytes), sorted; what cannot be read is a problem."""
    paths, _ = store.paths(f"{suite}/{environment}")  # `run_files` tells what the folder holds that it should not
    return _contents(store, filter(is_prior, paths))


def allowance_files(store: Store, suite: str) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """Every allowance of a suite, as (path, bytes), sorted; what cannot be read is a problem."""
    paths, problems = store.paths(f"{suite}/{ALLOWANCES}")
    files, unread = _contents(store, filter(is_allowance, paths))
    return files, problems + unread


def _contents(store: Store, paths: Iterable[str]) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    found: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found.append((path, store.read(path)))
        except (OSError, UnsafeName) as error:
            why = getattr(error, "strerror", None) or error
            problems.append(Problem("error", f"cannot be read: {why}", store.location(path)))
    return found, problems
