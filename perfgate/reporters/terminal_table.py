"""The report for a terminal: a table with the worst verdict first, and the answer as its last line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap

from msgspec import Struct

from perfgate.core import Outcome, Problem, Report, Verdict
from perfgate.core.units import format_change
from perfgate.core.wording import plural, shell_lines
from perfgate.reporters.terminal_page import GAP, Cell, Page
from perfgate.words import answer, numbers

#: The narrowest page that has room for outcomes and numbers.
_NARROWEST = 60
#: Up to this many passes of one rule are shown one by one.
_PASSES_SHOWN = 3
#: The largest number of verdicts, and of problems, on a screen.
_MOST_SHOWN = 500
_LEFT_OUT = "{}: --json FILE writes them all"
#: A comparison with at most this many verdicts that no cause explains shows them all.
_FEW_VERDICTS = 20
#: The indent of the lines below a verdict.
_INDENT = 4

#: The width of a bar in characters.
BAR_WIDTH = 16
#: The axis, the allowed ends, the interval, the estimate, and an interval without an end on the left and on the right.
_BAR_SIGNS = ("·", "│", "━", "●", "◀", "▶")
_BAR_SIGNS_IN_ASCII = (".", "|", "=", "o", "<", ">")

#: The width at which allowed values wrap, on wide and on narrow pages.
_WIDE_TERMS, _NARROW_TERMS = 26, 16


def render(
    report: Report,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    """Return the report in lines of at most `width` terminal cells (of 60 on narrower terminals).

    Parameters:
        report: the report to show.
        width: the width of the terminal, in cells.
        colour: write ANSI colours.
        ascii_only: write ASCII characters only.
        verbose: write all details of every verdict, run by run.
        quiet: write only the last line.
    """
    page = Page(max(width, _NARROWEST), colour=colour, ascii_only=ascii_only)
    if report.exit_code == 3 and not quiet and (unread := answer.unread_runs(report)):
        return _without_measurements(page, report, unread, verbose=verbose)
    if not quiet:
        _write_body(page, report, verbose=verbose)
        page.blank()
    _write_answer(page, report)
    return page.finished()


def _write_body(page: Page, report: Report, *, verbose: bool) -> None:
    """Everything above the answer: the causes, the verdicts, the problems and the notices."""
    if origin := ", ".join(f"{name} {value}" for name, value in answer.origin(report)):
        page.paragraph(origin, "dim")
    if report.identical:
        page.paragraph("no difference: the files of both sides have the same content", "bold")
    verdicts = report.verdicts
    if report.causes is not None:
        from perfgate.reporters import terminal_causes
        from perfgate.words import cause_words

        terminal_causes.write(page, report, verbose=verbose)
        verdicts = verdicts if verbose else cause_words.unexplained(report)
    shows_all = verbose or report.causes is None or len(verdicts) <= _FEW_VERDICTS
    asked = [verdict for verdict in verdicts if shows_all or _is_asked(verdict)]
    if asked:
        _write_verdicts(page, asked, verbose=verbose)
    if len(asked) < len(verdicts):
        page.paragraph(f"{plural(len(verdicts) - len(asked), 'more verdict')}: --verbose shows them", "dim")
    for mean in report.geometric_means:
        unit = "" if mean.unit == "1" else f" in {mean.unit}"
        page.paragraph(f"geometric mean of {mean.verdicts} metrics{unit}: {format_change(mean.change)}", "bold")
    _write_problems(page, report.problems, verbose=verbose)
    page.blank()
    _write_notices(page, report)
    if verbose:
        page.blank()
        facts = ", ".join(f"{name} {value}" for name, value in sorted(report.environment.items()))
        page.paragraph(f"Environment: {facts or 'unknown'}", "dim")
    if report.accept.command and report.outcome != "pass":
        page.blank()
        page.paragraph(answer.approval_intro(report))
        for line in shell_lines(report.accept.command, page.width - _INDENT):
            page.paragraph(line, indent=_INDENT)


def _without_measurements(page: Page, report: Report, unread: Sequence[Problem], *, verbose: bool) -> str:
    """The page of runs without a metric: the causes first, and no table of verdicts that only repeat them."""
    _write_problems(page, unread, verbose=verbose)
    page.blank()
    rules = answer.by_rule(report.verdicts)
    if rules:
        page.paragraph(answer.not_judged(report))
    for verdicts in rules if verbose else ():
        page.paragraph(f"{verdicts[0].rule} ({verdicts[0].at})", "dim", indent=_INDENT)
    _write_notices(page, report)
    page.blank()
    _write_answer(page, report)
    return page.finished()


def _is_asked(verdict: Verdict) -> bool:
    """True for a verdict of a rule, or on the step. A comparison judges every metric by a rule of its own making."""
    return verdict.at.line is not None or verdict.metric in ("step.time", "work")


def _write_answer(page: Page, report: Report) -> None:
    """The answer on one line; a narrow page omits its end."""
    word, whole = answer.headline(report)
    counts = answer.counts(report)
    shorter = (f"{', '.join(counts[:kept])}, ... (exit {report.exit_code})" for kept in range(len(counts), 0, -1))
    for shown in (whole, *shorter):
        if page.cells(f"{word}  {shown}") <= page.line:
            break
    colour = "red" if report.exit_code else "green" if report.outcome == "pass" else "yellow"
    page.paragraph(f"{word}  {shown}", f"bold {colour}")


def _write_notices(page: Page, report: Report) -> None:
    """The lines about the whole report: differences of the policy, changes without a rule, and unknown facts."""
    for line in answer.rule_differences(report.policy) if report.policy.changes else ():
        page.paragraph(line.strip(), "yellow", indent=_INDENT if line.startswith(" ") else 0)
    for i, line in enumerate(answer.unruled(report) if report.unruled else ()):
        page.paragraph(line, indent=_INDENT if i else 0)
    for line in (*answer.unknown_facts(report), *answer.learned_noise(report.verdicts), *answer.unread(report)):
        page.paragraph(line, "dim")


def _write_problems(page: Page, problems: Sequence[Problem], *, verbose: bool) -> None:
    page.blank()
    for problem in problems[:_MOST_SHOWN]:
        style = "red" if problem.severity == "error" else "yellow"
        page.paragraph(f"{problem.at}: {problem.severity}: {answer.problem_text(problem)}", style)
        for line in problem.excerpt.split("\n") if problem.excerpt else []:
            page.paragraph(line, indent=_INDENT)
        if verbose and problem.details:
            page.paragraph(problem.details, indent=_INDENT)
    if not verbose and any(problem.details for problem in problems):
        page.paragraph("--verbose lists the formats that were searched for", "dim", indent=_INDENT)
    if len(problems) > _MOST_SHOWN:
        page.paragraph(_LEFT_OUT.format(plural(len(problems) - _MOST_SHOWN, "more problem")))


def _write_verdicts(page: Page, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    layout = _layout(page, verdicts)
    page.blank()
    page.row([[head] for head in layout.heads], layout.widths, ["dim"] * len(layout.heads))
    room, left_out = _MOST_SHOWN, 0
    for group in answer.by_rule(verdicts):
        detailed = [verdict for verdict in group if answer.shows_notes(verdict)]
        shown = group if verbose or len(group) - len(detailed) <= _PASSES_SHOWN else detailed
        left_out += max(0, len(shown) - room)
        if len(group) == 1 and room:
            _write_verdict(page, group[0], layout, verbose=verbose, alone=True)
        elif room:
            _write_group(page, group, shown[:room], len(group) - len(shown), layout, verbose=verbose)
        room = max(0, room - len(shown))
    if left_out:
        page.paragraph(_LEFT_OUT.format(plural(left_out, "more verdict")))


def _write_group(
    page: Page, group: list[Verdict], shown: list[Verdict], passes: int, layout: _Layout, *, verbose: bool
) -> None:
    """The verdicts of one rule below its name, with `passes` of them only counted."""
    page.blank()
    page.paragraph(f"{group[0].rule} ({group[0].at})", "bold")
    for verdict in shown:
        _write_verdict(page, verdict, layout, verbose=verbose, alone=False)
    if passes:
        count = f"{passes} more" if shown else f"all {passes}"
        page.row([[_outcome(page, "pass")], [count]], layout.widths[:2], ["green", ""])
    page.blank()


def _write_verdict(page: Page, verdict: Verdict, layout: _Layout, *, verbose: bool, alone: bool) -> None:
    """A row, and the details below it. A verdict that is not `alone` has its rule above the group."""
    has_details = verbose or answer.needs_attention(verdict)
    if has_details:
        page.blank()
    _write_row(page, verdict, layout)
    if has_details:
        page.paragraph(verdict.message, indent=_INDENT)
        if verdict.next_step.text:
            page.paragraph(f"→ {answer.next_step(verdict.next_step)}", "bold", indent=_INDENT)
        parts = numbers.explanation(verdict)
        for i, line in enumerate(["explained by", *parts] if parts else []):
            page.paragraph(line, indent=_INDENT + (2 if i else 0))
    elif verdict.outcome == "skipped":
        page.paragraph(verdict.message, "dim", indent=_INDENT)
    elif verdict.improved and verdict.next_step.text:
        page.paragraph(f"→ {answer.next_step(verdict.next_step)}", indent=_INDENT)
    shown = {
        "note": verbose or answer.shows_notes(verdict),
        "why": has_details,
        "owner": has_details,
        "data": verbose,
        "rule": has_details and (alone or answer.is_warning(verdict)),
    }
    only_notes = [("note", "; ".join(verdict.notes))] if shown["note"] and verdict.notes else []
    for name, text in numbers.facts(verdict) if has_details else only_notes:
        if shown.get(name):
            page.paragraph(f"{name}: {text}", "dim", indent=_INDENT)
    if verbose and verdict.runs:
        _write_runs(page, verdict)
    if has_details:
        page.blank()


def _write_row(page: Page, verdict: Verdict, layout: _Layout) -> None:
    """The columns of a verdict. A name with a word that is wider than its column gets a line of its own above."""
    outcome, name, *cells = [_outcome(page, verdict.outcome)], *_cells(page, verdict, layout.form)
    columns = cells if layout.name_above else [name, *cells]
    if layout.name_above or any(page.cells(word) > layout.widths[1] for word in numbers.what(verdict).split()):
        widths = [layout.widths[0], page.width - layout.widths[0] - GAP]
        page.row([outcome, name], widths, [_style(verdict), ""])
        outcome, columns = [""], cells if layout.name_above else [[""], *cells]
    page.row([outcome, *columns], layout.widths, [_style(verdict), *[""] * len(columns)])


def _write_runs(page: Page, verdict: Verdict) -> None:
    rows = [("run", "estimate", "n", "warm-up dropped"), *(numbers.run_row(run, verdict) for run in verdict.runs)]
    widths = [max(map(page.cells, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], page.width - _INDENT - sum(widths[1:]) - GAP * 3)
    for row in rows:
        page.row([[cell] for cell in row], widths, ["dim"] * 4, indent=_INDENT)


class _Form(Struct, frozen=True):
    """One way to arrange the columns after the outcome."""

    #: The bar has a column of its own, and the numbers are on one line.
    bar_apart: bool
    terms_width: int
    #: The room that this form gives to the names of metrics, unless they need less.
    room_for_names: int
    heads: tuple[str, ...] = ("metric", "measured", "allowed")


#: From the widest to the narrowest.
_FORMS = (
    _Form(True, _WIDE_TERMS, 40, ("metric", "measured", "", "allowed")),
    _Form(False, _WIDE_TERMS, 40),
    _Form(False, _NARROW_TERMS, 28),
)


class _Layout(Struct, frozen=True):
    """The columns of a page. With `name_above`, the name of a metric has a line of its own above the numbers."""

    form: _Form
    heads: list[str]
    widths: list[int]
    name_above: bool = False


def _layout(page: Page, verdicts: Sequence[Verdict]) -> _Layout:
    """The widest form that leaves room for the names of metrics; else the names are above the numbers."""
    outcome = max(len("outcome"), *(page.cells(_outcome(page, verdict.outcome)) for verdict in verdicts))
    for form in _FORMS:
        rows = [[[head] for head in form.heads], *(_cells(page, verdict, form) for verdict in verdicts)]
        columns = (
            [line if isinstance(line, str) else line[0] for cell in column for line in cell]
            for column in zip(*rows, strict=True)
        )
        name, *numbers = (max(map(page.cells, lines), default=0) for lines in columns)
        room = page.width - outcome - sum(numbers) - GAP * (1 + len(numbers))
        if room >= min(name, form.room_for_names):
            return _Layout(form, ["outcome", *form.heads], [outcome, min(name, room), *numbers])
    room = page.width - outcome - 2 * GAP
    measured = min(numbers[0], room - _NARROW_TERMS)
    form = _FORMS[1] if room - measured >= _WIDE_TERMS else _FORMS[2]
    return _Layout(form, ["outcome", *form.heads[1:]], [outcome, measured, room - measured], name_above=True)


def _cells(page: Page, verdict: Verdict, form: _Form) -> list[Cell]:
    """The columns after the outcome: the metric, the measured values, and what the rule allows."""
    terms = wrap(numbers.allowed(verdict), form.terms_width, break_long_words=False, break_on_hyphens=False)
    drawn = bar(verdict, ascii_only=page.ascii_only)
    bars = [(drawn, _style(verdict))] if drawn else []
    name, measured = [numbers.what(verdict)], numbers.measured(verdict)
    return [name, ["  ".join(measured)], bars, terms] if form.bar_apart else [name, measured, [*terms, *bars]]


def _outcome(page: Page, outcome: Outcome) -> str:
    return f"{(answer.ASCII_SIGNS if page.ascii_only else answer.SIGNS)[outcome]} {outcome}"


def _style(verdict: Verdict) -> str:
    """Red blocks, yellow is a warning, green passes, and a skipped rule is dim."""
    if not answer.needs_attention(verdict):
        return "green" if verdict.outcome == "pass" else "dim"
    return "yellow" if answer.is_warning(verdict) else "bold red"


def bar(verdict: Verdict, *, ascii_only: bool = False) -> str:
    """Return an interval and the allowed ends on one axis: `··│··━━●━━··`; empty without an estimate.

    Every bar has its own axis, from the smallest to the largest of the numbers on it.
    """
    seen = verdict.change if verdict.kind == "change" else verdict.new
    allowed = [end for end in numbers.allowed_range(verdict) if end is not None]
    if seen is None or seen.estimate is None or not allowed:
        return ""
    places = [*allowed, *(end for end in (seen.low, seen.high) if end is not None), seen.estimate]
    lowest = min(places)
    span = max(places) / 2 - lowest / 2  # halves, because the whole may be beyond every float
    shares = {number: (number / 2 - lowest / 2) / span if span else 0.5 for number in places}
    place = {number: 1 + math.floor(share * (BAR_WIDTH - 3) + 0.5) for number, share in shares.items()}
    axis, bound, interval, estimate, left, right = _BAR_SIGNS_IN_ASCII if ascii_only else _BAR_SIGNS
    cells = [axis] * BAR_WIDTH
    first = 0 if seen.low is None else place[seen.low]
    last = BAR_WIDTH - 1 if seen.high is None else place[seen.high]
    cells[first : last + 1] = [interval] * (last + 1 - first)
    if seen.low is None:
        cells[0] = left
    if seen.high is None:
        cells[-1] = right
    for end in allowed:
        cells[place[end]] = bound
    cells[place[seen.estimate]] = estimate
    return "".join(cells)
