"""The axes of a picture: grid lines with labels at the left, and labels below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfgate.reporters.svg.elements import SafeText, element, joined
from perfgate.reporters.svg.scales import PictureScale
from perfgate.reporters.svg.ticks import AxisTick


def grid(ticks: Iterable[AxisTick], scale: PictureScale, width: str | float = "100%") -> SafeText:
    """Return a horizontal line for each tick, with its label left of it, in the margin of the picture."""
    found = []
    for tick in ticks:
        y = round(scale.place(tick.value), 1)
        found.append(element("line", x2=width, y1=y, y2=y, class_="grid"))
        found.append(element("text", tick.label, x=-8, y=y + 4, class_="value", text_anchor="end"))
    return joined(found, "")


def labels_below(places: Sequence[tuple[float, str]], y: float, unit: str = "%") -> SafeText:
    """Return labels at places of the x axis. Those at the ends stay within the picture.

    Parameters
    ----------
    places : the place of each label, and its text.
    y : the baseline of the text.
    unit : the unit of the places: `%` of the width, or an empty text for pixels.
    """
    found = []
    for x, label in places:
        anchor = ("start" if x < 8 else "end" if x > 92 else None) if unit == "%" else None
        found.append(element("text", label, x=f"{x:.2f}{unit}", y=y, class_="place", text_anchor=anchor))
    return joined(found, "")
