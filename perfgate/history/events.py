"""The changes of main as people handle them: change points of all metrics that began together are one event.

Which events there are, and their ids, is settled by the first runs that show them: `panel_steps` finds each step of an
environment from the runs that were there by then, and steps of several environments in the same commits are one event.
Its id is a hash of the run that made the first step clear. So more runs change no id, split no event and join none.
They change the rest, which comes from the change points of all runs: sizes, commits, facts, and whether it is over. A
step without a change point is reported if its level was short and the old one returned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.history_events import EventChange, EventKind, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import LoadedHistory
from perfgate.history.event_ends import MACHINE_SHARE, EventRange, ends, state_of, with_hidden
from perfgate.history.event_panels import EventPanel, MovedSeries
from perfgate.history.series import with_short_levels
from perfgate.stats.change_points import SAME_POINT
from perfgate.stats.distributions import FloatArray
from perfgate.stats.panel_steps import PanelStep

_ID_LETTERS = 8
#: A metric may have a short level beside a step that changed it by this many standard errors, among the newest runs.
#: The same number of runs before them shows the level before.
_MOVED, _NEWEST = 2.0, 200


class _Clear(Struct, frozen=True):
    """A step of one environment as it was found: the commits where it may be, after `low` up to `high`."""

    panel: int
    step: PanelStep
    seen: HistoryRun
    at: float
    low: float
    high: float
    #: Whether it is for the worse (1) or the better (-1), and whether facts of the machine changed.
    sign: int
    machine: bool


class _Cluster(Struct):
    """The steps of an event, at most one of each environment, and its change points by environment."""

    steps: list[_Clear]
    low: float
    high: float
    #: By environment and series, with the distance to the step.
    moved: dict[int, dict[int, tuple[float, MovedSeries]]] = field(default_factory=dict)

    def distance(self, clear: _Clear) -> float | None:
        """Return the distance of a step of another environment; None if it is not of this event."""
        if max(self.low, clear.low) >= min(self.high, clear.high) or clear.panel in {one.panel for one in self.steps}:
            return None
        if any(one.sign != clear.sign and one.machine != clear.machine for one in self.steps):
            return None  # the machine moved one way and the code another
        return abs(self.low + self.high - clear.low - clear.high)

    def away(self, panel: int, moved: MovedSeries, at: float, low: float, high: float) -> float:
        """Return the distance of a change point in commits; -1 if it is not of this event."""
        own = next((one for one in self.steps if one.panel == panel), None)
        if own is not None:
            first, last = own.step.first - SAME_POINT, own.step.last + SAME_POINT
            return abs(at - own.at) if moved.first <= last and moved.last >= first else -1
        # Of two events in the same commits, it belongs to that with a step of its own environment.
        return abs(at - self.steps[0].at) + 0.5 if max(self.low, low) < min(self.high, high) else -1

    def of(self, panel: int) -> list[MovedSeries]:
        """Return the change points of an environment."""
        return [moved for _, moved in self.moved[panel].values()]

    def all(self) -> list[MovedSeries]:
        """Return the change points of all environments."""
        return [one for panel in self.moved for one in self.of(panel)]


def events_of(found: LoadedHistory) -> list[HistoryEvent]:
    """Return the events of a whole history, the newest first, without causes and owners.

    An event that only brings old levels back is not listed: it is the end of the event before. Ids are only the same
    from day to day if the history has all its metrics and environments.
    """
    panels = [EventPanel(place) for place in found.environments]
    commits = _coordinates(found)
    groups = _grouped(panels, commits)
    _assign(panels, groups, commits)
    told = [group for group in _with_short_levels(found, panels, groups, commits) if group.moved]
    moved = list(map(_Cluster.all, told))
    ranges = with_hidden(moved, [_range(group, panels, commits) for group in told])
    rows = zip(told, ranges, ends(moved, ranges), strict=True)
    events = [_event(group, own, panels, found.line, commits) for group, own, is_end in rows if not is_end]
    return sorted(events, key=lambda event: (event.likely.time, event.id), reverse=True)


def _coordinates(found: LoadedHistory) -> dict[str, float]:
    """Return the place of the commit of each run, by the id of the run, in one order for all environments."""
    runs = [run for place in found.environments for run in place.runs]
    first: dict[str, str] = {}
    for run in runs:
        name = run.commit or run.id
        first[name] = min(first.get(name, run.time), run.time)
    rank = {name: number for number, name in enumerate(sorted(first, key=lambda name: (first[name], name)))}
    places: dict[str, float] = {}
    for one in found.environments:
        at = -1.0
        for run in one.runs:
            known = found.line.place(run.commit) if found.line else rank[run.commit or run.id]
            at = max(at, known if known is not None else at)  # a run without a commit is near the one before it
            places[run.id] = at
    return places


def _grouped(panels: Sequence[EventPanel], commits: Mapping[str, float]) -> list[_Cluster]:
    """Return the steps of all environments as events, in the order in which they became clear."""
    clear = [one for number, panel in enumerate(panels) for one in _clear(number, panel, commits)]
    groups: list[_Cluster] = []
    for one in sorted(clear, key=lambda one: (one.seen.time, one.panel)):
        near = [(far, number) for number, group in enumerate(groups) if (far := group.distance(one)) is not None]
        if near:
            group = groups[min(near)[1]]
            group.steps.append(one)
            group.low, group.high = max(group.low, one.low), min(group.high, one.high)
        else:
            groups.append(_Cluster([one], one.low, one.high))
    return groups


def _clear(number: int, panel: EventPanel, commits: Mapping[str, float]) -> Iterator[_Clear]:
    runs = panel.place.runs
    worse = np.array([1.0 if one.better == "lower" else -1.0 for one in panel.series])
    for step in panel.steps:
        at, low, high = (commits[runs[row].id] for row in (step.index, max(step.first - 1, 0), step.last))
        sign = 1 if float((worse * step.z * np.abs(step.z)).sum()) > 0 else -1
        yield _Clear(number, step, runs[step.seen], at, low, high, sign, panel.facts_before(step))


def _assign(panels: Sequence[EventPanel], groups: Sequence[_Cluster], commits: Mapping[str, float]) -> None:
    """Give each change point to the nearest event; of two points of a series, the nearer one belongs to it."""
    for number, panel in enumerate(panels):
        runs = panel.place.runs
        for moved in panel.moved:
            at, low, high = (commits[runs[row].id] for row in (moved.row, max(moved.first - 1, 0), moved.last))
            near = [(away, n) for n, one in enumerate(groups) if (away := one.away(number, moved, at, low, high)) >= 0]
            for away, n in sorted(near):
                own = groups[n].moved.setdefault(number, {})
                if moved.column not in own or away < own[moved.column][0]:
                    own[moved.column] = (away, moved)
                    break


def _with_short_levels(
    found: LoadedHistory, panels: Sequence[EventPanel], groups: list[_Cluster], commits: Mapping[str, float]
) -> list[_Cluster]:
    """Return the events, those without a change point with the changes of short levels in the metrics that moved."""
    z: dict[int, list[FloatArray]] = {}
    for step in (step for group in groups if not group.moved for step in group.steps):
        if step.step.first >= len(panels[step.panel].place.runs) - _NEWEST:
            z.setdefault(step.panel, []).append(np.abs(step.step.z))
    if not z:
        return groups
    short = [*panels]
    for number, of_steps in z.items():
        is_moved, place = np.max(of_steps, axis=0) >= _MOVED, panels[number].place
        series = (
            with_short_levels(one, found.line, place.levels, 2 * _NEWEST) if moved else replace(one, changes=())
            for one, moved in zip(panels[number].series, is_moved.tolist(), strict=True)
        )
        short[number] = EventPanel(replace(place, series=tuple(series)))
    again = [_Cluster(group.steps, group.low, group.high) for group in groups]
    _assign(short, again, commits)
    return [group if group.moved else other for group, other in zip(groups, again, strict=True)]


def _event(
    group: _Cluster, own: EventRange, panels: list[EventPanel], line: CommitLine | None, commits: Mapping[str, float]
) -> HistoryEvent:
    first = group.steps[0]
    place = panels[first.panel].place
    name = f"{place.suite}\n{place.environment}\n{first.seen.id}"
    changes = []
    for one in group.all():
        series, point = one.series, one.change.point
        sizes = (point.before, point.after, point.change, point.low, point.high, point.worse)
        changes.append(EventChange(series.suite, series.environment, series.name, series.unit, *sizes))
    changes.sort(key=lambda one: (-abs(one.change), one.suite, one.environment, one.name))
    state, ended, approval = state_of(group.all(), own, line, place.runs, commits)
    kind: EventKind = "machine" if own.is_machine else "code"
    return HistoryEvent(
        hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:_ID_LETTERS],
        *(kind, state, own.good, own.bad, own.likely),
        len(line.between(own.good.commit, own.bad.commit)) or None if line else None,
        tuple(changes),
        facts=own.facts,
        ended=ended,
        approval=approval,
        hidden=own.hidden if state == "open" else (),
    )


def _range(group: _Cluster, panels: Sequence[EventPanel], commits: Mapping[str, float]) -> EventRange:
    """Return where an event began, and the machine's share of it.

    It is that of the environment with the most evidence, cut by the others where they overlap.
    """
    facts: dict[tuple[str, str, str], None] = {}
    with_facts = 0
    found: tuple[HistoryRun, HistoryRun, HistoryRun] | None = None

    def evidence(panel: int) -> float:
        points = [one.change.point for one in group.of(panel)]
        return sum(abs(point.change) / max(point.high - point.low, 1e-9) for point in points)

    for panel in sorted(group.moved, key=lambda one: (-evidence(one), one)):
        moved = group.of(panel)
        runs = panels[panel].place.runs
        first, index, last = panels[panel].began(moved)
        changed = panels[panel].facts(first, last)
        facts |= dict.fromkeys(changed)
        with_facts += len(moved) if changed else 0
        own = (runs[max(first - 1, 0)], runs[index], runs[last])
        if found is None:
            found = own
            continue
        good = max(found[0], own[0], key=lambda run: commits[run.id])
        bad = min(found[2], own[2], key=lambda run: commits[run.id])
        if commits[good.id] < commits[bad.id]:
            likely = found[1] if commits[good.id] < commits[found[1].id] <= commits[bad.id] else bad
            found = (good, likely, bad)
    assert found is not None
    good, likely, bad = found
    is_same = good.commit is not None and good.commit == bad.commit
    return EventRange(good, likely, bad, tuple(facts), is_same or with_facts >= MACHINE_SHARE * len(group.all()))
