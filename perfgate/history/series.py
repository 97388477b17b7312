"""One metric of the history in order: its levels, their changes, and the approvals and reversals of these.

Commits are ordered by git, as the first parents of the branch, because clocks jump and commits are measured late. Runs
without a commit, and histories without a repository, are ordered by time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import fact_text
from perfgate.core.remembered_runs import CommitLine, HistoryRun, changed_facts
from perfgate.core.run_history import ApprovedLevel, ChangePoint, HistoryChange, HistorySeries
from perfgate.core.runs import same_fact
from perfgate.core.wording import listed, plural
from perfgate.history.store import HistoryColumn, StoredHistory
from perfgate.stats.change_points import find_change_points
from perfgate.stats.distributions import IntArray

#: A change went away if a later level has at most this share of it left.
_GONE = 0.5
#: An approval up to this many runs after a change is about it.
_LATE = 10


class RunOrder(Struct, frozen=True):
    """The positions of the runs of a history in order, and notes about anything unusual in this order."""

    places: tuple[int, ...]
    notes: tuple[str, ...] = ()


def order_of(runs: Sequence[HistoryRun], line: CommitLine | None) -> RunOrder:
    """Return the order of runs: by commit, then by time. Runs of commits that are not on the line are left out.

    The order is by time alone without a repository, or if the repository has the commits of fewer than half of the runs
    (a shallow clone).
    """
    by_time = sorted(range(len(runs)), key=lambda i: (runs[i].time, runs[i].id))
    with_commit = [i for i in by_time if runs[i].commit]
    if line is None or not with_commit:
        return RunOrder(tuple(by_time))
    placed = {i: place for i in with_commit if (place := line.place(runs[i].commit)) is not None}
    if 2 * len(placed) < len(with_commit):
        count = len(with_commit) - len(placed)
        why = f"{line.ref} does not have the commits of {count} of {plural(len(with_commit), 'run')} here"
        return RunOrder(tuple(by_time), (f"ordered by time: {why} (fetch it with its history)",))
    return _by_commits(runs, by_time, line, placed)


def _by_commits(
    runs: Sequence[HistoryRun], by_time: Sequence[int], line: CommitLine, placed: Mapping[int, int]
) -> RunOrder:
    """Return the order of runs by commit, with notes. `placed`: by run, the place of its commit on the line."""
    known = sorted(placed, key=lambda i: (placed[i], runs[i].time, runs[i].id))
    notes = []
    if others := [i for i in by_time if runs[i].commit and i not in placed]:
        names = listed(list(dict.fromkeys(runs[i].label for i in others)))
        what = f"{plural(len(others), 'run')} of commits that are not on {line.ref}"
        notes.append(f"left out: {what} (rewritten, or of another branch): {names}")
    latest = list(accumulate((runs[i].time for i in known), max))  # the latest time up to each run
    late = sum(runs[i].time < most for i, most in zip(known[1:], latest, strict=False))
    if late:
        verb = "has" if late == 1 else "have"
        notes.append(f"{plural(late, 'run')} {verb} an earlier time than a run of an older commit: the commits decide")
    # a run without a commit is put before the first run with a later time; the last one is put first, because an
    # insertion moves only the places after it
    for i in reversed([i for i in by_time if not runs[i].commit]):
        known.insert(bisect_right(latest, runs[i].time), i)
    return RunOrder(tuple(known), tuple(notes))


def series_of(
    history: StoredHistory, line: CommitLine | None, levels: Sequence[ApprovedLevel]
) -> tuple[list[HistorySeries], list[str]]:
    """Return the series of a history, sorted by name, and notes about their order."""
    order = order_of(history.runs, line)
    rank = np.full(len(history.runs), -1, dtype=np.int64)  # for each run, its number in the order
    rank[list(order.places)] = np.arange(len(order.places))
    known: dict[bytes, tuple[HistoryRun, ...]] = {}  # most series have the same runs
    often = {name for name, _ in changed_facts([history.runs[place] for place in order.places]).often}
    changes = partial(_changes, line=line, levels=levels, often=often)
    return [_ordered(history, column, rank, changes, known) for column in history.series], list(order.notes)


def _ordered(
    history: StoredHistory,
    column: HistoryColumn,
    rank: IntArray,
    changes: Callable[[Sequence[ChangePoint], Sequence[HistoryRun], str], Iterator[HistoryChange]],
    known: dict[bytes, tuple[HistoryRun, ...]],
) -> HistorySeries:
    """Return a series in the order of `rank`, in which -1 is a run that is left out.

    `column.at`: the position of each of its runs in `history.runs`, and so in `rank`.
    `changes`: makes changes from change points. `known`: the runs of a series by their positions, to share them.
    """
    own = rank[column.at]
    rows = np.argsort(own, kind="stable")[int((own < 0).sum()) :]
    places = column.at[rows]
    if (name := places.tobytes()) not in known:
        known[name] = tuple(history.runs[place] for place in places.tolist())
    runs = known[name]
    values, errors, n_effective, n = (
        numbers[rows] for numbers in (column.values, column.errors, column.n_effective, column.n)
    )
    points = find_change_points(values, errors=errors, better=column.better)
    newest = int(own[rows[-1]]) if len(rows) else -1
    found = HistorySeries(
        *(history.suite, history.environment, column.name, column.unit, column.better, column.kind),
        *(runs, values, errors, n_effective, n),
        changes=tuple(changes(points, runs, column.name.key.metric)),
        missing_since=int((rank >= 0).sum()) - 1 - newest,  # the runs after its newest one
        noise=math.nan,  # see below
    )
    level_of_run = np.empty(len(values))
    for start, end, level in found.levels():
        level_of_run[start:end] = level
    rows = np.flatnonzero(level_of_run)
    # the relative standard deviation of a run around its level (a level of 0 has none), by the median deviation
    noise = 1.4826 * np.median(np.abs(values[rows] / level_of_run[rows] - 1)) if len(rows) else math.nan
    return replace(found, noise=float(noise))


def with_short_levels(
    series: HistorySeries, line: CommitLine | None, levels: Sequence[ApprovedLevel], newest: int
) -> HistorySeries:
    """Return a series with only the changes of its newest runs, but also those whose old level soon returned.

    `find_change_points` leaves these out, unless `lasting` is 0.
    """
    start = max(len(series.values) - newest, 0)
    values, errors = series.values[start:], series.errors[start:]
    points = [
        replace(one, index=one.index + start, first=one.first + start, last=one.last + start)
        for one in find_change_points(values, errors=errors, better=series.better, lasting=0)
    ]
    often = {name for name, _ in changed_facts(series.runs).often}
    found = _changes(points, series.runs, series.name.key.metric, line=line, levels=levels, often=often)
    return replace(series, changes=tuple(found))


def _changes(
    points: Sequence[ChangePoint],
    runs: Sequence[HistoryRun],
    metric: str,
    *,
    line: CommitLine | None,
    levels: Sequence[ApprovedLevel],
    often: Collection[str],
) -> Iterator[HistoryChange]:
    """Yield the changes of a metric. `often`: the facts that change often, which explain nothing."""
    decided = [level for level in levels if level.covers(metric)]
    for number, point in enumerate(points):
        earlier, later = points[:number], points[number + 1 :]
        back = next((other for other in later if _is_back(point, other, earlier)), None)
        # the new level begins in one of the runs `first` to `last`, most likely in run `index`
        good, bad, likely = runs[point.first - 1], runs[point.last], runs[point.index]
        between = line.between(good.commit, bad.commit) if line else ()
        until = later[0].index if later else len(runs)
        yield HistoryChange(
            *(point, likely, good, bad),
            commits=len(between) or None,
            went_away=None if back is None else runs[back.index],
            approval=_approval(decided, runs, point.first, min(point.last + _LATE, until)),
            facts=tuple(differences(runs[point.index - 1], likely, often)),
        )


def _is_back(point: ChangePoint, later: ChangePoint, earlier: Sequence[ChangePoint]) -> bool:
    """Return whether the level after `later` is the level before `point` again, or an even older one beyond that.

    In the levels 5, 10, 14, 5, both rises are back: the last 5 is beyond 10, and an older level.
    `earlier`: the points before `point`.
    """
    if abs(later.after - point.before) <= _GONE * abs(point.after - point.before):
        return True
    is_beyond = (later.after - point.before) * (point.after - point.before) < 0
    return is_beyond and any(_is_back(one, later, ()) for one in earlier)


def _approval(
    decided: Sequence[ApprovedLevel], runs: Sequence[HistoryRun], start: int, end: int
) -> ApprovedLevel | None:
    """Return the newest approval of the runs `start` to `end` - 1: by its commit, or without one by its time."""
    near = runs[start:end]
    commits = {run.commit for run in near if run.commit}
    first, last = runs[start - 1].time, near[-1].time
    found = [one for one in decided if (one.commit in commits if one.commit else first < one.time <= last)]
    return found[-1] if found else None


def differences(before: HistoryRun, after: HistoryRun, often: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the facts of both runs that differ, without those that change often: these explain nothing."""
    for name in sorted({*before.context, *after.context}.difference(often)):
        old, new = before.context.get(name), after.context.get(name)
        if old is not None and new is not None and not same_fact(old, new):
            yield name, fact_text(old), fact_text(new)
