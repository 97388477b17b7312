"""The whole history of a store: its runs in the order of commits, with approved levels and renamed metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from statistics import median

import msgspec
import numpy as np
from msgspec.structs import replace

from perfgate.baselines.files import StoredLevel
from perfgate.baselines.places import kind_of
from perfgate.baselines.stores import Store, open_store
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel, EnvironmentHistory, HistorySeries, LoadedHistory
from perfgate.core.wording import synonyms
from perfgate.history.series import order_of, series_of
from perfgate.history.store import HistoryColumn, StoredHistory, listed, places, read
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git


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
    renamed = renames or {}
    names = () if metric is None else (metric, *synonyms(metric), current_name(metric, renamed))

    @cache
    def wanted(name: str) -> bool:
        own = (name, current_name(name, renamed))  # a renamed metric is found by its old and by its newest name
        return metric is None or any(has == one or glob_matches(one, has) for one in names for has in own)

    stored = [joined(read(store, one, place, wanted), renamed) for one, place in found if environment in (None, place)]
    problems += [problem for history in stored for problem in history.problems]
    if ref is not None:
        refs = [ref, f"refs/remotes/origin/{ref}"]
    else:  # the branch of most runs; that of the server first, because a local one may be old
        most = Counter(run.ref for history in stored for run in history.runs if run.ref).most_common(1)
        refs = [*(name for branch, _ in most for name in (f"refs/remotes/origin/{branch}", branch)), "HEAD"]
    line = commit_line(refs)
    histories = []
    for one in stored:
        levels = approvals(store, one.suite, one.environment)
        series, notes = series_of(one, line, levels)
        runs = tuple(one.runs[place] for place in order_of(one.runs, line).places)
        notes += proposals(series, runs) if metric is None else ()  # `metric` may leave the other name out
        about = one.suite, one.environment, one.identity, runs, tuple(series), levels, one.metrics, tuple(notes)
        histories.append(EnvironmentHistory(*about))
    return LoadedHistory(tuple(histories), tuple(dict.fromkeys(problems)), line)


#: The most commits of a branch that are read.
_MOST_COMMITS = 100_000


def commit_line(refs: Iterable[str]) -> CommitLine | None:
    """Return the first parents of the first of these refs that git knows; None if it knows none of them."""
    form = "--format=%H%x00%cI%x00%an%x00%s%x00%D"  # a commit can contain every byte but 0
    for ref in refs:
        words = ("log", "-z", "--first-parent", f"--max-count={_MOST_COMMITS}", form, "--end-of-options", ref, "--")
        try:
            text = git(*words, what=f"{ref} cannot be read").decode("utf-8", "backslashreplace")
        except Refused:
            continue
        rows = [*zip(*[iter(text.split("\0"))] * 5, strict=False)]  # the text ends with a 0
        notes = []
        for sha, time, who, subject, decoration in rows:
            names = decoration.split(", ")  # a name may contain a comma, but no space
            tags = tuple(name.removeprefix("tag: ") for name in names if name.startswith("tag: "))
            notes.append(CommitNote(sha, _utc(time), who, subject, tags))
        return CommitLine.of(ref, notes[::-1])
    return None


def _utc(time: str) -> str:
    """Return a time of git as runs have it: UTC, in whole seconds. An impossible time stays as it is."""
    try:
        return f"{datetime.fromisoformat(time.replace('Z', '+00:00')).astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError):
        return time


class _Head(msgspec.Struct, frozen=True):
    """The fields of a stored run that `approvals` needs."""

    time: str
    commit: str | None
    level: StoredLevel


def approvals(store: Store, suite: str, environment: str) -> tuple[ApprovedLevel, ...]:
    """Return the levels of an environment, oldest first.

    Each level is read from its first run, and left out if this cannot be read. `perfgate baseline verify` finds files
    that were altered.
    """
    paths, _ = listed(store, f"{suite}/{environment}")
    firsts: dict[str, str] = {}
    for path in paths:  # SUITE/ENVIRONMENT/LEVEL/RUN.json
        if kind_of(path) == "run":
            firsts.setdefault(path.split("/")[2], path)
    found = []
    for path in firsts.values():
        try:
            head = msgspec.json.decode(store.read(path), type=_Head)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
        level, adopts = head.level, tuple(head.level.adopts)
        found.append(
            ApprovedLevel(  # without a parent it is the first level
                level.name, head.time, head.commit, level.by, level.reason, level.pr, adopts, level.parent is None
            )
        )
    return tuple(sorted(found, key=lambda one: (one.time, one.name)))


#: A new metric may be an old one with another name if it begins at most this many runs after the end of the old one,
#: and their values differ by at most this factor.
_SOON, _RATIO = 3, 1.25
#: The medians of this many runs of each are compared.
_COMPARED = 5


def current_name(metric: str, renames: Mapping[str, str]) -> str:
    """Return the newest name of a metric, after any number of renames; in a circle of renames, each is used once."""
    return _names_of(metric, renames)[-1]


def _names_of(metric: str, renames: Mapping[str, str]) -> list[str]:
    """Return a name and the newer ones of the same metric, the newest last."""
    names = [metric]
    while (newer := renames.get(names[-1])) is not None and newer not in names:
        names.append(newer)
    return names


def joined(history: StoredHistory, renames: Mapping[str, str]) -> StoredHistory:
    """Return a history in which renamed metrics have one series. If a run has several names, the newest one counts."""
    if not renames:
        return history
    columns: dict[tuple[SeriesName, str], HistoryColumn] = {}
    # series with a newer name come first, so that their numbers count: fewer renames follow
    for column in sorted(history.series, key=lambda one: len(_names_of(one.name.key.metric, renames))):
        key = replace(column.name.key, metric=current_name(column.name.key.metric, renames))
        renamed = replace(column, name=replace(column.name, key=key))
        newer = columns.get((renamed.name, renamed.unit))
        columns[renamed.name, renamed.unit] = renamed if newer is None else _joined(newer, renamed)
    ordered = [columns[name] for name in sorted(columns)]
    metrics = sorted({current_name(name, renames) for name in history.metrics})
    return replace(history, series=tuple(ordered), metrics=tuple(metrics))


def _joined(newer: HistoryColumn, older: HistoryColumn) -> HistoryColumn:
    """Return the numbers of both columns in order; for a run that both have, the newer one's."""
    at, rows = np.unique(np.concatenate((newer.at, older.at)), return_index=True)
    values, errors, n_effective, n = (
        np.concatenate(pair)[rows]
        for pair in zip(*((c.values, c.errors, c.n_effective, c.n) for c in (newer, older)), strict=True)
    )
    return replace(newer, at=at, values=values, errors=errors, n_effective=n_effective, n=n)


def proposals(series: Sequence[HistorySeries], runs: Sequence[HistoryRun]) -> Iterator[str]:
    """Yield a note for each metric that ended where a similar one with the same labels began, to propose a rename."""
    place = {run.id: i for i, run in enumerate(runs)}
    began = [one for one in series if one.runs and place[one.runs[0].id] > 0]
    renamed: dict[tuple[str, str], None] = {}  # a set that keeps its order
    for ended in (one for one in series if one.runs and one.missing_since):
        last = place[ended.runs[-1].id]
        for new in began:
            if 0 < place[new.runs[0].id] - last <= _SOON and _is_similar(ended, new):
                renamed[ended.name.key.metric, new.name.key.metric] = None
    for old, now in renamed:
        yield (
            f"{old} ended where {now} began, with a similar value: if it was renamed, "
            f"write `renames: {{{old}: {now}}}` in the rules"
        )


def _is_similar(ended: HistorySeries, new: HistorySeries) -> bool:
    """Return whether two series have the same unit, labels, statistic and rank, and similar values there."""
    old_form, new_form = ((one.unit, one.name.key.labels, one.name.statistic, one.name.rank) for one in (ended, new))
    before, after = median(ended.values[-_COMPARED:].tolist()), median(new.values[:_COMPARED].tolist())
    return old_form == new_form and before > 0 and 1 / _RATIO <= after / before <= _RATIO
