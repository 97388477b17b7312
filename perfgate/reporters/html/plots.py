"""The pictures of the page, each a function from numbers to SVG.

A picture is an empty text without numbers, and with numbers that no axis can show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, pairwise
from math import isfinite, log2

from perfgate.core.conditions import CONDITIONS
from perfgate.core.details import RunDetails, SweepCurve
from perfgate.core.units import display_unit, format_change, format_number, format_value
from perfgate.core.wording import series_name
from perfgate.reporters.html.canvas import Canvas, Point
from perfgate.reporters.svg import ends as ends_of

#: The lower and the upper end; None is unbounded.
Range = tuple[float | None, float | None]
#: Loads that span more than this factor have a logarithmic axis.
_WIDE = 8


def interval(estimate: float, bounds: Range, allowed: Range, origin: float | None, unit: str) -> str:
    """Return an estimate with its interval and the allowed range, in the unit of the axis; None is unbounded.

    `bounds` are the ends of the interval, and `allowed` those of what the rule allows. The axis, with the label `unit`,
    includes `origin`, if there is one: 0 for a change.
    """
    ends = _ends([estimate, *bounds, *allowed, origin], room=0.15)
    if ends is None:
        return ""
    low, high = (end if bound is None else bound for bound, end in zip(bounds, ends, strict=True))
    lowest, highest = (end if bound is None else bound for bound, end in zip(allowed, ends, strict=True))

    def draw(on: Canvas) -> None:
        on.axes(ends, (0, 1), unit, bare=True)
        on.span(lowest, highest, "good", alpha=0.16)
        if ends[0] < lowest:
            on.span(ends[0], lowest, "bad", alpha=0.16)
        if highest < ends[1]:
            on.span(highest, ends[1], "bad", alpha=0.16)
        on.lines(_uprights(allowed, 0, 1), "bad", width=1.5, dashed=True)
        on.lines(_uprights([origin], 0, 1), "ink", width=1)
        on.lines([[(low, 0.5), (high, 0.5)]], "new", width=4)
        on.lines(_uprights(bounds, 0.34, 0.66), "new", width=2)
        on.dots([(estimate, 0.5)], "new", size=11)

    return Canvas(150, "x", left=12).picture(draw)


def _uprights(places: Iterable[float | None], bottom: float, top: float) -> list[list[Point]]:
    """Return a vertical line at each known place."""
    return [[(x, bottom), (x, top)] for x in places if x is not None]


def run_by_run(runs: Sequence[RunDetails], scale: float, unit: str, allowed: Range, breaks: Collection[int]) -> str:
    """Return the runs in order, each with its estimate and the spread of its values, and its other ranks beside it.

    Parameters:
        runs: the ranks of the runs. The `judged` one represents its run; `past` runs are only history.
        scale: one `unit` in base units.
        unit: the unit of the y axis.
        allowed: the ends of what the rule allows, in base units.
        breaks: the numbers of the runs, from 1, after which another level begins.
    """
    judged = [run for run in runs if run.judged]
    places = {run.run: place for place, run in enumerate(judged, 1)}
    ends = _ends([*_extent(runs, scale), *_scaled([*(run.estimate for run in runs), *allowed], scale)])
    if ends is None:
        return ""
    x_ends = (0.4, len(judged) + 0.6)
    starts = [i for i in range(len(judged)) if i == 0 or judged[i].standing != judged[i - 1].standing]

    def draw(on: Canvas) -> None:
        on.axes(x_ends, ends, "run", unit, whole=True)
        _draw_allowed(on, x_ends, _scaled(allowed, scale))
        on.lines(_uprights([i + 0.5 for i in breaks], *ends), "muted", 0.8, dashed=True)
        on.lines(_uprights([i + 0.5 for i in starts[1:]], *ends), "muted", 0.8)
        for run in runs:
            _draw_run(on, places.get(run.run, 0) + (0 if run.judged else 0.3), run, scale, ends)
        for start, end in pairwise([*starts, len(judged)]):
            on.word((start + end + 1) / 2, judged[start].standing, _colour(judged[start]))

    return Canvas(220).picture(draw)


def _draw_run(on: Canvas, x: float, run: RunDetails, scale: float, ends: Point) -> None:
    """Draw the estimate of a run, and the box of its values if it was judged; `x` is its middle."""
    colour = _colour(run)
    if run.judged and run.quantiles:  # see `core.details.QUANTILES`
        _, _, p5, p25, _, p75, p95, _, _ = (_within(q / scale, ends) for q in run.quantiles)
        on.lines([[(x, p5), (x, p95)]], colour, 1.2)
        left, right = x - 0.16, x + 0.16
        on.areas([[(left, p25), (right, p25), (right, p75), (left, p75)]], colour, alpha=0.35)
    if run.estimate is not None:
        on.dots([(x, _within(run.estimate / scale, ends))], colour, 7 if run.judged else 5)


def timeline(runs: Sequence[RunDetails], scale: float, unit: str, allowed: Range, axis: str = "step") -> str:
    """Return the values of base and new runs by step, with warm-up as a shaded area and stalls as triangles.

    The parameters are those of `run_by_run`; `axis` is the name of the x axis. Far values are at the edges of y.
    """
    drawn = [run for run in runs if run.values and run.standing != "past"]
    ends = _ends([*_extent(drawn, scale), *_scaled(allowed, scale)])
    steps = step_ends(runs)
    if ends is None or steps is None:
        return ""
    new_runs = [run for run in drawn if run.standing == "new"]
    settled = [run.steps[run.warmup] for run in new_runs if 0 < run.warmup < len(run.steps)]

    def draw(on: Canvas) -> None:
        on.axes(steps, ends, axis, unit, whole=True)
        _draw_allowed(on, steps, _scaled(allowed, scale))
        if settled:
            on.span(steps[0], max(settled), "ink", 0.1)
        for run in sorted(drawn, key=lambda run: (run.standing == "new", run.judged)):  # judged new runs on top
            _draw_steps(on, run, scale, ends)

    return Canvas(220).picture(draw)


def step_ends(runs: Iterable[RunDetails]) -> Point | None:
    """Return the ends of the x axis of `timeline`, or None without values."""
    drawn = (run for run in runs if run.values and run.standing != "past")
    return _ends([step for run in drawn for step in (run.steps[0], run.steps[-1])], room=0.02)


def _draw_steps(on: Canvas, run: RunDetails, scale: float, ends: Point) -> None:
    points = [(float(step), _within(y / scale, ends)) for step, y in zip(run.steps, run.values, strict=True)]
    is_new = run.standing == "new"
    on.lines([points], _colour(run), 1.3 if is_new and run.judged else 0.7, alpha=1 if is_new else 0.6)
    on.rings(points[: run.warmup] if is_new and run.judged else [])  # the warm-up
    on.triangles([points[i] for i in run.stalls], "bad" if is_new else "base")


def _draw_allowed(on: Canvas, x_ends: Point, allowed: Iterable[float | None]) -> None:
    bounds = [bound for bound in allowed if bound is not None]
    on.lines([[(x_ends[0], bound), (x_ends[1], bound)] for bound in bounds], "bad", 1.2, dashed=True)


def _colour(run: RunDetails) -> str:
    if run.standing == "new":
        return "new" if run.judged else "pale"
    return "base" if run.standing == "base" else "muted"


def curves(sides: Sequence[tuple[str, Sequence[Point]]], scale: float, unit: str, condition: str) -> str:
    """Return a curve per side, `base` and `new`, over the loads; a side without points is not named.

    `scale` is one `unit`, that of the y axis, in base units. `condition` is the label of the x axis.
    """
    xs = [x for _, side in sides for x, _ in side]
    is_wide = bool(xs) and min(xs) > 0 and max(xs) > _WIDE * min(xs) and isfinite(max(xs))
    x_of = log2 if is_wide else float
    scaled = {name: [(x_of(x), y / scale) for x, y in side] for name, side in sides if side}
    loads = _ends(map(x_of, xs))
    ends = _ends([0.0, *(y for points in scaled.values() for _, y in points)])
    if loads is None or ends is None:
        return ""
    across = loads[1] - loads[0]

    def draw(on: Canvas) -> None:
        on.axes(loads, ends, condition, unit)
        if is_wide:
            on.powers(xs)
        for place, (name, points) in enumerate(scaled.items()):
            on.lines([points], name, 1.6)
            on.dots(points, name, 6)
            on.word(loads[0] + across * (0.06 + 0.12 * place), name, name)

    return Canvas(220).picture(draw)


def bars(sides: Sequence[tuple[str, Sequence[float]]], scale: float, unit: str) -> str:
    """Return a stacked bar per side; part i has the colour `part{i % 8}`."""
    ends = _ends([0.0, *(sum(parts) / scale for _, parts in sides)], room=0.02)
    if ends is None:
        return ""

    def draw(on: Canvas) -> None:
        on.axes((0, ends[1]), (len(sides) - 0.5, -0.5), unit)  # the first row is the upper one
        on.rows([name for name, _ in sides])
        for y, (_, parts) in enumerate(sides):
            edges = list(accumulate((part / scale for part in parts), initial=0.0))
            for i, (left, right) in enumerate(pairwise(edges)):
                corners = [(left, y - 0.32), (right, y - 0.32), (right, y + 0.32), (left, y + 0.32)]
                on.areas([corners], f"part{i % 8}")

    return Canvas(150, "x").picture(draw)


def _extent(runs: Iterable[RunDetails], scale: float) -> list[float]:
    """Return the values that the axis must include: the ends of the middle 98 % of every run, or else of all of it."""
    extremes: list[float] = []
    for run in runs:
        if run.quantiles:
            extremes += (run.quantiles[1], run.quantiles[-2])
        elif inner := run.values[run.warmup :]:
            extremes += (min(inner), max(inner))
    return [value / scale for value in extremes]


def _scaled(values: Iterable[float | None], scale: float) -> list[float | None]:
    return [None if value is None else value / scale for value in values]


def _within(value: float, ends: Point) -> float:
    return min(max(value, ends[0]), ends[1])


def _ends(values: Iterable[float | None], room: float = 0.08) -> Point | None:
    """Return the ends of an axis that includes these values with some room, or None if no axis can show them."""
    known = [float(value) for value in values if value is not None]
    return ends_of(known, room=room) if all(map(isfinite, known)) else None


def sweep(curve: SweepCurve) -> tuple[str, str, str, list[tuple[str, ...]]]:
    """Return a curve of a load sweep: its name, its condition, its picture, and its rows: load, base, new, change."""
    base, new = dict(curve.base), dict(curve.new)
    unit = display_unit(max(map(abs, [*base.values(), *new.values()]), default=0.0), curve.unit)
    # All text of a picture is perfgate's own; a stored report may have any.
    label = curve.condition.replace("_", " ") if curve.condition in CONDITIONS else "load"
    picture = curves([("base", curve.base), ("new", curve.new)], unit.factor, unit.symbol, label)
    rows = []
    for load in sorted({*base, *new}):
        before, now = base.get(load), new.get(load)
        shown = ("–" if value is None else format_value(value, curve.unit) for value in (before, now))
        change = format_change(now / before - 1) if before and now is not None else "–"
        rows.append((format_number(load, 6), *shown, change))
    return series_name(curve.metric, tuple(curve.labels.items())), curve.condition, picture, rows
