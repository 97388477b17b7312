"""Plots of the machine during the runs: a flat one for each quantity that moved, on the x axis of the step plot.

A quantity has its name and the mean of both sides as text of the page, which stays readable on a phone, and a picture
of lines alone. If no run says when its steps began, the x axis is the time since the sampler began.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from operator import attrgetter
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.details import MachineChannel, MachineTrace
from perfgate.core.units import UNITS, Unit, display_unit, format_number
from perfgate.reporters import svg
from perfgate.reporters.svg import PictureScale, SafeText, element, grid

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
    #: True if some lines are only the mean of a run.
    has_levels: bool


class MachinePlots(Struct, frozen=True):
    """The quantities that moved. `is_by_step` is True if they lie on the axis of the steps."""

    strips: list[MachineStrip]
    is_by_step: bool

    @property
    def sides(self) -> list[str]:
        """The sides that are drawn: `base`, `new`."""
        drawn = {side for strip in self.strips for side, _ in strip.means}
        return [side for side in _SIDES if side in drawn]


def machine_plots(channels: Sequence[MachineChannel], steps: Ends | None = None) -> MachinePlots | None:
    """Return a plot of each quantity, by step if the step plot has the ends `steps`, else by time; None without any."""
    measured = [trace for channel in channels for trace in channel.runs if trace.values]
    by_step = steps is not None and any(trace.steps for trace in measured)
    if by_step:
        channels = list(map(_by_step, channels))
    x_ends = steps if by_step else svg.ends([time for trace in measured for time in trace.times], room=0.02)
    if x_ends is None or not x_ends[1] > x_ends[0]:
        return None
    strips = _strips(channels, PictureScale(*x_ends, _LEFT, _RIGHT), "step" if by_step else "seconds since the start")
    return MachinePlots(strips, by_step) if strips else None


def _by_step(channel: MachineChannel) -> MachineChannel:
    """Return a channel with steps as its times; a run that does not tell when its steps began keeps only its mean."""
    runs = (replace(run, times=run.steps, values=run.values if run.steps else ()) for run in channel.runs)
    return replace(channel, runs=tuple(runs))


def _strips(channels: Sequence[MachineChannel], x: PictureScale, label: str) -> list[MachineStrip]:
    """Return the plots; only the lowest has the numbers and the label of the x axis."""
    strips: list[MachineStrip] = []
    for channel in reversed(channels):
        strip = _strip(channel, x, "" if strips else label)
        if strip is not None:
            strips.insert(0, strip)
    return strips


def _strip(channel: MachineChannel, x: PictureScale, label: str) -> MachineStrip | None:
    """Return the plot of a quantity, or None if no axis can show it. With a label, the x axis has its numbers, too."""
    if not any(trace.values for trace in channel.runs):
        return None
    values = [value for trace in channel.runs for value in (*trace.values, trace.mean) if isfinite(value)]
    is_share = channel.unit == "1"
    ends = svg.ends(values, also=(0.0,) if is_share else ())
    if ends is None:
        return None
    if is_share:
        ends = (0.0, max(ends[1], 0.01))  # from 0 to 1 % or more
    y = PictureScale(*ends, _BOTTOM, _TOP)
    name, unit = _named(channel, max(map(abs, values), default=0.0))
    device = ", ".join(f"{name} {value}" for name, value in channel.labels.items())
    if device and channel.devices > 1:
        device += f" of {channel.devices}"
    means = _means(channel, unit)
    # Only the percent sign is shown: the margin has room for four digits.
    bare = unit if unit.symbol == "%" else Unit("", unit.base, unit.factor)
    rows = grid(svg.value_ticks(*ends, bare, 3), y, _RIGHT - _LEFT)
    runs = sorted(channel.runs, key=attrgetter("standing"))  # base before new
    lines = [line for run in runs for line in _lines(run, x, y, is_share=is_share)]
    words = ", ".join(f"{text} in the {side} runs" for side, text in means)
    picture = element(
        "svg",
        element("title", f"{name}, {device}" if device else name),
        element("desc", f"The mean of {channel.metric}: {words}."),
        element("g", rows, transform=f"translate({_LEFT} 0)"),
        *_verticals(x, label),
        *lines,
        viewBox=f"0 0 {_WIDTH} {_BOTTOM + (_BELOW + 14 if label else 4):g}",
        role="img",
        class_="strip",
    )
    return MachineStrip(name, device, means, picture, not all(trace.values for trace in channel.runs))


def _lines(trace: MachineTrace, x: PictureScale, y: PictureScale, *, is_share: bool) -> list[SafeText]:
    """Return the line of a run, or else one at its mean; that of a share, such as lost time, has its area filled."""
    side = trace.standing
    # A stored report may have fewer places than values.
    points = [(x.place(time), y.place(value)) for time, value in zip(trace.times, trace.values, strict=False)]
    if side == "past" or not (points or isfinite(trace.mean)):
        return []
    if not points:
        level = svg.polyline([(_LEFT, y.place(trace.mean)), (_RIGHT, y.place(trace.mean))])
        return [element("path", d=level, class_=f"{side} level")]
    shape = svg.polyline(points)
    line = element("path", d=shape, class_=side)
    area = SafeText(f"{shape}V{_BOTTOM:g}H{points[0][0]:.2f}Z")
    return [element("path", d=area, class_=f"{side} area"), line] if is_share else [line]


def _verticals(x: PictureScale, label: str) -> list[SafeText]:
    """Return the grid of the x axis; with a label, its numbers, too."""
    places = [(x.place(number), format_number(number, 6)) for number in svg.round_numbers(x.low, x.high, 7)]
    grid_lines = element("path", d=svg.verticals((place for place, _ in places), _TOP, _BOTTOM), class_="grid")
    if not label:
        return [grid_lines]
    texts = [(place, _BOTTOM + 15, text) for place, text in places] + [((_LEFT + _RIGHT) / 2, _BOTTOM + 31, label)]
    below = [element("text", text, x=x, y=y, class_="place", text_anchor="middle") for x, y, text in texts]
    return [grid_lines, *below]


def _named(channel: MachineChannel, largest: float) -> tuple[str, Unit]:
    """Return the words for a quantity, and the unit that its values are shown in."""
    name, unit = channel.metric, None
    for prefix, (words, symbol) in _NAMES.items():
        if channel.metric.startswith(prefix):
            rest = channel.metric.removeprefix(prefix)
            name, unit = words.format(_RESOURCES.get(rest, rest.replace("_", " "))), UNITS.get(symbol or "")
            break
    return name, unit if unit is not None and unit.base == channel.unit else display_unit(largest, channel.unit)


def _means(channel: MachineChannel, unit: Unit) -> tuple[tuple[str, str], ...]:
    """Return each side with its mean in words."""
    found = []
    for side in _SIDES:
        means = [trace.mean for trace in channel.runs if trace.standing == side and isfinite(trace.mean)]
        if means:
            number = format_number(fmean(means) / unit.factor, 3 if unit.symbol in ("%", "°C") else 4)
            found.append((side, number + (unit.symbol if unit.symbol in ("%", "") else f" {unit.symbol}")))
    return tuple(found)
