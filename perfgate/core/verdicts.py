"""What was decided, and everything that a report shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfgate.core.details import ReportDetails
from perfgate.core.runs import Fact, Location, Problem, Severity, SourceFile

Outcome = Literal["pass", "fail", "inconclusive", "suspect", "error", "skipped"]
Better = Literal["lower", "higher", "neither"]
Comparator = Literal["under", "at most", "over", "at least"]
MissingBaseline = Literal["error", "warn", "skip"]
ChangeKind = Literal["removes", "loosens", "changes", "tightens", "adds"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One side of a comparison, or what a limit is held against, in base units.

    `low` and `high` are one-sided bounds at the verdict's confidence; None where a bound does not exist.
    `n` counts the values after warm-up over all runs, `n_effective` what they are worth when they are correlated.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int | None
    n_effective: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """new/base - 1 with its one-sided bounds: 0.031 is +3.1 %. None where a bound is infinite."""

    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """One run behind a verdict: its own estimate in base units, after its warm-up was dropped."""

    side: Literal["base", "new"]
    #: The run's name: a file of the new side, a stored run of the base.
    source: str
    estimate: float | None
    #: How many values are left after warm-up, and how many were dropped as warm-up.
    n: int
    dropped: int
    #: Whether the warm-up ended; where it did not, a quarter of the run was dropped.
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a metric that failed, and how much of the metric's change it accounts for.

    `base` and `new` are in base units, per value of the metric. `share` is the part's difference over the metric's:
    1 is all of it, below 0 it went the other way. `low` and `high` are its one-sided bounds at the verdict's
    confidence, with the metric's own difference taken as found.
    """

    #: The part: another metric, or the same one where `member` tells which rank (and device).
    metric: str
    member: Mapping[str, str]
    base: float
    new: float
    share: float
    low: float
    high: float
    #: The larger part that it is a part of, where it is no part of the metric itself.
    within: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of one metric, with everything that any report shows of it."""

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    outcome: Outcome
    #: Why: `interval`, `exact`, `thin-tail`, `no-baseline`, `metric-absent`, ... (one word, stable).
    reason: str
    severity: Severity
    #: What the verdict alone would make the command exit with: 0, 1, 2 or 3.
    exit_code: int
    kind: Literal["limit", "change"]
    unit: str | None
    message: str
    next_step: str
    at: Location
    against: str | None = None
    #: The rank (and device) that the verdict speaks of, where it is one of several.
    member: Mapping[str, str] = field(default_factory=dict)
    new: Estimate | None = None
    bound: float | None = None
    comparator: str | None = None
    #: The clause that was judged, in the author's words: `under 50 ms`, `within 5% of baseline`.
    asks: str = ""
    base: Estimate | None = None
    change: RelativeChange | None = None
    tolerance: float | None = None
    two_sided: bool = False
    better: Better | None = None
    minimum_detectable_change: float | None = None
    runs_needed: int | None = None
    share: Estimate | None = None
    allowed_share: float | None = None
    confidence: float = 0.95
    suspect: bool = False
    improved: bool = False
    #: Who allowed the change beforehand, where the rule's own tolerance would not have.
    allowed_by: str | None = None
    notes: tuple[str, ...] = ()
    #: The unit in which the rule's author wrote quantities, for display.
    shown_unit: str | None = None
    why: str | None = None
    #: The runs that the numbers rest on, those of the base first.
    runs: tuple[RunEstimate, ...] = ()
    #: The parts of the metric that account for its change, the largest share first.
    explained_by: tuple[Share, ...] = ()
    #: The stored report that the verdict comes from, where several were merged.
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """How the rules or baselines of the working tree differ from those that decided."""

    kind: ChangeKind
    #: The rule that differs as each side names it; None where a side has none, and for what is no rule.
    rule: str | None
    own_rule: str | None
    message: str
    at: Location
    #: What the difference means for the runs that were judged; empty where nothing was.
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which rules and baselines a report was decided by."""

    ref: str | None
    rules_sha256: str
    baselines_sha256: str
    #: With a ref: how the working tree differs from it, and what it would have decided by itself.
    changes: tuple[PolicyChange, ...] = ()
    own_outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class MeanChange:
    """The geometric mean of new/base over all verdicts in one unit, less 1: 0.031 is +3.1 %."""

    unit: str
    verdicts: int
    change: float


#: Worst first: the order of reports.
OUTCOMES: tuple[Outcome, ...] = ("fail", "error", "suspect", "inconclusive", "skipped", "pass")


@dataclass(frozen=True, slots=True)
class Report:
    """One decision. Every report that a user sees is a rendering of this value.

    `judge.report.with_outcome` gives it its outcome and exit code; until then it is an internal error.
    """

    outcome: Outcome = "error"
    exit_code: int = 4
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    inputs: tuple[SourceFile, ...] = ()
    environment: Mapping[str, Fact] = field(default_factory=dict)
    policy: Policy = field(default_factory=lambda: Policy(None, "", ""))
    suite: str = "default"
    #: The level that new runs were compared with, `SUITE/ENVIRONMENT/LEVEL`, or None.
    baseline: str | None = None
    #: The command that would approve what was seen.
    approve_command: str | None = None
    #: The runs behind the verdicts, for reports that draw them.
    evidence: ReportDetails = field(default_factory=ReportDetails)
    #: Of a comparison without rules: how its metrics changed together, by unit.
    geometric_means: tuple[MeanChange, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts had each outcome; outcomes that did not occur are left out."""
        found = [verdict.outcome for verdict in self.verdicts]
        return {outcome: found.count(outcome) for outcome in OUTCOMES if outcome in found}
