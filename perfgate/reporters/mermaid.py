"""Runs as a Mermaid chart, which GitHub draws: one line through the runs, and one where the tolerance ends.

They are lines because the axis does not begin at 0, and a bar would have a length without a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.core import Report, RunEstimate, Verdict
from perfgate.core.units import display_unit, format_number
from perfgate.words import answer, numbers

#: The table already shows everything about fewer runs.
_FEWEST_RUNS = 3
_MOST_RUNS = 20
_LONGEST_TITLE = 60

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def chart(report: Report) -> list[str]:
    """Return a fenced chart of the worst change with enough runs, as lines; empty without such a change."""
    for verdict in answer.worst_first(report.verdicts):
        runs = [run for run in verdict.runs if run.estimate is not None][-_MOST_RUNS:]
        if answer.needs_attention(verdict) and verdict.kind == "change" and len(runs) >= _FEWEST_RUNS:
            return _fenced(verdict, runs)
    return []


def _fenced(verdict: Verdict, runs: Sequence[RunEstimate]) -> list[str]:
    values = [run.estimate or 0.0 for run in runs]
    unit = display_unit(max(values, key=abs), verdict.unit or "1")
    base = verdict.base.estimate if verdict.base else None
    limit: float | None = None  # the value at which the tolerance ends, in the worse direction
    if base is not None and verdict.tolerance is not None:
        limit = base * (1 - verdict.tolerance if verdict.better == "higher" else 1 + verdict.tolerance)
    first_new = sum(run.side == "base" for run in runs)
    names = ", ".join(f'"{run.side} {1 + (i if i < first_new else i - first_new)}"' for i, run in enumerate(runs))
    drawn = [[format_number(value / unit.factor) for value in values]]
    drawn += [[format_number(limit / unit.factor)] * len(runs)] if limit is not None else []
    ends = [*values, *([] if limit is None else [limit])]
    # A quarter more on each side, so that differences are visible.
    room = (max(ends) - min(ends)) / 4 or abs(max(ends)) / 4 or 1.0
    axis = [format_number(end / unit.factor) for end in (min(ends) - room, max(ends) + room)]
    if not all(_DECIMAL.fullmatch(number) for line in (*drawn, axis) for number in line):
        return []  # Mermaid cannot read exponents
    return [
        "```mermaid",
        "xychart-beta",
        f'  title "{_safe(numbers.what(verdict))} by run"',
        f"  x-axis [{names}]",
        f'  y-axis "{_safe(unit.symbol) or "value"}" {axis[0]} --> {axis[1]}',
        *(f"  line [{', '.join(line)}]" for line in drawn),
        "```",
    ]


def _safe(text: str) -> str:
    """The text without characters that have a meaning in Mermaid."""
    return re.sub(r"[^A-Za-z0-9_./% -]", "_", text.replace("µ", "u"))[:_LONGEST_TITLE]
