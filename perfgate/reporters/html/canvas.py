"""A surface to plot on: axes, lines, dots and areas as static SVG.

Colours are CSS variables of the page, so one picture fits a light page, a dark page and paper. All text on a picture is
written by perfgate; nothing is untrusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from perfgate.core.units import format_number
from perfgate.reporters.svg import PictureScale, SafeText, element, joined, polyline, round_numbers, short

Point = tuple[float, float]
#: A place on an axis and its label.
Tick = tuple[float, str]

#: The width in pixels, for text of 12 pixels. The page scales a picture to its place.
WIDTH = 420
#: The margins in pixels.
_BELOW, _ABOVE, _RIGHT = 40, 22, 10
#: The most steps between the numbers of x and of y, and the most numbers of a logarithmic axis.
_MOST_X, _MOST_Y, _MOST_POWERS = 7, 5, 8


class Canvas:
    """Axes of a given height in pixels, with a grid on one axis (`x` or `y`), `left` pixels from the left edge."""

    def __init__(self, height: int, grid: str = "y", left: int = 54) -> None:
        self._height, self._grid, self._left = height, grid, left
        self._bottom, self._end = height - _BELOW, WIDTH - _RIGHT
        self._x = PictureScale(0, 1, left, self._end)
        self._y = PictureScale(0, 1, self._bottom, _ABOVE)
        self._x_ticks: Sequence[Tick] = ()
        self._y_ticks: Sequence[Tick] = ()
        self._labels = ("", "")
        self._shapes: list[SafeText] = []

    def picture(self, draw: Callable[[Canvas], None]) -> str:
        """Return what `draw` draws, as an SVG element."""
        draw(self)
        content = joined([*self._frame(), *self._shapes, *self._texts()])
        return element("svg", SafeText(f"\n{content}\n"), viewBox=f"0 0 {WIDTH} {self._height}", aria_hidden="true")

    def axes(
        self, x: Point, y: Point, xlabel: str, ylabel: str = "", *, whole: bool = False, bare: bool = False
    ) -> None:
        """Set the ends and labels of both axes. `whole`: x has whole numbers only. `bare`: y has no numbers.

        The first end of `y` is at the bottom, even if it is the larger one.
        """
        self._x, self._y = PictureScale(*x, self._left, self._end), PictureScale(*y, self._bottom, _ABOVE)
        self._x_ticks = _numbers(x, _MOST_X, whole=whole)
        self._y_ticks = () if bare else _numbers((min(y), max(y)), _MOST_Y)
        self._labels = (xlabel, ylabel)

    def powers(self, values: Sequence[float]) -> None:
        """Write values below a logarithmic x axis, at most eight. Points on it are logarithms to base 2."""
        known = sorted({*values})
        shown = known[:: math.ceil(len(known) / _MOST_POWERS)]
        self._x_ticks = [(math.log2(value), format_number(value, 6)) for value in shown]

    def rows(self, names: Sequence[str]) -> None:
        """Name the rows 0, 1, ... of the y axis."""
        self._y_ticks = [*enumerate(names)]

    def lines(
        self, lines: Sequence[Sequence[Point]], colour: str, width: float, *, alpha: float = 1, dashed: bool = False
    ) -> None:
        """Draw lines through points."""
        shape = "".join(polyline([self._at(point) for point in line]) for line in lines)
        dashes = ";stroke-dasharray:5 4" if dashed else ""
        self._draw(shape, f"fill:none;stroke:var(--{colour});stroke-width:{width:g}{dashes}", alpha)

    def dots(self, points: Sequence[Point], colour: str, size: float) -> None:
        """Draw round points, as lines without length."""
        shape = "".join(f"M{short(x)} {short(y)}h0" for x, y in map(self._at, points))
        self._draw(shape, f"fill:none;stroke:var(--{colour});stroke-width:{size:g};stroke-linecap:round")

    def rings(self, points: Sequence[Point]) -> None:
        """Draw hollow points of new runs."""
        self.dots(points, "new", 5)
        self.dots(points, "paper", 2.5)

    def areas(self, corners: Sequence[Sequence[Point]], colour: str, *, alpha: float = 1) -> None:
        """Draw filled polygons."""
        self._fill([[self._at(point) for point in polygon] for polygon in corners], colour, alpha)

    def triangles(self, points: Sequence[Point], colour: str) -> None:
        """Draw triangles whose base is at the given points."""
        self._fill([[(x - 4, y), (x + 4, y), (x, y - 7)] for x, y in map(self._at, points)], colour, 1)

    def span(self, left: float, right: float, colour: str, alpha: float) -> None:
        """Draw a vertical band over the whole height."""
        start, end = self._x.place(left), self._x.place(right)
        corners = [(start, _ABOVE), (end, _ABOVE), (end, self._bottom), (start, self._bottom)]
        self._fill([corners], colour, alpha)

    def word(self, x: float, word: str, colour: str) -> None:
        """Write a word above the axes."""
        self._shapes.append(_text(word, self._x.place(x), _ABOVE - 5, colour=colour))

    def _at(self, point: Point) -> Point:
        """Return the place of a point in pixels."""
        return self._x.place(point[0]), self._y.place(point[1])

    def _fill(self, polygons: Sequence[Sequence[Point]], colour: str, alpha: float) -> None:
        shape = "".join(f"{polyline(polygon)}Z" for polygon in polygons)
        self._draw(shape, f"fill:var(--{colour})", alpha)

    def _draw(self, shape: str, style: str, alpha: float = 1) -> None:
        if shape:
            pale = "" if alpha == 1 else f";opacity:{alpha:g}"
            self._shapes.append(element("path", d=SafeText(shape), style=f"{style}{pale}"))

    def _frame(self) -> list[SafeText]:
        """Return the grid and the lines of the axes."""
        x_lines = [f"M{short(self._x.place(at))} {_ABOVE}V{self._bottom}" for at, _ in self._x_ticks]
        y_lines = [f"M{self._left} {short(self._y.place(at))}H{self._end}" for at, _ in self._y_ticks]
        grid = "".join(x_lines if self._grid == "x" else y_lines)
        style = "fill:none;stroke:var(--line);stroke-width:"
        axes = SafeText(f"M{self._left} {_ABOVE}V{self._bottom}H{self._end}")
        found = [element("path", d=SafeText(grid), style=f"{style}.5")] if grid else []
        return [*found, element("path", d=axes, style=f"{style}.8")]

    def _texts(self) -> list[SafeText]:
        """Return the numbers and the labels of both axes."""
        below, beside = self._labels
        found = [_text(label, self._x.place(at), self._bottom + 15) for at, label in self._x_ticks]
        found += [_text(label, self._left - 5, self._y.place(at) + 4, "end") for at, label in self._y_ticks]
        if below:
            found.append(_text(below, (self._left + self._end) / 2, self._height - 5))
        if beside:
            middle = (_ABOVE + self._bottom) / 2
            found.append(_text(beside, 11, middle, transform=f"rotate(-90 11 {short(middle)})"))
        return found


def _numbers(ends: Point, most: int, *, whole: bool = False) -> list[Tick]:
    """Return round numbers between the ends of an axis, with their labels."""
    found = round_numbers(*ends, most)
    if whole:
        found = [*dict.fromkeys(math.floor(number + 0.5) for number in found)]
        found = [number for number in found if ends[0] <= number <= ends[1]]
    return [(number, format_number(number, 6).replace("-", "\u2212")) for number in found]


def _text(
    text: str, x: float, y: float, anchor: str = "middle", *, colour: str = "ink", transform: str | None = None
) -> SafeText:
    style = f"fill:var(--{colour});text-anchor:{anchor};font-size:12px"
    return element("text", text, x=float(x), y=float(y), style=style, transform=transform)
