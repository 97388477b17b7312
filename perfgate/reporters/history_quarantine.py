"""The false alarms of rules, and the quarantines to paste into a rule file, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core.remembered_runs import FalseAlarms
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import GAP, Page

_HEADS = ("rule", "metric", "red", "unchanged runs", "rate")


def render_text(found: Sequence[FalseAlarms], *, width: int = 100, ascii_only: bool = False) -> str:
    """Return a table with a row for each rule and metric, and each proposed quarantine below its row."""
    page = Page(width, ascii_only=ascii_only)
    rows = [_cells(one) for one in found]
    widths = [max(map(page.cells, column)) for column in zip(_HEADS, *rows, strict=True)]
    room = page.width - sum(widths[2:]) - GAP * (len(widths) - 1)
    widths[1] = min(widths[1], max(room // 3, 12))
    widths[0] = min(widths[0], max(room - widths[1], 12))
    page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
    for one, row in zip(found, rows, strict=True):
        page.row([[cell] for cell in row], widths, [""] * len(_HEADS))
        if one.quarantine_until is not None:
            page.paragraph(f'quarantine: {{until: {one.quarantine_until}, reason: "{one.reason}"}}', "bold", indent=4)
    page.blank()
    count = len({(one.place, one.rule) for one in found if one.quarantine_until is not None})
    if count:
        verb = "has" if count == 1 else "have"
        page.paragraph(f"{plural(count, 'rule')} {verb} many false alarms: paste the line into the rule, and repair it")
    else:
        page.paragraph("no rule has many false alarms: more than 1 in 50 runs, at 95% confidence")
    return page.finished()


def _cells(one: FalseAlarms) -> list[str]:
    share = 100 * one.alarms / one.runs
    rate = f"{share:.2g}% [{100 * one.low:.2g}%, {100 * one.high:.2g}%]"
    return [one.rule, one.series, str(one.alarms), str(one.runs), rate]
