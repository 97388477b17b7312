"""The output of `perfgate rules`: the table of all rules, one rule with its numbers, and differences of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perfgate.core import Key, PolicyChange, Problem, Verdict
from perfgate.core.summaries import Plan, Proof, RulesTable
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import one_line, plural, series_name, without_commands
from perfgate.reporters.plain_json import encode, members_of, problem
from perfgate.reporters.terminal_page import Page
from perfgate.words.answer import difference, learned_noise
from perfgate.words.numbers import measured, value_text, what

#: A rule, the metric with its labels, and the text of the clause, such as `within 5% of baseline`.
Clause = tuple[str, str, str]
#: For each state of a proof, in the order of the summary: its sign, its words, and its colour.
_STATES = {
    "unable": ("✗ ", "cannot fail", "bold red"),
    "blocked": ("! ", "not passing unchanged", "bold red"),
    "proven": ("✓ ", "can fail", "green"),
    "by-choice": ("- ", "not blocking", "dim"),
}
_HEADS = ("rule", "sees", "proven", "needs")


def clause_of(one: Plan | Proof | Verdict) -> Clause:
    """Return the clause of a rule and the metric that a plan, a proof or a verdict is about."""
    return one.rule, str(Key.of(one.metric, **one.labels)), one.asks


def rules_json(tables: Sequence[RulesTable], problems: Sequence[Problem], exit_code: int) -> str:
    """Return every plan and every proof as JSON, in base units."""
    rows = [  # `members_of` puts the fields that it is given at the end
        members_of(table)
        | {"plans": [members_of(plan, "at") for plan in table.plans]}
        | {"proofs": [members_of(proof, "labels", "at") for proof in table.proofs]}
        for table in tables
    ]
    shown = list(map(problem, problems))
    return encode({"schema": "perfgate.rules/1", "exit_code": exit_code, "tables": rows, "problems": shown})


def rules_text(
    tables: Sequence[RulesTable], exit_code: int, *, width: int, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return a table with one row per clause and metric, and below a row what to do about it."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    for table in tables:
        page.paragraph(f"tested against {table.against}", "dim")
        page.blank()
        _rows(page, table)
        page.blank()
        _beside(page, table)
    page.paragraph(
        "sees: the smallest change that fails in 8 of 10 cases, in up to three new runs or ten pairs. proven: your"
        " runs, made worse on purpose, fail. needs: with this many new runs, an unchanged program passes.",
        "dim",
    )
    page.blank()
    page.paragraph(_summary([proof for table in tables for proof in table.proofs], exit_code), "bold")
    return page.finished()


def _rows(page: Page, table: RulesTable) -> None:
    """Write the table, and below a row its reason, its advice and its record on main."""
    by_clause = {clause_of(plan): plan for plan in table.plans}
    plans = [by_clause.get(clause_of(proof)) for proof in table.proofs]
    rows = [_cells(*each, ascii_only=page.ascii_only) for each in zip(table.proofs, plans, strict=True)]
    widths = page.widths([_HEADS, *rows])
    page.row(_HEADS, widths, "dim")
    for proof, plan, row in zip(table.proofs, plans, rows, strict=True):
        page.row(row, widths, ["", "", _STATES[proof.state][2], ""])
        if proof.reason:
            page.paragraph(f"{proof.reason} ({proof.at})", "dim", indent=4)
        if plan is not None and not plan.advice.startswith("enough"):  # then there is nothing to do
            page.paragraph(plan.advice, "dim", indent=4)
        if proof.rule in table.records:
            page.paragraph(f"on main: {table.records[proof.rule]}", "dim", indent=4)


def _cells(proof: Proof, plan: Plan | None, *, ascii_only: bool) -> tuple[str, str, str, str]:
    """Return the cells of a row: the rule, the change or the value that fails, the proof, and the data it needs."""
    sign, words, colour = _STATES[proof.state]
    state = sign + words
    if ascii_only:  # without signs, capitals mark the rules that must change
        state = words.upper() if "red" in colour else words
    rule = f"{series_name(proof.metric, proof.labels, proof.statistic)} {proof.asks}".rstrip()
    sees = needs = ""
    if plan is not None and plan.fails_from is not None:
        sees = format_change(plan.fails_from)
    elif proof.fails_at is not None and proof.kind == "change":
        sees = format_change(proof.fails_at)
    elif proof.fails_at is not None:
        sees = format_value(proof.fails_at, proof.unit or "", proof.shown_unit)
    if plan is not None and plan.values_needed is not None and plan.values_held is not None:  # a percentile limit
        needs = f"{plan.values_needed} values, has {format_number(plan.values_held, 3)}"
    elif plan is not None and plan.tolerance is not None:
        # A plan tries 20 runs at most.
        needs = plural(plan.runs_needed, "run") if plan.runs_needed else "over 20 runs"
    return rule, sees, state, needs


def _beside(page: Page, table: RulesTable) -> None:
    """Write what the runs show beside the rows: more work, the noise of the history, and the time that no rule sees."""
    if table.added:
        page.paragraph("if each step has one more, these rules fail:", "dim")
    for one in table.added:
        page.paragraph(f"{one.what}: {', '.join(one.rules) or 'none'}", "" if one.rules else "yellow", indent=4)
    for line in learned_noise(table.plans):
        page.paragraph(line, "dim")
    if table.time_seen is not None:
        seen = format_number(100 * table.time_seen, 2)
        page.paragraph(f"the rules name {seen}% of the time that these runs measured")


def _summary(proofs: Sequence[Proof], exit_code: int) -> str:
    """Return how many clauses are in each state, and how many would not report that their metric is missing."""
    found = [proof.state for proof in proofs]
    counts = [f"{found.count(state)} {words}" for state, (_, words, _) in _STATES.items() if state in found]
    absences = len([proof for proof in proofs if not proof.misses])  # `misses`: it reports a missing metric
    counts += [f"{plural(absences, 'missing metric')} not noticed"] if absences else []
    return f"{'FAIL' if exit_code else 'PASS'}  {', '.join(counts)} (exit {exit_code})"


def render_next_run(found: Mapping[str, Sequence[Verdict]], planned: Mapping[Clause, Plan]) -> Iterator[str]:
    """Yield what the next run is compared with: a line per verdict on the newest stored run, below the level's place.

    `found`: the verdicts, by the place of the level that they compare with. `planned`: the plan of each clause.
    """
    for place, verdicts in found.items():
        if verdicts:
            yield f"  now, compared with {place}:"
        for verdict in verdicts:
            yield f"    {one_line(_now(verdict, planned.get(clause_of(verdict))))}"


def _now(verdict: Verdict, plan: Plan | None) -> str:
    """Return the measured value beside the bound, or the level beside the values that are beyond its tolerance."""
    if verdict.kind == "limit" and verdict.new is not None and verdict.new.estimate is not None:
        bound = value_text(verdict.bound, verdict)
        return f"{what(verdict)} of the newest run is {' '.join(measured(verdict))}, the bound is {bound}"
    base = verdict.base.estimate if verdict.base else None
    if verdict.kind == "limit" or base is None or verdict.base is None or verdict.tolerance is None:
        return f"{what(verdict)}: {verdict.outcome}: {verdict.message}"
    ends = _ends(verdict, base, verdict.tolerance)
    runs = plural(verdict.base.runs, "run")
    text = f"{what(verdict)} is {value_text(base, verdict)} ({runs}); {ends} is beyond the tolerance"
    if plan is None or plan.fails_from is None:
        return text
    noise = f"{100 * (plan.noise_between or 0):.2g}% between runs, {100 * (plan.noise_within or 0):.2g}% within a run"
    sees = f"{format_change(plan.fails_from)}: {_ends(verdict, base, plan.fails_from)}"
    return f"{text}; it sees {sees}; noise: {noise}"


def _ends(verdict: Verdict, base: float, change: float) -> str:
    """Return in words the values beyond a change of this size in the worse direction."""
    above = f"above {value_text(base * (1 + change), verdict)}"
    below = f"below {value_text(max(base * (1 - change), 0.0), verdict)}"
    if verdict.two_sided:
        return f"{below} or {above}"
    return below if verdict.better == "higher" else above


def render_difference(changes: Sequence[PolicyChange], sides: str) -> str:
    """Return the output of `rules diff`; `sides` names the two versions of the rules."""
    if not changes:
        return one_line(f"the rules have the same meaning: {sides}")
    return without_commands("\n".join([one_line(f"rules, {sides}:"), *(f"  {difference(one)}" for one in changes)]))
