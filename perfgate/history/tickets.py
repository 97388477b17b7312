"""The steps for the tickets of a history: one issue for each event that made something worse.

The first line of a ticket is a hidden comment, the marker. It has the state of the event as perfgate wrote it last. So
perfgate knows what a person did: if the marker says `open` but the ticket is closed, a person closed it. Then perfgate
does not change it any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from perfgate.core.history_events import EventChange, HistoryEvent

_MARKER = re.compile(
    r"<!-- perfgate event: (?P<event>[\w.-]{1,99}) (?P<state>[a-z]+) (?P<size>[-+.e\d]{1,30}) "
    r"(?P<rest>[0-9a-f]{8}) (?P<suites>[0-9a-f,]+) -->\r?\n",
    re.ASCII,
)
TicketAction: TypeAlias = Literal["open", "update", "close", "reopen"]


class Told(Struct, frozen=True):
    """What a ticket says about its event, as its marker stores it."""

    event: str
    #: The state of the event, or `gone` if the history no longer had it.
    state: str
    #: The worst change, and a hash of the kind, runs, commits, series, facts, causes and owners.
    size: float
    rest: str
    #: A hash of each suite of the event, joined by commas.
    suites: str

    @classmethod
    def of(cls, event: HistoryEvent) -> Told:
        """Return the marker of an event as it is now."""
        runs = [run.label for run in (event.last_good, event.first_bad, event.likely)]
        series = sorted(f"{one.suite}/{one.environment}/{one.name}" for one in event.changes)
        # `*`: an event that nothing hides has the hash that tickets had before there was `hidden`
        rest = repr((event.kind, runs, event.commits, series, event.facts, event.causes, event.owners, *event.hidden))
        suites = ",".join(sorted({_hash(one.suite) for one in event.changes}))
        return cls(event.id, event.state, _worst(event).change, _hash(rest), suites)

    @property
    def marker(self) -> str:
        """The marker, the first line of the ticket."""
        return f"<!-- perfgate event: {self.event} {self.state} {self.size:.6g} {self.rest} {self.suites} -->\n"


class Ticket(Struct, frozen=True):
    """An issue that perfgate opened, with its text below the first line."""

    number: int
    is_open: bool
    url: str
    told: Told
    text: str
    #: True if a person closed it as not planned: it was a false alarm.
    is_false: bool = False


class TicketStep(Struct, frozen=True):
    """One thing to do. `event` is None if the ticket is a duplicate, or if the history no longer has the event."""

    action: TicketAction
    event: HistoryEvent | None
    ticket: Ticket | None = None
    #: The number of the ticket that this one is a duplicate of.
    first: int | None = None


class SearchAnswer(Struct, frozen=True):
    """The part of an answer of `bisect --json` that a ticket shows."""

    message: str
    next_step: str


def answer_of(data: bytes) -> SearchAnswer | None:
    """Return the answer of `bisect --json` in a file; None if the file is something else."""
    try:
        return msgspec.json.decode(data, type=SearchAnswer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def ticket_of(number: int, is_open: bool, url: str, body: str, reason: str | None = None) -> Ticket | None:
    """Return an issue as a ticket; None if perfgate did not write its body. `reason`: why it was closed."""
    found = _MARKER.match(body)
    if found is None:
        return None
    try:
        told = msgspec.convert(found.groupdict(), Told, strict=False)
    except msgspec.ValidationError:  # somebody changed it
        return None
    is_false = not is_open and told.state == "open" and reason == "not_planned"
    return Ticket(number, is_open, url, told, body[found.end() :], is_false)


def steps(
    events: Sequence[HistoryEvent], tickets: Sequence[Ticket], *, recent: Collection[str], suites: Collection[str]
) -> Iterator[TicketStep]:
    """Yield the steps, the duplicates first.

    `recent`: the ids of the newest runs; an event that began earlier gets no new ticket. `suites`: the suites whose
    events are all in `events`; if the event of a ticket about these suites is no longer there, the ticket is closed.
    """
    first: dict[str, Ticket] = {}  # by event: its oldest ticket
    for ticket in sorted(tickets, key=lambda one: one.number):
        known = first.setdefault(ticket.told.event, ticket)
        if known is not ticket and ticket.is_open:
            yield TicketStep("close", None, ticket, known.number)
    for event in events:
        own = first.pop(event.id, None)
        if (action := _action(event, own, recent)) is not None:
            yield TicketStep(action, event, own)
    whole = {_hash(suite) for suite in suites}
    for ticket in first.values():
        if ticket.is_open and ticket.told.state == "open" and whole.issuperset(ticket.told.suites.split(",")):
            yield TicketStep("close", None, ticket)


def _action(event: HistoryEvent, ticket: Ticket | None, recent: Collection[str]) -> TicketAction | None:
    """Return what to do with the ticket of an event; None to do nothing. Without a ticket, one may be opened.

    | the ticket says | the ticket is | the event is open | the event has ended |
    |---|---|---|---|
    | open | open | update, if something changed | close |
    | open | closed by a person | nothing | nothing |
    | another state | open again by a person | update | nothing |
    | another state | closed | reopen | nothing; if `gone`: close, which writes the end |
    """
    is_open, worst = event.state == "open", _worst(event)
    if ticket is None:
        return "open" if is_open and worst.worse and event.likely.id in recent else None
    if ticket.told.state == "gone" and not is_open and not ticket.is_open:
        return "close"  # the ticket was closed when its event was not found
    if ticket.told.state != "open":  # perfgate closed it; if it is open, a person opened it again
        if not is_open:
            return None
        return "update" if ticket.is_open else "reopen"
    if not ticket.is_open:
        return None
    if not is_open:
        return "close"
    # the size in the ticket may stay as long as it is in the confidence interval of now
    is_same = ticket.told.rest == Told.of(event).rest and worst.low <= ticket.told.size <= worst.high
    return None if is_same else "update"


def _worst(event: HistoryEvent) -> EventChange:
    """Return the largest change for the worse, or else the largest one: `changes` has the largest first."""
    return next((one for one in event.changes if one.worse), event.changes[0])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
