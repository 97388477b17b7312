"""The functions that say what to do with the tickets of a history, without a GitHub."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from perfgate.core import Key
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.tickets import SearchAnswer, Ticket, TicketStep, Told, answer_of, steps, ticket_of

RUNS = [HistoryRun(f"id{i}", f"2026-01-0{i + 1}T00:00:00Z", f"{i}" * 40) for i in range(3)]
#: The change is 10 %, or between 9 and 11 %.
CHANGE = EventChange("gpt", "h200", SeriesName(Key("forward"), "median"), "s", 0.1, 0.11, 0.1, 0.09, 0.11, True)
BETTER = replace(CHANGE, suite="bert", change=-0.2, low=-0.21, high=-0.19, worse=False)
OPEN = HistoryEvent("e1", "code", "open", RUNS[0], RUNS[2], RUNS[1], 4, (BETTER, CHANGE))
GONE = replace(OPEN, state="recovered")
TOLD = Told.of(OPEN)
#: The first 8 hexadecimal digits of the SHA-256 of `gpt` and `bert`, by sha256sum.
GPT, BERT = "053ea480", "32987c4b"


def ticket(number: int = 1, *, is_open: bool = True, state: str = "open", told: Told = TOLD, **other: object) -> Ticket:
    return Ticket(number, is_open, "url", replace(told, state=state, **other), "text")


def done(
    event: HistoryEvent | None, tickets: Sequence[Ticket], recent: Sequence[str] = ("id1",), suites: Sequence[str] = ()
) -> list[tuple[str, str | None, int | None, int | None]]:
    """The steps: what to do, the event, the ticket, and the number of the first one."""
    found = list(steps([event] if event else [], tickets, recent=recent, suites=suites))
    return [
        (step.action, step.event.id if step.event else None, step.ticket.number if step.ticket else None, step.first)
        for step in found
    ]


# --- what a ticket says ----------------------------------------------------------------------------------------------


def test_a_marker_has_the_change_that_is_worse_and_the_suites() -> None:
    assert (TOLD.event, TOLD.state, TOLD.size, TOLD.suites) == ("e1", "open", 0.1, f"{GPT},{BERT}")
    assert TOLD.marker == f"<!-- perfgate event: e1 open 0.1 {TOLD.rest} {GPT},{BERT} -->\n"
    assert Told.of(replace(OPEN, changes=(BETTER,))).size == -0.2
    assert Told.of(replace(OPEN, changes=(replace(CHANGE, change=0.123456789),))).marker.split()[5] == "0.123457"


OTHERS = [
    replace(OPEN, kind="machine"),
    replace(OPEN, first_bad=RUNS[1]),
    replace(OPEN, commits=5),
    replace(OPEN, changes=(CHANGE,)),
    replace(OPEN, facts=(("driver", "570", "580"),)),
    replace(OPEN, causes=("aten::mm is slower",)),
    replace(OPEN, owners=("@team",)),
    replace(OPEN, hidden=(("driver", "570", "580"),)),
]
SAME = [
    OPEN,
    replace(OPEN, changes=(CHANGE, BETTER)),
    replace(OPEN, changes=(BETTER, replace(CHANGE, change=0.2, after=0.12, low=0.1, high=0.3))),
    replace(OPEN, rules=("the rule was never wrong",)),
]


def test_a_ticket_changes_with_everything_but_numbers() -> None:
    assert {Told.of(event).rest for event in SAME} == {TOLD.rest}
    assert len({Told.of(event).rest for event in [OPEN, *OTHERS]}) == len(OTHERS) + 1


def test_a_suite_that_is_not_utf8_has_a_marker() -> None:
    event = replace(OPEN, changes=(replace(CHANGE, suite="caf\udce9"),))
    assert ticket_of(1, True, "url", Told.of(event).marker) is not None


BODIES = [
    # what comes before the body and in place of its first line; True if it is a ticket
    (TOLD.marker, True),
    (TOLD.marker.replace("\n", "\r\n"), True),
    (f" {TOLD.marker}", False),
    (TOLD.marker.replace(" open ", " OPEN "), False),
    (TOLD.marker.replace(" 0.1 ", " 0.1.1 "), False),
    (TOLD.marker.replace(TOLD.rest, "1234567"), False),
    ("", False),
]


@pytest.mark.parametrize(("first", "is_ticket"), BODIES)
def test_an_issue_with_the_marker_first_is_a_ticket(first: str, *, is_ticket: bool) -> None:
    expected = Ticket(7, True, "url", TOLD, "A line\nand another\n")
    assert ticket_of(7, True, "url", f"{first}A line\nand another\n") == (expected if is_ticket else None)


FALSE_ALARMS = [
    # open, what its marker says, why it was closed; True if it was a false alarm
    (False, "open", "not_planned", True),
    (True, "open", "not_planned", False),
    (False, "recovered", "not_planned", False),
    (False, "open", "completed", False),
    (False, "open", None, False),
]


@pytest.mark.parametrize(("is_open", "state", "reason", "is_false"), FALSE_ALARMS)
def test_a_ticket_that_a_person_closed_as_not_planned_was_a_false_alarm(
    *, is_open: bool, state: str, reason: str | None, is_false: bool
) -> None:
    found = ticket_of(7, is_open, "url", replace(TOLD, state=state).marker, reason)
    assert found is not None
    assert found.is_false is is_false
    assert not Ticket(7, True, "url", TOLD, "").is_false


def test_the_answer_of_a_search() -> None:
    data = b'{"message": "found", "next_step": "revert it", "other": 1}'
    assert answer_of(data) == SearchAnswer("found", "revert it")
    assert [answer_of(one) for one in (b"", b"{}", b"\xff", b'{"message": "\xff"}', b"[" * 10_000)] == [None] * 5


# --- what to do ------------------------------------------------------------------------------------------------------

LATER = replace(OPEN, commits=5)
LARGER = replace(OPEN, changes=(replace(CHANGE, low=0.1, high=0.2, change=0.15), BETTER))
SMALLER = replace(OPEN, changes=(replace(CHANGE, low=0.0, high=0.1, change=0.05), BETTER))
MUCH_LARGER = replace(OPEN, changes=(replace(CHANGE, low=0.11, high=0.2, change=0.15), BETTER))
MUCH_SMALLER = replace(OPEN, changes=(replace(CHANGE, low=0.0, high=0.09, change=0.05), BETTER))
ACTIONS: list[tuple[HistoryEvent, Ticket | None, str | None]] = [
    # no ticket: only a new event that made something worse gets one
    (OPEN, None, "open"),
    (GONE, None, None),
    (replace(OPEN, changes=(BETTER,)), None, None),
    (replace(OPEN, changes=(replace(CHANGE, worse=None),)), None, None),
    (replace(OPEN, likely=RUNS[0]), None, None),
    # an open ticket that says `open`
    (OPEN, ticket(), None),
    (LARGER, ticket(), None),
    (SMALLER, ticket(), None),
    (MUCH_LARGER, ticket(), "update"),
    (MUCH_SMALLER, ticket(), "update"),
    (LATER, ticket(), "update"),
    (GONE, ticket(), "close"),
    (replace(GONE, commits=5), ticket(), "close"),
    # a person closed it
    (OPEN, ticket(is_open=False), None),
    (LATER, ticket(is_open=False), None),
    (GONE, ticket(is_open=False), None),
    # perfgate closed it at the end of its event
    (OPEN, ticket(is_open=False, state="recovered"), "reopen"),
    (GONE, ticket(is_open=False, state="recovered"), None),
    # perfgate closed it, and a person opened it again
    (OPEN, ticket(state="recovered"), "update"),
    (GONE, ticket(state="recovered"), None),
    # perfgate closed it, because its event was not found
    (OPEN, ticket(is_open=False, state="gone"), "reopen"),
    (GONE, ticket(is_open=False, state="gone"), "close"),
    (OPEN, ticket(state="gone"), "update"),
    (GONE, ticket(state="gone"), None),
]


@pytest.mark.parametrize(("event", "own", "action"), ACTIONS)
def test_what_is_done_with_the_ticket_of_an_event(event: HistoryEvent, own: Ticket | None, action: str | None) -> None:
    expected = [(action, "e1", own and own.number, None)] if action else []
    assert done(event, [own] if own else []) == expected


def test_the_oldest_ticket_of_an_event_stays_and_open_ones_after_it_are_closed() -> None:
    tickets = [ticket(9), ticket(4, is_open=False), ticket(5), ticket(2), ticket(3, event="e2")]
    duplicates = [("close", None, 5, 2), ("close", None, 9, 2)]
    assert done(OPEN, tickets) == duplicates
    assert done(LATER, tickets) == [*duplicates, ("update", "e1", 2, None)]
    (step, _) = steps([OPEN], tickets, recent=(), suites=())
    assert step == TicketStep("close", None, tickets[2], 2)


VANISHED = [
    # a ticket whose event is not there, the suites that are known as a whole; True if it is closed
    (ticket(), ["bert", "gpt"], True),
    (ticket(), ["other", "gpt", "bert"], True),
    (ticket(), ["gpt"], False),
    (ticket(), [], False),
    (ticket(suites=GPT), ["gpt"], True),
    (ticket(is_open=False), ["bert", "gpt"], False),
    (ticket(state="recovered"), ["bert", "gpt"], False),
    (ticket(state="gone"), ["bert", "gpt"], False),
]


@pytest.mark.parametrize(("own", "suites", "is_closed"), VANISHED)
def test_a_ticket_is_closed_if_all_of_its_suites_have_no_such_event(
    own: Ticket, suites: list[str], *, is_closed: bool
) -> None:
    assert done(None, [own], suites=suites) == ([("close", None, 1, None)] if is_closed else [])
    assert done(OPEN, [own], suites=suites) == done(OPEN, [own])
