"""What a rule would say of the next run, in the metric's own unit: from its verdict on the newest stored one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.core import Verdict
from perfgate.core.units import format_value
from perfgate.core.wording import one_line, plural
from perfgate.reporters.phrases import measured, unit_for, what


def render(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """A line for each verdict, below the level that it was judged in; levels without any are left out."""
    lines = []
    for place, verdicts in found.items():
        lines += [f"  now, by {place}:"] if verdicts else []
        lines += [f"    {one_line(_now(verdict))}" for verdict in verdicts]
    return lines


def _now(verdict: Verdict) -> str:
    if verdict.kind == "limit" and verdict.new is not None and verdict.new.estimate is not None:
        bound = _value(verdict.bound, verdict)
        return f"{what(verdict)} of the newest run is {' '.join(measured(verdict))}, against {bound}"
    base = verdict.base.estimate if verdict.base else None
    if verdict.kind == "limit" or base is None or verdict.base is None or verdict.tolerance is None:
        return f"{what(verdict)}: {verdict.outcome}: {verdict.message}"
    ends = _ends(verdict, base, verdict.tolerance)
    runs, seen = plural(verdict.base.runs, "run"), verdict.minimum_detectable_change
    text = f"{what(verdict)} is {_value(base, verdict)} ({runs}): {ends} is beyond the tolerance"
    return text if seen is None else f"{text}, and {_ends(verdict, base, seen)} most likely fails"


def _ends(verdict: Verdict, base: float, change: float) -> str:
    """Where a change for the worse of this size leads to."""
    above = f"above {_value(base * (1 + change), verdict)}"
    below = f"below {_value(max(base * (1 - change), 0.0), verdict)}"
    if verdict.two_sided:
        return f"{below} or {above}"
    return below if verdict.better == "higher" else above


def _value(value: float | None, verdict: Verdict) -> str:
    return "unknown" if value is None else format_value(value, verdict.unit or "1", unit_for(value, verdict).symbol)
