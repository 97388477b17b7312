"""How an event ends: its old levels come back, by a revert or by themselves, or somebody approves the new ones.

If the levels came back because the machine changed, the event of the code goes on: the machine hides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.history_events import EventState
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import ApprovedLevel
from perfgate.history.event_panels import MovedSeries

#: A machine explains an event if its facts changed with this share of the series that moved.
MACHINE_SHARE = 0.75
#: An event is the end of others if this share of its changes brings old levels back.
_BACK = 0.75
#: Facts of the machine that changed: name, before, after.
Facts: TypeAlias = tuple[tuple[str, str, str], ...]


class EventRange(Struct, frozen=True):
    """Where an event began, the facts that changed there, whether the machine explains it, and what hides it."""

    good: HistoryRun
    likely: HistoryRun
    bad: HistoryRun
    facts: Facts
    is_machine: bool
    hidden: Facts = ()


def with_hidden(moved: Sequence[Sequence[MovedSeries]], ranges: Sequence[EventRange]) -> list[EventRange]:
    """Return each event, those of the code with the facts of the machine that brought their old levels back."""
    known = {
        (id(one.series), one.change.likely.id): own.facts if own.is_machine else ()
        for changes, own in zip(moved, ranges, strict=True)
        for one in changes
    }
    found = []
    for changes, own in zip(moved, ranges, strict=True):
        worse = _worse(changes)
        facts = [
            known.get((id(one.series), back.likely.id), back.facts)
            for one in worse
            for back in one.series.changes
            if back.likely is one.change.went_away
        ]
        is_hidden = not own.is_machine and sum(map(bool, facts)) >= MACHINE_SHARE * len(worse)
        found.append(replace(own, hidden=tuple({fact: None for one in facts for fact in one if is_hidden})))
    return found


def ends(moved: Sequence[Sequence[MovedSeries]], ranges: Sequence[EventRange]) -> list[bool]:
    """Return for each event whether it only brings old levels back. Hiding an event does not end it."""
    back = {
        (id(one.series), one.change.went_away.id)
        for changes, own in zip(moved, ranges, strict=True)
        for one in changes
        if one.change.went_away is not None and not own.hidden
    }
    return [
        sum((id(one.series), one.change.likely.id) in back for one in changes) >= _BACK * len(changes)
        and not any(one.change.point.worse for one in changes)
        for changes in moved
    ]


def state_of(
    moved: Sequence[MovedSeries], own: EventRange, line: CommitLine | None,
    runs: Sequence[HistoryRun], commits: Mapping[str, float],
) -> tuple[EventState, HistoryRun | None, ApprovedLevel | None]:  # fmt: skip
    """Return the state of an event, the run in which its old levels came back, and its approval.

    `commits` are the places of the runs. If the machine hides the event, only a revert or an approval ends it.
    """
    changes = [one.change for one in _worse(moved)]
    left = [change for change in changes if change.went_away is None]
    back = max((change.went_away for change in changes if change.went_away), key=lambda run: run.time, default=None)
    if not left and back is not None:
        bad = line.place(own.bad.commit) if line else None
        if line is not None and bad is not None:
            # A revert of a commit of the range, as git and GitHub name it.
            reverts = tuple(f'Revert "{one.subject}"' for one in line.between(own.good.commit, own.bad.commit))
            later = line.between(own.bad.commit, (runs[-1] if own.hidden else back).commit)
            for at, commit in enumerate(later, bad + 1):
                if commit.subject.startswith(reverts):
                    first = next((run for run in runs if commits[run.id] >= at and run.time >= back.time), back)
                    return "reverted", first, None
        if not own.hidden:
            return "recovered", back, None
        left = changes
    decided = [change.approval for change in left if change.approval is not None]
    if len(decided) == len(left):
        return "approved", None, max(decided, key=lambda level: level.time)
    return "open", back if own.hidden else None, None


def _worse(moved: Sequence[MovedSeries]) -> Sequence[MovedSeries]:
    """Return the changes for the worse; all, if there is none."""
    return [one for one in moved if one.change.point.worse] or moved
