"""`perfgate history`: what every run of main measured, and where that changed."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from perfgate.baselines.stores import open_store
from perfgate.core import Problem
from perfgate.core.run_history import LoadedHistory
from perfgate.core.wording import listed, plural
from perfgate.history.commits import commit_line
from perfgate.history.compaction import compact
from perfgate.history.exports import FILES, SERVICES, openmetrics
from perfgate.history.load import load
from perfgate.history.store import places, verify
from perfgate.workspace import surroundings
from perfgate.workspace.options import HistoryPlace, Refused
from perfgate.workspace.rule_source import WORKING_TREE, sound_rules

#: The commands of `perfgate history`; another word is a metric, and may be one of these misspelt.
COMMANDS = ("add", "backfill", "compact", "export", "import", "quarantine", "report", "show")


def show(place: HistoryPlace, metric: str | None = None) -> LoadedHistory:
    """Return the history of a metric, or of all. Raises Refused (3) if nothing is remembered."""
    store = open_store(place.baselines)
    found = load(
        store,
        metric=metric,
        suite=place.suite,
        environment=place.environment,
        ref=place.ref,
        renames=_renames(place.rules),
    )
    if not found.environments and not found.problems:
        what = "" if place.suite is None and place.environment is None else " of this suite and environment"
        raise Refused(
            f"there is no history{what} in {store.shown}: add runs with `perfgate history add RUN...`, or those of "
            "another tool with `perfgate history import FILE`, or name another folder with --baselines",
            3,
        )
    if place.ref is not None and found.line is None and commit_line(["HEAD"]) is not None:
        raise Refused(f"--ref {place.ref}: unknown branch or commit in this clone; fetch it, or correct the name", 3)
    if metric is not None and not found.series and found.environments:
        known = sorted({name for one in found.environments for name in one.metrics})
        near = get_close_matches(metric, known, n=3, cutoff=0.5)
        near += [f"`perfgate history {name}`" for name in get_close_matches(metric, COMMANDS, n=1, cutoff=0.7)]
        hint = f"did you mean {listed(near)}?" if near else f"it has {listed(known) or 'no metrics'}"
        missing = f"the history has no metric {metric!r}: {hint}"
        if found.problems:  # the metric may be in a file that is damaged
            damaged = len({problem.at.file for problem in found.problems})
            files = "this file" if damaged == 1 else f"the {damaged} files that cannot be used"
            raise Refused(f"{found.problems[0]}; without {files}, {missing}", 3)
        raise Refused(missing, 3)
    return found


def _renames(rules: Sequence[str]) -> dict[str, str]:
    """Return the renamed metrics of the rules. Files without any are not checked: a history needs no rules."""
    if rules == ("rules",) and not (Path("rules").exists() and WORKING_TREE.has_rules(rules)):
        return {}
    files = [file for file in WORKING_TREE.rule_files(rules) if b"renames" in file[1]]
    return {old: new for file in files for old, new in sound_rules([file], None).renames.items()}


def compact_store(baselines: str, *, is_all: bool = False) -> tuple[list[str], list[Problem]]:
    """Write the runs of each month as one file; see `perfgate.history.compaction.compact`. Raises Refused.

    Without `is_all`, the month that is not over is left alone.
    """
    store = open_store(baselines)
    known, damaged = places(store)
    if not known and not damaged:
        raise Refused(f"no history found in {store.shown}: name its folder with --baselines", 3)
    lines, problems = compact(store, None if is_all else f"{surroundings.today():%Y-%m}")
    return lines or ["nothing to compact: every month that is over is one file"], problems


def verify_store(baselines: str) -> tuple[list[str], list[Problem]]:
    """Read the whole history; returns a line if there is one, and everything that is wrong. Raises Refused."""
    count, problems = verify(open_store(baselines))
    return [f"{plural(count, 'run')} in the history"] if count or problems else [], problems


def export(found: LoadedHistory, format: str, *, newest_alone: bool = False) -> bytes:
    """Return a history in the format of a file. Raises Refused if its package is not installed."""
    if newest_alone and format == openmetrics.NAME:
        return openmetrics.render(found, newest_alone=True)
    if newest_alone:
        raise Refused(f"--newest is for {openmetrics.NAME}; {format} has every number")
    try:
        return FILES[format](found)
    except ImportError as error:
        raise Refused(str(error)) from None


def send(found: LoadedHistory, service: str, target: str | None) -> list[str]:
    """Write a history to a service; returns the lines to print. Raises Refused."""
    if target is None:
        raise Refused(f"--format {service} needs --to: a folder, or the address of the server")
    try:
        return SERVICES[service](found, target)
    except ImportError as error:
        raise Refused(str(error)) from None
    except Exception as error:  # each service has its own exceptions
        raise Refused(f"{service}: {error}") from error
