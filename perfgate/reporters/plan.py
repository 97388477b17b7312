"""What rules can see, for people and as JSON (`perfgate.plan/1`), ready to be plotted."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Plan, Problem
from perfgate.core.units import format_change, format_number
from perfgate.core.wording import plural, series_name
from perfgate.reporters.plain_json import encode, problem
from perfgate.reporters.terminal_page import GAP, Page

_HEADS = ("asked", "noise", "sees", "needs")
#: Names and what is asked of them have at least this much room.
_LEAST_ROOM = 16


def render_json(plans: Sequence[Plan], problems: Sequence[Problem] = ()) -> str:
    """Every plan with its points: the smallest change seen by so many new runs, with so many times the steps."""
    return encode(
        {"schema": "perfgate.plan/1", "plans": list(map(_as_json, plans)), "problems": list(map(problem, problems))}
    )


def _as_json(plan: Plan) -> dict[str, object]:
    names = [name for name in Plan.__slots__ if name != "at"]
    place = {"file": plan.at.file, "line": plan.at.line, "column": plan.at.column}
    return {**{name: getattr(plan, name) for name in names}, "at": place}


def render_text(plans: Sequence[Plan], *, width: int = 100, ascii_only: bool = False) -> str:
    """A table, one row for each clause and metric, with the advice under it."""
    page = Page(width, ascii_only=ascii_only)
    cells = [_cells(plan) for plan in plans]
    widths = _widths(page, [list(_HEADS), *cells])
    for place in dict.fromkeys(plan.baseline for plan in plans):
        page.paragraph(f"planned with the runs of {place}", "dim")
        page.blank()
        page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
        for plan, row in zip(plans, cells, strict=True):
            if plan.baseline == place:
                page.row([[cell] for cell in row], widths, [""] * len(_HEADS))
                page.paragraph(plan.trouble or f"→ {plan.advice}", "dim", indent=4)
        page.blank()
    page.paragraph(
        "noise: from run to run + inside a run, as standard deviations. sees: the smallest change that the next run "
        "shows with the wanted power. needs: what settles an unchanged program."
    )
    return page.finished()


def _widths(page: Page, rows: Sequence[Sequence[str]]) -> list[int]:
    """Numbers as wide as the longest; names and what is asked of them wrap in what is left."""
    longest = [max(page.cells(cell) for cell in column) for column in zip(*rows, strict=True)]
    room = page.width - sum(longest[1:]) - GAP * (len(longest) - 1)
    return [max(_LEAST_ROOM, min(longest[0], room)), *longest[1:]]


def _cells(plan: Plan) -> list[str]:
    name = series_name(plan.metric, plan.labels, plan.statistic)
    return [f"{name} {plan.asks}".rstrip(), _noise(plan), _sees(plan), _needs(plan)]


def _noise(plan: Plan) -> str:
    if plan.noise_between is None or plan.noise_within is None:
        return ""
    between, within = (f"{100 * noise:.2g}%" for noise in (plan.noise_between, plan.noise_within))
    assumed = plan.base_runs == 1 and not plan.calibrated
    return f"{between} + {within}" + (" (assumed)" if assumed else "")


def _sees(plan: Plan) -> str:
    if plan.detectable is None:
        return ""
    change = format_change(plan.detectable)
    return change if plan.new_runs == 1 else f"{change} ({plan.new_runs} runs)"


def _needs(plan: Plan) -> str:
    if plan.values_needed is not None and plan.values_held is not None:
        return f"{plan.values_needed} values, has {format_number(plan.values_held, 3)}"
    if plan.tolerance is None:
        return ""
    return plural(plan.runs_needed, "run") if plan.runs_needed else "over 20 runs"
