"""An interval against what is tolerated, drawn in a few characters: `··│··━━●━━··`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.core import Verdict

#: How many characters a bar takes.
WIDTH = 16

#: The axis, what is tolerated, the interval, the estimate, and an interval that goes on without end to either side.
_SIGNS = ("·", "│", "━", "●", "◀", "▶")
_ASCII_SIGNS = (".", "|", "=", "o", "<", ">")


def draw(verdict: Verdict, *, ascii_only: bool = False) -> str:
    """The interval of a verdict and its bound, or tolerance, on one axis; nothing where there is no estimate.

    Every bar has an axis of its own, from the smallest of what is drawn to the largest.
    """
    seen = verdict.change if verdict.kind == "change" else verdict.new
    bounds = _bounds(verdict)
    if seen is None or seen.estimate is None or not bounds:
        return ""
    ends = [end for end in (seen.low, seen.high) if end is not None]
    place = _Axis([*bounds, *ends, seen.estimate])
    axis, bound, interval, estimate, left, right = _ASCII_SIGNS if ascii_only else _SIGNS
    cells = [axis] * WIDTH
    first = 0 if seen.low is None else place(seen.low)
    last = WIDTH - 1 if seen.high is None else place(seen.high)
    cells[first : last + 1] = [interval] * (last + 1 - first)
    if seen.low is None:
        cells[0] = left
    if seen.high is None:
        cells[-1] = right
    for one in bounds:
        cells[place(one)] = bound
    cells[place(seen.estimate)] = estimate
    return "".join(cells)


def _bounds(verdict: Verdict) -> list[float]:
    """What the interval is held against: a bound, or the tolerated change to the worse side, or to both."""
    if verdict.kind == "limit":
        return [] if verdict.bound is None else [verdict.bound]
    if verdict.tolerance is None:
        return []
    if verdict.two_sided:
        return [-verdict.tolerance, verdict.tolerance]
    return [-verdict.tolerance if verdict.better == "higher" else verdict.tolerance]


class _Axis:
    """Numbers to cells, with a cell to spare at either end."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.low = min(numbers)
        self.span = max(numbers) / 2 - self.low / 2  # halves, because the whole may be beyond every float

    def __call__(self, number: float) -> int:
        share = (number / 2 - self.low / 2) / self.span if self.span else 0.5
        return 1 + math.floor(share * (WIDTH - 3) + 0.5)
