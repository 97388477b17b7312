"""The causes of a change on a terminal: a few lines each, with the verdicts that follow from it."""

from __future__ import annotations

from perfgate.core import Report
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import Page
from perfgate.words import answer, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

#: The most causes on a screen, the most with their details, and the most verdicts of one cause.
_MOST_SHOWN, _MOST_DETAILED, _MOST_VERDICTS = 10, 5, 8
_INDENT = 4


def write(page: Page, report: Report, *, verbose: bool) -> None:
    """Write the change of the step, the causes, and what they leave."""
    found, groups = report.causes, cause_words.groups(report)
    if found is None:
        return
    page.blank()
    page.paragraph(f"What changed: {cause_words.step(found)}", "bold")
    page.blank()
    shown = groups if verbose else groups[:_MOST_SHOWN]
    for group in shown:
        _write_cause(page, group, verbose=verbose, detailed=verbose or group.number <= _MOST_DETAILED)
    if len(shown) < len(groups):
        page.paragraph(f"{plural(len(groups) - len(shown), 'smaller cause')} more: --verbose shows them", "dim")
    page.paragraph(cause_words.rest(found) if groups else cause_words.without_cause(found), "dim")
    for note in found.notes:
        page.paragraph(note, "dim")


def _write_cause(page: Page, group: CauseGroup, *, verbose: bool, detailed: bool) -> None:
    cause = group.cause
    page.paragraph(f"{group.number}  {cause_words.title(cause)}", "bold red" if group.verdicts else "bold")
    page.paragraph(cause_words.cost(cause), indent=_INDENT)
    for label, text in cause_words.details(cause) if detailed else ():
        page.paragraph(f"{label}: {text}", "dim", indent=_INDENT)
    shown = group.verdicts if verbose else group.verdicts[:_MOST_VERDICTS]
    signs = answer.ASCII_SIGNS if page.ascii_only else answer.SIGNS
    for verdict in shown:
        style = "yellow" if answer.is_warning(verdict) else "red"
        place = f" ({verdict.at})" if verdict.at.line is not None else ""
        words = f"{verdict.outcome}: {cause_words.brief(verdict)}, {numbers.allowed(verdict)}{place}"
        page.paragraph(f"{signs[verdict.outcome]} {words}", style, indent=_INDENT)
        if verdict.why:
            page.paragraph(f"why: {verdict.why}", "dim", indent=_INDENT + 2)
    if len(shown) < len(group.verdicts):
        more = plural(len(group.verdicts) - len(shown), "more verdict")
        page.paragraph(f"{more} that follow from it: --verbose shows them", "dim", indent=_INDENT)
    for step in cause_words.steps(group)[:3]:
        page.paragraph(f"→ {step}", "bold", indent=_INDENT)
    page.blank()
