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
    """A check with the answers of its rules, or evidence about checks: what showed the truth, and why, in words.

    `commits` have all their digits; evidence without commits is about the newest reds since the last green. `metrics`
    are names or globs, empty for all. `environment` is its folder's name; in evidence, empty for all. `time` (UTC,
    `YYYY-MM-DDTHH:MM:SSZ`) and `id`, the same for the same check or evidence, are given when it is recorded.
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
