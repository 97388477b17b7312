"""The ticket of an event: an issue of GitHub, and a message for Slack.

Names of metrics, labels, facts, commits and causes come from results and commits, which anyone may have written: they
are plain text, without links and mentions (`untrusted_comment.text`). Only owners, who are in the rules, are mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.wording import plural, without_commands
from perfgate.reporters.markdown import fenced, mentions
from perfgate.reporters.untrusted_comment import bare_text, text
from perfgate.words import event_words, history_words

#: A ticket lists this many metrics. GitHub takes a body of 65,536 characters, and a title of 256.
_METRICS, _LONGEST, _LONGEST_TITLE = 20, 50_000, 250
#: The beginning of the next step in an open ticket.
NEXT = "\n**Next:**"
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def issue(event: HistoryEvent, page: str, line: CommitLine | None = None) -> dict[str, str]:
    """Return title and body; `page` is the address of the repository, for links to its commits."""
    body = ""
    for one in _lines(event, page, line):
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
    lines = (event_words.headline(event), *event_words.details(event, None))
    first, *rest = (bare_text(one).translate(_SLACK) for one in lines)
    return {"text": "\n".join([f"*{first}* (<{url}|{done}>)", *rest])}


def _lines(event: HistoryEvent, page: str, line: CommitLine | None) -> Iterator[str]:
    yield from ("| metric | where | change |", "|---|---|---|")
    for one in event_words.in_order(event)[:_METRICS]:
        kind = {True: "worse", False: "better", None: ""}[one.worse]
        cells = (str(one.name), f"{one.suite}/{one.environment}", f"{history_words.interval(one)} {kind}")
        yield f"| {' | '.join(map(text, cells))} |"
    if (rest := len(event.changes) - _METRICS) > 0:
        yield f"\n{plural(rest, 'more metric')}"
    yield ""
    yield from (f"- {text(one)}" for one in (*event_words.circumstances(event, line), *event_words.end(event)))
    good, bad = event.last_good.commit or "", event.first_bad.commit or ""
    if good != bad and _COMMIT.fullmatch(good) and _COMMIT.fullmatch(bad):
        yield f"- [the difference]({page}/compare/{good}...{bad})"
    if event.state == "open":
        step, command = event_words.next_step(event)
        yield f"{NEXT} {text(step)}" + (f"\n\n{fenced([command])}" if command else "")
