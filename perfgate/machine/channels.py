"""The quantities of a sensor, and one value of each for every window of time.

A level (a clock, a temperature) is averaged over the window. A total (energy, time lost to throttling) is a counter
that only grows: its value is the growth per second, which misses nothing between two readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Literal, Protocol, runtime_checkable

#: Counters of 32 bits begin again at 0.
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
    #: Recorded value per reading; for a total, per growth of the reading in a second.
    scale: float = 1.0
    #: The largest possible growth of the reading in a second. More means that the counter was reset.
    most: float = math.inf
    #: A metric for the whole growth during the run, and its unit; `scale` applies, too.
    whole: str | None = None
    whole_unit: str = "1"


class Sensor(Protocol):
    """A source of readings."""

    #: True for readings that cost much or change slowly: once a second is enough.
    is_slow: bool

    def channels(self) -> Sequence[Channel]:
        """Return what can be read here; empty if nothing can be read."""
        ...

    def read(self) -> Sequence[float]:
        """Return the reading of each channel; NaN for what cannot be read now."""
        ...


@runtime_checkable
class TextSensor(Sensor, Protocol):
    """A source of text. Its text can be taken now and understood later, with others, which costs less."""

    def take(self) -> bytes:
        """Return the text as it is now; empty if it cannot be read."""
        ...

    def readings(self, text: bytes) -> Sequence[float]:
        """Return the reading of each channel in a text."""
        ...


def growth(before: float, after: float, seconds: float, most: float = math.inf) -> float:
    """Return how much a counter has grown; NaN if it was reset.

    A counter of 32 bits that went past its end has grown by 2^32 more than it shows.
    """
    grown = after - before
    if grown < 0 and before < _WRAP:
        grown += _WRAP
        # A reset looks like this, too: then the growth is nearly 2^32.
        if grown > _WRAP / 2:
            return NAN
    return grown if 0 <= grown <= most * max(seconds, 1e-3) * 1.5 else NAN


@dataclass(slots=True)
class ChannelWindow:
    """The readings of one channel, which become one value a window."""

    channel: Channel
    #: The last reading of a total and its time, and its growth since the beginning of the run.
    _last: float = NAN
    _at: float = NAN
    _whole: float = 0.0
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
        if not 0 <= grown <= channel.most * seconds:  # also for the first reading
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
