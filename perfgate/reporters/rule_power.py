"""What rules can detect: the plans of `plan` and the proofs of `selftest`, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Problem
from perfgate.core.details import AddedWork
from perfgate.core.summaries import Plan, Proof
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import plural, series_name
from perfgate.reporters.plain_json import encode, members_of, problem
from perfgate.reporters.terminal_page import GAP, Page
from perfgate.words import answer

_PLAN_HEADS = ("rule", "noise", "sees", "needs")
#: The least width of the first column.
_LEAST_ROOM = 16


def plan_json(plans: Sequence[Plan], problems: Sequence[Problem] = ()) -> str:
    """Return every plan with its points: the smallest detectable change by number of new runs and of steps."""
    rows = [members_of(plan, "at") for plan in plans]
    return encode({"schema": "perfgate.plan/1", "plans": rows, "problems": list(map(problem, problems))})


def plan_text(plans: Sequence[Plan], *, width: int = 100, ascii_only: bool = False) -> str:
    """Return a table with one row per clause and metric, and the advice below each row."""
    page = Page(width, ascii_only=ascii_only)
    cells = [_plan_cells(plan) for plan in plans]
    longest = [max(map(page.cells, column)) for column in zip(_PLAN_HEADS, *cells, strict=True)]
    # Numbers are as wide as the widest. The first column gets the rest, and wraps.
    room = page.width - sum(longest[1:]) - GAP * (len(longest) - 1)
    widths = [max(_LEAST_ROOM, min(longest[0], room)), *longest[1:]]
    for place in dict.fromkeys(plan.baseline for plan in plans):
        page.paragraph(f"planned with the runs of {place}", "dim")
        page.blank()
        page.row([[head] for head in _PLAN_HEADS], widths, ["dim"] * len(_PLAN_HEADS))
        for plan, row in zip(plans, cells, strict=True):
            if plan.baseline == place:
                page.row([[cell] for cell in row], widths, [""] * len(_PLAN_HEADS))
                page.paragraph(plan.trouble or f"→ {plan.advice}", "dim", indent=4)
        for line in answer.learned_noise(plan for plan in plans if plan.baseline == place):
            page.paragraph(line, "dim")
        page.blank()
    page.paragraph(
        "noise: between runs + within a run, as relative standard deviations. sees: the smallest change that "
        "fails in 8 of 10 cases, in up to three new runs. needs: the runs that exclude the change of `at_worst` for an "
        "unchanged program, as exit 0 promises."
    )
    return page.finished()


def _plan_cells(plan: Plan) -> list[str]:
    name = series_name(plan.metric, plan.labels, plan.statistic)
    noise = sees = needs = ""
    if plan.noise_between is not None and plan.noise_within is not None:
        assumed = " (assumed)" if plan.base_runs == 1 and not plan.calibrated else ""
        noise = f"{100 * plan.noise_between:.2g}% + {100 * plan.noise_within:.2g}%{assumed}"
    if plan.fails_from is not None:
        sees = format_change(plan.fails_from)
    elif plan.detectable is not None:
        sees = format_change(plan.detectable) + ("" if plan.new_runs == 1 else f" ({plan.new_runs} runs)")
    if plan.values_needed is not None and plan.values_held is not None:
        needs = f"{plan.values_needed} values, has {format_number(plan.values_held, 3)}"
    elif plan.tolerance is not None:
        needs = plural(plan.runs_needed, "run") if plan.runs_needed else "over 20 runs"
        needs += f" to exclude {format_number(100 * plan.at_worst, 3)}%" if plan.at_worst is not None else ""
    return [f"{name} {plan.asks}".rstrip(), noise, sees, needs]


#: For each state of a proof, in the order of the summary: its sign, its words, and its colour.
_STATES = {
    "unable": ("✗ ", "cannot fail", "bold red"),
    "blocked": ("! ", "not passing unchanged", "bold red"),
    "proven": ("✓ ", "can fail", "green"),
    "by-choice": ("- ", "not blocking", "dim"),
}
#: A rule blocks with any exit code but 0: with a doubt or a suspicion it does so before it fails.
_HEADS = ("", "rule", "blocks at", "sees")


def selftest_json(
    proofs: Sequence[Proof],
    against: str,
    exit_code: int,
    time_seen: float | None = None,
    added: Sequence[AddedWork] = (),
) -> str:
    """Return the proofs as JSON, in base units; `time_seen` is the share of the measured time that a rule names."""
    rows = [members_of(proof, "labels", "at") for proof in proofs]
    return encode(
        {
            "schema": "perfgate.selftest/1",
            "against": against,
            "exit_code": exit_code,
            "time_seen": time_seen,
            "proofs": rows,
            "added": list(map(members_of, added)),
        }
    )


def selftest_text(
    proofs: Sequence[Proof],
    against: str,
    exit_code: int,
    time_seen: float | None = None,
    added: Sequence[AddedWork] = (),
    *,
    width: int,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """Return a table with one row per rule and metric, and the reason below each rule that has one."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    page.paragraph(f"tested against {against}", "dim")
    page.blank()
    cells = [_cells(proof, ascii_only) for proof in proofs]
    widths = [max(page.cells(row[column]) for row in [_HEADS, *cells]) for column in range(len(_HEADS))]
    widths[1] = max(_LEAST_ROOM, min(widths[1], width - widths[0] - sum(widths[2:]) - GAP * (len(_HEADS) - 1)))
    page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
    for proof, row in zip(proofs, cells, strict=True):
        page.row([[cell] for cell in row], widths, [_STATES[proof.state][2], "", "", ""])
        if proof.reason:
            page.paragraph(f"{proof.reason} ({proof.at})", "dim", indent=4)
    page.blank()
    for i, one in enumerate(added):
        if not i:
            page.paragraph("if each step has one more, these rules fail:", "dim")
        failing = ", ".join(one.rules) or "none"
        page.paragraph(f"{one.what}: {failing}", "" if one.rules else "yellow", indent=4)
    if added:
        page.blank()
    if time_seen is not None:
        page.paragraph(f"the rules name {format_number(100 * time_seen, 2)}% of the time that these runs measured")
    page.paragraph(_summary(proofs, exit_code), "bold")
    return page.finished()


def _cells(proof: Proof, ascii_only: bool) -> tuple[str, str, str, str]:
    sign, words, colour = _STATES[proof.state]
    state = (words.upper() if "red" in colour else words) if ascii_only else sign + words
    rule = f"{series_name(proof.metric, proof.labels, proof.statistic)} {proof.asks}".rstrip()
    return state, rule, _size(proof, proof.blocks_at), _size(proof, proof.fails_at)


def _size(proof: Proof, size: float | None) -> str:
    """Return a change, or the value of a limit, in words."""
    if size is None:
        return ""
    return format_change(size) if proof.kind == "change" else format_value(size, proof.unit or "", proof.shown_unit)


def _summary(proofs: Sequence[Proof], exit_code: int) -> str:
    found = [proof.state for proof in proofs]
    counts = [f"{found.count(state)} {words}" for state, (_, words, _) in _STATES.items() if state in found]
    absences = sum(not proof.misses for proof in proofs)
    counts += [f"{plural(absences, 'missing metric')} not noticed"] if absences else []
    return f"{'FAIL' if exit_code else 'PASS'}  {', '.join(counts)} (exit {exit_code})"
