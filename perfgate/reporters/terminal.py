"""The report for a terminal: short, or with everything that is known."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Problem, Report
from perfgate.reporters.terminal_page import Page
from perfgate.reporters.terminal_parts import INDENT, write_answer, write_policy, write_problems
from perfgate.words import answer

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

    Parameters:
        report: the report to show.
        width: the width of the terminal, in cells.
        colour: write ANSI colours.
        ascii_only: write ASCII characters only.
        verbose: write every verdict with all details, run by run.
        quiet: write only the last line.
    """
    page = Page(max(width, _NARROWEST), colour=colour, ascii_only=ascii_only)
    if report.exit_code == 3 and not quiet and (unread := answer.unread_runs(report)):
        return _without_measurements(page, report, unread, verbose=verbose)
    if quiet:
        write_answer(page, report)
    elif verbose or _is_comparison(report):
        from perfgate.reporters import terminal_table

        terminal_table.write(page, report, verbose=verbose)
    else:
        from perfgate.reporters import terminal_short

        terminal_short.write(page, report)
    return page.finished()


def _is_comparison(report: Report) -> bool:
    """True for a comparison without rules: its table is what the user asked for."""
    if not report.verdicts:
        return report.identical or report.causes is not None
    return all(verdict.at.line is None for verdict in report.verdicts)


def _without_measurements(page: Page, report: Report, unread: Sequence[Problem], *, verbose: bool) -> str:
    """The page of runs without a metric: the causes first, and no table of verdicts that only repeat them."""
    write_problems(page, unread, verbose=verbose)
    page.blank()
    rules = answer.by_rule(report.verdicts)
    if rules:
        page.paragraph(answer.not_judged(report))
    for verdicts in rules if verbose else ():
        page.paragraph(f"{verdicts[0].rule} ({verdicts[0].at})", "dim", indent=INDENT)
    write_policy(page, report)
    page.blank()
    write_answer(page, report)
    return page.finished()
