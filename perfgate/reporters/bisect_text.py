"""The answer of `perfgate bisect`: for a terminal, as Markdown for an issue, and as JSON (`perfgate.bisect/1`)."""

from __future__ import annotations

from typing import Any

from perfgate.core.causes import BisectReport, ItemEstimate, ItemSuspect
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import plural
from perfgate.reporters import json_report
from perfgate.reporters.markdown import code, prose, table_cell
from perfgate.reporters.plain_json import encode, picked
from perfgate.reporters.terminal_page import Page
from perfgate.words import cause_words

SCHEMA = "perfgate.bisect/1"
#: The most measured items on a screen, and the most causes.
_MOST_ROWS, _MOST_CAUSES = 30, 5
#: The length of the longest bar, and of the shown reason why an item was skipped; a note has the whole reason.
_BAR, _REASON = 20, 40


def short(name: str) -> str:
    """Return a commit's hash with 12 digits; another name whole."""
    is_hash = len(name) in (40, 64) and all(char in "0123456789abcdef" for char in name)
    return name[:12] if is_hash else name


def value(report: BisectReport, number: float | None) -> str:
    """Return a measured value; for pairs, `number` is its ratio to the first item, shown as a change."""
    if number is None:
        return ""
    return format_change(number - 1) if report.paired else format_value(number, report.unit)


def estimate(report: BisectReport, row: ItemEstimate) -> tuple[str, str]:
    """Return a measured value and its interval, or why there is none; the first item of pairs is the base of others."""
    if row.value is None:
        return f"skipped: {row.skipped}", ""
    if report.paired and row.position == 0:
        return "base", ""
    interval = "" if row.low is None else f"{value(report, row.low)} to {value(report, row.high)}"
    return value(report, row.value), interval


def percent(probability: float) -> str:
    """Return a probability with one digit after the point; none is shown as certain."""
    return ">99.9 %" if probability >= 0.9995 else f"{100 * probability:.1f} %"


def terminal(report: BisectReport, *, width: int = 100, colour: bool = False, ascii_only: bool = False) -> str:
    """Return the answer as text: the conclusion, the suspects, everything measured, and the next step."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    is_found = report.outcome == "found"
    headline = page.outcome("fail" if is_found else "undecided", report.message)
    page.paragraph(headline, "bold red" if is_found else "bold yellow")
    page.blank()
    for suspect in report.suspects:
        item = suspect.item
        about = ", ".join(filter(None, (item.subject, item.author, item.date)))
        page.paragraph(f"{percent(suspect.probability):>7}  {short(item.name)}  {about}", indent=2)
        if suspect.position in report.blamed:
            page.paragraph(item.diffstat, "dim", indent=11)  # below the name
    for probability, words in unnamed(report):
        page.paragraph(f"{percent(probability):>7}  {words}", "dim", indent=2)
    if report.measured:
        page.blank()
        page.paragraph(f"{report.metric}, {summary(report)}", "bold")
        for row in report.measured[:_MOST_ROWS]:
            page.paragraph(_row(report, row, ascii_only=ascii_only), indent=2)
        if len(report.measured) > _MOST_ROWS:
            page.paragraph(f"and {len(report.measured) - _MOST_ROWS} more: see --json or --html", "dim", indent=2)
    if report.causes is not None:
        page.blank()
        page.paragraph(f"What changed: {cause_words.step(report.causes)}", "bold")
        for cause in report.causes.causes[:_MOST_CAUSES]:
            page.paragraph(cause_words.line(cause), indent=2)
            page.paragraph(cause_words.undo(cause), indent=4)
    page.blank()
    for note in notes(report):
        page.paragraph(f"note: {note}", "dim")
    page.paragraph(f"→ {report.next_step}", "bold")
    return page.finished()


def summary(report: BisectReport) -> str:
    """Return how much was measured: `17 runs of 9 of 64 commits, noise of one run 2 %`."""
    runs = plural(report.runs, _run(report))
    items = len([row for row in report.measured if row.runs > 0])
    text = f"{runs} of {items} of {plural(report.positions, report.noun)}"
    if report.noise is None:
        return text
    return f"{text}, noise of one {_run(report)} {format_number(100 * report.noise, 2)} %"


def unnamed(report: BisectReport) -> list[tuple[float, str]]:
    """Return the probability of all other items and that of no change, each if it is not shown as 0."""
    count = report.positions - 1 - len(report.suspects)  # the first item is good, so it changed nothing
    rows = [(report.others, plural(count, f"other {report.noun}")), (report.no_change, "no change")]
    return [row for row in rows if row[0] >= 0.0005]


def notes(report: BisectReport) -> tuple[str, ...]:
    """Return the notes, after the merge that brought the found commit, if it was inside of one."""
    if report.inside is None:
        return report.notes
    return (f"it came with the merge {short(report.inside.name)}: {report.inside.subject}", *report.notes)


def _run(report: BisectReport) -> str:
    return "pair" if report.paired else "run"


def _row(report: BisectReport, row: ItemEstimate, *, ascii_only: bool) -> str:
    """Return a measured item as a line; its bar shows the value from the lowest to the highest of all items."""
    arrow, block = ("<", "#") if ascii_only else ("←", "█")
    name = f"{row.position:>{len(str(report.positions))}}  {short(row.name):<14}"
    blamed = f"  {arrow}" if row.position in report.blamed else ""
    if row.value is None:
        reason = row.skipped or ""
        if len(reason) > _REASON:
            reason = reason[:_REASON] + "..."
        return f"{name} skipped: {reason}{blamed}"
    values = [other.value for other in report.measured if other.value is not None]
    low, high = min(values), max(values)
    length = 1 + round((_BAR - 1) * (row.value - low) / (high - low)) if high > low else 1
    number, interval = estimate(report, row)
    interval = f"({interval})" if interval else ""
    runs = plural(row.runs, _run(report))
    return f"{name}{number:>10} {interval:<28} {runs:<8} {block * length}{blamed}"


def markdown(report: BisectReport) -> str:
    """Return the answer for an issue or a comment."""
    lines = [f"### {prose(report.message)}", ""]
    if report.suspects:
        lines.append(f"| probability | {report.noun} | author | subject | {prose(report.metric) or 'value'} |")
        lines.append("|--:|---|---|---|---|")
        lines += [_table_row(report, suspect) for suspect in report.suspects]
        lines += [f"| {percent(probability)} | {words} | | | |" for probability, words in unnamed(report)]
        lines.append("")
    lines.append(f"- {prose(summary(report))}")
    lines.append(f"- between {code(short(report.first.name))} (good) and {code(short(report.last.name))} (bad)")
    diffstats = [suspect.item.diffstat for suspect in report.suspects if suspect.position in report.blamed]
    if diffstats and diffstats[0]:
        lines.append(f"- {prose(diffstats[0])}")
    if report.causes is not None:
        lines.append(f"- **What changed:** {prose(cause_words.step(report.causes))}")
        for cause in report.causes.causes[:_MOST_CAUSES]:
            place, cost = code(cause_words.where(cause)), prose(cause_words.cost(cause))
            lines.append(f"  - {prose(cause_words.kind(cause))}: {place} {cost}")
    lines += [f"- {prose(note)}" for note in notes(report)]
    lines += [f"- **next:** {prose(report.next_step)}", ""]
    return "\n".join(lines)


def _table_row(report: BisectReport, suspect: ItemSuspect) -> str:
    item, estimate = suspect.item, suspect.estimate
    name = code(short(item.name))
    if suspect.position in report.blamed:
        name = f"**{name}**"
    measured = ""
    if estimate and estimate.value is not None:
        measured = f"{value(report, estimate.value)}, {plural(estimate.runs, _run(report))}"
    cells = [percent(suspect.probability), name, prose(item.author), prose(item.subject), prose(measured)]
    return f"| {' | '.join(map(table_cell, cells))} |"


def json(report: BisectReport) -> str:
    """Return the answer as JSON in base units; `commits` are the suspects, the most probable first."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        **picked(report, "outcome", "exit_code", "message", "next_step", "metric", "statistic", "unit"),
        "good": report.first.name,
        "bad": report.last.name,
        **picked(report, "positions", "tolerance", "confidence", "change", "low", "high", "runs", "paired"),
        **picked(report, "noise", "drift_per_hour", "another", "others", "no_change", "more_runs"),
        "commits": [_suspect(report, suspect) for suspect in report.suspects],
        "measured": [
            {"commit": row.name, **picked(row, "position", "runs"), "estimate": row.value}
            | picked(row, "low", "high", "skipped")
            for row in report.measured
        ],
        "inside": None if report.inside is None else report.inside.name,
        "notes": list(report.notes),
    }
    if report.causes is not None:
        document |= json_report.documents(report.causes)
    return encode(document)


def _suspect(report: BisectReport, suspect: ItemSuspect) -> dict[str, Any]:
    estimate = suspect.estimate
    return {
        "commit": suspect.item.name,
        **picked(suspect, "position", "probability"),
        "blamed": suspect.position in report.blamed,
        "runs": estimate.runs if estimate else 0,
        "estimate": estimate.value if estimate else None,
        **picked(suspect.item, "author", "date", "subject", "diffstat"),
    }
