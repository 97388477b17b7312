"""`perfgate history`: what every run of main measured, and where that changed."""

from __future__ import annotations

from difflib import get_close_matches

from perfgate.baselines.stores import open_store
from perfgate.core import Problem
from perfgate.core.run_history import LoadedHistory
from perfgate.core.wording import listed, plural
from perfgate.history.load import load
from perfgate.history.store import compact, verify
from perfgate.workspace.options import HistoryPlace, Refused


def show(place: HistoryPlace, metric: str | None = None) -> LoadedHistory:
    """Return the history of a metric, or of all. Raises Refused (3) if nothing is remembered."""
    store = open_store(place.baselines)
    found = load(store, metric=metric, suite=place.suite, environment=place.environment, ref=place.ref)
    if not found.environments and not found.problems:
        what = "" if place.suite is None and place.environment is None else " of this suite and environment"
        raise Refused(
            f"there is no history{what} in {store.shown}: add runs with `perfgate history add RUN...`, or those of "
            "another tool with `perfgate history import FILE`",
            3,
        )
    if metric is not None and not found.series and found.environments:
        known = sorted({name for one in found.environments for name in one.metrics})
        near = get_close_matches(metric, known, n=3, cutoff=0.5)
        hint = f"did you mean {listed(near)}?" if near else f"it has {listed(known)}"
        raise Refused(f"the history has no metric {metric!r}: {hint}", 3)
    return found


def compact_store(baselines: str, before: str | None) -> tuple[list[str], list[Problem]]:
    """Write the runs of each month as one file; see `perfgate.history.store.compact`. Raises Refused."""
    lines, problems = compact(open_store(baselines), before)
    return lines or ["nothing to compact: every month is one file already"], problems


def verify_store(baselines: str) -> tuple[list[str], list[Problem]]:
    """Read the whole history; returns a line if there is one, and everything that is wrong. Raises Refused."""
    count, problems = verify(open_store(baselines))
    return [f"{plural(count, 'run')} in the history"] if count or problems else [], problems
