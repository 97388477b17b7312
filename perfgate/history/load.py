"""The whole history of a store, as programs and commands use it: `perfgate.load_history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from perfgate.baselines.stores import Store, open_store
from perfgate.core.branch import CommitLine
from perfgate.core.run_history import EnvironmentHistory, LoadedHistory
from perfgate.core.wording import synonyms
from perfgate.history.approvals import approvals
from perfgate.history.commits import commit_line
from perfgate.history.renames import current_name, joined, proposals
from perfgate.history.series import order_of, series_of
from perfgate.history.store import StoredHistory, places, read
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace.options import Refused


def load_history(
    baselines: str = "baselines",
    *,
    metric: str | None = None,
    suite: str | None = None,
    environment: str | None = None,
    ref: str | None = None,
    renames: Mapping[str, str] | None = None,
) -> LoadedHistory:
    """Return the remembered runs of a store with the changes of every metric.

    Parameters
    ----------
    baselines : the folder or bucket of the baselines, which contains the history.
    metric : a name or a glob (`*`, `?`, `[..]`); None for all metrics. Other names of a metric are found, too.
    suite, environment : read these only.
    ref : the branch whose first parents order the runs; None for that of most runs, or else HEAD.
    renames : the new name of each renamed metric; its series are joined.

    Returns
    -------
    `LoadedHistory`. Values are in base units. It is empty if nothing is remembered; files that cannot be used are in
    `problems`.

    Raises
    ------
    ValueError : the store cannot be opened.
    """
    try:
        store = open_store(baselines)
    except Refused as error:
        raise ValueError(str(error)) from None
    return load(store, metric=metric, suite=suite, environment=environment, ref=ref, renames=renames)


def load(
    store: Store,
    *,
    metric: str | None = None,
    suite: str | None = None,
    environment: str | None = None,
    ref: str | None = None,
    renames: Mapping[str, str] | None = None,
) -> LoadedHistory:
    """Return the history of an open store; see `load_history`."""
    found, problems = places(store, suite)
    moved = renames or {}
    names = () if metric is None else (metric, *synonyms(metric), current_name(metric, moved))

    @cache
    def wanted(name: str) -> bool:
        known = (name, current_name(name, moved))
        return metric is None or any(has == one or glob_matches(one, has) for one in names for has in known)

    stored = [joined(read(store, one, place, wanted), moved) for one, place in found if environment in (None, place)]
    problems += [problem for history in stored for problem in history.problems]
    line = commit_line(_refs(stored, ref))
    histories = tuple(_environment(store, one, line, is_whole=metric is None) for one in stored)
    return LoadedHistory(histories, tuple(dict.fromkeys(problems)), line)


def _refs(stored: Sequence[StoredHistory], ref: str | None) -> list[str]:
    """Return the refs that may be the measured branch, the best first."""
    if ref is not None:
        return [ref, f"refs/remotes/origin/{ref}"]
    known = Counter(run.ref for history in stored for run in history.runs if run.ref).most_common(1)
    names = [known[0][0]] if known else []
    return [*(f"refs/remotes/origin/{name}" for name in names), *names, "HEAD"]


def _environment(store: Store, stored: StoredHistory, line: CommitLine | None, *, is_whole: bool) -> EnvironmentHistory:
    levels = approvals(store, stored.suite, stored.environment)
    series, notes = series_of(stored, line, levels)
    runs = tuple(stored.runs[place] for place in order_of(stored.runs, line).places)
    notes += proposals(series, runs) if is_whole else ()
    return EnvironmentHistory(
        *(stored.suite, stored.environment, stored.identity, runs, tuple(series)), levels, stored.metrics, tuple(notes)
    )
