"""The sentences of the ticket of an event that other pages do not have, as plain text."""

from __future__ import annotations

from perfgate.core.history_events import HistoryEvent
from perfgate.core.wording import listed
from perfgate.words import event_words

FOOT = (
    "perfgate keeps this text up to date, and closes the ticket when the change went away, was reverted or was "
    "approved. If you close it, it stays closed."
)


def news(action: str, event: HistoryEvent | None) -> str:
    """Return what a comment says about what was done to a ticket; empty if the ticket says enough."""
    if event is None:
        return "the history does not show this change any more"
    if action == "reopen":
        return "the change is back"
    return "; ".join(event_words.end(event)) if action == "close" else ""


def next_step(event: HistoryEvent) -> tuple[str, str | None]:
    """Return what to do about an open event, and its command."""
    if event.kind == "machine":
        facts = listed([f"{name} from {old} to {new}" for name, old, new in event.facts])
        return "look at the machine, not at the code" + (f": {facts}" if facts else ""), None
    search = event_words.search(event)
    return ("find the commit" if search else "revert the commit, or approve the new level if it is intended"), search
