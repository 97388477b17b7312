"""The events of the history: for a terminal, as JSON (`perfgate.history-events/1`), and as tickets.

A ticket is an issue of GitHub, or a message for Slack. Names of metrics, labels, facts, commits and causes come from
results and commits, which anyone may have written: in a ticket they are plain text, without links and mentions
(`untrusted_comment.text`). Only owners, who are in the rules, are mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from perfgate.core import Problem
from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.wording import plural, without_commands
from perfgate.reporters.markdown import fenced, mentions
from perfgate.reporters.plain_json import approval_object, encode, picked, problem, series_object
from perfgate.reporters.terminal_page import Page
from perfgate.reporters.untrusted_comment import bare_text, text
from perfgate.words import event_words, history_words

SCHEMA = "perfgate.history-events/1"
#: The sign of an event, the same without Unicode, and its style.
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
        for sentence in event_words.details(event, line):
            page.paragraph(sentence, indent=2)
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
    return {
        "id": event.id,
        "headline": event_words.headline(event),
        **picked(event, "kind", "state"),
        "worse": event_words.is_worse(event),
        "last_good": _run(event.last_good),
        "first_bad": _run(event.first_bad),
        "likely": _run(event.likely),
        "commits": event.commits,
        "changes": [
            picked(one, "suite", "environment")
            | series_object(one.name)
            | picked(one, "unit", "before", "after", "change", "low", "high", "worse")
            for one in event.changes
        ],
        "facts": _facts(event.facts),
        **picked(event, "causes", "owners", "rules"),
        "ended": None if event.ended is None else _run(event.ended),
        "approval": approval_object(event.approval),
        "hidden": _facts(event.hidden),  # the machine's facts that brought the old level back
    }


def _run(run: HistoryRun) -> dict[str, Any]:
    return {"commit": run.commit, "time": run.time, "run": run.id}


def _facts(facts: Sequence[tuple[str, str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "before": old, "after": new} for name, old, new in facts]


#: The most metrics in a ticket, and the longest body and title: GitHub takes 65,536 and 256 characters.
_METRICS, _LONGEST, _LONGEST_TITLE = 20, 50_000, 250
#: The beginning of the next step in an open ticket.
NEXT = "\n**Next:**"
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def issue(event: HistoryEvent, repository: str, line: CommitLine | None = None) -> dict[str, str]:
    """Return title and body; `repository` is its address, for links to commits, and `line` has the branch's commits."""
    body = ""
    for one in _lines(event, repository, line):  # a line that does not fit is left out
        body += f"{one}\n" if len(body) + len(one) < _LONGEST else ""
    body += f"{mentions(event.owners)}\n<sub>{event_words.FOOT}</sub>\n"
    title = without_commands(bare_text(event_words.headline(event)))
    return {"title": title[:_LONGEST_TITLE], "body": without_commands(body)}


def comment(sentence: str) -> str:
    """Return a sentence as a comment."""
    return without_commands(text(sentence))


def answer(message: str, step: str) -> str:
    """Return the answer of a search for the commit as a comment."""
    return without_commands(f"{text(message)}\n{NEXT} {text(step)}")


def slack(event: HistoryEvent, done: str, url: str) -> dict[str, str]:
    """Return the message for an incoming webhook of Slack; `done` is what happened to the ticket at `url`.

    `&`, `<` and `>` are escaped (https://docs.slack.dev/messaging/formatting-message-text), so nobody is mentioned.
    """
    lines = (event_words.headline(event), *event_words.details(event, line=None))
    first, *rest = (bare_text(one).translate(_SLACK) for one in lines)
    return {"text": "\n".join([f"*{first}* (<{url}|{done}>)", *rest])}


def _lines(event: HistoryEvent, repository: str, line: CommitLine | None) -> Iterator[str]:
    """Yield the lines of a ticket: its metrics, the circumstances, the commits and the next step."""
    yield from ("| metric | where | change |", "|---|---|---|")
    for one in event_words.in_order(event)[:_METRICS]:
        kind = {True: "worse", False: "better", None: ""}[one.worse]  # None without a direction
        cells = (str(one.name), f"{one.suite}/{one.environment}", f"{history_words.interval(one)} {kind}")
        yield f"| {' | '.join(map(text, cells))} |"
    if (rest := len(event.changes) - _METRICS) > 0:
        yield f"\n{plural(rest, 'more metric')}"
    yield ""
    yield from (f"- {text(one)}" for one in (*event_words.circumstances(event, line), *event_words.end(event)))
    good, bad = event.last_good.commit or "", event.first_bad.commit or ""
    if good != bad and _COMMIT.fullmatch(good) and _COMMIT.fullmatch(bad):
        yield f"- [the difference]({repository}/compare/{good}...{bad})"
    if event.state == "open":
        step, command = event_words.next_step(event)
        yield f"{NEXT} {text(step)}" + (f"\n\n{fenced([command])}" if command else "")
