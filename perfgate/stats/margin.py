"""The tolerated change as a margin on the scale of logarithms."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from perfgate.stats.moderated import WorseSide

#: Room for rounding in every comparison.
SLACK = 1e-12


class Margin(Struct, frozen=True):
    """The tolerated changes: from `down`, which is negative, to `up`; a change beyond the `worse` side is a failure."""

    up: float
    down: float
    worse: WorseSide

    @classmethod
    def of_ratio(cls, tolerance: float, worse: WorseSide) -> Margin:
        """Return the margin of ln(new / base) for a relative tolerance; from 100 % on, any fall is tolerated."""
        return cls(math.log1p(tolerance), math.log1p(-tolerance) if tolerance < 1 else -math.inf, worse)

    @property
    def room(self) -> float:
        """The largest tolerated change for the worse, as a positive number; `up` if both directions are worse."""
        return -self.down if self.worse == "down" else self.up

    @property
    def size(self) -> float:
        """The relative change at the margin; positive."""
        return -math.expm1(self.down) if self.worse == "down" else math.expm1(self.up)

    def compare(self, low: float, high: float) -> Literal["pass", "fail", "undecided"]:
        """Return `fail` if the whole interval is beyond the margin, and `pass` if the whole interval is within it."""
        up_is_worse, down_is_worse = self.worse != "down", self.worse != "up"
        if (up_is_worse and low > self.up + SLACK) or (down_is_worse and high < self.down - SLACK):
            return "fail"
        # `not <=` instead of `>`, so that NaN is undecided
        if (up_is_worse and not high <= self.up + SLACK) or (down_is_worse and not low >= self.down - SLACK):
            return "undecided"
        return "pass"

    def exceeds(self, change: float) -> bool:
        """Return whether a change is beyond the margin."""
        return self.compare(change, change) == "fail"

    def includes(self, low: float, high: float) -> bool:
        """Return whether the interval is within the margin and does not touch its edge."""
        touches = (self.worse != "down" and high >= self.up) or (self.worse != "up" and low <= self.down)
        return self.compare(low, high) == "pass" and not touches

    def is_improved(self, low: float, high: float) -> bool:
        """Return whether the whole interval is beyond the margin on the better side."""
        if self.worse == "either":
            return False
        opposite: WorseSide = "down" if self.worse == "up" else "up"
        return Margin(self.up, self.down, opposite).compare(low, high) == "fail"

    def detectable(self, distance: float) -> float | None:
        """Return the change for the worse that is `distance` (in logarithms) beyond the margin; relative, positive.

        None if it is too large for a float.
        """
        return -math.expm1(self.down - distance) if self.worse == "down" else as_ratio(self.up + distance)


def as_ratio(log_change: float) -> float | None:
    """Return the relative change for the logarithm of a ratio; None if it is too large for a float."""
    try:
        return finite(math.expm1(log_change))
    except OverflowError:
        return None


def finite(value: float) -> float | None:
    """Return the value, or None if it is NaN or infinite."""
    return value if math.isfinite(value) else None
