"""The events of the history: for a terminal, and as JSON (`perfgate.history-events/1`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from perfgate.core import Problem
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.wording import plural
from perfgate.reporters.plain_json import encode, in_order, problem
from perfgate.reporters.terminal_page import Page
from perfgate.words import event_words

SCHEMA = "perfgate.history-events/1"
_SIGNS = {"open": ("✗", "x", "bold red"), "better": ("▼", "v", "green"), "over": ("✓", "+", "dim")}


def render_text(
    events: Sequence[HistoryEvent],
    line: CommitLine | None,
    *,
    every: bool = False,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """Return a block for each open event, the newest first; with `every`, also for those that are over or better."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    shown = [event for event in events if every or event_words.is_open(event)]
    for event in shown:
        name = "open" if event_words.is_open(event) else "over" if event_words.is_worse(event) else "better"
        sign, plain, style = _SIGNS[name]
        page.paragraph(f"{plain if ascii_only else sign} {event.id}  {event_words.headline(event)}", style)
        for text in event_words.details(event, line):
            page.paragraph(text, indent=2)
        page.blank()
    if left := len(events) - len(shown):
        page.paragraph(f"{plural(left, 'other change')} for the better, approved or over: --all", "dim")
    page.paragraph(event_words.conclusion(events), "bold")
    return page.finished()


def render_json(events: Sequence[HistoryEvent], problems: Sequence[Problem]) -> str:
    """Return every event, the newest first."""
    rows, wrong = list(map(event_object, events)), list(map(problem, problems))
    return encode({"schema": SCHEMA, "events": rows, "problems": wrong})


def event_object(event: HistoryEvent) -> dict[str, Any]:
    """Return an event as an object."""
    level = event.approval
    return {
        "id": event.id,
        "headline": event_words.headline(event),
        "kind": event.kind,
        "state": event.state,
        "worse": event_words.is_worse(event),
        "last_good": _run(event.last_good),
        "first_bad": _run(event.first_bad),
        "likely": _run(event.likely),
        "commits": event.commits,
        "changes": list(map(_change, event.changes)),
        "facts": [{"name": name, "before": old, "after": new} for name, old, new in event.facts],
        "causes": list(event.causes),
        "owners": list(event.owners),
        "rules": list(event.rules),
        "ended": None if event.ended is None else _run(event.ended),
        "approval": level and {"by": level.by, "reason": level.reason, "pr": level.pr, "time": level.time},
        "hidden": [{"name": name, "before": old, "after": new} for name, old, new in event.hidden],
    }


def _run(run: HistoryRun) -> dict[str, Any]:
    return {"commit": run.commit, "time": run.time, "run": run.id}


def _change(one: EventChange) -> dict[str, Any]:
    fields = asdict(one)
    name = fields.pop("name")
    return {
        "suite": one.suite,
        "environment": one.environment,
        "metric": name.key.metric,
        "labels": in_order(dict(name.key.labels)),
        "statistic": name.statistic,
        "rank": name.rank,
        **fields,
    }
