"""The changes of main as people handle them: change points of all metrics that began together are one event.

An event must stay the same event when more runs follow. So it begins with steps: `panel_steps` finds the places where
many metrics of an environment move at once, each only from the runs until then. Steps of several environments in the
same commits are one event. Its id is a hash of the run that made its first step clear. More runs change only the rest,
which comes from the change points of all runs: sizes, commits, facts, and the state of the event. A step without a
change point is reported if its level was short, and the old one returned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.history_events import EventChange, EventKind, EventState, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import ApprovedLevel, LoadedHistory
from perfgate.history.event_panels import EventGroup, EventPanel, MovedSeries, assign, coordinates, grouped
from perfgate.history.series import with_short_levels
from perfgate.stats.distributions import FloatArray

_ID_LETTERS = 8
#: A machine explains an event if its facts changed with this share of the series that moved.
_MACHINE_SHARE = 0.75
#: An event is the end of others if this share of its changes brings old levels back.
_BACK = 0.75
#: Facts of the machine that changed: name, before, after.
Facts: TypeAlias = tuple[tuple[str, str, str], ...]
#: Short levels are looked for in metrics that a step changed by this many standard errors, if the step is in this many
#: newest runs. As many runs before these are used, too, for the level before.
_MOVED, _NEWEST = 2.0, 200


class EventRange(Struct, frozen=True):
    """The runs between which an event began, and its relation to the machine."""

    #: The last run before it, the most likely first run, and the first run that is clearly after it.
    good: HistoryRun
    likely: HistoryRun
    bad: HistoryRun
    #: The facts that changed there.
    facts: Facts
    #: True if a change of the machine explains it.
    is_machine: bool
    #: The facts of the machine that later brought the old levels back, although the code still has the change.
    hidden: Facts = ()


def events_of(found: LoadedHistory) -> list[HistoryEvent]:
    """Return the events of a whole history, the newest first, without causes and owners.

    An event that only brings old levels back is not listed: it is the end of the event before. Ids stay the same from
    day to day only if `found` has all metrics and environments.
    """
    panels = [EventPanel(place) for place in found.environments]
    commits = coordinates(found)
    groups = grouped(panels, commits)
    assign(panels, groups, commits)
    groups = [group for group in _with_short_levels(found, panels, groups, commits) if group.moved]
    moved = list(map(EventGroup.all, groups))
    ranges = _with_hidden(moved, [_range(group, panels, commits) for group in groups])
    rows = zip(groups, ranges, _ends(moved, ranges), strict=True)
    events = [_event(group, own, panels, found.line, commits) for group, own, is_end in rows if not is_end]
    return sorted(events, key=lambda event: (event.likely.time, event.id), reverse=True)


def _with_short_levels(
    found: LoadedHistory, panels: Sequence[EventPanel], groups: list[EventGroup], commits: Mapping[str, float]
) -> list[EventGroup]:
    """Return the events; those without a change point (`moved`) get change points to short levels, if there are any."""
    z: dict[int, list[FloatArray]] = {}  # by panel: the size of each such step in each series, in standard errors
    for step in (step for group in groups if not group.moved for step in group.steps):
        if step.step.first >= len(panels[step.panel].place.runs) - _NEWEST:
            z.setdefault(step.panel, []).append(np.abs(step.step.z))
    if not z:
        return groups
    short = [*panels]
    for number, of_steps in z.items():
        place = panels[number].place
        series = [replace(one, changes=()) for one in panels[number].series]
        for column in np.flatnonzero(np.max(of_steps, axis=0) >= _MOVED).tolist():
            series[column] = with_short_levels(panels[number].series[column], found.line, place.levels, 2 * _NEWEST)
        short[number] = EventPanel(replace(place, series=tuple(series)))
    # all events take part, because each change point goes to the nearest of them
    again = [EventGroup(group.steps, group.low, group.high) for group in groups]
    assign(short, again, commits)
    return [group if group.moved else other for group, other in zip(groups, again, strict=True)]


def _event(
    group: EventGroup, own: EventRange, panels: list[EventPanel], line: CommitLine | None, commits: Mapping[str, float]
) -> HistoryEvent:
    """Return an event as it is reported."""
    first = group.steps[0]
    place = panels[first.panel].place
    name = f"{place.suite}\n{place.environment}\n{first.seen.id}"
    changes = []
    for one in group.all():
        series, point = one.series, one.change.point
        sizes = (point.before, point.after, point.change, point.low, point.high, point.worse)
        changes.append(EventChange(series.suite, series.environment, series.name, series.unit, *sizes))
    changes.sort(key=lambda one: (-abs(one.change), one.suite, one.environment, one.name))
    state, ended, approval = _state_of(group.all(), own, line, place.runs, commits)
    kind: EventKind = "machine" if own.is_machine else "code"
    return HistoryEvent(
        hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:_ID_LETTERS],
        *(kind, state, own.good, own.bad, own.likely),
        commits=(len(line.between(own.good.commit, own.bad.commit)) or None) if line else None,
        changes=tuple(changes),
        facts=own.facts,
        ended=ended,
        approval=approval,
        hidden=own.hidden if state == "open" else (),
    )


def _range(group: EventGroup, panels: Sequence[EventPanel], commits: Mapping[str, float]) -> EventRange:
    """Return the range of an event: that of the environment with the most evidence.

    The ranges of other environments make it shorter if they overlap with it.
    """
    facts: dict[tuple[str, str, str], None] = {}  # a set that keeps its order
    with_facts = 0
    found: tuple[HistoryRun, HistoryRun, HistoryRun] | None = None  # good, likely, bad
    for panel in sorted(group.moved, key=lambda panel: (-_evidence(group.of(panel)), panel)):
        moved = group.of(panel)
        runs = panels[panel].place.runs
        first, index, last = panels[panel].began(moved)
        changed = panels[panel].facts(first, last)
        facts |= dict.fromkeys(changed)
        if changed:
            with_facts += len(moved)
        if found is None:
            found = (runs[first - 1], runs[index], runs[last])
            continue
        good = max(found[0], runs[first - 1], key=lambda run: commits[run.id])
        bad = min(found[2], runs[last], key=lambda run: commits[run.id])
        if commits[good.id] < commits[bad.id]:
            likely = found[1] if commits[good.id] < commits[found[1].id] <= commits[bad.id] else bad
            found = (good, likely, bad)
    assert found is not None
    good, likely, bad = found
    is_same = good.commit is not None and good.commit == bad.commit  # then the code did not change
    return EventRange(good, likely, bad, tuple(facts), is_same or with_facts >= _MACHINE_SHARE * len(group.all()))


def _evidence(moved: Sequence[MovedSeries]) -> float:
    """Return the sum of the sizes of the changes, each divided by the width of its interval."""
    points = [one.change.point for one in moved]
    return sum(abs(point.change) / max(point.high - point.low, 1e-9) for point in points)


# --- how an event ends ----------------------------------------------------------------------------------------------
# Its old levels come back, by a revert or by themselves, or somebody approves the new ones. If the old levels of an
# event of the code came back because the machine changed, it is not over: the machine hides it.


def _with_hidden(moved: Sequence[Sequence[MovedSeries]], ranges: Sequence[EventRange]) -> list[EventRange]:
    """Return the ranges with `hidden`. `moved` are the change points of each event."""
    # by series and first run of a change: the facts of the machine that explain it; none if its event is of the code
    known = {
        (id(one.series), one.change.likely.id): own.facts if own.is_machine else ()
        for changes, own in zip(moved, ranges, strict=True)
        for one in changes
    }
    found = []
    for changes, own in zip(moved, ranges, strict=True):
        worse = _worse(changes)
        # for each change that went away: the facts of the change that brought its old level back, `back`. If `back` is
        # in no event, these are the facts that differ between its run and the one before
        facts = [
            known.get((id(one.series), back.likely.id), back.facts)
            for one in worse
            for back in one.series.changes
            if back.likely is one.change.went_away
        ]
        is_hidden = not own.is_machine and sum(map(bool, facts)) >= _MACHINE_SHARE * len(worse)
        found.append(replace(own, hidden=tuple({fact: None for one in facts for fact in one if is_hidden})))
    return found


def _ends(moved: Sequence[Sequence[MovedSeries]], ranges: Sequence[EventRange]) -> list[bool]:
    """Return for each event whether it only ends others: it brings back their old levels, and makes nothing worse.

    If the machine brought the levels of an event back, that event is hidden and not ended.
    """
    # the changes, by series and first run, that bring an old level back
    back = {
        (id(one.series), one.change.went_away.id)
        for changes, own in zip(moved, ranges, strict=True)
        for one in changes
        if one.change.went_away is not None and not own.hidden
    }
    return [
        sum((id(one.series), one.change.likely.id) in back for one in changes) >= _BACK * len(changes)
        and not any(one.change.point.worse for one in changes)
        for changes in moved
    ]


def _state_of(
    moved: Sequence[MovedSeries], own: EventRange, line: CommitLine | None,
    runs: Sequence[HistoryRun], commits: Mapping[str, float],
) -> tuple[EventState, HistoryRun | None, ApprovedLevel | None]:  # fmt: skip
    """Return the state of an event, the run in which its old levels came back, and its approval.

    The state is the first of these that is true. Only changes for the worse count; if there are none, all changes do.
    `reverted`: all old levels came back, and a later commit reverts one of its range.
    `recovered`: all old levels came back, and the machine does not hide the event.
    `approved`: all levels that stayed are approved; if the machine hides the event, all its levels are approved.
    `open`: otherwise.
    `runs`: those of the environment. `commits`: see `coordinates`.
    """
    changes = [one.change for one in _worse(moved)]
    left = [change for change in changes if change.went_away is None]
    back = max((change.went_away for change in changes if change.went_away), key=lambda run: run.time, default=None)
    if not left and back is not None:
        first = _first_with_revert(back, own, line, runs, commits)
        if first is not None:
            return "reverted", first, None
        if not own.hidden:
            return "recovered", back, None
        left = changes
    decided = [change.approval for change in left if change.approval is not None]
    if len(decided) == len(left):
        return "approved", None, max(decided, key=lambda level: level.time)
    return "open", back if own.hidden else None, None


def _first_with_revert(
    back: HistoryRun, own: EventRange, line: CommitLine | None, runs: Sequence[HistoryRun], commits: Mapping[str, float]
) -> HistoryRun | None:
    """Return the first run with a revert of a commit of the range; None if no later commit reverts one.

    Commits after `back` count only if the machine hides the event.

    `back`: the run in which the old levels came back. The returned run was not measured before it. If no run of the
    environment has the revert since then, `back` is returned. The other parameters are those of `_state_of`.
    """
    bad = line.place(own.bad.commit) if line else None
    if line is None or bad is None:
        return None
    # the subjects that git and GitHub give to reverts of the commits of the range
    reverts = tuple(f'Revert "{one.subject}"' for one in line.between(own.good.commit, own.bad.commit))
    # the machine may bring levels back before the revert, so all later commits count then
    later = line.between(own.bad.commit, (runs[-1] if own.hidden else back).commit)
    place = next((at for at, one in enumerate(later, bad + 1) if one.subject.startswith(reverts)), None)
    if place is None:
        return None
    return next((run for run in runs if commits[run.id] >= place and run.time >= back.time), back)


def _worse(moved: Sequence[MovedSeries]) -> Sequence[MovedSeries]:
    """Return the changes for the worse; all, if there is none."""
    return [one for one in moved if one.change.point.worse] or moved
