"""The plot of one metric as static SVG: a dot for each run, its levels, its changes, releases and the machine.

The dots and levels are in a picture of their own, whose x axis counts runs, and whose y axis counts steps of 1/4000 of
the height. It is stretched to the width of the page, and the text beside it is not. To zoom, the script only changes
the part that is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from perfgate.core.run_history import HistoryChange, HistorySeries
from perfgate.core.units import Unit, display_unit, display_units, format_change, format_value, printed_base
from perfgate.core.wording import plural
from perfgate.reporters import svg
from perfgate.reporters.html.trend_runs import TrendRuns
from perfgate.reporters.svg import PictureScale, SafeText, element, ends, value_ticks
from perfgate.words import history_words

#: The resolution of the dots: steps between the ends of the y axis.
STEPS = 4000
#: Levels that differ by this factor are on a logarithmic axis.
_LOG_FROM = 20
#: The share of the runs on each side that may be beyond the y axis.
_OUTSIDE = 0.01
#: Without a change, the y axis is at least this share of the level on both sides, so that a steady metric looks steady.
_CALM = 0.03


class PlottedChange(Struct, frozen=True):
    """A change at its places on the x axis: its mark (`at`), the end of its effect, and the range where it may be."""

    change: HistoryChange
    kind: str
    at: float
    until: float
    first: float
    last: float


class TrendFrame(Struct, frozen=True):
    """The numbers of one plot: its dots and the ends of both axes."""

    series: HistorySeries
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
        newest = [level for _, _, level in self.series.levels()][-1]
        return display_unit(newest or self.high, self.base)

    @property
    def base(self) -> str:
        """The base unit of the units in which values are shown."""
        return printed_base(self.series.name.key.metric, self.series.unit)

    def percent(self, x: float) -> float:
        """Return the place of a run, in percent of the width."""
        return 100 * (x - self.left) / self.width

    def step(self) -> float:
        """Return the size of a step of the y axis, in base units, or in natural logarithms of them."""
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
        """Return the place between a run of the series and the one before it, or the end of the series.

        A series with the first or the newest run of its environment reaches to that end of the axis.
        """
        if index == 0:
            return self.left if self.at[0] == 0 else self.at[0] - 0.5
        if index < len(self.at):
            return (self.at[index - 1] + self.at[index]) / 2
        return self.left + self.width if not self.series.missing_since else self.at[-1] + 0.5


def frame(series: HistorySeries, track: TrendRuns) -> TrendFrame | None:
    """Return the numbers of a plot; None if no axis can show them, or if all runs are older than those shown."""
    at = [track.positions[run.id] for run in series.runs]
    values = series.values.tolist()
    shown = [value for x, value in zip(at, values, strict=True) if x >= track.first]
    levels = [level for _, end, level in series.levels() if at[end - 1] >= track.first]
    if not shown:
        return None
    is_log = min(shown) > 0 and min(levels) > 0 and max(levels) > _LOG_FROM * min(levels)
    if not series.changes:
        levels += [level * (1 + side * _CALM) for level in levels for side in (-1, 1)]
    found = ends(shown, levels, outside=_OUTSIDE, is_log=is_log)
    return None if found is None else TrendFrame(series, track, at, values, *found, is_log)


def plotted(show: TrendFrame) -> list[PlottedChange]:
    """Return the changes of a plot, oldest first."""
    series, found = show.series, []
    index = {run.id: i for i, run in enumerate(series.runs)}
    for change in series.changes:
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


#: The heights of a plot with changes and of one without, and the room above and below the dots, in pixels.
TALL, SMALL, ABOVE, BELOW = 210, 116, 22, 20
#: The width of a label of a mark, in percent of the width of the plot, and the most changes in the words of a plot.
_LABEL, _MOST_DESCRIBED = 13, 5


def plot(show: TrendFrame, name: str, *, is_small: bool) -> SafeText:
    """Return the plot. `name` is a part of its ids."""
    height, unit = SMALL if is_small else TALL, show.unit
    inner = height - ABOVE - BELOW
    units = " ".join(f"{one.factor!r},{one.symbol}" for one in display_units(show.base))  # for the script
    changes, ordinate = plotted(show), PictureScale(show.low, show.high, height - BELOW, ABOVE, show.is_log)
    parts = [
        element("title", f"{show.series.name}: every run", id=f"t-{name}"),
        element("desc", described(show), id=f"d-{name}"),
        svg.grid(value_ticks(show.low, show.high, unit, 2 if is_small else 5, is_log=show.is_log), ordinate),
        element("svg", *_behind(show, changes), class_="behind", y=ABOVE, width="100%", height=inner,
                preserveAspectRatio="none", viewBox=f"{show.left:g} 0 {show.width:g} 1"),
        element("svg", *_values(show, changes), class_="dots", y=ABOVE, width="100%", height=inner,
                preserveAspectRatio="none", viewBox=f"{show.left:g} 0 {show.width:g} {STEPS}"),
        *_words(show, changes, height),
        svg.labels_below(list(_days(show, 2 if is_small else 3)), height - 4),
    ]  # fmt: skip
    return element(
        "svg", *parts, class_="plot", height=height, role="img",
        aria_labelledby=f"t-{name}", aria_describedby=f"d-{name}",
        data_top=repr(math.log(show.high) if show.is_log else show.high), data_step=repr(show.step()),
        data_unit=unit.symbol, data_factor=repr(unit.factor),
        data_log=show.is_log, data_units=units if show.is_log else None,
    )  # fmt: skip


def described(show: TrendFrame) -> str:
    """Return the plot in words."""
    series = show.series
    span = f"{format_value(min(show.values), show.base)} to {format_value(max(show.values), show.base)}"
    found = [
        f"{plural(len(series.runs), 'run')} from {series.runs[0].time[:10]} to {series.runs[-1].time[:10]}, {span}."
    ]
    found.append(f"The level is {history_words.level_now(series)}.")
    found += [
        f"{history_words.interval(change.point)} in {change.likely.label} on {change.likely.time[:10]}."
        for change in series.changes[-_MOST_DESCRIBED:]
    ]
    return " ".join(found if series.changes else [*found, "No lasting change."])


def _behind(show: TrendFrame, changes: Sequence[PlottedChange]) -> Iterator[SafeText]:
    """Yield the elements as high as the plot: effects of changes (open, or gone), ranges of commits, and marks."""
    for change in changes:
        if change.kind in ("open", "gone"):
            yield element("rect", x=change.at, width=change.until - change.at, height=1, class_=f"effect {change.kind}")
    for change in changes:
        if change.last - change.first > 1.5:  # more than one run
            yield element("rect", x=change.first, width=change.last - change.first, height=1, class_="range")
    for name, marks in (("release", show.track.releases), ("machine", show.track.machine)):
        if places := [mark.at - 0.5 for mark in marks if mark.at >= show.track.first]:  # a mark is before its run
            yield element("path", d=svg.verticals(places, 0, 1), class_=name)
    for name in ("open", "approved", "gone", "better", "neutral"):
        if found := [change.at for change in changes if change.kind == name]:
            yield element("path", d=svg.verticals(found, 0, 1), class_=name)
    beyond = [(x, int(y > 0)) for x, y in _points(show) if not 0 <= y <= STEPS]  # at the upper end (0) or the lower (1)
    yield element("path", d=svg.dots(beyond), class_="beyond")


def _points(show: TrendFrame) -> list[tuple[int, int]]:
    """Return the dots of the shown runs: the position of the run, and its height in steps."""
    pairs = zip(show.at, show.heights(show.values), strict=True)
    return [pair for pair in pairs if pair[0] >= show.track.first]


def _values(show: TrendFrame, changes: Sequence[PlottedChange]) -> Iterator[SafeText]:
    """Yield the dots and the levels; levels with an open change for the worse are drawn again in its colour."""
    points = _points(show)
    size = "few" if len(points) <= 150 else "some" if len(points) <= 500 else "many"
    yield element("path", d=svg.dots(points), class_=f"runs {size}")
    pieces = [
        (max(show.boundary(start), show.left), show.boundary(end), float(show.heights([level])[0]))
        for start, end, level in show.series.levels()
        if show.boundary(end) > show.left
    ]
    yield element("path", d=svg.steps(pieces), class_="level")
    bad = [c for c in changes if c.kind == "open"]
    worse = [piece for piece in pieces if any(c.at <= piece[0] and piece[1] <= c.until for c in bad)]
    if worse:
        yield element("path", d=svg.steps(worse), class_="level open")


def _words(show: TrendFrame, changes: Sequence[PlottedChange], height: int) -> Iterator[SafeText]:
    """Yield the labels of changes above the plot, and those of releases and the machine at its foot."""
    signs = {"open": "▲ ", "better": "▼ ", "approved": "✓ ", "gone": "↩ "}
    sizes = [(c.at, signs.get(c.kind, "") + format_change(c.change.point.change), f"change {c.kind}") for c in changes]
    yield from _spread(show, sizes, 14)
    tags = [(mark.at - 0.5, mark.text, "tag") for mark in show.track.releases]
    yield from _spread(show, tags, height - BELOW - 5)
    for mark in show.track.machine:
        if mark.at >= show.track.first:
            x, title = mark.at - 0.5, element("title", mark.text)
            place, y = f"{show.percent(x):.2f}%", height - BELOW + 4
            yield element("text", title, "◆", x=place, y=y, class_="machine", data_x=x)


def _spread(show: TrendFrame, labels: Sequence[tuple[float, str, str]], y: float) -> list[SafeText]:
    """Return labels, the newest first. A label that would overlap a newer one is hidden; the script shows it later."""
    found, free = [], math.inf  # the left end of the label before, in percent
    for x, text, name in reversed(labels):
        place = show.percent(x)
        if place < 0:
            continue
        anchor = "start" if place < 8 else "end" if place > 92 else None
        begin = place - {"start": 0, "end": _LABEL}.get(anchor or "", _LABEL / 2)
        is_hidden = begin + _LABEL > free
        found.append(
            element("text", text, x=f"{place:.2f}%", y=y, class_=name, data_x=x, text_anchor=anchor,
                    visibility="hidden" if is_hidden else None)
        )  # fmt: skip
        free = free if is_hidden else begin
    return found


def _days(show: TrendFrame, count: int) -> Iterator[tuple[float, str]]:
    """Yield some days of the x axis, each once."""
    runs, seen = show.track.place.runs, set()
    for number in range(count):
        at = show.track.first + round((len(show.track.shown) - 1) * number / max(count - 1, 1))
        day = runs[at].time[:10]
        if day not in seen:
            seen.add(day)
            yield show.percent(at), day
