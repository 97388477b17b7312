"""The quantities of a sensor (channels), and one value of each for every window of time.

A level (a clock, a temperature) is averaged over the window. A total (energy, time lost to throttling) is a counter
that only grows: its value is the growth per second, which includes everything between two readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Literal, Protocol, runtime_checkable

#: A counter of 32 bits begins again at 0 after this many.
_WRAP = 2.0**32
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Channel:
    """One quantity of a sensor."""

    metric: str
    #: The unit of the recorded values.
    unit: str
    kind: Literal["level", "total"] = "level"
    labels: Mapping[str, str] = field(default_factory=dict)
    #: A level, or the growth of a total per second, is multiplied by this.
    scale: float = 1.0
    #: The largest possible growth of the reading in a second. A larger one means that the counter was reset.
    most: float = math.inf
    #: The metric of the growth of a total in the whole run, if it is recorded, and its unit; `scale` applies, too.
    whole: str | None = None
    whole_unit: str = "1"


class Sensor(Protocol):
    """A source of readings."""

    #: True for readings that cost much or change slowly: they are taken once a second.
    is_slow: bool

    def channels(self) -> Sequence[Channel]:
        """Return the channels that this machine has; empty if there are none."""
        ...

    def read(self) -> Sequence[float]:
        """Return the reading of each channel; NaN if it cannot be read now."""
        ...


@runtime_checkable
class TextSensor(Sensor, Protocol):
    """A source of text. Its text is taken now, and parsed later together with others, which costs less."""

    def take(self) -> bytes:
        """Return the text as it is now; empty if it cannot be read."""
        ...

    def readings(self, text: bytes) -> Sequence[float]:
        """Return the reading of each channel in a text."""
        ...


def growth(before: float, after: float, seconds: float, most: float = math.inf) -> float:
    """Return the growth of a counter between two readings; NaN if it was reset.

    A counter of 32 bits that went past its end has grown by 2^32 more than it shows. A reset from beyond half of that
    looks the same, unless the growth exceeds `most`: see `Channel`.
    """
    grown = after - before
    if grown < 0 and before < _WRAP:
        grown += _WRAP
        if grown > _WRAP / 2:  # after a reset, this is nearly 2^32
            return NAN
    return grown if 0 <= grown <= most * max(seconds, 1e-3) * 1.5 else NAN  # the times are not exact


@dataclass(slots=True)
class ChannelWindow:
    """Makes one value of the readings of a channel in each window."""

    channel: Channel
    #: Of a total: the last reading, its time in s, and the growth since the beginning of the run.
    _last: float = NAN
    _at: float = NAN
    _whole: float = 0.0
    #: The sum of a level in this window and the number of readings; of a total, the growth and the time in s.
    _sum: float = 0.0
    _count: float = 0.0

    def add(self, at: float, reading: float) -> None:
        """Add a reading; `at` is its time in s. NaN means that there is none."""
        if isnan(reading):
            return
        channel = self.channel
        if channel.kind == "level":
            self._sum += reading
            self._count += 1
            return
        grown, seconds = reading - self._last, at - self._at
        # Usual readings need no call; `growth` is for a counter that began anew, and for the first, where both are NaN.
        if not 0 <= grown <= channel.most * seconds:
            grown = growth(self._last, reading, seconds, channel.most)
        if not isnan(grown):
            self._sum += grown
            self._whole += grown
            self._count += seconds
        self._last, self._at = reading, at

    def close(self) -> float:
        """Return the value of the window and begin the next one; NaN without a reading."""
        value = self._sum / self._count * self.channel.scale if self._count else NAN
        self._sum = self._count = 0.0
        return value

    @property
    def whole(self) -> float:
        """The growth of a total since the first reading."""
        return self._whole * self.channel.scale
