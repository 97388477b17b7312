"""The runs of one environment as a panel, and events: the steps of several panels in the same commits.

A panel is a table with a row for each run and a column for each series. A step is a place where many series of a panel
move at once; a change point is a lasting change of one series. Events are made of steps (`grouped`). Then each change
point goes to the nearest event (`assign`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from perfgate.core.remembered_runs import HistoryRun, changed_facts
from perfgate.core.run_history import EnvironmentHistory, HistoryChange, HistorySeries, LoadedHistory
from perfgate.core.wording import is_machine_metric
from perfgate.history.series import differences
from perfgate.stats.distributions import FloatArray, IntArray
from perfgate.stats.panel_steps import PanelStep, panel_steps

#: A run came late if this many runs of newer commits were measured before it.
_LATE = 5
#: The scale of a series is that of this many first runs; in logarithms, a smaller share of it counts as this share.
_FIRST, _SMALLEST = 10, 1e-6
#: A fact that changes often in this many runs before a step does not explain the step.
_FACTS = 200
#: A step and a change point of the same environment may belong together if they are at most this many rows apart.
_APART = 5
#: Change points may have begun together in any run whose log-likelihood is at most this much below the largest one.
_DROP = 2.0
#: Deviations count up to this many standard deviations; and the least relative noise of a series.
_CLIP, _LEAST_NOISE = 3.0, 5e-4


class MovedSeries(Struct, frozen=True):
    """A change point of a series: its column and row in the panel, and the first and the last row that are possible."""

    series: HistorySeries
    change: HistoryChange
    column: int
    row: int
    first: int
    last: int


class EventPanel(Struct, frozen=True, dict=True):
    """The runs of an environment in order, and its series that can be better or worse, without metrics of machines."""

    place: EnvironmentHistory

    @cached_property
    def series(self) -> tuple[HistorySeries, ...]:
        """The series, each a column of `values`."""
        usable = (one for one in self.place.series if not is_machine_metric(one.name.key.metric))
        return tuple(one for one in usable if one.better != "neither")

    @cached_property
    def _rows(self) -> list[IntArray]:
        """The rows of each series."""
        row = {run.id: i for i, run in enumerate(self.place.runs)}
        known: dict[int, IntArray] = {}  # most series have the same runs
        for one in self.series:
            if id(one.runs) not in known:
                known[id(one.runs)] = np.array([row[run.id] for run in one.runs], dtype=np.int64)
        return [known[id(one.runs)] for one in self.series]

    @cached_property
    def values(self) -> FloatArray:
        """The numbers of m series in n runs, (n, m), see `_scaled`; NaN is missing."""
        found = np.full((len(self.place.runs), len(self.series)), np.nan)
        for column, (rows, one) in enumerate(zip(self._rows, self.series, strict=True)):
            found[rows, column] = _scaled(one.values, one.values)
        return found

    @cached_property
    def steps(self) -> tuple[PanelStep, ...]:
        """The steps, by rows of `place.runs`; runs that came late do not count, see `in_time`."""
        rows = in_time(self.place.runs)
        found = panel_steps(self.values[rows]) if len(rows) else ()
        at = rows.tolist()
        return tuple(PanelStep(at[one.seen], at[one.index], at[one.first], at[one.last], one.z) for one in found)

    @cached_property
    def moved(self) -> tuple[MovedSeries, ...]:
        """The change points of all series."""
        found = []
        for column, (rows, one) in enumerate(zip(self._rows, self.series, strict=True)):
            for change in one.changes:
                point = change.point
                places = (int(rows[at]) for at in (point.index, point.first, point.last))
                found.append(MovedSeries(one, change, column, *places))
        return tuple(found)

    def facts_before(self, step: PanelStep) -> bool:
        """Return whether facts of the machine changed near a step, by the runs until the step became clear."""
        runs = self.place.runs[max(0, step.seen - _FACTS) : step.seen + 1]
        return bool(self.facts(step.first, step.last, {name for name, _ in changed_facts(runs).often}))

    def facts(self, first: int, last: int, often: set[str] | None = None) -> tuple[tuple[str, str, str], ...]:
        """Return the facts that differ between the run before `first` and run `last`, without those that often do."""
        runs = self.place.runs
        return tuple(differences(runs[first - 1], runs[last], self._often if often is None else often))

    @cached_property
    def _often(self) -> set[str]:
        """The facts that change often in all runs."""
        return {name for name, _ in changed_facts(self.place.runs).often}

    @np.errstate(all="ignore")
    def began(self, moved: Sequence[MovedSeries]) -> tuple[int, int, int]:
        """Return the first, the likeliest and the last row in which change points of an event may have begun together.

        The log-likelihoods of their steps are added, and divided by the design effect (Kish 1965) of the noise that
        the series share: 1 if they share none, and their number if they share all of it.
        """
        columns = [one.column for one in moved]
        low, high = min(one.first for one in moved), max(one.last for one in moved)
        y = self.values[low : high + 1, columns]
        points = [(one.series.values, one.change.point) for one in moved]
        levels = [_scaled(np.array([point.before, point.after]), values) for values, point in points]
        before, after = np.array(levels).T
        noise = np.array([max(np.nan_to_num(one.series.noise), _LEAST_NOISE) for one in moved])
        old, new = (np.square(np.clip((y - level) / noise, -_CLIP, _CLIP)) / 2 for level in (before, after))
        # the design effect: (sum of z)^2 / count is chi-squared (1 degree, median 0.455) if the z are independent
        z = np.clip(np.diff(self.values[:, columns], axis=0) / (noise * np.sqrt(2)), -_CLIP, _CLIP)
        of_row = np.isfinite(z).sum(axis=1)
        effect = np.square(np.nansum(z, axis=1)[of_row > 0]) / of_row[of_row > 0]
        shared = max(1.0, float(np.median(effect)) / 0.455) if len(effect) else 1.0
        # each row that is counted to the old level, because the new one begins later, adds its gain
        gain = np.nan_to_num(new - old).sum(axis=1) / shared
        fit = np.concatenate(([0.0], np.cumsum(gain)[:-1]))
        likely = np.flatnonzero(fit >= fit.max() - _DROP)
        return low + int(likely[0]), low + int(fit.argmax()), low + int(likely[-1])


def in_time(runs: Sequence[HistoryRun]) -> IntArray:
    """Return the positions of the runs before which fewer than `_LATE` runs of newer commits were measured.

    Any other run was inserted among rows whose steps were known already, and could change these.
    """
    earliest: list[str] = []  # the times of the first measurements among the runs of newer commits
    found = []
    for at in range(len(runs) - 1, -1, -1):
        if len(earliest) < _LATE or runs[at].time <= earliest[-1]:
            found.append(at)
        insort(earliest, runs[at].time)
        del earliest[_LATE:]
    return np.array(found[::-1], dtype=np.int64)


def _scaled(values: FloatArray, like: FloatArray) -> FloatArray:
    """Return values on a scale where relative changes add up: logarithms if the first values of `like` are positive.

    Only the first values choose the scale, so that later runs do not change it.
    """
    known = like[np.isfinite(like)][:_FIRST]
    if not len(known):
        return values
    scaled = values / (float(np.median(np.abs(known))) or 1.0)
    return np.asarray(np.log(np.maximum(scaled, _SMALLEST)) if known.min() > 0 else scaled)


class FoundStep(Struct, frozen=True):
    """A step of one environment: its commit is after the place `low` (see `coordinates`), up to `high`."""

    panel: int  # the number of the panel of its environment
    step: PanelStep
    #: The run that made the step clear.
    seen: HistoryRun
    #: The place of the most likely commit.
    at: float
    low: float
    high: float
    #: 1 for the worse, -1 for the better.
    sign: int
    #: True if facts of the machine changed with it.
    machine: bool


class EventGroup(Struct):
    """The steps of an event, at most one of each environment, and its change points."""

    steps: list[FoundStep]
    #: The places of commits where all steps can be: after `low`, up to `high`.
    low: float
    high: float
    #: The change points by panel and column, each with its distance to the step.
    moved: dict[int, dict[int, tuple[float, MovedSeries]]] = field(default_factory=dict)

    def distance(self, clear: FoundStep) -> float | None:
        """Return the distance of a step of another environment; None if it cannot belong to this event."""
        if max(self.low, clear.low) >= min(self.high, clear.high) or clear.panel in {one.panel for one in self.steps}:
            return None
        if any(one.sign != clear.sign and one.machine != clear.machine for one in self.steps):
            return None  # the machine moved one way and the code another
        return abs(self.low + self.high - clear.low - clear.high)  # twice that of the middles of the ranges

    def away(self, panel: int, moved: MovedSeries, at: float, low: float, high: float) -> float:
        """Return the distance of a change point in commits; -1 if it cannot belong to this event.

        `at`, `low`, `high`: the places of commits of the change point, as in `FoundStep`.
        """
        own = next((one for one in self.steps if one.panel == panel), None)
        if own is not None:
            first, last = own.step.first - _APART, own.step.last + _APART
            return abs(at - own.at) if moved.first <= last and moved.last >= first else -1
        # half a commit more: of two events in the same commits, that with a step of this environment is nearer
        return abs(at - self.steps[0].at) + 0.5 if max(self.low, low) < min(self.high, high) else -1

    def of(self, panel: int) -> list[MovedSeries]:
        """Return the change points of an environment."""
        return [moved for _, moved in self.moved[panel].values()]

    def all(self) -> list[MovedSeries]:
        """Return the change points of all environments."""
        return [one for panel in self.moved for one in self.of(panel)]


def coordinates(found: LoadedHistory) -> dict[str, float]:
    """Return the place of the commit of each run, by the id of the run: a number in one order for all environments.

    The order is that of git; without a repository, that of the first measurement of each commit.
    """
    runs = [run for place in found.environments for run in place.runs]
    first: dict[str, str] = {}  # by commit: the time of its first measurement
    for run in runs:
        name = run.commit or run.id
        first[name] = min(first.get(name, run.time), run.time)
    rank = {name: number for number, name in enumerate(sorted(first, key=lambda name: (first[name], name)))}
    places: dict[str, float] = {}
    for one in found.environments:
        at = -1.0
        for run in one.runs:
            known = found.line.place(run.commit) if found.line else rank[run.commit or run.id]
            # not below the run before: a run without a commit is near it, and by time an old commit may follow it
            at = max(at, known if known is not None else at)
            places[run.id] = at
    return places


def grouped(panels: Sequence[EventPanel], commits: Mapping[str, float]) -> list[EventGroup]:
    """Return the steps of all environments as events, those that became clear first come first; see `coordinates`."""
    groups: list[EventGroup] = []
    for step in sorted(_found_steps(panels, commits), key=lambda step: (step.seen.time, step.panel)):
        distances = ((group.distance(step), number) for number, group in enumerate(groups))
        near = [(distance, number) for distance, number in distances if distance is not None]
        if near:
            group = groups[min(near)[1]]
            group.steps.append(step)
            group.low, group.high = max(group.low, step.low), min(group.high, step.high)
        else:
            groups.append(EventGroup([step], step.low, step.high))
    return groups


def _found_steps(panels: Sequence[EventPanel], commits: Mapping[str, float]) -> Iterator[FoundStep]:
    """Yield the steps of all environments."""
    for number, panel in enumerate(panels):
        runs = panel.place.runs
        worse = np.array([1.0 if series.better == "lower" else -1.0 for series in panel.series])
        for step in panel.steps:
            at, low, high = (commits[runs[row].id] for row in (step.index, step.first - 1, step.last))
            # for the worse if the series that got worse have more weight, the squares of their z
            sign = 1 if float((worse * step.z * np.abs(step.z)).sum()) > 0 else -1
            yield FoundStep(number, step, runs[step.seen], at, low, high, sign, panel.facts_before(step))


def assign(panels: Sequence[EventPanel], groups: Sequence[EventGroup], commits: Mapping[str, float]) -> None:
    """Give each change point to the nearest event. An event takes one point of each series, the nearest.

    A point that a nearer one displaces goes to its next event.
    """
    for number, panel in enumerate(panels):
        waiting = [*reversed(panel.moved)]
        while waiting:
            moved = waiting.pop()
            places = [commits[panel.place.runs[row].id] for row in (moved.row, moved.first - 1, moved.last)]
            displaced = _give(moved, number, places, groups)
            if displaced is not None:
                waiting.append(displaced)


def _give(moved: MovedSeries, panel: int, places: Sequence[float], groups: Sequence[EventGroup]) -> MovedSeries | None:
    """Give a change point to the nearest event in which no point of its series is as near; returns the displaced point.

    `panel`: the number of its environment. `places`: `at`, `low` and `high` of `EventGroup.away`.
    """
    distances = [(group.away(panel, moved, *places), n) for n, group in enumerate(groups)]
    for away, n in sorted(distances):
        if away < 0:
            continue
        points = groups[n].moved.setdefault(panel, {})
        held = points.get(moved.column)
        if held is None or away < held[0]:
            points[moved.column] = (away, moved)
            return None if held is None else held[1]
    return None
