"""The sentences of tickets; one case for each branch."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace
from said import Said, say
from told_history import APPROVED, LINE, RUNS

from perfgate.core import Key
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import SeriesName
from perfgate.words import event_words, ticket

CHANGE = EventChange("gpt", "h200", SeriesName(Key("forward"), "median"), "s", 0.1, 0.11, 0.1, 0.09, 0.11, True)
OPEN = HistoryEvent("0a1b2c3d", "code", "open", RUNS[3], RUNS[7], RUNS[4], 4, (CHANGE,), causes=("aten::mm is slower",))
KNOWN = replace(OPEN, first_bad=RUNS[4], commits=1, facts=(("driver", "570.86", "580.65"),))
MACHINE = replace(KNOWN, kind="machine")
REVERTED = replace(OPEN, state="reverted", ended=RUNS[9])
ENDED = replace(OPEN, state="approved", approval=APPROVED.approval)


def of_tickets() -> Iterator[Said]:
    """Yield the words of words/ticket, and those of words/event_words that tickets place alone."""
    for case, event in {"open": OPEN, "reverted": REVERTED, "approved": ENDED}.items():
        yield say(ticket.news, f"close {case}", "close", event)
        yield say(event_words.end, case, event)
    yield say(ticket.news, "open", "open", OPEN)
    yield say(ticket.news, "reopen", "reopen", OPEN)
    yield say(ticket.news, "gone", "close", None)
    for case, event in {"several commits": OPEN, "one commit": KNOWN, "machine": MACHINE}.items():
        yield say(ticket.next_step, case, event)
        yield say(event_words.search, case, event)
        yield say(event_words.circumstances, case, event, LINE)
