"""Scales from values to positions in a picture, and the ends of an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

#: Values beyond these cannot be drawn.
_LARGEST, _SMALLEST = 1e15, 1e-15
#: An axis that shows most values shows all, if it becomes at most this much longer.
_STRETCH = 1.5
#: So few values are all shown.
_FEW = 8


class LinearScale(Struct, frozen=True):
    """A scale on which equal differences have equal lengths: `low` is at `start`, and `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the position of a value, which may be beyond the ends."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


class LogScale(Struct, frozen=True):
    """A scale on which equal ratios have equal lengths; values and ends are positive."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the position of a value, which may be beyond the ends."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


PictureScale: TypeAlias = LinearScale | LogScale


def scale(low: float, high: float, start: float, end: float, *, is_log: bool = False) -> PictureScale:
    """Return a scale on which `low` is at `start`, and `high` at `end`."""
    return (LogScale if is_log else LinearScale)(low, high, start, end)


def ends(
    values: Sequence[float],
    also: Sequence[float] = (),
    *,
    outside: float = 0.0,
    room: float = 0.08,
    is_log: bool = False,
) -> tuple[float, float] | None:
    """Return the ends of an axis for values, or None if no axis can show them.

    Parameters
    ----------
    values : the values. They may be beyond the ends if they are far from the others.
    also : values that the axis includes in any case.
    outside : the share of the values on each side that may be beyond the ends, so that a stall does not flatten all.
    room : the room on both sides, as a share of the length.
    is_log : the ends of a logarithmic axis; all values are positive.
    """
    known = sorted(value for value in (*values, *also) if math.isfinite(value))
    if not known or max(abs(known[0]), abs(known[-1])) > _LARGEST:
        return None
    if is_log:
        known, also = [math.log(value) for value in known], [math.log(value) for value in also]
    cut = math.ceil(outside * len(known)) if len(known) > _FEW else 0
    low, high = min(known[cut], *also, known[-1 - cut]), max(known[-1 - cut], *also, known[cut])
    if known[-1] - known[0] <= _STRETCH * (high - low):
        low, high = known[0], known[-1]
    size = max(abs(low), abs(high))
    if not is_log and 0 < size < _SMALLEST:
        return None
    pad = room * (high - low) if high - low > 1e-6 * size else 0.05 * (1 if is_log else size) or 1.0
    return (math.exp(low - pad), math.exp(high + pad)) if is_log else (low - pad, high + pad)
