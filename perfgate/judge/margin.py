"""An interval against a tolerance: the one rule by which a change passes or fails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from perfgate.stats.moderated import WorseSide

#: Room for rounding in every comparison.
SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Margin:
    """The changes that are tolerated: from `down` to `up`, on the scale of the change.

    `worse` says to which side a change is one for the worse; the bound of the other side is then no limit.
    """

    up: float
    down: float
    worse: WorseSide

    @classmethod
    def of_ratio(cls, tolerance: float, worse: WorseSide) -> Margin:
        """The margin of ln(new / base) for a relative tolerance; no fall is as large as 100 %."""
        return cls(math.log1p(tolerance), math.log1p(-tolerance) if tolerance < 1 else -math.inf, worse)

    @property
    def room(self) -> float:
        """How far a change for the worse may go; the nearer side counts where both are worse."""
        return -self.down if self.worse == "down" else self.up

    def compare(self, low: float, high: float) -> Literal["pass", "fail", "inconclusive"]:
        """Fail when the whole interval is beyond the margin, pass when it is within it."""
        up_is_worse, down_is_worse = self.worse != "down", self.worse != "up"
        if (up_is_worse and low > self.up + SLACK) or (down_is_worse and high < self.down - SLACK):
            return "fail"
        if (up_is_worse and not high <= self.up + SLACK) or (down_is_worse and not low >= self.down - SLACK):
            return "inconclusive"
        return "pass"

    def is_exceeded_by(self, change: float) -> bool:
        """Whether a change for the worse is larger than tolerated."""
        return self.compare(change, change) == "fail"

    def is_improved(self, low: float, high: float) -> bool:
        """Whether the whole interval is beyond the margin on the better side, if there is one."""
        if self.worse == "either":
            return False
        opposite: WorseSide = "down" if self.worse == "up" else "up"
        return Margin(self.up, self.down, opposite).compare(low, high) == "fail"
