"""Shapes as the text of a path: `M0 1L2 3`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfgate.reporters.svg.elements import SafeText, short


def polyline(points: Sequence[tuple[float, float]]) -> SafeText:
    """Return a line through points."""
    return SafeText("".join(f"{'L' if i else 'M'}{short(x)} {short(y)}" for i, (x, y) in enumerate(points)))


def steps(levels: Iterable[tuple[float, float, float]]) -> SafeText:
    """Return horizontal pieces, each given as its start, its end and its height, joined where they touch."""
    found, last = [], None
    for start, end, height in levels:
        found.append(f"V{short(height)}" if start == last else f"M{short(start)} {short(height)}")
        found.append(f"H{short(end)}")
        last = end
    return SafeText("".join(found))


def dots(points: Iterable[tuple[int, int]]) -> SafeText:
    """Return a dot at each point, which a stroke with round caps shows. Coordinates are whole numbers.

    Each dot is relative to the one before it: `M0 812h0m1-9h0`. That is about 8 bytes a dot.
    """
    found, before_x, before_y = [], 0, 0
    for x, y in points:
        rise = y - before_y
        found.append(f"m{x - before_x}{rise}h0" if rise < 0 else f"m{x - before_x} {rise}h0")
        before_x, before_y = x, y
    return SafeText("M" + "".join(found)[1:] if found else "")


def verticals(places: Iterable[float], top: float, bottom: float) -> SafeText:
    """Return vertical lines from `top` to `bottom`."""
    return SafeText("".join(f"M{short(x)} {short(top)}V{short(bottom)}" for x in places))
