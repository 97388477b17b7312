"""The report for a terminal: short, or with everything that is known (`terminal_table`, which `--verbose` shows).

The short report is the answer, a line for each cause and each metric, one next step, and the answer again.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Problem, Report
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import INDENT, Page, bar, style_of, write_answer, write_policy, write_problems
from perfgate.words import answer, beside, cause_words, in_short
from perfgate.words.in_short import ShortLine

#: The narrowest page that has room for outcomes and numbers.
_NARROWEST = 60


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

    `colour`: write ANSI colours. `ascii_only`: write ASCII characters only. `verbose`: write every verdict with all
    details, run by run. `quiet`: write only the last line.
    """
    page = Page(max(width, _NARROWEST), colour=colour, ascii_only=ascii_only)
    # Any other exit code than 3 has a reason beside the missing measurements.
    if report.exit_code == 3 and not quiet and (unread := answer.unread_runs(report)):
        return _without_measurements(page, report, unread, verbose=verbose)
    # A comparison makes its rules itself, so they have no line of a file. Its table is what the user asked for.
    has_answer = report.verdicts or report.identical or report.causes is not None  # else only problems
    is_comparison = has_answer and all(verdict.at.line is None for verdict in report.verdicts)
    if quiet:
        write_answer(page, report)
    elif verbose or is_comparison:
        from perfgate.reporters import terminal_table

        terminal_table.write(page, report, verbose=verbose)
    else:
        _write_short(page, report)
    return page.finished()


def _without_measurements(page: Page, report: Report, unread: Sequence[Problem], *, verbose: bool) -> str:
    """Return the page of runs without a metric: the problems first, and no verdicts, which would repeat them."""
    write_problems(page, unread, verbose=verbose)
    page.blank()
    rules = answer.by_rule(report.verdicts)
    if rules:
        page.paragraph(answer.not_judged(report))
    if verbose:
        for first, *_ in rules:
            page.paragraph(f"{first.rule} ({first.at})", "dim", indent=INDENT)
    write_policy(page, report)
    page.blank()
    write_answer(page, report)
    return page.finished()


#: The most causes and the most lines of metrics.
_CAUSES, _LINES = 5, 10
#: The narrowest page with bars.
_WIDTH_OF_BARS = 90


def _write_short(page: Page, report: Report) -> None:
    """Write the short report. A pass with nothing to say is one line."""
    if report.verdicts:
        write_answer(page, report)
    below = page.mark()
    if report.causes is not None:
        _write_causes(page, report)
    _write_lines(page, in_short.lines(report))
    write_problems(page, report.problems, verbose=False)
    page.blank()
    write_policy(page, report)
    for note in in_short.doubts(report):
        page.paragraph(f"note: {note}", "dim")
    page.paragraph(in_short.unruled(report), "dim")  # changes without a rule
    page.paragraph(answer.what_else(report))  # facts of the environment that differ
    for line in beside.unread(report):  # numbers of the files that no reader read
        page.paragraph(line, "dim")
    step = in_short.next_step(report)
    if step.text:
        page.blank()
        page.paragraph(f"→ {answer.next_step(step)}", "bold")
    if page.mark() > below or not report.verdicts:
        page.blank()
        write_answer(page, report)


def _write_causes(page: Page, report: Report) -> None:
    """Write the change of the step and its largest causes, each with its advice."""
    found, groups = report.causes, cause_words.groups(report)
    assert found is not None
    page.blank()
    page.paragraph(cause_words.step(found), "bold")
    for group in groups[:_CAUSES]:
        cause = group.cause
        source = f" ({cause.source})" if cause.source else ""
        page.paragraph(f"{group.number}  {cause_words.title(cause)}  {cause_words.cost(cause)}{source}")
        page.paragraph(cause_words.undo(cause), indent=INDENT)
    if len(groups) > _CAUSES:
        page.paragraph(f"{plural(len(groups) - _CAUSES, 'smaller cause')} more", "dim", indent=INDENT)
    if not groups:  # beside causes, only the whole report has the notes
        for text in (cause_words.without_cause(found), *found.notes):
            page.paragraph(text, "dim")


def _write_lines(page: Page, found: Sequence[ShortLine]) -> None:
    """Write a row for each line: name, numbers, bar, and what is allowed. A name that is too wide makes a paragraph."""
    page.blank()
    rows = []
    for line in found[:_LINES]:
        drawn = bar(line.worst, ascii_only=page.ascii_only) if page.width >= _WIDTH_OF_BARS else ""
        rows.append((page.outcome(line.worst.outcome, line.name), line.measured, drawn, line.allowed))
    with_numbers = [row for row in rows if row[1]]
    widths = page.widths(with_numbers or [("",) * 4], least=0)
    for line, row in zip(found, rows, strict=False):  # `rows` ends after _LINES
        name, measured, _, allowed = row
        style = style_of(line.worst)
        if measured and page.cells(name) <= widths[0]:
            page.row(row, widths, [style, "", style, ""])
        else:
            page.paragraph("  ".join(filter(None, (name, measured, allowed))), style)
        page.paragraph(line.message, indent=INDENT)
    if len(found) > _LINES:
        page.paragraph(f"{len(found) - _LINES} more: --verbose shows them", "dim")
