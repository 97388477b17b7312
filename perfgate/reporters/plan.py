"""The plans of rules as a table and as JSON (`perfgate.plan/1`)."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Problem
from perfgate.core.summaries import Plan
from perfgate.core.units import format_change, format_number
from perfgate.core.wording import plural, series_name
from perfgate.reporters.plain_json import encode, members_of, problem
from perfgate.reporters.terminal_page import GAP, Page
from perfgate.words import answer

_HEADS = ("rule", "noise", "finds", "needs")
#: The least width of the first column.
_LEAST_ROOM = 16


def render_json(plans: Sequence[Plan], problems: Sequence[Problem] = ()) -> str:
    """Return every plan with its points: the smallest detectable change by number of new runs and of steps."""
    rows = [members_of(plan, "at") for plan in plans]
    return encode({"schema": "perfgate.plan/1", "plans": rows, "problems": list(map(problem, problems))})


def render_text(plans: Sequence[Plan], *, width: int = 100, ascii_only: bool = False) -> str:
    """Return a table with one row per clause and metric, and the advice below each row."""
    page = Page(width, ascii_only=ascii_only)
    cells = [_cells(plan) for plan in plans]
    longest = [max(map(page.cells, column)) for column in zip(_HEADS, *cells, strict=True)]
    # Numbers are as wide as the widest. The first column gets the rest, and wraps.
    room = page.width - sum(longest[1:]) - GAP * (len(longest) - 1)
    widths = [max(_LEAST_ROOM, min(longest[0], room)), *longest[1:]]
    for place in dict.fromkeys(plan.baseline for plan in plans):
        page.paragraph(f"planned with the runs of {place}", "dim")
        page.blank()
        page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
        for plan, row in zip(plans, cells, strict=True):
            if plan.baseline == place:
                page.row([[cell] for cell in row], widths, [""] * len(_HEADS))
                page.paragraph(plan.trouble or f"→ {plan.advice}", "dim", indent=4)
        for line in answer.learned_noise(plan for plan in plans if plan.baseline == place):
            page.paragraph(line, "dim")
        page.blank()
    page.paragraph(
        "noise: between runs + within a run, as relative standard deviations. finds: the smallest change that the "
        "next run detects with the requested power. needs: the runs that exclude the change of `at_worst` for an "
        "unchanged program, as exit 0 promises."
    )
    return page.finished()


def _cells(plan: Plan) -> list[str]:
    name = series_name(plan.metric, plan.labels, plan.statistic)
    noise = finds = needs = ""
    if plan.noise_between is not None and plan.noise_within is not None:
        assumed = " (assumed)" if plan.base_runs == 1 and not plan.calibrated else ""
        noise = f"{100 * plan.noise_between:.2g}% + {100 * plan.noise_within:.2g}%{assumed}"
    if plan.detectable is not None:
        finds = format_change(plan.detectable) + ("" if plan.new_runs == 1 else f" ({plan.new_runs} runs)")
    if plan.values_needed is not None and plan.values_held is not None:
        needs = f"{plan.values_needed} values, has {format_number(plan.values_held, 3)}"
    elif plan.tolerance is not None:
        needs = plural(plan.runs_needed, "run") if plan.runs_needed else "over 20 runs"
        needs += f" to exclude {format_number(100 * plan.at_worst, 3)}%" if plan.at_worst is not None else ""
    return [f"{name} {plan.asks}".rstrip(), noise, finds, needs]
