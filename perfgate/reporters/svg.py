"""Pictures as SVG text: pure functions from numbers to elements, for every page of perfgate.

A picture has no colours: it has classes, and the style sheet of its page has their colours, for light and for dark.
Sizes are in pixels. A width may be `100%`, so that a picture fits any page, and its text keeps its size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from perfgate.core.units import Unit, format_number, format_value
from perfgate.core.wording import clip, one_line

#: The longest text of an element or attribute, in characters.
_LONGEST_TEXT = 2_000
_NAME = re.compile(r"[a-zA-Z][\w-]*")
#: Elements of HTML without an end tag.
_VOID = {"meta", "input", "br"}


class SafeText(str):
    """Finished text of a page, already escaped; templates do not escape it again."""

    __slots__ = ()

    def __html__(self) -> SafeText:
        return self


def safe(text: str) -> SafeText:
    """Return untrusted text for a page: escaped, on one line, with invisible characters made visible."""
    if isinstance(text, SafeText):
        return text
    return SafeText(escape(clip(one_line(text), _LONGEST_TEXT)))


def joined(parts: list[SafeText], between: str = "\n") -> SafeText:
    """Return finished texts as one."""
    return SafeText(between.join(parts))


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> SafeText:
    """Return an element; text in it is escaped.

    Parameters:
        name: the name of the element.
        content: finished elements, and texts.
        attributes: `class_` is `class`, and `aria_label` is `aria-label`. True is an attribute without a value; None
            and False leave it out.

    Raises ValueError: a name that is not of an element or attribute.
    """
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if not _NAME.fullmatch(attribute):
            raise ValueError(f"{attribute!r} is not a name of an attribute")
        if value is True:
            words.append(attribute)
        elif value is not None and value is not False:
            words.append(f'{attribute}="{safe(value) if isinstance(value, str) else short(value)}"')
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of an element")
    inside = "".join(map(safe, content))
    return SafeText(f"<{' '.join(words)}>" if name in _VOID else f"<{' '.join(words)}>{inside}</{name}>")


def short(number: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{number:.2f}".rstrip("0").rstrip(".") if isinstance(number, float) else str(number)
    return "0" if text in ("-0", "") else text


#: Values beyond these cannot be drawn.
_LARGEST, _SMALLEST = 1e15, 1e-15
#: An axis shows its outer values (see `ends`), too, if it becomes at most this many times longer.
_STRETCH = 1.5
#: Up to this many values, none is an outer value.
_FEW = 8


class PictureScale(Struct, frozen=True):
    """A scale on which `low` is at `start`, and `high` at `end`.

    Equal differences have equal lengths. With `is_log`, equal ratios have, and all values are positive.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value, which may be beyond the ends."""
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
            return self.start + share * (self.end - self.start)
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ends(
    values: Sequence[float],
    also: Sequence[float] = (),
    *,
    outside: float = 0.0,
    room: float = 0.08,
    is_log: bool = False,
) -> tuple[float, float] | None:
    """Return the ends of an axis for values, or None if no axis can show them.

    Parameters:
        values: the values. They may be beyond the ends if they are far from the others.
        also: values that the axis includes in any case.
        outside: the share of the values on each side that may be beyond the ends, so that a stall does not flatten all.
        room: the room on both sides, as a share of the length.
        is_log: the ends of a logarithmic axis; all values are positive.
    """
    known = sorted(filter(math.isfinite, (*values, *also)))
    if not known or max(abs(known[0]), abs(known[-1])) > _LARGEST:
        return None
    if is_log:
        known, also = list(map(math.log, known)), list(map(math.log, also))
    low, high = _shown(known, also, outside)
    size = max(abs(low), abs(high))
    if not is_log and 0 < size < _SMALLEST:
        return None
    pad = room * (high - low)
    if high - low <= 1e-6 * size:  # equal values get room of 5 % of their size; zeros get 1
        pad = 0.05 if is_log else 0.05 * size or 1.0
    return (math.exp(low - pad), math.exp(high + pad)) if is_log else (low - pad, high + pad)


def _shown(ordered: Sequence[float], also: Sequence[float], outside: float) -> tuple[float, float]:
    """Return the least and the largest of the values that an axis must show; the parameters are those of `ends`."""
    cut = math.ceil(outside * len(ordered)) if len(ordered) > _FEW else 0  # this many on each side may be outside
    inner = (ordered[cut], ordered[-1 - cut], *also)
    if ordered[-1] - ordered[0] <= _STRETCH * (max(inner) - min(inner)):
        return ordered[0], ordered[-1]
    return min(inner), max(inner)


#: Numbers that are round, as multiples of a power of ten.
_ROUND = (1, 2, 2.5, 5, 10)
#: The round numbers of each decade of a logarithmic axis, densest first.
_DECADES = ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


class AxisTick(Struct, frozen=True):
    """A value in base units and its label."""

    value: float
    label: str


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` + 1 round numbers from `low` to `high`, with equal steps."""
    if not high > low:
        return []
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in _ROUND if factor * power >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def round_ratios(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` + 1 round numbers from `low` to `high`, for a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in _DECADES:
        numbers = [factor * 10.0**power for power in decades for factor in factors]
        found = [number for number in numbers if low <= number <= high]
        if len(found) <= most + 1:
            break
    else:  # one number for each decade is still too many
        found = found[:: math.ceil(len(found) / most)]
    return found if len(found) > 1 else round_numbers(low, high, most)


def value_ticks(low: float, high: float, unit: Unit, most: int, *, is_log: bool = False) -> Sequence[AxisTick]:
    """Return round ticks in base units, labelled in `unit`, or on a logarithmic axis in the unit that fits each."""
    size = unit.factor
    found = (round_ratios if is_log else round_numbers)(low / size, high / size, most)
    if is_log:
        return [AxisTick(number * size, format_value(number * size, unit.base)) for number in found]
    sign = unit.symbol if unit.symbol in ("%", "x", "") else f" {unit.symbol}"
    return [AxisTick(number * size, format_number(number, 6).replace("-", "\u2212") + sign) for number in found]


def polyline(points: Sequence[tuple[float, float]]) -> SafeText:
    """Return the data of a path: a line through points."""
    return SafeText("".join(f"{'L' if i else 'M'}{short(x)} {short(y)}" for i, (x, y) in enumerate(points)))


def steps(levels: Iterable[tuple[float, float, float]]) -> SafeText:
    """Return the data of a path: horizontal pieces (start, end, height), joined where they touch."""
    found, last = [], None
    for start, end, height in levels:
        found.append(f"V{short(height)}" if start == last else f"M{short(start)} {short(height)}")
        found.append(f"H{short(end)}")
        last = end
    return SafeText("".join(found))


def dots(points: Iterable[tuple[int, int]]) -> SafeText:
    """Return the data of a path: a dot at each point, which a stroke with round caps shows.

    Each dot is relative to the one before it: `M0 812h0m1-9h0`. That is about 8 bytes a dot.
    """
    found, before_x, before_y = [], 0, 0
    for x, y in points:
        rise = y - before_y
        found.append(f"m{x - before_x}{rise}h0" if rise < 0 else f"m{x - before_x} {rise}h0")
        before_x, before_y = x, y
    return SafeText("M" + "".join(found)[1:] if found else "")


def verticals(places: Iterable[float], top: float, bottom: float) -> SafeText:
    """Return the data of a path: vertical lines from `top` to `bottom`."""
    return SafeText("".join(f"M{short(x)} {short(top)}V{short(bottom)}" for x in places))


def grid(ticks: Iterable[AxisTick], scale: PictureScale, width: str | float = "100%") -> SafeText:
    """Return a horizontal line for each tick, with its label left of it, in the margin of the picture."""
    found = []
    for tick in ticks:
        y = round(scale.place(tick.value), 1)
        found.append(element("line", x2=width, y1=y, y2=y, class_="grid"))
        found.append(element("text", tick.label, x=-8, y=y + 4, class_="value", text_anchor="end"))
    return joined(found, "")


def labels_below(places: Sequence[tuple[float, str]], y: float) -> SafeText:
    """Return labels with the baseline `y` at places in % of the width; those at the ends stay within the picture."""
    found = []
    for x, label in places:
        anchor = "start" if x < 8 else "end" if x > 92 else None
        found.append(element("text", label, x=f"{x:.2f}%", y=y, class_="place", text_anchor=anchor))
    return joined(found, "")
