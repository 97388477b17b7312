"""Events on main: changes as people handle them, the answers of rules, and how often those were wrong.

An event is one change: all metrics that moved in the same commits for the same reason. `perfgate.history.events` finds
events; pages, exports and tickets show them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel

#: The explanation of an event: a commit of its range, or a changed fact of the machine.
EventKind: TypeAlias = Literal["code", "machine"]
#: An event is open until its metrics came back, by themselves or by a revert, or until the new level was approved.
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

    `id` stays the same when the event is found again after more runs. `changes` has the largest change first.
    """

    id: str
    kind: EventKind
    state: EventState
    last_good: HistoryRun
    first_bad: HistoryRun
    #: The most likely first run of the new level.
    likely: HistoryRun
    #: The number of commits in the range; None without a repository that has them.
    commits: int | None
    changes: tuple[EventChange, ...]
    #: The facts of the machine that changed with the level: name, before, after.
    facts: tuple[tuple[str, str, str], ...] = ()
    #: The causes in the call trees of stored runs, as sentences, the largest first.
    causes: tuple[str, ...] = ()
    #: The owners that the rules name for its metrics.
    owners: tuple[str, ...] = ()
    #: For each rule that names its metrics, a sentence with how often that rule was wrong.
    rules: tuple[str, ...] = ()
    #: The run in which its old levels came back, and the approval, if there was one.
    ended: HistoryRun | None = None
    approval: ApprovedLevel | None = None
    #: The facts of the machine that brought the old levels back: the change is still in the code, and open.
    hidden: tuple[tuple[str, str, str], ...] = ()


#: `open` means undecided, an error, or that nothing was judged.
LedgerAnswer: TypeAlias = Literal["red", "green", "open"]
#: An observation that proves answers right or wrong; the table in `baselines/ledger.py` says what each one shows.
EvidenceKind: TypeAlias = Literal["found", "cleared", "not-reproduced", "approved", "reverted", "false-alarm", "event"]


class RuleAnswer(Struct, frozen=True, array_like=True):
    """The answer of a rule in a check, and the metrics that it judged."""

    rule: str
    answer: LedgerAnswer
    metrics: list[str]


class LedgerEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the ledger: a check with the answers of its rules, or evidence about checks with its reason.

    `commits` have all their digits; evidence without commits is about the newest reds since the last green. `metrics`
    are names or globs, empty for all. `environment` is the name of its folder; in evidence, empty for all. `time` (UTC,
    `YYYY-MM-DDTHH:MM:SSZ`) and `id` are set when the entry is recorded; equal entries have equal ids.
    """

    kind: Literal["check"] | EvidenceKind
    commits: list[str] = []
    metrics: list[str] = []
    environment: str = ""
    reason: str = ""
    answers: list[RuleAnswer] = []
    time: str = ""
    id: str = ""


class RuleRecord(Struct, frozen=True):
    """How often a rule was right and wrong; `highest` is the one-sided 95 % bound of the share of wrong answers.

    `unknown` are the reds and greens that nothing proves right or wrong: no rate counts them.
    """

    right: int
    wrong_reds: int
    wrong_greens: int
    unknown: int
    highest: float

    @property
    def wrong(self) -> int:
        """The number of wrong answers."""
        return self.wrong_reds + self.wrong_greens

    @property
    def known(self) -> int:
        """The number of answers that something proves right or wrong."""
        return self.right + self.wrong
