"""A surface to plot on: matplotlib turns axes, lines, dots and areas into static SVG.

Matplotlib draws with placeholder colours, which become CSS variables of the page. So one picture fits a light page, a
dark page and paper. All text on it is written by perfgate; nothing is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from io import StringIO
from math import log2

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from perfgate.core.units import format_number

Point = tuple[float, float]

#: The width in pixels, for text of 12 pixels. The page scales a picture to its place.
WIDTH = 420
_BELOW, _ABOVE, _RIGHT = 40, 22, 10

#: The placeholder of every colour. Numbers start at 1, because matplotlib does not write black (0).
_NAMES = ("ink", "muted", "line", "base", "new", "pale", "good", "bad", "paper", *(f"part{i}" for i in range(8)))
_STAND_INS = {name: f"#0000{i:02x}" for i, name in enumerate(_NAMES, 1)}
_VARIABLES = {colour: f"var(--{name})" for name, colour in _STAND_INS.items()}
_INK, _LINE = _STAND_INS["ink"], _STAND_INS["line"]
#: Default settings with these changes: a matplotlibrc of the user must not change the bytes.
_FOREIGN = ("backend", "backend_fallback", "interactive", "toolbar", "timezone")  # not about drawing
_STYLE = {
    **{name: value for name, value in mpl.rcParamsDefault.items() if name not in _FOREIGN},
    "svg.fonttype": "none",
    "svg.hashsalt": "perfgate",
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "font.size": 12,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _LINE),
    **dict.fromkeys(("text.parse_math", "axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
}


class Canvas:
    """Axes of a given height in pixels, with a grid on one axis. Several pictures can be drawn one after another."""

    def __init__(self, height: int, grid: str, left: int) -> None:
        self._height = height
        with mpl.rc_context(_STYLE):
            self._figure = Figure(figsize=(WIDTH / 72, height / 72))
            inner = (1 - (left + _RIGHT) / WIDTH, 1 - (_BELOW + _ABOVE) / height)
            self._axes = self._figure.add_axes((left / WIDTH, _BELOW / height, *inner))
            self._axes.set_autoscale_on(False)
            self._axes.grid(visible=True, axis=grid)
        self._numbers = FuncFormatter(lambda value, _: format_number(value, 6).replace("-", "\u2212"))
        self._axes.yaxis.set_major_formatter(self._numbers)

    def picture(self, draw: Callable[[Canvas], None]) -> str:
        """Return what `draw` draws, as an SVG element, and clean the canvas."""
        svg, axes = StringIO(), self._axes
        with mpl.rc_context(_STYLE):
            try:
                draw(self)
                FigureCanvasSVG(self._figure).print_svg(svg, metadata={"Date": None, "Creator": None})
            finally:
                for artist in [*axes.collections, *axes.patches, *axes.texts]:
                    artist.remove()
        return f'<svg viewBox="0 0 {WIDTH} {self._height}" aria-hidden="true">\n{_tightened(svg.getvalue())}\n</svg>'

    def axes(
        self, x: Point, y: Point, xlabel: str, ylabel: str = "", *, whole: bool = False, bare: bool = False
    ) -> None:
        """Set the ends and labels of both axes; `whole` numbers only on x, no ticks on y (`bare`)."""
        self._axes.set(xlim=x, ylim=y, xlabel=xlabel, ylabel=ylabel)
        self._axes.xaxis.set_major_formatter(self._numbers)
        self._axes.xaxis.set_major_locator(MaxNLocator(7, integer=whole))
        self._axes.yaxis.set_major_locator(MaxNLocator(5))
        if bare:
            self._axes.set_yticks([])

    def powers(self, values: Sequence[float]) -> None:
        """Name places of a logarithmic x axis: the values whose logarithms to base 2 are drawn, at most eight."""
        known = sorted({*values})
        shown = known[:: -(-len(known) // 8)]
        self._axes.set_xticks([log2(value) for value in shown], [format_number(value, 6) for value in shown])

    def rows(self, names: Sequence[str]) -> None:
        """Name the rows 0, 1, ... of the y axis."""
        self._axes.set_yticks(range(len(names)), names)

    def lines(
        self, lines: Sequence[Sequence[Point]], colour: str, width: float, *, alpha: float = 1, dashed: bool = False
    ) -> None:
        """Draw lines through points."""
        style = (0, (4, 3)) if dashed else "solid"
        self._collect(
            LineCollection(lines, colors=_STAND_INS[colour], linewidths=width, alpha=alpha, linestyles=[style])
        )

    def dots(self, points: Sequence[Point], colour: str, size: float) -> None:
        """Draw round points, as lines without length: markers would need names that are unique in the page."""
        ends = [[point, point] for point in points]
        self._collect(LineCollection(ends, colors=_STAND_INS[colour], linewidths=size, capstyle="round"))

    def rings(self, points: Sequence[Point], colour: str, size: float) -> None:
        """Draw hollow points."""
        self.dots(points, colour, size)
        self.dots(points, "paper", size - 2.5)

    def areas(self, corners: Sequence[Sequence[Point]], colour: str, *, alpha: float = 1) -> None:
        """Draw filled polygons."""
        self._collect(PolyCollection(corners, facecolors=_STAND_INS[colour], alpha=alpha, linewidth=0))

    def triangles(self, points: Sequence[Point], colour: str) -> None:
        """Draw triangles whose base is at the given points."""
        (left, right), (bottom, top) = self._axes.get_xlim(), self._axes.get_ylim()
        dx, dy = (right - left) * 5 / WIDTH, (top - bottom) * 10 / self._height
        self.areas([[(x - dx, y), (x + dx, y), (x, y + dy)] for x, y in points], colour)

    def span(self, left: float, right: float, colour: str, alpha: float) -> None:
        """Draw a vertical band over the whole height."""
        self._axes.axvspan(left, right, color=_STAND_INS[colour], alpha=alpha, linewidth=0)

    def word(self, x: float, word: str, colour: str) -> None:
        """Write a word above the axes."""
        self._axes.text(x, self._axes.get_ylim()[1], word, ha="center", va="bottom", color=_STAND_INS[colour])

    def _collect(self, marks: LineCollection | PolyCollection) -> None:
        marks.set_clip_on(False)
        self._axes.add_collection(marks, autolim=False)


@cache
def canvas(height: int, grid: str = "y", left: int = 54) -> Canvas:
    """Return the canvas of this size; it is cached, because creating one takes as long as drawing on it."""
    return Canvas(height, grid, left)


def _tightened(svg: str) -> str:
    """The SVG without elements that the page does not need, in the colours of the page."""
    body = svg[svg.index("<g id=") : svg.rindex("</svg>")]
    body = re.sub(r"<!--.*?-->|<defs>.*?</defs>|</?g\b[^>]*>|font-family:[^;\"]*;? ?", "", body, flags=re.S)
    body = re.sub(r' ((id|clip-path)="[^"]*"|transform="rotate\(-0 [^"]*\)")', "", body)
    body = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), body)
    body = re.sub(r"#0000\w\w", lambda found: _VARIABLES[found[0]], body)
    return re.sub(r"\s*\n\s*", "\n", re.sub(r" \n([LMCQ])", r"\1", body)).strip()
