"""The runs of one environment as a panel, and the events that steps of several panels in the same commits are.

A panel has its steps, its change points, and the runs in which several of them began.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from perfgate.core.remembered_runs import HistoryRun, changed_facts
from perfgate.core.run_history import EnvironmentHistory, HistoryChange, HistorySeries, LoadedHistory
from perfgate.core.wording import is_machine_metric
from perfgate.history.series import differences
from perfgate.stats.change_points import SAME_POINT
from perfgate.stats.distributions import FloatArray, IntArray
from perfgate.stats.panel_steps import PanelStep, panel_steps

#: A run came late if this many runs of newer commits were measured before it.
_LATE = 5
#: The scale of a series is that of its first runs, and its smallest logarithm is this share of it.
_FIRST, _SMALLEST = 10, 1e-6
#: A fact that changes more often than usual in the runs before a step explains nothing.
_FACTS = 200
#: Change points began in one of the runs where the log-likelihood of all is at most this much lower.
_DROP = 2.0
_CLIP, _LEAST_NOISE = 3.0, 5e-4


class MovedSeries(Struct, frozen=True):
    """A change point of a series: its place among the runs of the environment, and where it may be, too."""

    series: HistorySeries
    change: HistoryChange
    column: int
    row: int
    first: int
    last: int


class EventPanel(Struct, frozen=True, dict=True):
    """The runs of an environment in order, and the series that can be better or worse, without those of the machine."""

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
        """The numbers (n, m), as logarithms where all of the first ones are positive; NaN is missing."""
        found = np.full((len(self.place.runs), len(self.series)), np.nan)
        for column, (rows, one) in enumerate(zip(self._rows, self.series, strict=True)):
            found[rows, column] = _scaled(one.values, one.values)
        return found

    @cached_property
    def steps(self) -> tuple[PanelStep, ...]:
        """The steps, with rows of `place.runs`. Runs that came late for an older commit do not count."""
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
        """Return whether facts of the machine changed near a step, by the runs that were known when it was found."""
        runs = self.place.runs[max(0, step.seen - _FACTS) : step.seen + 1]
        return bool(self.facts(step.first, step.last, {name for name, _ in changed_facts(runs).often}))

    def facts(self, first: int, last: int, often: set[str] | None = None) -> tuple[tuple[str, str, str], ...]:
        """Return the facts that differ between the run before `first` and run `last`."""
        runs = self.place.runs
        return tuple(differences(runs[max(first - 1, 0)], runs[last], self._often if often is None else often))

    @cached_property
    def _often(self) -> set[str]:
        return {name for name, _ in changed_facts(self.place.runs).often}

    @np.errstate(all="ignore")
    def began(self, moved: Sequence[MovedSeries]) -> tuple[int, int, int]:
        """Return the first, the likeliest and the last row in which change points of an event may have begun together.

        The log-likelihoods of their steps add up, divided by the design effect of the noise that they share (Kish
        1965), which is 1 if they share none.
        """
        columns = [one.column for one in moved]
        low, high = min(one.first for one in moved), max(one.last for one in moved)
        y = self.values[low : high + 1, columns]
        points = [(one.series.values, one.change.point) for one in moved]
        levels = [_scaled(np.array([point.before, point.after]), values) for values, point in points]
        before, after = np.array(levels).T
        noise = np.array([max(np.nan_to_num(one.series.noise), _LEAST_NOISE) for one in moved])
        old, new = (np.square(np.clip((y - level) / noise, -_CLIP, _CLIP)) / 2 for level in (before, after))
        z = np.clip(np.diff(self.values[:, columns], axis=0) / (noise * np.sqrt(2)), -_CLIP, _CLIP)
        of_row = np.isfinite(z).sum(axis=1)
        effect = np.square(np.nansum(z, axis=1)[of_row > 0]) / of_row[of_row > 0]
        shared = max(1.0, float(np.median(effect)) / 0.455) if len(effect) else 1.0
        gain = np.nan_to_num(new - old).sum(axis=1) / shared
        fit = np.concatenate(([0.0], np.cumsum(gain)[:-1]))
        likely = np.flatnonzero(fit >= fit.max() - _DROP)
        return low + int(likely[0]), low + int(fit.argmax()), low + int(likely[-1])


def in_time(runs: Sequence[HistoryRun]) -> IntArray:
    """Return the positions of the runs that did not come late: five runs of newer commits were measured before it."""
    earliest: list[str] = []
    found = []
    for at in range(len(runs) - 1, -1, -1):
        if len(earliest) < _LATE or runs[at].time <= earliest[-1]:
            found.append(at)
        insort(earliest, runs[at].time)
        del earliest[_LATE:]
    return np.array(found[::-1], dtype=np.int64)


def _scaled(values: FloatArray, like: FloatArray) -> FloatArray:
    """Return values on a scale where changes add up. The first values of `like` choose it: later ones must not."""
    known = like[np.isfinite(like)][:_FIRST]
    usual = (float(np.median(np.abs(known))) if len(known) else 0.0) or 1.0
    if len(known) and known.min() > 0:
        return np.asarray(np.log(np.maximum(values / usual, _SMALLEST)))
    return np.asarray(values / usual)


class FoundStep(Struct, frozen=True):
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


class EventGroup(Struct):
    """The steps of an event, at most one of each environment, and its change points by environment."""

    steps: list[FoundStep]
    low: float
    high: float
    #: By environment and series, with the distance to the step.
    moved: dict[int, dict[int, tuple[float, MovedSeries]]] = field(default_factory=dict)

    def distance(self, clear: FoundStep) -> float | None:
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


def coordinates(found: LoadedHistory) -> dict[str, float]:
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


def grouped(panels: Sequence[EventPanel], commits: Mapping[str, float]) -> list[EventGroup]:
    """Return the steps of all environments as events, in the order in which they became clear."""
    clear: list[FoundStep] = []
    for number, panel in enumerate(panels):
        runs = panel.place.runs
        worse = np.array([1.0 if one.better == "lower" else -1.0 for one in panel.series])
        for step in panel.steps:
            at, low, high = (commits[runs[row].id] for row in (step.index, max(step.first - 1, 0), step.last))
            sign = 1 if float((worse * step.z * np.abs(step.z)).sum()) > 0 else -1
            clear.append(FoundStep(number, step, runs[step.seen], at, low, high, sign, panel.facts_before(step)))
    groups: list[EventGroup] = []
    for one in sorted(clear, key=lambda one: (one.seen.time, one.panel)):
        near = [(far, number) for number, group in enumerate(groups) if (far := group.distance(one)) is not None]
        if near:
            group = groups[min(near)[1]]
            group.steps.append(one)
            group.low, group.high = max(group.low, one.low), min(group.high, one.high)
        else:
            groups.append(EventGroup([one], one.low, one.high))
    return groups


def assign(panels: Sequence[EventPanel], groups: Sequence[EventGroup], commits: Mapping[str, float]) -> None:
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
