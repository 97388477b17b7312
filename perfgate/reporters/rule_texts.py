"""The text of `rules diff`, and the lines of `rules explain` on the values at which the next run would not pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.core import PolicyChange, Verdict
from perfgate.core.wording import one_line, plural, without_commands
from perfgate.words.answer import difference
from perfgate.words.numbers import measured, value_text, what


def render_difference(changes: Sequence[PolicyChange], sides: str) -> str:
    """Return the output of `rules diff`; `sides` names the two versions of the rules."""
    if not changes:
        return one_line(f"the rules have the same meaning: {sides}")
    return without_commands("\n".join([one_line(f"rules, {sides}:"), *(f"  {difference(one)}" for one in changes)]))


def render_next_run(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """Return a line per verdict on the newest stored run, below the place of the level that it was compared with."""
    lines = []
    for place, verdicts in found.items():
        lines += [f"  now, compared with {place}:"] if verdicts else []
        lines += [f"    {one_line(_now(verdict))}" for verdict in verdicts]
    return lines


def _now(verdict: Verdict) -> str:
    if verdict.kind == "limit" and verdict.new is not None and verdict.new.estimate is not None:
        bound = value_text(verdict.bound, verdict)
        return f"{what(verdict)} of the newest run is {' '.join(measured(verdict))}, the bound is {bound}"
    base = verdict.base.estimate if verdict.base else None
    if verdict.kind == "limit" or base is None or verdict.base is None or verdict.tolerance is None:
        return f"{what(verdict)}: {verdict.outcome}: {verdict.message}"
    ends = _ends(verdict, base, verdict.tolerance)
    runs, seen = plural(verdict.base.runs, "run"), verdict.minimum_detectable_change
    text = f"{what(verdict)} is {value_text(base, verdict)} ({runs}); {ends} is beyond the tolerance"
    return text if seen is None else f"{text}, and {_ends(verdict, base, seen)} is probably undecided or fails"


def _ends(verdict: Verdict, base: float, change: float) -> str:
    """The values beyond a change of this size in the worse direction."""
    above = f"above {value_text(base * (1 + change), verdict)}"
    below = f"below {value_text(max(base * (1 - change), 0.0), verdict)}"
    if verdict.two_sided:
        return f"{below} or {above}"
    return below if verdict.better == "higher" else above
