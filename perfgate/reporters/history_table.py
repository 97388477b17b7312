"""The history of metrics, the commits of a backfill, and the false alarms of rules: for a terminal, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from perfgate.core import run_history
from perfgate.core.remembered_runs import CommitLine, FalseAlarms
from perfgate.core.runs import Values
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.reporters.plain_json import approval_object, encode, picked, problem, series_object
from perfgate.reporters.terminal_page import GAP, Page
from perfgate.words import history_words

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.,-~=+#"
_HEADS = ("metric", "runs", "now", "newest change", "")
#: The width of the line of a metric in the list of all.
_SHORT = 24
#: Runs beyond these quantiles are drawn at the edge, so that one stall does not flatten the line.
_EDGES = (0.02, 0.98)


def render_text(
    found: run_history.LoadedHistory, *, in_full: bool, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return one line for each metric, or with `in_full` a paragraph with every change."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    for place in found.environments:
        if not place.series:
            continue
        page.paragraph(history_words.about(place), "dim")
        for note in place.notes:
            page.paragraph(note, "yellow")
        if in_full:
            page.paragraph(history_words.often_changed(place), "dim")
            page.blank()
            for series in place.series:
                _write_in_full(page, series, found.line)
        else:
            page.blank()
            _list(page, place)
    page.paragraph(history_words.incomplete(found), "bold red")
    return page.finished()


def _list(page: Page, place: run_history.EnvironmentHistory) -> None:
    """Write a line for each metric, the newest changes first."""
    ordered = sorted(place.series, key=lambda series: str(series.name))
    ordered.sort(key=lambda series: series.changes[-1].likely.time if series.changes else "", reverse=True)
    rows = []
    for series in ordered:
        newest = "none"
        if series.changes:
            point, likely = series.changes[-1].point, series.changes[-1].likely
            newest = f"{format_change(point.change)} in {likely.label}, {likely.time[:10]}"
        drawn = _line(series.values, _SHORT, page.ascii_only)
        rows.append([str(series.name), str(len(series.runs)), history_words.level_now(series), newest, drawn])
    widths = page.widths([_HEADS, *rows], least=12)
    page.row(_HEADS, widths, "dim")
    for series, row in zip(ordered, rows, strict=True):
        is_open = bool(series.changes) and history_words.is_open(series.changes[-1])
        page.row(row, widths, ["", "dim", "", "red" if is_open else "", ""])
    page.blank()


def _write_in_full(page: Page, series: run_history.HistorySeries, line: CommitLine | None) -> None:
    """Write a paragraph about a metric: its line of bars, its level, and every change."""
    page.paragraph(str(series.name), "bold")
    drawn = _line(series.values, page.width - 4, page.ascii_only)
    page.paragraph(drawn, indent=2)
    page.paragraph(_marks(series, len(drawn), page.ascii_only), "dim", indent=2)
    noise = history_words.noise(series)
    level = f"{plural(len(series.runs), 'run')}, level {history_words.level_now(series)}"
    page.paragraph(f"{level}, noise between runs {noise}" if noise else level, indent=2)
    if series.missing_since:
        last = series.runs[-1]
        verb = "does" if series.missing_since == 1 else "do"
        what = f"{plural(series.missing_since, 'newer run')} {verb} not have it"
        page.paragraph(f"last measured in {last.label} on {last.time[:10]}: {what}", "yellow", indent=2)
    page.paragraph(history_words.summary(series), indent=2)
    for change in series.changes:
        style = "green" if change.point.worse is False else ""
        if history_words.is_open(change):
            style = "red"
        first, *others = history_words.sentences(change, series, line)
        page.paragraph(first, style, indent=2)
        for text in others:
            page.paragraph(text, indent=4)
    if series.changes:
        page.paragraph(history_words.newest_apart(series), indent=2)
    if command := history_words.search(series):
        page.paragraph(f"find the commit: {command}", indent=2)
    page.blank()


def _line(values: Values, width: int, ascii_only: bool) -> str:
    """Return values as a line of bars, one for each run, or for the median of neighbours if there are too many."""
    numbers = _medians(values, width)
    if not numbers:
        return ""
    ordered, bars = sorted(numbers), _ASCII_BARS if ascii_only else _BARS
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in _EDGES)
    if not high > low:
        return bars[3] * len(numbers)  # of medium height
    places = (min(max((value - low) / (high - low), 0.0), 1.0) for value in numbers)
    return "".join(bars[round(place * (len(bars) - 1))] for place in places)


def _medians(values: Values, width: int) -> list[float]:
    """Return the values, or the upper median of each of `width` equal parts."""
    if len(values) <= width:
        return [float(value) for value in values]
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    found = []
    for start, end in pairwise(edges):
        part = values[start:end].copy()
        part.partition(len(part) // 2)
        found.append(float(part[len(part) // 2]))
    return found


def _marks(series: run_history.HistorySeries, width: int, ascii_only: bool) -> str:
    """Return a line with a mark below the first run of each new level; empty without changes."""
    marks = [" "] * width
    for change in series.changes:
        marks[min(change.point.index * width // len(series.runs), width - 1)] = "^" if ascii_only else "▲"
    return "".join(marks).rstrip()


def render_json(found: run_history.LoadedHistory) -> str:
    """Return every series with its numbers and changes."""
    return encode(
        {
            "schema": "perfgate.history-series/1",
            "series": list(map(_series, found.series)),
            "notes": [note for place in found.environments for note in place.notes],
            "problems": list(map(problem, found.problems)),
        }
    )


def _series(series: run_history.HistorySeries) -> dict[str, Any]:
    columns = picked(series, "values", "errors", "n", "n_effective")
    return {
        **picked(series, "suite", "environment"),
        **series_object(series.name),
        **picked(series, "unit", "better", "kind", "noise", "missing_since"),
        "commits": [run.commit for run in series.runs],
        "times": [run.time for run in series.runs],
        "tags": {run.commit or run.time: list(run.tags) for run in series.runs if run.tags},
        **{name: column.tolist() for name, column in columns.items()},
        "changes": list(map(_change, series.changes)),
    }


def _change(change: run_history.HistoryChange) -> dict[str, Any]:
    return {
        **picked(change.point, "index", "change", "low", "high", "probability", "before", "after", "worse"),
        "likely": change.likely.commit,
        "last_good": change.last_good.commit,
        "first_bad": change.first_bad.commit,
        "commits": change.commits,
        "went_away": None if change.went_away is None else change.went_away.commit or change.went_away.time,
        "approval": approval_object(change.approval),
        "facts": change.facts,
    }


#: `measure` has the order in which to measure the commits, `tells` the information of a measurement.
_BACKFILL_HEADS = ("measure", "commit", "change in it", "in it or before", "tells", "runs", "subject")


def backfill_text(plan: run_history.BackfillPlan, *, width: int = 100, ascii_only: bool = False) -> str:
    """Return the range, the most likely commit, and the suspects in the order of their commits."""
    page = Page(width, ascii_only=ascii_only)
    change, likely = plan.change, plan.most_likely
    good, bad = change.last_good.label, change.first_bad.label
    size = format_change(change.point.change)
    page.paragraph(f"{plan.series.name} changed by {size} in one of {plural(len(plan.suspects), 'commit')}", "bold")
    page.paragraph(f"after {good}, up to {bad}; most likely {_named(likely)}, with {100 * likely.here:.0f}%", indent=2)
    page.blank()
    order = {one.commit.sha: str(number) for number, one in enumerate(plan.wanted, 1)}
    rows = []
    for one in plan.suspects:
        measure, sha = order.get(one.commit.sha, ""), one.commit.sha[:10]
        shares = (f"{100 * one.here:.0f}%", f"{100 * one.before:.0f}%")
        bits = f"{one.bits:.2f} bits" if measure else ""
        rows.append([measure, sha, *shares, bits, str(one.runs), one.commit.subject])
    page.table(_BACKFILL_HEADS, rows, wraps=-1, least=12)
    page.blank()
    if plan.is_settled:
        page.paragraph(f"settled: the change is in {_named(likely)}", "bold")
    elif plan.wanted:
        metric = shlex.quote(plan.series.name.key.metric)
        page.paragraph(f"measure them with: perfgate history backfill {metric} -- COMMAND")
    return page.finished()


def _named(one: run_history.BackfillCommit) -> str:
    return f"{one.commit.sha[:10]} ({one.commit.author}: {one.commit.subject})"


def backfill_json(plan: run_history.BackfillPlan) -> str:
    """Return the suspects in the order of their commits, and the commits to measure, the most telling first."""
    return encode(
        {
            "schema": "perfgate.history-backfill/1",
            "series": str(plan.series.name),
            "last_good": plan.change.last_good.commit,
            "first_bad": plan.change.first_bad.commit,
            "change": plan.change.point.change,
            "settled": plan.is_settled,
            "most_likely": plan.most_likely.commit.sha,
            "measure": [one.commit.sha for one in plan.wanted],
            "suspects": [
                {"commit": one.commit.sha, "probability": one.here, **picked(one, "bits", "runs")}
                for one in plan.suspects
            ],
        }
    )


_ALARM_HEADS = ("rule", "metric", "red", "unchanged runs", "rate")


def false_alarms_text(found: Sequence[FalseAlarms], *, width: int = 100, ascii_only: bool = False) -> str:
    """Return a table with a row for each rule and metric, and each proposed quarantine below its row."""
    page = Page(width, ascii_only=ascii_only)
    rows = []
    for one in found:
        rate = f"{100 * one.alarms / one.runs:.2g}% [{100 * one.low:.2g}%, {100 * one.high:.2g}%]"
        rows.append([one.rule, one.series, str(one.alarms), str(one.runs), rate])
    # Rule and metric share the room that the numbers leave.
    widths = [max(map(page.cells, column)) for column in zip(_ALARM_HEADS, *rows, strict=True)]
    room = page.width - sum(widths[2:]) - GAP * (len(widths) - 1)
    widths[1] = min(widths[1], max(room // 3, 12))
    widths[0] = min(widths[0], max(room - widths[1], 12))
    page.row(_ALARM_HEADS, widths, "dim")
    for one, row in zip(found, rows, strict=True):
        page.row(row, widths)
        if one.quarantine_until is not None:
            page.paragraph(f'quarantine: {{until: {one.quarantine_until}, reason: "{one.reason}"}}', "bold", indent=4)
    page.blank()
    if count := len({(one.place, one.rule) for one in found if one.quarantine_until is not None}):
        verb = "has" if count == 1 else "have"
        page.paragraph(f"{plural(count, 'rule')} {verb} many false alarms: paste the line into the rule, and repair it")
    else:
        page.paragraph("no rule has many false alarms: more than 1 in 50 runs, at 95% confidence")
    return page.finished()
