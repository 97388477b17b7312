"""The whole report for a terminal: the causes, a table with the worst verdict first, its details, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from msgspec import Struct

from perfgate.core import Report, Verdict
from perfgate.core.units import format_change
from perfgate.core.wording import plural, shell_lines
from perfgate.reporters.terminal_page import (
    GAP,
    INDENT,
    LEFT_OUT,
    MOST_SHOWN,
    Cell,
    Page,
    bar,
    style_of,
    write_answer,
    write_policy,
    write_problems,
)
from perfgate.words import answer, beside, cause_words, in_short, numbers
from perfgate.words.cause_words import CauseGroup

#: Up to this many plain passes of one rule are shown one by one.
_PASSES_SHOWN = 3
#: A comparison with at most this many verdicts that no cause explains shows them all.
_FEW_VERDICTS = 20
#: The widths of allowed values on wide and on narrow pages.
_WIDE_TERMS, _NARROW_TERMS = 26, 16


def write(page: Page, report: Report, *, verbose: bool) -> None:
    """Write the causes, the verdicts, the problems, the notices and the answer."""
    page.paragraph(", ".join(f"{name} {value}" for name, value in answer.origin(report)), "dim")
    if report.identical:
        page.paragraph("no difference: the files of both sides have the same content", "bold")
    verdicts = report.verdicts
    if report.causes is not None:
        _write_causes(page, report, verbose=verbose)
        if not verbose:
            verdicts = cause_words.unexplained(report)
    if verbose or report.causes is None or len(verdicts) <= _FEW_VERDICTS:
        _write_verdicts(page, verdicts, verbose=verbose)
    else:
        _write_asked(page, report, verdicts)
    for mean in report.geometric_means:
        unit = "" if mean.unit == "1" else f" in {mean.unit}"
        page.paragraph(f"geometric mean of {mean.verdicts} metrics{unit}: {format_change(mean.change)}", "bold")
    write_problems(page, report.problems, verbose=verbose)
    page.blank()
    _write_notices(page, report, verbose=verbose)
    if report.accept.command and report.outcome != "pass":
        page.blank()
        page.paragraph(f"{report.accept.text}:")
        for line in shell_lines(report.accept.command, page.width - INDENT):
            page.paragraph(line, indent=INDENT)
    page.blank()
    write_answer(page, report)


def _write_asked(page: Page, report: Report, verdicts: Sequence[Verdict]) -> None:
    """Write the verdicts of a user's rules and on the step: a comparison makes a rule for each metric itself."""
    asked = [verdict for verdict in verdicts if verdict.at.line is not None or verdict.metric in ("step.time", "work")]
    others = [verdict for verdict in verdicts if verdict not in asked]
    _write_verdicts(page, asked, verbose=False)
    if others:
        if not cause_words.groups(report):
            page.paragraph(in_short.largest_changes(others))
        page.paragraph(f"{plural(len(others), 'more verdict')}: --verbose shows them", "dim")


def _write_notices(page: Page, report: Report, *, verbose: bool) -> None:
    """Write the lines about the whole report: differences of the policy, changes without a rule, and facts."""
    write_policy(page, report)
    head, *changes = answer.unruled(report) or [""]
    page.paragraph(head)
    for line in changes:
        page.paragraph(line, indent=INDENT)
    page.paragraph(answer.what_else(report))
    for line in (*answer.unknown_facts(report), *answer.learned_noise(report.verdicts), *beside.unread(report)):
        page.paragraph(line, "dim")
    if verbose:
        page.blank()
        facts = ", ".join(f"{name} {value}" for name, value in sorted(report.environment.items()))
        page.paragraph(f"Environment: {facts or 'unknown'}", "dim")


def _write_verdicts(page: Page, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    """Write a table of verdicts, by rule. Many plain passes of one rule are only counted."""
    if not verdicts:
        return
    layout = _layout(page, verdicts)
    page.blank()
    page.row(layout.heads, layout.widths, "dim")
    room = MOST_SHOWN
    for group in answer.by_rule(verdicts):
        shown = group if verbose else _shown(group)
        if len(group) == 1 and room > 0:
            _write_verdict(page, group[0], layout, verbose=verbose, alone=True)
        elif room > 0:
            _write_group(page, group, shown[:room], len(group) - len(shown), layout, verbose=verbose)
        room -= len(shown)
    if room < 0:
        page.paragraph(LEFT_OUT.format(plural(-room, "more verdict")))
    # Each row of an undecided verdict would say the same; with `verbose`, each has its details.
    undecided = [] if verbose else [verdict for verdict in verdicts if verdict.outcome == "undecided"]
    for step in dict.fromkeys(answer.next_step(verdict.next_step) for verdict in undecided):
        page.paragraph(f"→ {step}", "bold")


def _shown(group: list[Verdict]) -> list[Verdict]:
    """Return the verdicts of one rule without its plain passes, unless these are few."""
    detailed = list(filter(answer.shows_notes, group))
    return group if len(group) - len(detailed) <= _PASSES_SHOWN else detailed


def _write_group(
    page: Page, group: list[Verdict], shown: list[Verdict], passes: int, layout: _Layout, *, verbose: bool
) -> None:
    """Write the verdicts of one rule below its name; `passes` more are only counted."""
    page.blank()
    page.paragraph(f"{group[0].rule} ({group[0].at})", "bold")
    for verdict in shown:
        _write_verdict(page, verdict, layout, verbose=verbose, alone=False)
    if passes:
        count = f"{passes} more" if shown else f"all {passes}"
        page.row([page.outcome("pass"), count], layout.widths[:2], ["green", ""])
    page.blank()


def _write_verdict(page: Page, verdict: Verdict, layout: _Layout, *, verbose: bool, alone: bool) -> None:
    """Write a row, and the details below it. A verdict that is not `alone` has its rule above the group."""
    if verbose or verdict.outcome in ("fail", "error"):
        page.blank()
        _write_row(page, verdict, layout)
        _write_details(page, verdict, verbose=verbose, with_rule=alone or answer.is_warning(verdict))
        page.blank()
        return
    _write_row(page, verdict, layout)
    if verdict.outcome == "skipped":
        page.paragraph(verdict.message, "dim", indent=INDENT)
    elif verdict.improved and verdict.next_step.text:
        page.paragraph(f"→ {answer.next_step(verdict.next_step)}", indent=INDENT)
    if verdict.notes and answer.shows_notes(verdict) and verdict.outcome != "undecided":
        page.paragraph(f"note: {'; '.join(verdict.notes)}", "dim", indent=INDENT)


def _write_details(page: Page, verdict: Verdict, *, verbose: bool, with_rule: bool) -> None:
    page.paragraph(verdict.message, indent=INDENT)
    if verdict.next_step.text:
        page.paragraph(f"→ {answer.next_step(verdict.next_step)}", "bold", indent=INDENT)
    parts = numbers.explanation(verdict)
    if parts:
        page.paragraph("explained by", indent=INDENT)
    for part in parts:
        page.paragraph(part, indent=INDENT + 2)
    shown = ["why", "owner", "note", *(["data"] if verbose else []), *(["rule"] if with_rule else [])]
    for name, text in numbers.facts(verdict):
        if name in shown:
            page.paragraph(f"{name}: {text}", "dim", indent=INDENT)
    if verbose and verdict.runs:
        rows = [("run", "estimate", "n", "warm-up dropped"), *(numbers.run_row(run, verdict) for run in verdict.runs)]
        widths = page.widths(rows, least=1, width=page.width - INDENT)
        for row in rows:
            page.row(row, widths, "dim", indent=INDENT)


def _write_row(page: Page, verdict: Verdict, layout: _Layout) -> None:
    """Write the columns of a verdict. A name with a word that is wider than its column has a line of its own above."""
    outcome, name, *cells = [page.outcome(verdict.outcome)], *_cells(page, verdict, layout.form)
    columns = cells if layout.name_above else [name, *cells]
    if layout.name_above or any(page.cells(word) > layout.widths[1] for word in numbers.what(verdict).split()):
        widths = [layout.widths[0], page.width - layout.widths[0] - GAP]
        page.row([outcome, name], widths, [style_of(verdict), ""])
        outcome, columns = [""], cells if layout.name_above else [[""], *cells]
    page.row([outcome, *columns], layout.widths, [style_of(verdict), *[""] * len(columns)])
    page.paragraph(numbers.attributed(verdict), "bold", indent=INDENT)


class _Form(Struct, frozen=True):
    """One way to arrange the columns after the outcome."""

    #: The bar has a column of its own, and the numbers are on one line.
    bar_apart: bool
    #: The width at which allowed values wrap.
    terms_width: int
    #: The room that this form gives to the names of metrics, unless they need less.
    room_for_names: int
    heads: tuple[str, ...] = ("metric", "measured", "allowed")


#: From the widest to the narrowest.
_FORMS = (
    _Form(True, _WIDE_TERMS, room_for_names=40, heads=("metric", "measured", "", "allowed")),
    _Form(False, _WIDE_TERMS, room_for_names=40),
    _Form(False, _NARROW_TERMS, room_for_names=28),
)


class _Layout(Struct, frozen=True):
    """The columns of a page. With `name_above`, the name of a metric has a line of its own above the numbers."""

    form: _Form
    heads: list[str]
    widths: list[int]
    name_above: bool = False


def _layout(page: Page, verdicts: Sequence[Verdict]) -> _Layout:
    """Return the widest form that leaves room for the names of metrics; else the names are above the numbers."""
    outcome = max(len("outcome"), *(page.cells(page.outcome(verdict.outcome)) for verdict in verdicts))
    for form in _FORMS:
        name, *after = _widths(page, verdicts, form)
        room = page.width - outcome - sum(after) - GAP * (1 + len(after))
        if room >= min(name, form.room_for_names):
            return _Layout(form, ["outcome", *form.heads], [outcome, min(name, room), *after])
    # Three columns: the outcome, the measured values, and the rest for what is allowed. `after`: of the last form.
    room = page.width - outcome - 2 * GAP
    measured = min(after[0], room - _NARROW_TERMS)
    form = _FORMS[1] if room - measured >= _WIDE_TERMS else _FORMS[2]
    return _Layout(form, ["outcome", *form.heads[1:]], [outcome, measured, room - measured], name_above=True)


def _widths(page: Page, verdicts: Sequence[Verdict], form: _Form) -> list[int]:
    """Return the width of the widest line of each column after the outcome."""
    widths = list(map(page.cells, form.heads))
    for verdict in verdicts:
        for column, cell in enumerate(_cells(page, verdict, form)):
            lines = (line if isinstance(line, str) else line[0] for line in cell)  # without their styles
            widths[column] = max([widths[column], *map(page.cells, lines)])
    return widths


def _cells(page: Page, verdict: Verdict, form: _Form) -> list[Cell]:
    """Return the columns after the outcome: the metric, the measured values, and what the rule allows."""
    terms = wrap(numbers.allowed(verdict), form.terms_width, break_long_words=False, break_on_hyphens=False)
    drawn = bar(verdict, ascii_only=page.ascii_only)
    bars = [(drawn, style_of(verdict))] if drawn else []
    name, measured = [numbers.what(verdict)], numbers.measured(verdict)
    return [name, ["  ".join(measured)], bars, terms] if form.bar_apart else [name, measured, [*terms, *bars]]


#: The most causes on a screen, the most with their details, and the most verdicts and next steps of one cause.
_MOST_SHOWN, _MOST_DETAILED, _MOST_VERDICTS, _MOST_STEPS = 10, 5, 8, 3


def _write_causes(page: Page, report: Report, *, verbose: bool) -> None:
    """Write the change of the step, the causes, and the rest."""
    found, groups = report.causes, cause_words.groups(report)
    if found is None:
        return
    page.blank()
    page.paragraph(f"What changed: {cause_words.step(found)}", "bold")
    page.blank()
    shown = groups if verbose else groups[:_MOST_SHOWN]
    for group in shown:
        _write_cause(page, group, verbose=verbose)
    if len(shown) < len(groups):
        page.paragraph(f"{plural(len(groups) - len(shown), 'smaller cause')} more: --verbose shows them", "dim")
    page.paragraph(cause_words.rest(found) if groups else cause_words.without_cause(found), "dim")
    for note in found.notes:
        page.paragraph(note, "dim")


def _write_cause(page: Page, group: CauseGroup, *, verbose: bool) -> None:
    """Write a cause with its line and its calls, the verdicts that follow from it, and what to do."""
    cause = group.cause
    page.paragraph(f"{group.number}  {cause_words.title(cause)}", "bold red" if group.verdicts else "bold")
    page.paragraph(cause_words.cost(cause), indent=INDENT)
    if verbose or group.number <= _MOST_DETAILED:
        for label, text in cause_words.details(cause):
            page.paragraph(f"{label}: {text}", "dim", indent=INDENT)
    shown = group.verdicts if verbose else group.verdicts[:_MOST_VERDICTS]
    for verdict in shown:
        style = "yellow" if answer.is_warning(verdict) else "red"
        place = f" ({verdict.at})" if verdict.at.line is not None else ""
        words = f"{verdict.outcome}: {cause_words.brief(verdict)}, allowed: {numbers.allowed(verdict)}{place}"
        page.paragraph(page.outcome(verdict.outcome, words), style, indent=INDENT)
        if verdict.why:
            page.paragraph(f"why: {verdict.why}", "dim", indent=INDENT + 2)
    if len(shown) < len(group.verdicts):
        more = plural(len(group.verdicts) - len(shown), "more verdict")
        page.paragraph(f"and {more}: --verbose shows all", "dim", indent=INDENT)
    for step in cause_words.steps(group)[:_MOST_STEPS]:
        page.paragraph(f"→ {step}", "bold", indent=INDENT)
    page.blank()
