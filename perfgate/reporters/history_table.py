"""The history of metrics for a terminal, and as JSON (`perfgate.history-series/1`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, takewhile
from math import isnan
from typing import TYPE_CHECKING, Any

from perfgate.core import fact_text
from perfgate.core.branch import CommitLine
from perfgate.core.run_history import EnvironmentHistory, HistoryChange, HistoryRun, HistorySeries, LoadedHistory
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import plural
from perfgate.reporters.plain_json import encode, problem, stable
from perfgate.reporters.terminal_page import GAP, Page

if TYPE_CHECKING:
    from perfgate.core.runs import Values

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.,-~=+#"
_HEADS = ("metric", "runs", "now", "newest change", "")
#: The width of the line of a metric in the list of all.
_SHORT = 24
#: Runs beyond these quantiles are drawn at the edge, so that one stall does not flatten the line.
_EDGES = (0.02, 0.98)
#: So many changes for the worse in a row are a creep.
_CREEPING = 3
#: The probability of a less certain change is shown.
_CERTAIN = 0.99


def render_text(
    found: LoadedHistory, *, in_full: bool, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return one line for each metric, or with `in_full` a paragraph with every change."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    for place in found.environments:
        if place.series:
            page.paragraph(_where(place), "dim")
            for note in place.notes:
                page.paragraph(note, "yellow")
            page.blank()
            _list(page, place) if not in_full else _paragraphs(page, place, found.line)
    if found.problems:
        count = len({problem.at.file for problem in found.problems})
        page.paragraph(f"this history is incomplete: {plural(count, 'file')} cannot be used", "bold red")
    return page.finished()


def _where(place: EnvironmentHistory) -> str:
    facts = ", ".join(f"{name} {fact_text(fact)}" for name, fact in place.identity.items() if fact is not None)
    runs = f"{plural(len(place.runs), 'run')} of {place.suite}" + (f" on {facts}" if facts else "")
    days = f", {place.runs[0].time[:10]} to {place.runs[-1].time[:10]}" if place.runs else ""
    return runs + days


def _list(page: Page, place: EnvironmentHistory) -> None:
    """Write a line for each metric, the newest changes first."""
    ordered = sorted(place.series, key=lambda one: str(one.name))
    ordered.sort(key=lambda one: one.changes[-1].likely.time if one.changes else "", reverse=True)
    rows = [_cells(one, page) for one in ordered]
    widths = [max(map(page.cells, column)) for column in zip(_HEADS, *rows, strict=True)]
    widths[0] = max(12, min(widths[0], page.width - sum(widths[1:]) - GAP * (len(widths) - 1)))
    page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
    for one, row in zip(ordered, rows, strict=True):
        is_worse = bool(one.changes) and one.changes[-1].point.worse and one.changes[-1].approval is None
        page.row([[cell] for cell in row], widths, ["", "dim", "", "red" if is_worse else "", ""])
    page.blank()


def _cells(one: HistorySeries, page: Page) -> list[str]:
    newest = "none"
    if one.changes:
        change = one.changes[-1]
        newest = f"{format_change(change.point.change)} in {change.likely.label}, {change.likely.time[:10]}"
    return [str(one.name), str(len(one.runs)), _now(one), newest, _line(one.values, _SHORT, page.ascii_only)]


def _now(one: HistorySeries) -> str:
    """Return the value of the newest level."""
    return format_value(list(one.levels())[-1][2], one.unit) if one.runs else ""


def _paragraphs(page: Page, place: EnvironmentHistory, line: CommitLine | None) -> None:
    for one in place.series:
        page.paragraph(str(one.name), "bold")
        drawn = _line(one.values, page.width - 4, page.ascii_only)
        page.paragraph(drawn, indent=2)
        if one.changes:
            page.paragraph(_marks(one, len(drawn), page.ascii_only), "dim", indent=2)
        noise = "" if isnan(one.noise) else f", noise between runs {format_change(one.noise).lstrip('+')}"
        page.paragraph(f"{plural(len(one.runs), 'run')}, level {_now(one)}{noise}", indent=2)
        if one.missing_since:
            last = one.runs[-1]
            what = f"{plural(one.missing_since, 'newer run')} do not have it"
            page.paragraph(f"last measured in {last.label} on {last.time[:10]}: {what}", "yellow", indent=2)
        page.paragraph(_summary(one), indent=2)
        for change in one.changes:
            words = list(_words(change, one, line))
            is_open = change.point.worse and change.approval is None and change.went_away is None
            page.paragraph(words[0], "red" if is_open else "green" if change.point.worse is False else "", indent=2)
            for text in words[1:]:
                page.paragraph(text, indent=4)
        page.blank()


def _summary(one: HistorySeries) -> str:
    """Return how many changes there are, and whether the newest ones go in one direction."""
    if not one.changes:
        return "no lasting change"
    row = list(takewhile(lambda change: change.point.worse and change.approval is None, reversed(one.changes)))
    count = plural(len(one.changes), "lasting change")
    if len(row) < _CREEPING:
        return f"{count}, with 95% intervals:"
    before, after = row[-1].point.before, row[0].point.after
    total = f" {format_change(after / before - 1)} in all since {row[-1].likely.time[:10]}" if before > 0 else ""
    return f"{count}, with 95% intervals. It creeps: the last {len(row)} are worse and not approved,{total}:"


def _words(change: HistoryChange, one: HistorySeries, line: CommitLine | None) -> Iterator[str]:
    """Yield the sentences about a change, the conclusion first."""
    point = change.point
    kind = "" if point.worse is None else " (worse)" if point.worse else " (better)"
    levels = f"{format_value(point.before, one.unit)} to {format_value(point.after, one.unit)}"
    size = f"{format_change(point.change)} ({format_change(point.low)} to {format_change(point.high)})"
    doubt = f" (probability {100 * point.probability:.0f}%)" if point.probability < _CERTAIN else ""
    yield f"{size}{kind}: {levels} on {change.likely.time[:10]}{doubt}"
    yield _range(change, line)
    if change.approval is not None:
        level = change.approval
        request = f" (pull request {level.pr})" if level.pr is not None else ""
        yield f"approved by {level.by} on {level.time[:10]}: {level.reason}{request}"
    if change.facts:
        facts = ", ".join(f"{name} from {old} to {new}" for name, old, new in change.facts)
        yield f"the machine changed in the same run: {facts}"
    if change.went_away is not None:
        yield f"went away in {change.went_away.label} on {change.went_away.time[:10]}"


def _range(change: HistoryChange, line: CommitLine | None) -> str:
    """Return the commits that the change may be in."""
    good, bad, likely = change.last_good, change.first_bad, change.likely
    if change.is_one_commit:
        return f"between two runs of commit {good.label}: the code is not the cause"
    if good.commit is None or bad.commit is None:
        return f"between the runs of {good.time} and {bad.time}, which have no commit"
    if change.commits == 1:
        return f"in commit {_named(bad, line)}"
    most = f"; most likely {_named(likely, line)}" if likely.commit not in (None, bad.commit) else ""
    which = "after commit" if change.commits is None else f"in one of {change.commits} commits after"
    return f"{which} {good.label}, up to {bad.label}{most}"


def _named(run: HistoryRun, line: CommitLine | None) -> str:
    """Return a commit with its author and subject, as far as they are known."""
    place = line.place(run.commit) if line else None
    if line is None or place is None:
        return run.label
    commit = line.commits[place]
    return f"{run.label} ({commit.author}: {commit.subject})"


def _line(values: Values, width: int, ascii_only: bool) -> str:
    """Return values as a line of bars, one for each run, or for the median of neighbours if there are too many."""
    numbers = _medians(values, width)
    if not numbers:
        return ""
    ordered, bars = sorted(numbers), _ASCII_BARS if ascii_only else _BARS
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in _EDGES)
    if not high > low:
        return bars[3] * len(numbers)
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


def _marks(one: HistorySeries, width: int, ascii_only: bool) -> str:
    """Return a line with a mark below the first run of each new level."""
    marks = [" "] * width
    for change in one.changes:
        marks[min(change.point.index * width // len(one.runs), width - 1)] = "^" if ascii_only else "▲"
    return "".join(marks).rstrip()


def render_json(found: LoadedHistory) -> str:
    """Return every series with its numbers and changes."""
    return encode(
        {
            "schema": "perfgate.history-series/1",
            "series": [_series(one) for one in found.series],
            "notes": [note for place in found.environments for note in place.notes],
            "problems": list(map(problem, found.problems)),
        }
    )


def _series(one: HistorySeries) -> dict[str, Any]:
    columns = {"values": one.values, "errors": one.errors, "n": one.n, "n_effective": one.n_effective}
    return {
        "suite": one.suite,
        "environment": one.environment,
        "metric": one.name.key.metric,
        "labels": dict(one.name.key.labels),
        "statistic": one.name.statistic,
        "rank": one.name.rank,
        "unit": one.unit,
        "better": one.better,
        "kind": one.kind,
        "noise": _number(one.noise),
        "missing_since": one.missing_since,
        "commits": [run.commit for run in one.runs],
        "times": [run.time for run in one.runs],
        "tags": {run.commit or run.time: list(run.tags) for run in one.runs if run.tags},
        **{name: [_number(value) for value in column.tolist()] for name, column in columns.items()},
        "changes": [_change(change) for change in one.changes],
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else stable(value)


def _change(change: HistoryChange) -> dict[str, Any]:
    point, level = change.point, change.approval
    approval = None if level is None else {"by": level.by, "reason": level.reason, "pr": level.pr, "time": level.time}
    return {
        "index": point.index,
        "change": point.change,
        "low": point.low,
        "high": point.high,
        "probability": point.probability,
        "before": point.before,
        "after": point.after,
        "worse": point.worse,
        "likely": change.likely.commit,
        "last_good": change.last_good.commit,
        "first_bad": change.first_bad.commit,
        "commits": change.commits,
        "went_away": None if change.went_away is None else change.went_away.commit or change.went_away.time,
        "approval": approval,
        "facts": [list(row) for row in change.facts],
    }
