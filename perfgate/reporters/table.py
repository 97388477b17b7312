"""The report for a terminal: a calm table, the worst first, and the answer as its last line."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Problem, Report, Verdict
from perfgate.core.units import format_change
from perfgate.core.wording import plural, shell_lines
from perfgate.reporters import phrases
from perfgate.reporters.columns import Layout, arranged, sign, style
from perfgate.reporters.page import GAP, Page
from perfgate.reporters.policy import policy_lines

#: The narrowest page: outcomes and numbers do not fit on less.
_NARROWEST = 60
#: So many passes of one rule are shown one by one.
_PASSES_SHOWN = 3
#: More verdicts, and more problems, are for programs: nobody reads them one by one on a screen.
_MOST_SHOWN = 500
#: What is said of a verdict stands this far under it.
_INDENT = 4


def render(
    report: Report,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    """The report in lines of at most `width` cells, and of 60 on narrower terminals.

    `verbose` says all there is to say of every verdict, run by run; `quiet` only the last line.
    """
    page = Page(max(width, _NARROWEST), colour=colour, ascii_only=ascii_only)
    if not quiet:
        page.paragraph(", ".join(f"{name} {value}" for name, value in phrases.origin(report)), "dim")
        if report.verdicts:
            _write_verdicts(page, report.verdicts, verbose=verbose)
        for mean in report.geometric_means:
            unit = "" if mean.unit == "1" else f" in {mean.unit}"
            page.paragraph(f"geometric mean of {mean.verdicts} metrics{unit}: {format_change(mean.change)}", "bold")
        _write_problems(page, report.problems)
        _write_policy(page, report)
        if verbose:
            _write_environment(page, report)
        _write_approval(page, report)
        page.blank()
    page.paragraph(_answer(page, report), f"bold {_answer_colour(report)}")
    return page.finished()


def _answer(page: Page, report: Report) -> str:
    """The answer on one line: on a narrow page the least bad counts give way."""
    word, whole = phrases.answer(report)
    tally = phrases.tally(report)
    for kept in range(len(tally), 0, -1):
        shown = whole if kept == len(tally) else f"{', '.join(tally[:kept])}, ... (exit {report.exit_code})"
        if page.cells(f"{word}  {shown}") <= page.line:
            break
    return f"{word}  {shown}"


def _answer_colour(report: Report) -> str:
    if report.exit_code:
        return "red"
    return "green" if report.outcome == "pass" else "yellow"


def _write_verdicts(page: Page, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    layout = arranged(page, verdicts)
    page.blank()
    page.row([[head] for head in layout.heads], layout.widths, ["dim"] * len(layout.heads))
    room, left_out = _MOST_SHOWN, 0
    for group in phrases.by_rule(verdicts):
        told = [verdict for verdict in group if phrases.is_told(verdict)]
        shown = group if verbose or len(group) - len(told) <= _PASSES_SHOWN else told
        left_out += max(0, len(shown) - room)
        if len(group) == 1 and room:
            _write_verdict(page, group[0], layout, verbose=verbose, alone=True)
        elif room:
            _write_group(page, group, shown[:room], len(group) - len(shown), layout, verbose=verbose)
        room = max(0, room - len(shown))
    _write_left_out(page, left_out, "verdict")


def _write_group(
    page: Page, group: list[Verdict], shown: list[Verdict], passes: int, layout: Layout, *, verbose: bool
) -> None:
    """The verdicts of one rule under its name; many passes are only counted."""
    page.blank()
    page.paragraph(f"{group[0].rule} ({group[0].at})", "bold")
    for verdict in shown:
        _write_verdict(page, verdict, layout, verbose=verbose, alone=False)
    if passes:
        count = f"{passes} more" if shown else f"all {passes}"
        page.row([[sign(page, "pass")], [count]], layout.widths[:2], ["green", ""])
    page.blank()


def _write_left_out(page: Page, count: int, noun: str) -> None:
    if count:
        page.paragraph(f"and {plural(count, f'more {noun}')}: --json FILE holds them all")


def _write_verdict(page: Page, verdict: Verdict, layout: Layout, *, verbose: bool, alone: bool) -> None:
    """A row, and under it what is to be said of it; the verdicts of a group have their rule above them."""
    is_told = verbose or phrases.is_news(verdict)
    if is_told:
        page.blank()
    _write_row(page, verdict, layout)
    if is_told:
        page.paragraph(verdict.message, indent=_INDENT)
        if verdict.next_step:
            page.paragraph(f"→ {verdict.next_step}", "bold", indent=_INDENT)
        _write_explanation(page, verdict)
    elif verdict.outcome == "skipped":
        page.paragraph(verdict.message, "dim", indent=_INDENT)
    names_rule = alone or phrases.is_warning(verdict)
    shown = {
        "note": verbose or phrases.is_told(verdict),
        "why": is_told,
        "evidence": verbose,
        "rule": is_told and names_rule,
    }
    for name, text in phrases.facts(verdict):
        if shown.get(name):
            page.paragraph(f"{name}: {text}", "dim", indent=_INDENT)
    if verbose:
        _write_runs(page, verdict)
    if is_told:
        page.blank()


def _write_row(page: Page, verdict: Verdict, layout: Layout) -> None:
    """The columns of a verdict; a name that its column would cut within a word stands on a line of its own above."""
    outcome, name, *numbers = [sign(page, verdict.outcome)], *layout.columns(page, verdict)
    columns = numbers if layout.name_above else [name, *numbers]
    if layout.name_above or any(page.cells(word) > layout.widths[1] for word in phrases.what(verdict).split()):
        widths = [layout.widths[0], page.width - layout.widths[0] - GAP]
        page.row([outcome, name], widths, [style(verdict), ""])
        outcome, columns = [""], numbers if layout.name_above else [[""], *numbers]
    page.row([outcome, *columns], layout.widths, [style(verdict), *[""] * len(columns)])


def _write_explanation(page: Page, verdict: Verdict) -> None:
    """The parts that account for a failed change, one a line."""
    lines = phrases.explanation(verdict)
    if lines:
        page.paragraph("explained by", indent=_INDENT)
    for line in lines:
        page.paragraph(line, indent=_INDENT + 2)


def _write_runs(page: Page, verdict: Verdict) -> None:
    """The runs behind a verdict, one a line."""
    if not verdict.runs:
        return
    rows = [("run", "estimate", "n", "warm-up dropped"), *(phrases.run_row(run, verdict) for run in verdict.runs)]
    widths = [max(map(page.cells, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], page.width - _INDENT - sum(widths[1:]) - GAP * 3)
    for row in rows:
        page.row([[cell] for cell in row], widths, ["dim"] * 4, indent=_INDENT)


def _write_problems(page: Page, problems: Sequence[Problem]) -> None:
    page.blank()
    for problem in problems[:_MOST_SHOWN]:
        style = "red" if problem.severity == "error" else "yellow"
        page.paragraph(f"{problem.at}: {problem.severity}: {phrases.complaint(problem)}", style)
        for line in problem.excerpt.split("\n") if problem.excerpt else []:
            page.paragraph(line, indent=_INDENT)
    _write_left_out(page, len(problems) - _MOST_SHOWN if len(problems) > _MOST_SHOWN else 0, "problem")


def _write_policy(page: Page, report: Report) -> None:
    page.blank()
    for line in policy_lines(report.policy):
        page.paragraph(line.strip(), "yellow", indent=_INDENT if line.startswith(" ") else 0)


def _write_environment(page: Page, report: Report) -> None:
    page.blank()
    facts = ", ".join(f"{name} {value}" for name, value in sorted(report.environment.items()))
    page.paragraph(f"Environment: {facts or 'unknown'}", "dim")


def _write_approval(page: Page, report: Report) -> None:
    if not report.approve_command or report.outcome == "pass":
        return
    page.blank()
    page.paragraph(phrases.to_accept(report))
    for line in shell_lines(report.approve_command, page.width - _INDENT):
        page.paragraph(line, indent=_INDENT)
