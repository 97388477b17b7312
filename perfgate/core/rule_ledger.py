"""The error ledger: what rules answered on main, what later showed the truth, and how often each rule was wrong."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

#: `open` is no answer: undecided, an error, or nothing judged.
LedgerAnswer: TypeAlias = Literal["red", "green", "open"]
#: What showed the truth; `baselines.ledger_truth` says what each of them proves.
EvidenceKind: TypeAlias = Literal["found", "cleared", "not-reproduced", "approved", "reverted", "false-alarm", "event"]


class RuleAnswer(Struct, frozen=True, array_like=True):
    """What a rule answered in a check, and the metrics that it was asked about."""

    rule: str
    answer: LedgerAnswer
    metrics: list[str]


class LedgerEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A check with the answers of its rules, or evidence as `LaterEvidence` describes it.

    `id` is the same for the same check or evidence.
    """

    id: str
    #: UTC, `YYYY-MM-DDTHH:MM:SSZ`.
    time: str
    kind: Literal["check"] | EvidenceKind
    environment: str = ""
    commits: list[str] = []
    answers: list[RuleAnswer] = []
    metrics: list[str] = []
    reason: str = ""


class LaterEvidence(Struct, frozen=True):
    """EvidenceKind to record: what showed the truth about which checks, and why, in words.

    `commits` have all their digits; none are the newest reds since the last green. `metrics` are names or globs; none
    are all. `environment` is the name of its folder; empty is each.
    """

    kind: EvidenceKind
    commits: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    environment: str = ""
    reason: str = ""


class RuleRecord(Struct, frozen=True):
    """How often a rule was right and wrong; `highest` is the one-sided 95 % bound of the share of wrong answers.

    `unknown` are the reds and greens of which nothing shows whether they were right: they are in no rate.
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
        """The number of answers of which something shows whether they were right."""
        return self.right + self.wrong
