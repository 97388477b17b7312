"""The whole history of a store, as programs and commands use it: `perfgate.load_history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from perfgate.baselines.stores import Store, open_store
from perfgate.core.run_history import CommitLine, EnvironmentHistory, LoadedHistory
from perfgate.core.wording import synonyms
from perfgate.history.approvals import approvals
from perfgate.history.commits import commit_line
from perfgate.history.series import order_of, series_of
from perfgate.history.store import StoredHistory, places, read
from perfgate.rules.syntax.sentence import glob_matches


def load_history(
    baselines: str = "baselines",
    *,
    metric: str | None = None,
    suite: str | None = None,
    environment: str | None = None,
    ref: str | None = None,
) -> LoadedHistory:
    """Return the remembered runs of a store with the changes of every metric.

    Parameters
    ----------
    baselines : the folder or bucket of the baselines, which contains the history.
    metric : a name or a glob (`*`, `?`, `[..]`); None for all metrics. Other names of a metric are found, too.
    suite, environment : read these only.
    ref : the branch whose first parents order the runs; None for that of most runs, or else HEAD.

    Returns
    -------
    `LoadedHistory`. Values are in base units. It is empty if nothing is remembered; files that cannot be used are in
    `problems`.

    Raises
    ------
    perfgate.workspace.options.Refused : the store cannot be opened.
    """
    return load(open_store(baselines), metric=metric, suite=suite, environment=environment, ref=ref)


def load(
    store: Store,
    *,
    metric: str | None = None,
    suite: str | None = None,
    environment: str | None = None,
    ref: str | None = None,
) -> LoadedHistory:
    """Return the history of an open store; see `load_history`."""
    found, problems = places(store, suite)
    names = () if metric is None else (metric, *synonyms(metric))

    @cache
    def wanted(name: str) -> bool:
        return metric is None or any(name == one or glob_matches(one, name) for one in names)

    stored = [read(store, one, place, wanted) for one, place in found if environment in (None, place)]
    problems += [problem for history in stored for problem in history.problems]
    line = commit_line(_refs(stored, ref))
    return LoadedHistory(tuple(_environment(store, one, line) for one in stored), tuple(problems), line)


def _refs(stored: Sequence[StoredHistory], ref: str | None) -> list[str]:
    """Return the refs that may be the measured branch, the best first."""
    if ref is not None:
        return [ref]
    known = Counter(run.ref for history in stored for run in history.runs if run.ref).most_common(1)
    names = [known[0][0]] if known else []
    return [*(f"refs/remotes/origin/{name}" for name in names), *names, "HEAD"]


def _environment(store: Store, stored: StoredHistory, line: CommitLine | None) -> EnvironmentHistory:
    levels = approvals(store, stored.suite, stored.environment)
    series, notes = series_of(stored, line, levels)
    runs = tuple(stored.runs[place] for place in order_of(stored.runs, line).places)
    return EnvironmentHistory(
        *(stored.suite, stored.environment, stored.identity, runs, tuple(series)), levels, stored.metrics, tuple(notes)
    )
