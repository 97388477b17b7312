"""The sentences about an event of the history, for the terminal, the page of trends and its ticket, as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural
from perfgate.words.history_words import approved, commits, interval

#: The most metrics that are named with their sizes.
_NAMED = 3
#: The end of every ticket.
FOOT = (
    "perfgate keeps this text up to date, and closes the ticket when the change went away, was reverted or was "
    "approved. If you close it, it stays closed."
)


def is_worse(event: HistoryEvent) -> bool:
    """Return whether a metric of an event became worse."""
    return any(change.worse for change in event.changes)


def is_open(event: HistoryEvent) -> bool:
    """Return whether an event made a metric worse, and is neither over nor approved."""
    return event.state == "open" and is_worse(event)


def in_order(event: HistoryEvent) -> list[EventChange]:
    """Return the changes, those for the worse first; both groups keep their order, the largest first."""
    return sorted(event.changes, key=lambda change: not change.worse)


def headline(event: HistoryEvent) -> str:
    """Return the event in one line: `forward median +7.1% and 11 more metrics since 3f2a1c9d01 (2 commits)`."""
    first, *others = in_order(event)
    more = f" and {plural(len(others), 'more metric')}" if others else ""
    what = f"{first.name} {format_change(first.change)}{more}"
    if event.kind == "machine":
        cause = _listed(event.facts) or "two runs of the same commit differ"
        return f"{what} since {event.likely.time[:10]}: the machine, {cause}"
    count = f" ({plural(event.commits, 'commit')})" if event.commits is not None and event.commits > 1 else ""
    return f"{what} since {event.first_bad.label}{count}"


def _listed(facts: Sequence[tuple[str, str, str]]) -> str:
    return listed([f"{name} from {old} to {new}" for name, old, new in facts])


def details(event: HistoryEvent, line: CommitLine | None) -> Iterator[str]:
    """Yield the sentences below the headline; `line` has the commits of the branch, with authors and subjects."""
    rows = in_order(event)
    shown = [f"{one.name} {interval(one)}" for one in rows[:_NAMED]]
    better = len([change for change in rows[_NAMED:] if change.worse is False])
    if better and is_worse(event):
        shown.append(f"{plural(better, 'metric')} became better")
    yield ", ".join(shown)
    yield where(event)
    yield from circumstances(event, line)
    if event.owners:
        yield f"owner: {listed(event.owners)}"
    yield from end(event)
    if command := search(event):
        yield f"find the commit: {command}"


def circumstances(event: HistoryEvent, line: CommitLine | None) -> Iterator[str]:
    """Yield the commits of an event, the facts of the machine that changed, too, its causes, and its rules."""
    yield where_it_began(event, line)
    if event.facts and event.kind == "code":
        yield f"the machine changed in these commits, too, and does not explain all of it: {_listed(event.facts)}"
    yield from (f"cause: {cause}" for cause in event.causes)
    yield from (f"rule {rule}" for rule in event.rules)


def where(event: HistoryEvent) -> str:
    """Return the suites and environments with their numbers of metrics."""
    places = Counter(f"{one.suite}/{one.environment}" for one in event.changes)
    return "in " + ", ".join(f"{name} ({plural(count, 'metric')})" for name, count in places.items())


def where_it_began(event: HistoryEvent, line: CommitLine | None) -> str:
    """Return the commits that an event may be in, the likeliest with author and subject.

    A change of the machine between two commits is in neither, so only its two runs are named.
    """
    good, bad = event.last_good, event.first_bad
    if event.kind == "machine" and good.commit is not None and bad.commit not in (None, good.commit):
        return f"since the run of commit {event.likely.label}; before it, {good.label} was measured"
    return commits(event, line)


def end(event: HistoryEvent) -> Iterator[str]:
    """Yield how an event ended."""
    if event.hidden and event.ended is not None:
        when = f"since {event.ended.label} on {event.ended.time[:10]}"
        yield f"the machine hides it {when}: {_listed(event.hidden)}; the code still has the change"
    elif event.ended is not None:
        yield f"{event.state} in {event.ended.label} on {event.ended.time[:10]}"
    if event.approval is not None:
        yield approved(event.approval)


def search(event: HistoryEvent) -> str | None:
    """Return the command that finds the commit of an open event; None if it is known, or the machine is the cause."""
    is_sought = is_open(event) and event.kind == "code" and event.commits != 1
    return f"perfgate bisect --event {event.id} -- COMMAND" if is_sought else None


def conclusion(events: Sequence[HistoryEvent]) -> str:
    """Return how many open events there are, and their metrics."""
    bad = [event for event in events if is_open(event)]
    if not bad:
        return "no change for the worse without an approval"
    metrics = {(one.suite, one.environment, one.name) for event in bad for one in event.changes if one.worse}
    return f"{plural(len(bad), 'change')} ({plural(len(metrics), 'metric')}) for the worse, and nobody approved it"


def news(action: str, event: HistoryEvent | None) -> str:
    """Return the comment about an action on a ticket; empty if the ticket says enough. None: the event is gone."""
    if event is None:  # a level of fewer than nine runs is an excursion, not a change (`stats/change_points.py`)
        return "the history shows no lasting change any more: the old level may be back after fewer than nine runs"
    if action == "reopen":
        return "; ".join(end(event)) or "the change is back"
    return "; ".join(end(event)) if action == "close" else ""


def next_step(event: HistoryEvent) -> tuple[str, str | None]:
    """Return what to do about an open event, and its command."""
    if event.kind == "machine":
        return "look at the machine, not at the code" + (f": {_listed(event.facts)}" if event.facts else ""), None
    command = search(event)
    return ("find the commit" if command else "revert the commit, or approve the new level if it is intended"), command
