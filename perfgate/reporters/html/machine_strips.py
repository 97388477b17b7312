"""Plots of the machine during the runs: a flat one for each quantity that moved, on the x axis of the step plot.

A quantity has its name and the mean of both sides as text of the page, which stays readable on a phone, and a picture
of lines alone. If no run says when its steps began, the x axis is the time since the sampler began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from operator import attrgetter
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.details import MachineChannel, MachineTrace
from perfgate.core.units import UNITS, Unit, display_unit, format_number
from perfgate.reporters import svg
from perfgate.reporters.svg import PictureScale, SafeText, element, grid, joined

#: The lower and the upper end of an axis.
Ends = tuple[float, float]

#: The sizes of a picture: those of the step plot above it (`plots.timeline`), so that both have the same x axis.
_WIDTH, _LEFT, _RIGHT = 420, 54, 410
_TOP, _BOTTOM, _BELOW = 5.0, 45.0, 20
#: By the beginning of a metric: its words, in which the rest replaces `{}`, and its unit; None is a suitable one.
_NAMES = {
    "clock.sm": ("SM clock", "MHz"),
    "power": ("power", "W"),
    "machine.gpu.temperature": ("temperature", None),
    "machine.gpu.throttled.": ("GPU throttled: {}", "%"),
    "machine.cpu.steal": ("CPU time stolen by the hypervisor", "%"),
    "machine.pressure.": ("tasks waited for {}", "%"),
    "machine.cgroup.throttled": ("held by the CPU limit", "%"),
}
_RESOURCES = {"cpu": "a CPU", "memory": "memory", "io": "input and output"}
_SIDES = ("base", "new")


class MachineStrip(Struct, frozen=True):
    """One quantity: its name, its device, the mean of both sides, and its picture."""

    name: str
    device: str
    #: Each side, and its mean in words.
    means: tuple[tuple[str, str], ...]
    picture: SafeText


class MachinePlots(Struct, frozen=True):
    """The quantities that moved. `is_by_step` is True if they lie on the axis of the steps."""

    strips: tuple[MachineStrip, ...]
    is_by_step: bool
    #: True if some lines are only the mean of a run.
    has_levels: bool
    #: The sides that are drawn: `base`, `new`.
    sides: tuple[str, ...]


def machine_plots(channels: Sequence[MachineChannel], steps: Ends | None = None) -> MachinePlots | None:
    """Return a plot of each quantity, or None without any.

    `steps`: the ends of the step plot above; None puts everything on the axis of the time.
    """
    traces = [trace for one in channels for trace in one.runs if trace.values]
    by_step = steps is not None and any(trace.steps for trace in traces)
    if by_step:  # a run that does not tell when its steps began is a line at its mean
        channels = [
            replace(one, runs=tuple(run if run.steps else replace(run, times=(), values=()) for run in one.runs))
            for one in channels
        ]
        traces = [trace for one in channels for trace in one.runs if trace.values]
    drawn = [one for one in channels if any(trace.values for trace in one.runs)]
    x_of: Callable[[MachineTrace], tuple[float, ...]] = attrgetter("steps" if by_step else "times")
    x_ends = steps if by_step else svg.ends([x for trace in traces for x in x_of(trace)], room=0.02)
    if x_ends is None or not x_ends[1] > x_ends[0]:
        return None
    x = PictureScale(*x_ends, _LEFT, _RIGHT)
    label = "step" if by_step else "seconds since the start"
    strips: list[MachineStrip] = []
    for one in reversed(drawn):  # the lowest plot has the numbers and the label of the axis
        strip = _strip(one, x, x_ends, x_of, "" if strips else label)
        strips = [strip, *strips] if strip is not None else strips
    has_levels = any(not trace.values for one in drawn for trace in one.runs)
    drawn_sides = tuple(side for side in _SIDES if any(side == name for strip in strips for name, _ in strip.means))
    return MachinePlots(tuple(strips), by_step, has_levels, drawn_sides) if strips else None


def _strip(
    one: MachineChannel, x: PictureScale, x_ends: Ends, x_of: Callable[[MachineTrace], tuple[float, ...]], label: str
) -> MachineStrip | None:
    """Return the plot of a quantity, or None if no axis can show it. `x_of` returns the places of a trace on `x`."""
    values = [value for trace in one.runs for value in (*trace.values, trace.mean) if isfinite(value)]
    is_share = one.unit == "1"
    ends = svg.ends(values, also=(0.0,) if is_share else ())
    if ends is None:
        return None
    low, high = (0.0, max(ends[1], 0.01)) if is_share else ends  # shares from 0 to 1 % or more
    y = PictureScale(low, high, _BOTTOM, _TOP)
    name, unit = _named(one, max(map(abs, values), default=0.0))
    device = ", ".join(f"{name} {value}" for name, value in one.labels.items())
    device += f" of {one.devices}" if device and one.devices > 1 else ""
    means = tuple(_means(one, unit))
    # Only the percent sign is shown: the margin has room for four digits.
    bare = unit if unit.symbol == "%" else Unit("", unit.base, unit.factor)
    rows = grid(svg.value_ticks(low, high, bare, 3), y, _RIGHT - _LEFT)
    shapes = [element("g", rows, transform=f"translate({_LEFT} 0)"), *_verticals(x_ends, x, label)]
    for side in _SIDES:
        for trace in one.runs:
            # A stored report may have fewer places than values.
            points = [(x.place(at), y.place(value)) for at, value in zip(x_of(trace), trace.values, strict=False)]
            if trace.standing == side and points:
                shapes += _line(points, side, is_share=is_share)
            elif trace.standing == side and isfinite(trace.mean):
                level = svg.polyline([(_LEFT, y.place(trace.mean)), (_RIGHT, y.place(trace.mean))])
                shapes.append(element("path", d=level, class_=f"{side} level"))
    words = f"{one.metric}: " + ", ".join(f"{text} in the {side} runs" for side, text in means)
    height = _BOTTOM + (_BELOW + 14 if label else 4)
    picture = element(
        "svg",
        element("title", f"{name}{', ' + device if device else ''}"),
        element("desc", f"The mean of {words}."),
        *shapes,
        viewBox=f"0 0 {_WIDTH} {height:g}",
        role="img",
        class_="strip",
    )
    return MachineStrip(name, device, means, picture)


def _line(points: Sequence[tuple[float, float]], side: str, *, is_share: bool) -> list[SafeText]:
    """Return a line; that of a share, such as lost time, has its area filled, too."""
    shape = svg.polyline(points)
    line = element("path", d=shape, class_=side)
    if not is_share:
        return [line]
    area = SafeText(f"{shape}V{_BOTTOM:g}H{points[0][0]:.2f}Z")
    return [element("path", d=area, class_=f"{side} area"), line]


def _verticals(x_ends: Ends, x: PictureScale, label: str) -> list[SafeText]:
    """Return the grid of the x axis; below the last picture, its numbers and its label, too."""
    places = [(x.place(number), number) for number in svg.round_numbers(*x_ends, 7)]
    found = [element("path", d=svg.verticals((at for at, _ in places), _TOP, _BOTTOM), class_="grid")]
    if label:
        texts = [
            element("text", format_number(n, 6), x=at, y=_BOTTOM + 15, class_="place", text_anchor="middle")
            for at, n in places
        ]
        middle = (_LEFT + _RIGHT) / 2
        named = element("text", label, x=middle, y=_BOTTOM + 31, class_="place", text_anchor="middle")
        found += [joined(texts, ""), named]
    return found


def _named(one: MachineChannel, largest: float) -> tuple[str, Unit]:
    """Return the words for a quantity, and the unit that its values are shown in."""
    prefix = next((known for known in _NAMES if one.metric.startswith(known)), "")
    words, shown = _NAMES.get(prefix, (one.metric, None))
    rest = one.metric[len(prefix) :]
    name = words.format(_RESOURCES.get(rest, rest.replace("_", " "))) if prefix else words
    unit = UNITS.get(shown or "")
    return name, unit if unit is not None and unit.base == one.unit else display_unit(largest, one.unit)


def _means(one: MachineChannel, unit: Unit) -> list[tuple[str, str]]:
    """Return the mean of each side in words."""
    found = []
    for side in _SIDES:
        known = [trace.mean for trace in one.runs if trace.standing == side and isfinite(trace.mean)]
        if known:
            number = format_number(fmean(known) / unit.factor, 3 if unit.symbol in ("%", "°C") else 4)
            found.append((side, number + (unit.symbol if unit.symbol in ("%", "") else f" {unit.symbol}")))
    return found
