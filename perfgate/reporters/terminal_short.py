"""The short report for a terminal: the answer, a line for each cause and each metric, one next step, the answer.

Everything else is in `terminal_table`, which `--verbose` shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Report
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import GAP, Page
from perfgate.reporters.terminal_parts import INDENT, bar, style_of, write_answer, write_policy, write_problems
from perfgate.words import answer, cause_words, coverage_words, in_short
from perfgate.words.in_short import ShortLine
from perfgate.words.undo import undo

#: The most causes and the most lines of metrics.
_CAUSES, _LINES = 5, 10
#: The narrowest page with bars.
_WIDTH_OF_BARS = 90


def write(page: Page, report: Report) -> None:
    """Write the report. A pass with nothing to say is one line."""
    if report.verdicts:
        write_answer(page, report)
    below = page.mark()
    if report.causes is not None and report.exit_code:
        _write_causes(page, report)
    _write_lines(page, in_short.lines(report))
    write_problems(page, report.problems, verbose=False)
    page.blank()
    write_policy(page, report)
    for note in in_short.doubts(report):
        page.paragraph(f"note: {note}", "dim")
    page.paragraph(in_short.unruled(report), "dim")
    page.paragraph(answer.what_else(report))
    for line in coverage_words.unread(report):
        page.paragraph(line, "dim")
    step = in_short.next_step(report)
    if step.text:
        page.blank()
        page.paragraph(f"→ {answer.next_step(step)}", "bold")
    if page.mark() > below or not report.verdicts:
        page.blank()
        write_answer(page, report)


def _write_causes(page: Page, report: Report) -> None:
    found, groups = report.causes, cause_words.groups(report)
    assert found is not None
    page.blank()
    page.paragraph(cause_words.step(found), "bold")
    for group in groups[:_CAUSES]:
        places = [text for label, text in cause_words.details(group.cause) if label == "at"]
        at = f" ({places[0]})" if places else ""
        page.paragraph(f"{group.number}  {cause_words.title(group.cause)}  {cause_words.cost(group.cause)}{at}")
        if sentence := undo(group.cause):
            page.paragraph(sentence, indent=INDENT)
    if len(groups) > _CAUSES:
        page.paragraph(f"{plural(len(groups) - _CAUSES, 'smaller cause')} more", "dim", indent=INDENT)
    if not groups:
        page.paragraph(cause_words.without_cause(found), "dim")


def _write_lines(page: Page, found: Sequence[ShortLine]) -> None:
    page.blank()
    signs = answer.ASCII_SIGNS if page.ascii_only else answer.SIGNS
    has_bars = page.width >= _WIDTH_OF_BARS
    rows = [
        (f"{signs[one.worst.outcome]} {one.name}", one.measured, _bar(page, one) if has_bars else "", one.allowed)
        for one in found[:_LINES]
    ]
    columns = [row for row in rows if row[1]] or [("",) * 4]
    name, *others = (max(map(page.cells, column)) for column in zip(*columns, strict=True))
    widths = [min(name, page.width - sum(others) - 3 * GAP), *others]
    for one, row in zip(found, rows, strict=False):
        style = style_of(one.worst)
        if row[1] and page.cells(row[0]) <= widths[0]:
            page.row([[cell] for cell in row], widths, [style, "", style, ""])
        else:
            page.paragraph("  ".join(filter(None, (row[0], row[1], row[3]))), style)
        if one.message:
            page.paragraph(one.message, indent=INDENT)
    if len(found) > _LINES:
        page.paragraph(f"{len(found) - _LINES} more: --verbose shows them", "dim")


def _bar(page: Page, line: ShortLine) -> str:
    return bar(line.worst, ascii_only=page.ascii_only)
