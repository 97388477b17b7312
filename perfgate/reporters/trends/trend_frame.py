"""The numbers of a plot: the ends of its axes, the places of its dots, and those of its changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.run_history import HistoryChange, HistorySeries
from perfgate.core.units import Unit, display_unit, printed_base
from perfgate.reporters.svg.scales import ends
from perfgate.reporters.trends.trend_runs import TrendRuns
from perfgate.words import history_words

#: The resolution of the dots: steps between the ends of the y axis.
STEPS = 4000
#: Levels that differ by this factor are on a logarithmic axis.
_LOG_FROM = 20
#: The share of the runs on each side that may be beyond the y axis.
_OUTSIDE = 0.01
#: Without a change, the y axis is at least this share of the level on both sides, so that what is steady looks steady.
_CALM = 0.03


class PlottedChange(Struct, frozen=True):
    """A change in a plot: the place of its mark, of the end of its effect, and the places where it may be as well."""

    change: HistoryChange
    kind: str
    at: float
    until: float
    first: float
    last: float


class TrendFrame(Struct, frozen=True):
    """The numbers of one plot: its dots and the ends of both axes."""

    one: HistorySeries
    track: TrendRuns
    #: The positions of the runs of the series among all runs of the environment.
    at: Sequence[int]
    values: Sequence[float]
    low: float
    high: float
    is_log: bool

    @property
    def left(self) -> float:
        """The left end of the x axis."""
        return self.track.first - 0.5 - self._room

    @property
    def width(self) -> float:
        """The length of the x axis, in runs."""
        return len(self.track.shown) + 2 * self._room

    @property
    def _room(self) -> float:
        return 0.01 * len(self.track.shown)

    @property
    def unit(self) -> Unit:
        """The unit in which values are shown."""
        return display_unit(list(self.one.levels())[-1][2] or self.high, self.base)

    @property
    def base(self) -> str:
        """The base unit of the units in which values are shown."""
        return printed_base(self.one.name.key.metric, self.one.unit)

    def percent(self, x: float) -> float:
        """Return the place of a run, in percent of the width."""
        return 100 * (x - self.left) / self.width

    def step(self) -> float:
        """Return the size of a step, in base units, or in natural logarithms of them."""
        return (self._of(self.high) - self._of(self.low)) / STEPS

    def heights(self, values: Sequence[float]) -> list[int]:
        """Return values in steps below the upper end."""
        top, per_step = self._of(self.high), 1 / self.step()
        if self.is_log:
            return [round((top - math.log(value)) * per_step) for value in values]
        return [round((top - value) * per_step) for value in values]

    def _of(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def boundary(self, index: int) -> float:
        """Return the place between a run of the series and the one before it, or the end of the series."""
        if index == 0:
            return self.left if self.at[0] == 0 else self.at[0] - 0.5
        if index < len(self.at):
            return (self.at[index - 1] + self.at[index]) / 2
        return self.left + self.width if not self.one.missing_since else self.at[-1] + 0.5


def frame(one: HistorySeries, track: TrendRuns) -> TrendFrame | None:
    """Return the numbers of a plot; None if no axis can show them, or if all runs are older than those shown."""
    at = [track.positions[run.id] for run in one.runs]
    values = one.values.tolist()
    shown = [value for x, value in zip(at, values, strict=True) if x >= track.first]
    levels = [level for _, end, level in one.levels() if end and at[end - 1] >= track.first]
    if not shown:
        return None
    is_log = min(shown) > 0 and min(levels) > 0 and max(levels) > _LOG_FROM * min(levels)
    if not one.changes:
        levels += [level * (1 + side * _CALM) for level in levels for side in (-1, 1)]
    found = ends(shown, levels, outside=_OUTSIDE, is_log=is_log)
    return None if found is None else TrendFrame(one, track, at, values, *found, is_log)


def plotted(show: TrendFrame) -> list[PlottedChange]:
    """Return the changes of a plot, oldest first."""
    one, found = show.one, []
    index = {run.id: i for i, run in enumerate(one.runs)}
    for change in one.changes:
        point, end = change.point, len(show.at)
        if change.went_away is not None:
            end = index[change.went_away.id]
        around = (show.boundary(point.first), show.boundary(point.last + 1))
        found.append(PlottedChange(change, kind(change), show.boundary(point.index), show.boundary(end), *around))
    return [one for one in found if one.at >= show.left]


def kind(change: HistoryChange) -> str:
    """Return the class of a change: open, approved, gone, better or neutral."""
    if change.point.worse is None:
        return "neutral"
    if not change.point.worse:
        return "better"
    return "open" if history_words.is_open(change) else "approved" if change.approval is not None else "gone"
