"""One change of main as people handle it: every metric that moved in the same commits for the same reason.

`perfgate.history.events` finds them; pages, exports and tickets show them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel

#: Whether the commits of the range or the machine explains an event.
EventKind: TypeAlias = Literal["code", "machine"]
#: An event is open until its metrics came back, by themselves or by a revert, or until its level was approved.
EventState: TypeAlias = Literal["open", "recovered", "reverted", "approved"]


class EventChange(Struct, frozen=True):
    """One series of an event: its levels in base units, and the change with its 95 % interval.

    `change` is after / before - 1. `worse` is None if the direction has no meaning.
    """

    suite: str
    environment: str
    name: SeriesName
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    worse: bool | None


class HistoryEvent(Struct, frozen=True):
    """A change of one or more series that began in one range of commits: after `last_good`, up to `first_bad`.

    `id` is the same whenever the event is found again, also after more runs. `changes` has the largest first.
    """

    id: str
    kind: EventKind
    state: EventState
    last_good: HistoryRun
    first_bad: HistoryRun
    #: The first run of the new level as far as the numbers tell.
    likely: HistoryRun
    #: The number of commits in the range; None without a repository.
    commits: int | None
    changes: tuple[EventChange, ...]
    #: The facts of the machine that changed with the level: name, before, after.
    facts: tuple[tuple[str, str, str], ...] = ()
    #: The causes in the call trees of stored runs, as sentences, the largest first.
    causes: tuple[str, ...] = ()
    #: The owners that the rules name for its metrics.
    owners: tuple[str, ...] = ()
    #: The rules that name its metrics, each with how often it was wrong, as sentences.
    rules: tuple[str, ...] = ()
    #: The run in which its old levels came back, and the approval, if there was one.
    ended: HistoryRun | None = None
    approval: ApprovedLevel | None = None
    #: The facts of the machine that brought the old levels back: the change is still in the code, and open.
    hidden: tuple[tuple[str, str, str], ...] = ()
