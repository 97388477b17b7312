"""The pictures of what changed: the call tree of both sides as boxes, and the time of each rank as columns.

The template draws them, so that it escapes the names. Widths are percentages and heights pixels: a picture fits a
phone, and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from perfgate.core.causes import Cause, CauseReport, PlaceTime, RankTime
from perfgate.core.units import display_unit, format_change, format_number, format_value
from perfgate.core.wording import plural
from perfgate.words import cause_words

#: The height of a box and the distance between two levels, in pixels.
BOX_HEIGHT, _LEVEL = 22, 25
#: The most places, and the longest time in s, that can be drawn.
_MOST_PLACES, _LONGEST = 500, 1e9
#: The most levels that are drawn.
_MOST_LEVELS = 16
#: The narrowest box with text, and the narrowest one with text on a phone, in percent of the picture.
_NARROWEST, _NARROW = 2.0, 7.0
#: The most columns of ranks; with more ranks, a column is the slowest of several, or one that a cause is about. The
#: most that have gaps between them, and the most names of ranks above them.
_MOST_COLUMNS, _MOST_APART, _MOST_MARKS = 128, 64, 8
#: A cause with at most this many verdicts is unfolded, also on paper.
MOST_OPEN = 8
#: The most ranks in the table.
MOST_RANKS = 64


class TreeBox(Struct, frozen=True):
    """One place in the picture: left edge and width in percent of the picture, top in pixels."""

    x: float
    width: float
    y: int
    #: The part of the width that both sides have, and that only one side has, in percent of the box.
    shared: float
    changed: float
    grew: bool
    #: The number of the cause, if it is here, and the text.
    mark: int | None
    label: str
    tooltip: str
    #: `tiny` boxes have no text, and `narrow` ones have none on a phone.
    size: str


class TreePicture(Struct, frozen=True):
    """The call tree of both sides, the step above."""

    boxes: tuple[TreeBox, ...]
    height: int
    #: Each place as depth, name, base, new and change, for the table.
    rows: tuple[tuple[int, str, str, str, str], ...]
    left_out: str


class RankRow(Struct, frozen=True):
    """A rank in numbers: own work and communication of the base, then of the new side."""

    rank: str
    is_culprit: bool
    times: tuple[str, ...]


class RankPicture(Struct, frozen=True):
    """The ranks as columns: paths in a square of 100 x 100, from the top, and the words around them."""

    work: str
    culprit_work: str
    communication: str
    base_work: str
    longest: str
    first: str
    last: str
    #: The ranks that caused the change: the middle of their columns in percent, and their names.
    marks: tuple[tuple[float, str], ...]
    grouped: str
    rows: tuple[RankRow, ...]


def tree(report: CauseReport) -> TreePicture | None:
    """Return the picture of the call tree, or None without one."""
    places = report.tree[:_MOST_PLACES]
    if not _is_tree(places):
        return None
    widths, marks = _widths(places), _marks(places, report.causes)
    # For each place: its depth, its left edge, and the width that places below it have taken so far, in s.
    levels, lefts, used = [0] * len(places), [0.0] * len(places), [0.0] * len(places)
    boxes = []
    for at, place in enumerate(places):
        if place.parent >= 0:
            levels[at] = levels[place.parent] + 1
            lefts[at] = lefts[place.parent] + used[place.parent]
            used[place.parent] += widths[at]
        if levels[at] < _MOST_LEVELS and widths[at] > 0:
            boxes.append(_box(place, lefts[at] / widths[0], widths[at], widths[0], levels[at], marks.get(at)))
    deeper = len([level for level in levels if level >= _MOST_LEVELS])
    left_out = f"{plural(deeper, 'place')} below the lowest level are only in the table." if deeper else ""
    rows = tuple((level, _name(place), *_times(place)) for level, place in zip(levels, places, strict=True))
    return TreePicture(tuple(boxes), (min(max(levels), _MOST_LEVELS - 1) + 1) * _LEVEL, rows, left_out)


def _is_tree(places: Sequence[PlaceTime]) -> bool:
    """Return True if places can be drawn. A stored report is untrusted: its parents and times may be anything."""
    parents = all(place.parent < at and (place.parent >= 0) == (at > 0) for at, place in enumerate(places))
    times = all(0 <= time < _LONGEST for place in places for time in (place.base, place.new))
    return parents and times and any(place.base or place.new for place in places[:1])


def _widths(places: Sequence[PlaceTime]) -> list[float]:
    """Return the width of each place in s: its longer side, or the sum of the widths below it if that is more."""
    below, widths = [0.0] * len(places), [0.0] * len(places)
    for at in range(len(places) - 1, -1, -1):  # children come after their parents
        widths[at] = max(places[at].base, places[at].new, below[at])
        if places[at].parent >= 0:
            below[places[at].parent] += widths[at]
    return widths


def _marks(places: Sequence[PlaceTime], found: Sequence[Cause]) -> dict[int, int]:
    """Return the number of the cause at each place that has one: at the deepest place of its path."""
    children: dict[tuple[int, str], int] = {}
    for at, place in enumerate(places):
        children.setdefault((place.parent, place.name), at)
    marks: dict[int, int] = {}
    for number, cause in enumerate(found, 1):
        at = 0
        for name in cause.where if cause.metric != "memory" else ():  # memory has no place in the tree of times
            at = children.get((at, name), -1)
            if at < 0:
                break
        if at > 0:
            marks.setdefault(at, number)
    return marks


def _box(place: PlaceTime, left: float, width: float, whole: float, level: int, mark: int | None) -> TreeBox:
    """Return the box of a place. `left` is a share of the picture; `width` and `whole`, that of the step, are in s."""
    low, high = sorted((place.base, place.new))
    share = 100 * width / whole
    base, new, change = _times(place)
    size = "tiny" if share < _NARROWEST else "narrow" if share < _NARROW else ""
    return TreeBox(
        x=round(100 * left, 3),
        width=round(share, 3),
        y=level * _LEVEL,
        shared=round(100 * low / width, 2),
        changed=round(100 * (high - low) / width, 2),
        grew=place.new > place.base,
        mark=mark,
        label=_name(place),
        tooltip=f"{_name(place)}: {base} → {new}, {change}",
        size=size,
    )


def _name(place: PlaceTime) -> str:
    return plural(place.pooled, "smaller place") if place.pooled else cause_words.short(place.name)


def _times(place: PlaceTime) -> tuple[str, str, str]:
    """Return the base, the new time and the change of a place, as text."""
    unit = display_unit(max(place.base, place.new), "s").symbol
    base, new = (format_value(side, "s", unit) for side in (place.base, place.new))
    relative = f" ({format_change(place.new / place.base - 1)})" if place.base and place.new else ""
    return base, new, f"{cause_words.signed(place.new - place.base)}{relative}"


def ranks(report: CauseReport) -> RankPicture | None:
    """Return the picture of the ranks, or None without several ranks."""
    times = report.ranks
    longest = max((max(_step(one, new=True), _step(one, new=False)) for one in times), default=0.0)
    if not longest or not all(0 <= time < _LONGEST for one in times for time in astuple(one)[1:]):  # 0 is the name
        return None
    culprits = {rank for cause in report.causes for rank in cause.ranks}
    size = math.ceil(len(times) / _MOST_COLUMNS)
    groups = [times[at : at + size] for at in range(0, len(times), size)]
    shown = [max(group, key=lambda one: (one.rank in culprits, one.new_work)) for group in groups]
    step = 100 / len(shown)
    gap = step * (0.2 if len(shown) <= _MOST_APART else 0)
    bars = [(at * step + gap / 2, (at + 1) * step - gap / 2, one) for at, one in enumerate(shown)]
    marks = [(round((left + right) / 2, 2), f"rank {one.rank}") for left, right, one in bars if one.rank in culprits]
    unit = display_unit(longest, "s")

    def column(left: float, right: float, low: float, high: float) -> str:
        top, bottom = (round(100 * (1 - value / longest), 2) for value in (high, low))
        return f"M{left:.2f} {top}H{right:.2f}V{bottom}H{left:.2f}z"

    return RankPicture(
        work="".join(column(x, y, 0, one.new_work) for x, y, one in bars if one.rank not in culprits),
        culprit_work="".join(column(x, y, 0, one.new_work) for x, y, one in bars if one.rank in culprits),
        communication="".join(column(x, y, one.new_work, _step(one, new=True)) for x, y, one in bars),
        base_work="".join(f"M{x:.2f} {100 * (1 - one.base_work / longest):.2f}H{y:.2f}" for x, y, one in bars),
        longest=f"{format_number(longest / unit.factor, 3)} {unit.symbol}",
        first=f"rank {times[0].rank}",
        last=f"rank {times[-1].rank}",
        marks=tuple(marks[:_MOST_MARKS]),
        grouped=f"Each column is the slowest of {size} ranks, or one that a cause is about." if size > 1 else "",
        rows=tuple(
            RankRow(one.rank, one.rank in culprits, tuple(format_value(value, "s") for value in astuple(one)[1:]))
            for one in sorted(times, key=lambda one: one.rank not in culprits)[:MOST_RANKS]
        ),
    )


def _step(one: RankTime, *, new: bool) -> float:
    return one.new_work + one.new_communication if new else one.base_work + one.base_communication
