"""The pictures of the page: static SVG drawn by matplotlib, in colours that the page's style sheet decides.

Matplotlib draws with stand-in colours, which become CSS variables: so one picture is right in light, in dark and on
paper. Nothing untrusted is ever drawn; names stand beside the pictures as text. What cannot be drawn (no numbers, or
numbers beyond what axes can tell apart) gives no picture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from io import StringIO
from math import isfinite

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from perfgate.evidence import RunEvidence
from perfgate.units import format_number

#: Stand-ins, by the CSS variable that takes their place.
_NAMES = ("ink", "muted", "line", "base", "new", "pale", "good", "bad", "paper")
_COLOURS = {name: f"#0000{i:02x}" for i, name in enumerate(_NAMES, 1)}  # 0 is black, which is not written
_PARTS = [f"#0001{i:02x}" for i in range(8)]
_VARIABLES = {
    **{colour: f"var(--{name})" for name, colour in _COLOURS.items()},
    **{colour: f"var(--part{i})" for i, colour in enumerate(_PARTS)},
}
_INK, _MUTED, _LINE, _BASE, _NEW, _PALE, _GOOD, _BAD, _PAPER = _COLOURS.values()
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "perfgate",
    "font.size": 12,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.5,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.dpi": 72,
}

#: In pixels at the size at which text has 12 of them; a picture is scaled to its place.
WIDTH = 420
Point = tuple[float, float]


@cache
def _axes(height: int, grid: str, left: int = 54) -> Axes:
    """Axes of this height, which every picture of the kind is drawn on, and wiped from afterwards."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((left / WIDTH, 40 / height, 1 - (left + 10) / WIDTH, 1 - 62 / height))
        axes.set_autoscale_on(False)
        axes.grid(visible=False, axis="x" if grid == "y" else "y")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value, 6).replace("-", "\u2212")))
    return axes


def _drawn(axes: Axes, draw: Callable[[], None]) -> str:
    """What `draw` puts on the axes as an SVG element, and the axes clean again."""
    text = StringIO()
    with mpl.rc_context(_STYLE):
        try:
            draw()
            FigureCanvasSVG(axes.figure).print_svg(text, metadata={"Date": None, "Creator": None})
        finally:
            for artist in [*axes.collections, *axes.patches, *axes.lines, *axes.texts]:
                artist.remove()
    return _tightened(text.getvalue())


def _tightened(svg: str) -> str:
    """The same picture without what matplotlib writes for other readers, in the colours of the page."""
    body = svg[svg.index("<g id=") : svg.rindex("</svg>")]
    body = re.sub(r"<!--.*?-->|<defs>.*?</defs>|</?g\b[^>]*>|font-family:[^;\"]*;? ?", "", body, flags=re.S)
    body = re.sub(r' ((id|clip-path)="[^"]*"|transform="rotate\(-0 [^"]*\)")', "", body)
    body = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), body)
    body = re.sub(r"#000[01]\w\w", lambda found: _VARIABLES[found[0]], body)
    body = re.sub(r"\s*\n\s*", "\n", re.sub(r" \n([LMCQ])", r"\1", body)).strip()
    height = re.search(r'viewBox="([^"]*)"', svg)
    return f'<svg viewBox="{height[1] if height else ""}" aria-hidden="true">\n{body}\n</svg>'


# --- interval against tolerance ----------------------------------------------------------------------------------


def interval(
    estimate: float,
    bounds: tuple[float | None, float | None],
    allowed: tuple[float | None, float | None],
    origin: float | None,
    unit: str,
) -> str:
    """An estimate between its bounds, over what the rule accepts; None is unbounded. In the unit of the axis.

    `origin` is a value that has to be on the axis: no change.
    """
    limits = _limits([estimate, *bounds, *allowed, origin], room=0.15)
    if limits is None:
        return ""
    axes = _axes(150, "x", left=12)
    low, high = (limits[i] if bound is None else bound for i, bound in enumerate(bounds))
    lowest, highest = (limits[i] if bound is None else bound for i, bound in enumerate(allowed))

    def draw() -> None:
        axes.set(xlim=limits, ylim=(0, 1), yticks=[], xlabel=unit)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.axvspan(lowest, highest, color=_GOOD, alpha=0.16, linewidth=0)
        for start, end in ((limits[0], lowest), (highest, limits[1])):
            if start < end:
                axes.axvspan(start, end, color=_BAD, alpha=0.16, linewidth=0)
        _lines(axes, [[(bound, 0), (bound, 1)] for bound in allowed if bound is not None], _BAD, 1.5, dashed=True)
        if origin is not None:
            _lines(axes, [[(origin, 0), (origin, 1)]], _INK, 1)
        _lines(axes, [[(low, 0.5), (high, 0.5)]], _NEW, 4)
        ends = [bound for bound in bounds if bound is not None]
        _lines(axes, [[(end, 0.34), (end, 0.66)] for end in ends], _NEW, 2)
        _dots(axes, [(estimate, 0.5)], _NEW, 11)

    return _drawn(axes, draw)


# --- runs and steps ----------------------------------------------------------------------------------------------


def run_by_run(
    runs: Sequence[RunEvidence],
    scale: float,
    unit: str,
    allowed: tuple[float | None, float | None],
    breaks: Collection[int],
) -> str:
    """Each run in order: where its values lie, and its estimate; other ranks of a new run stand beside it.

    Values are divided by `scale` to be in `unit`. A box holds the middle half of the values, a line 90 % of them.
    `breaks` are the numbers of the runs, from 1, after which another level begins.
    """
    estimates = [run.estimate for run in runs if run.estimate is not None]
    limits = _limits([*_extent(runs, scale), *_scaled([*estimates, *allowed], scale)])
    if limits is None:
        return ""
    axes = _axes(220, "y")
    judged = [run for run in runs if run.judged]
    places = {run.run: i for i, run in enumerate(judged, 1)}
    others = [(places[run.run] + 0.3, run.estimate) for run in runs if not run.judged and run.estimate is not None]

    def draw() -> None:
        axes.set(xlim=(0.4, len(judged) + 0.6), ylim=limits, xlabel="run", ylabel=unit)
        _ticks(axes)
        _allowed_lines(axes, (0.4, len(judged) + 0.6), _scaled(allowed, scale))
        for run in judged:
            _box(axes, places[run.run], run, scale, limits)
        _dots(axes, [(x, _clipped(y / scale, limits)) for x, y in others], _PALE, 5)
        _lines(axes, [[(i + 0.5, limits[0]), (i + 0.5, limits[1])] for i in breaks], _MUTED, 0.8, dashed=True)
        starts = [i for i in range(1, len(judged)) if judged[i].standing != judged[i - 1].standing]
        _lines(axes, [[(i + 0.5, limits[0]), (i + 0.5, limits[1])] for i in starts], _INK, 0.8)
        for start, end in zip([0, *starts], [*starts, len(judged)], strict=True):
            word = judged[start].standing
            axes.text((start + end + 1) / 2, limits[1], word, ha="center", va="bottom", color=_colour(judged[start]))

    return _drawn(axes, draw)


def _box(axes: Axes, x: float, run: RunEvidence, scale: float, limits: Point) -> None:
    colour = _colour(run)
    if run.quantiles:
        _, _, p5, p25, _, p75, p95, _, _ = (_clipped(q / scale, limits) for q in run.quantiles)
        _lines(axes, [[(x, p5), (x, p95)]], colour, 1.2)
        half = 0.16
        box = [(x - half, p25), (x + half, p25), (x + half, p75), (x - half, p75)]
        axes.add_collection(PolyCollection([box], facecolor=colour, alpha=0.35, linewidth=0), autolim=False)
    if run.estimate is not None:
        _dots(axes, [(x, _clipped(run.estimate / scale, limits))], colour, 7)


def timeline(runs: Sequence[RunEvidence], scale: float, unit: str, allowed: tuple[float | None, float | None]) -> str:
    """Values by step: base runs, new runs and their ranks; warm-up is shaded and hollow, stalls are triangles.

    What lies beyond the axis is drawn at its edge.
    """
    drawn = [run for run in runs if run.values and run.standing != "past"]
    limits = _limits([*_extent(drawn, scale), *_scaled(allowed, scale)])
    steps = _limits([step for run in drawn for step in (run.steps[0], run.steps[-1])], room=0.02)
    if limits is None or steps is None:
        return ""
    axes = _axes(220, "y")

    def draw() -> None:
        axes.set(xlim=steps, ylim=limits, xlabel="step", ylabel=unit)
        _ticks(axes)
        _allowed_lines(axes, steps, _scaled(allowed, scale))
        ends = [run.steps[run.warmup] for run in drawn if 0 < run.warmup < len(run.steps) and run.standing == "new"]
        if ends:
            axes.axvspan(steps[0], max(ends), color=_INK, alpha=0.1, linewidth=0)
        for run in sorted(drawn, key=lambda run: (run.standing == "new", run.judged)):
            _line_of(axes, run, scale, limits)

    return _drawn(axes, draw)


def _line_of(axes: Axes, run: RunEvidence, scale: float, limits: Point) -> None:
    points = [(step, _clipped(y / scale, limits)) for step, y in zip(run.steps, run.values, strict=True)]
    is_new = run.standing == "new"
    _lines(axes, [points], _colour(run), 1.3 if is_new and run.judged else 0.7, alpha=1 if is_new else 0.6)
    if is_new and run.judged:
        _dots(axes, points[: run.warmup], _NEW, 5, hollow=True)
    _triangles(axes, [points[i] for i in run.stalls], _BAD if is_new else _BASE)


def _allowed_lines(axes: Axes, ends: Point, allowed: Iterable[float | None]) -> None:
    bounds = [bound for bound in allowed if bound is not None]
    _lines(axes, [[(ends[0], bound), (ends[1], bound)] for bound in bounds], _BAD, 1.2, dashed=True)


def _colour(run: RunEvidence) -> str:
    if run.standing == "new":
        return _NEW if run.judged else _PALE
    return _BASE if run.standing == "base" else _MUTED


def _ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))


# --- parts of a step ---------------------------------------------------------------------------------------------


def bars(sides: Sequence[tuple[str, Sequence[float]]], scale: float, unit: str) -> str:
    """A bar a side, of parts one after the other; part i has the colour `part{i % 8}`."""
    limits = _limits([0.0, *(sum(parts) / scale for _, parts in sides)], room=0.02)
    if limits is None:
        return ""
    axes = _axes(150, "x")

    def draw() -> None:
        axes.set(xlim=(0, limits[1]), ylim=(len(sides) - 0.5, -0.5), xlabel=unit)
        axes.set_yticks(range(len(sides)), [name for name, _ in sides])
        axes.xaxis.set_major_locator(MaxNLocator(6))
        for y, (_, parts) in enumerate(sides):
            left = 0.0
            for i, width in enumerate(part / scale for part in parts):
                colour = _PARTS[i % len(_PARTS)]
                axes.broken_barh([(left, width)], (y - 0.32, 0.64), facecolors=colour, linewidth=0)
                left += width

    return _drawn(axes, draw)


# --- small marks -------------------------------------------------------------------------------------------------


def _lines(
    axes: Axes,
    lines: Sequence[Sequence[Point]],
    colour: str,
    width: float,
    *,
    alpha: float | None = None,
    dashed: bool = False,
) -> None:
    style = (0, (4, 3)) if dashed else "solid"
    if lines:
        marks = LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, linestyles=[style], clip_on=False)
        axes.add_collection(marks, autolim=False)


def _dots(axes: Axes, points: Sequence[Point], colour: str, size: float, *, hollow: bool = False) -> None:
    """Round points, as lines without length: markers would need names that must be unique in the page."""
    layers = [(colour, size), (_PAPER, size - 2.5)] if hollow else [(colour, size)]
    for shade, width in layers if points else []:
        dots = LineCollection([[p, p] for p in points], colors=shade, linewidths=width, capstyle="round", clip_on=False)
        axes.add_collection(dots, autolim=False)


def _triangles(axes: Axes, points: Sequence[Point], colour: str) -> None:
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    dx, dy = (right - left) * 5 / WIDTH, (top - bottom) * 10 / 150
    corners = [[(x - dx, y), (x + dx, y), (x, y + dy)] for x, y in points]
    if corners:
        axes.add_collection(PolyCollection(corners, facecolors=colour, linewidth=0, clip_on=False), autolim=False)


def _extent(runs: Iterable[RunEvidence], scale: float) -> list[float]:
    """Where the axis has to reach: 98 % of the values of every run."""
    found: list[float] = []
    for run in runs:
        inner = sorted(run.values[run.warmup :]) if run.values and not run.quantiles else []
        found += [run.quantiles[1], run.quantiles[-2]] if run.quantiles else inner[:1] + inner[-1:]
    return [value / scale for value in found]


def _scaled(values: Iterable[float | None], scale: float) -> list[float | None]:
    return [None if value is None else value / scale for value in values]


def _clipped(value: float, limits: Point) -> float:
    return min(max(value, limits[0]), limits[1])


def _limits(values: Iterable[float | None], room: float = 0.08) -> Point | None:
    """The ends of an axis that holds these values with some room, or None where no axis can."""
    known = [float(value) for value in values if value is not None]
    if not known or not all(isfinite(value) and abs(value) < 1e15 for value in known):
        return None
    low, high = min(known), max(known)
    size = max(abs(low), abs(high))
    if 0 < size < 1e-15:
        return None
    pad = room * (high - low) if high - low > 1e-6 * size else 0.05 * size or 1.0
    return low - pad, high + pad
