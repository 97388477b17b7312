"""Verdicts, and the report that contains them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from perfgate.core.baseline import KnownNoise, PooledRuns
from perfgate.core.calculations import Attribution, Calculation
from perfgate.core.causes import CauseReport
from perfgate.core.coverage import Coverage
from perfgate.core.details import FactChange, ReportDetails, WorkDifference
from perfgate.core.next_steps import NO_STEP, NextStep
from perfgate.core.runs import Fact, Location, Problem, Severity, SourceFile
from perfgate.core.wording import member_name, series_name, utf8_text

Outcome = Literal["pass", "fail", "undecided", "error", "skipped"]
#: The outcomes that do not block while the rule is in quarantine. Errors block.
QUARANTINED: tuple[Outcome, ...] = ("fail", "undecided")
#: Reasons of undecided answers that block even with `on_inconclusive: warn`: exit 0 promises to exclude `at_worst`.
BROKEN_PROMISES = ("cannot-exclude", "noise-unknown")
Better = Literal["lower", "higher", "neither"]
Comparator = Literal["under", "at most", "over", "at least"]
MissingBaseline = Literal["error", "warn", "skip"]
ChangeKind = Literal["removes", "loosens", "changes", "tightens", "adds"]


class Estimate(Struct, frozen=True):
    """The estimate of one side of a comparison, or of a value with a limit, in base units.

    `low` and `high` are one-sided bounds at the verdict's confidence; None if a bound does not exist. `n` is the number
    of values after warm-up in all runs, `n_effective` their effective sample size.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int | None
    n_effective: float | None
    runs: int


class RelativeChange(Struct, frozen=True):
    """new/base - 1 with its one-sided bounds: 0.031 is +3.1 %. None is an infinite bound."""

    estimate: float | None
    low: float | None
    high: float | None


class RunEstimate(Struct, frozen=True):
    """One run behind a verdict: its own estimate in base units, without its warm-up."""

    side: Literal["base", "new"]
    #: The run's name: a file of the new side, a stored run of the base.
    source: str
    estimate: float | None
    #: The number of values after warm-up, and of warm-up values.
    n: int
    dropped: int
    #: False if the warm-up did not end within a quarter of the run, which was then dropped.
    settled: bool = True


class Share(Struct, frozen=True):
    """A part of a failed metric, and its share of the metric's change.

    `base` and `new` are in base units, per value of the metric. `share` is the change of the part over the change of
    the metric: 1 is all of it, and a part with a negative share moved in the other direction. `low` and `high` are its
    one-sided bounds at the verdict's confidence; they do not include the uncertainty of the metric's own change.
    """

    #: The part: another metric, or the same metric of one member, a rank (and device).
    metric: str
    member: Mapping[str, str]
    base: float
    new: float
    share: float
    low: float
    high: float
    #: The larger part that contains it, if it is not a direct part of the metric.
    within: str | None = None


class Quarantine(Struct, frozen=True):
    """The quarantine of a rule: it does not block up to the day `until` (YYYY-MM-DD), because of its false alarms."""

    until: str
    reason: str
    #: True after that day: the rule blocks again.
    ended: bool


class Verdict(Struct, frozen=True):
    """The result of one clause of a rule for one metric, with everything that reports show."""

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    outcome: Outcome
    #: The reason as one stable word: `interval`, `exact`, `thin-tail`, `no-baseline`, `metric-absent`, ...
    reason: str
    severity: Severity
    #: The exit code of the command with this verdict alone: 0, 1, 2 or 3.
    exit_code: int
    kind: Literal["limit", "change"]
    unit: str | None
    message: str
    next_step: NextStep
    at: Location
    against: str | None = None
    #: The rank (and device) of the verdict, if it is about one of several.
    member: Mapping[str, str] = field(default_factory=dict)
    new: Estimate | None = None
    bound: float | None = None
    comparator: str | None = None
    #: The judged clause as written: `under 50 ms`, `within 5% of baseline`.
    asks: str = ""
    base: Estimate | None = None
    change: RelativeChange | None = None
    tolerance: float | None = None
    two_sided: bool = False
    better: Better | None = None
    #: The smallest true change for the worse that is found to be beyond the tolerance, in 8 of 10 cases by default.
    minimum_detectable_change: float | None = None
    #: The change that exit code 0 excludes, relative and positive, and the largest one that the data do not exclude.
    at_worst: float | None = None
    not_excluded: float | None = None
    runs_needed: int | None = None
    #: For a limit on a percentile: the share of values beyond the bound, and the share that may be beyond it.
    share: Estimate | None = None
    allowed_share: float | None = None
    confidence: float = 0.95
    #: True if the metric is probably worse, without proof: the verdict is undecided, or fails if the rule is strict.
    suspect: bool = False
    improved: bool = False
    #: True if the notes say why the measurements may be doubted; reports show them for a pass, too.
    doubtful: bool = False
    #: The person who allowed the change in advance, if it is beyond the tolerance of the rule.
    allowed_by: str | None = None
    #: The counts of work that differ; those that grew come first.
    work: tuple[WorkDifference, ...] = ()
    notes: tuple[str, ...] = ()
    #: The unit of the quantities in the rule, for display.
    shown_unit: str | None = None
    #: The reason for the rule, as its author gave it.
    why: str | None = None
    #: The runs behind the numbers, base runs first.
    runs: tuple[RunEstimate, ...] = ()
    #: The parts of the metric that explain its change, the largest share first.
    explained_by: tuple[Share, ...] = ()
    #: The stored report of the verdict, if several were merged.
    source: str | None = None
    #: The known noise between runs; None if the runs themselves had to show it.
    noise: KnownNoise | None = None
    #: The person or team that looks after the rule.
    owner: str | None = None
    quarantine: Quarantine | None = None
    #: The remembered runs of a branch that were judged, too.
    pooled: PooledRuns | None = None
    #: The effects of code and environment, if old and new of both were measured.
    attribution: Attribution | None = None
    #: The arithmetic of the outcome; None for exact values, and if nothing was judged.
    calculation: Calculation | None = None

    @property
    def is_quarantined(self) -> bool:
        """True if it failed or is undecided, and the quarantine of its rule has not ended."""
        return self.quarantine is not None and not self.quarantine.ended and self.outcome in QUARANTINED


def verdict_ids(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the name of each verdict, by which it is distinguished from the others; it is the same in the next check.

    A name is the rule, and before it `source`, if any. If the rule lacks the metric or the clause, both follow, and the
    rank if names are else equal. The text is escaped as a stored report has it, so that labels are in the same order.
    """
    names = list(map(_name, verdicts))
    several = {name for name, count in Counter(names).items() if count > 1}
    return tuple(
        f"{name} on {member_name(_storable(verdict.member))}" if name in several and verdict.member else name
        for name, verdict in zip(names, verdicts, strict=True)
    )


def _name(verdict: Verdict) -> str:
    rule, asks = utf8_text(verdict.rule), utf8_text(verdict.asks)
    subject = series_name(utf8_text(verdict.metric), _storable(verdict.labels))
    says_all = subject in rule and rule.endswith(asks)
    name = rule if says_all else f"{rule}: {subject} {asks}".rstrip()
    return name if verdict.source is None else f"{utf8_text(verdict.source)}: {name}"


def _storable(labels: Mapping[str, str]) -> dict[str, str]:
    return {utf8_text(name): utf8_text(value) for name, value in labels.items()}


class PolicyChange(Struct, frozen=True):
    """One difference between the rules or baselines of the working tree ("own") and those that decided."""

    kind: ChangeKind
    #: The name of the rule on each side; None if a side does not have it, or the difference is not in a rule.
    rule: str | None
    own_rule: str | None
    message: str
    at: Location
    #: The effect of the difference on the judged runs; empty if nothing was judged.
    effect: str = ""


class Policy(Struct, frozen=True):
    """The rules and baselines that decided a report."""

    ref: str | None
    rules_sha256: str
    baselines_sha256: str
    #: With a ref: the differences of the working tree from it, and the outcome by the rules of the working tree.
    changes: tuple[PolicyChange, ...] = ()
    own_outcome: Outcome | None = None
    #: The commit of the ref, 40 or 64 hexadecimal digits.
    commit: str | None = None


class MeanChange(Struct, frozen=True):
    """The geometric mean of new/base over all verdicts in one unit, less 1: 0.031 is +3.1 %."""

    unit: str
    verdicts: int
    change: float


#: The largest number of changes without a rule in a report.
MOST_UNRULED = 5


class UnruledChange(Struct, frozen=True):
    """A metric that changed and that no rule names: its usual value on both sides in base units, the mean over ranks.

    `change` is new/base - 1. `share` is its part of the time of all steps; None for other units than time.
    """

    metric: str
    labels: Mapping[str, str]
    unit: str
    base: float
    new: float
    change: float
    share: float | None


#: Worst first: the order of reports.
OUTCOMES: tuple[Outcome, ...] = ("fail", "error", "undecided", "skipped", "pass")


class Report(Struct, frozen=True):
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
    #: The judged suite; empty if no rules could be read.
    suite: str = ""
    #: The level of the base runs, `SUITE/ENVIRONMENT/LEVEL`, or None.
    baseline: str | None = None
    #: The step that accepts the whole result, from the next steps of the verdicts.
    accept: NextStep = NO_STEP
    #: The runs behind the verdicts, for reports that draw them.
    details: ReportDetails = field(default_factory=ReportDetails)
    #: For a comparison without rules: the mean change of its metrics, by unit.
    geometric_means: tuple[MeanChange, ...] = ()
    #: The largest changes that no rule looks at, and the number of all of them.
    unruled: tuple[UnruledChange, ...] = ()
    unruled_count: int = 0
    #: Identity facts of the machine that neither the new runs nor the base have.
    unknown_facts: tuple[str, ...] = ()
    #: The facts that differ between base and new runs. They decide nothing.
    fact_changes: tuple[FactChange, ...] = ()
    #: For a comparison of traces: what changed between the two sides.
    causes: CauseReport | None = None
    #: True for a comparison of files with copies of themselves: nothing was judged.
    identical: bool = False
    #: How many numbers of the judged files were read; None if that was not asked, or no file was read.
    coverage: Coverage | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The number of verdicts with each outcome; outcomes that did not occur are left out."""
        found = [verdict.outcome for verdict in self.verdicts]
        return {outcome: found.count(outcome) for outcome in OUTCOMES if outcome in found}
