"""How an event ends: its old levels come back, by a revert or by themselves, or somebody approves the new ones.

Levels that came back because the machine changed end no event of the code: the machine hides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

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
    """Where an event began, the facts that changed there, and whether the machine explains it."""

    good: HistoryRun
    likely: HistoryRun
    bad: HistoryRun
    facts: Facts
    is_machine: bool


def hidden_by(moved: Sequence[Sequence[MovedSeries]], ranges: Sequence[EventRange]) -> list[Facts]:
    """Return for each event of the code the facts of the machine that brought its old levels back, if they did."""
    known = {
        (id(one.series), one.change.likely.id): own
        for changes, own in zip(moved, ranges, strict=True)
        for one in changes
    }

    def facts_of(one: MovedSeries) -> Facts:
        back = next((later for later in one.series.changes if later.likely is one.change.went_away), None)
        end = known.get((id(one.series), back.likely.id)) if back else None
        return () if back is None else back.facts if end is None else end.facts if end.is_machine else ()

    found: list[Facts] = []
    for changes, own in zip(moved, ranges, strict=True):
        facts = [facts_of(one) for one in _worse(changes)]
        is_hidden = not own.is_machine and sum(map(bool, facts)) >= MACHINE_SHARE * len(facts)
        found.append(tuple(dict.fromkeys(fact for one in facts for fact in one)) if is_hidden else ())
    return found


def ends(moved: Sequence[Sequence[MovedSeries]], hidden: Sequence[Facts]) -> list[bool]:
    """Return for each event whether it only brings old levels back. What hides an event does not end it."""
    back = {
        (id(one.series), one.change.went_away.id)
        for changes, facts in zip(moved, hidden, strict=True)
        for one in changes
        if one.change.went_away is not None and not facts
    }
    return [
        sum((id(one.series), one.change.likely.id) in back for one in changes) >= _BACK * len(changes)
        and not any(one.change.point.worse for one in changes)
        for changes in moved
    ]


def state_of(
    moved: Sequence[MovedSeries], own: EventRange, line: CommitLine | None, hidden: Sequence[tuple[float, HistoryRun]]
) -> tuple[EventState, HistoryRun | None, ApprovedLevel | None]:
    """Return the state of an event, the run in which its old levels came back, and its approval.

    `hidden`: the runs with the places of their commits, if the machine brought the levels back. Then only a revert or
    an approval ends the event.
    """
    changes = [one.change for one in _worse(moved)]
    left = [change for change in changes if change.went_away is None]
    back = max((change.went_away for change in changes if change.went_away), key=lambda run: run.time, default=None)
    if not left and back is not None:
        revert = _revert(line, own, hidden[-1][1] if hidden else back)
        if revert is not None:
            return "reverted", next((run for at, run in hidden if at >= revert and run.time >= back.time), back), None
        if not hidden:
            return "recovered", back, None
        left = changes
    decided = [change.approval for change in left if change.approval is not None]
    if len(decided) == len(left):
        return "approved", None, max(decided, key=lambda level: level.time)
    return "open", back if hidden else None, None


def _worse(moved: Sequence[MovedSeries]) -> Sequence[MovedSeries]:
    """Return the changes for the worse; all, if there is none."""
    return [one for one in moved if one.change.point.worse] or moved


def _revert(line: CommitLine | None, own: EventRange, last: HistoryRun) -> int | None:
    """Return the place of a commit up to `last` that reverts one of the range, as git and GitHub name it."""
    bad = line.place(own.bad.commit) if line else None
    if line is None or bad is None:
        return None
    subjects = tuple(f'Revert "{commit.subject}"' for commit in line.between(own.good.commit, own.bad.commit))
    later = line.between(own.bad.commit, last.commit)
    return next((at for at, commit in enumerate(later, bad + 1) if commit.subject.startswith(subjects)), None)
