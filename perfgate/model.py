"""The domain types: what was measured, what was found wrong with it, and what was decided.

Every type is frozen, and numbers are in base units (`s`, `B`, `1`, `1/s`, `B/s`, `FLOP`, `FLOP/s`). Nothing here
reads, computes or prints. The types of the rule language are in `perfgate.rules.sentence` and
`perfgate.rules.ruleset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from perfgate.evidence import Evidence

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]
    Steps = npt.NDArray[np.int64]
    Array = TypeVar("Array", bound=npt.NDArray[Any])

Outcome = Literal["pass", "fail", "inconclusive", "suspect", "error", "skipped"]
Severity = Literal["error", "warning"]
Better = Literal["lower", "higher", "neither"]
Kind = Literal["samples", "aggregate", "value"]
ChangeKind = Literal["removes", "loosens", "changes", "tightens", "adds"]
Fact = str | int | float | bool

#: The labels that tell the members of one metric apart: processes of a job, and devices of a process.
MEMBER_LABELS = ("rank", "device")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; lines and columns count from 1, as editors show them."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The name of a series: a metric and its labels, sorted by label name."""

    metric: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, metric: str, /, **labels: str) -> Key:
        """A key from keyword labels: `Key.of("forward", rank="0")`."""
        return cls(metric, tuple(sorted(labels.items())))

    def label(self, name: str) -> str | None:
        """The value of one label, or None."""
        return dict(self.labels).get(name)

    def without_members(self) -> Key:
        """The same key without rank and device: what one verdict speaks about."""
        return Key(self.metric, tuple(pair for pair in self.labels if pair[0] not in MEMBER_LABELS))

    def member(self) -> tuple[tuple[str, str], ...]:
        """Only rank and device: which member of the metric this is."""
        return tuple(pair for pair in self.labels if pair[0] in MEMBER_LABELS)

    def __str__(self) -> str:
        return self.metric + show_labels(self.labels)


def show_labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Labels as the rule language writes them: `{rank="0"}`, or nothing when there are none."""
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with an input, a rule or a baseline; reading goes on after it.

    `error` means that values may be missing or wrong. With `key`, only that series is concerned.
    """

    severity: Severity
    message: str
    at: Location
    key: Key | None = None
    #: The line concerned with the word underlined, where the file is short enough to show.
    excerpt: str | None = None

    def __str__(self) -> str:
        text = f"{self.at}: {self.severity}: {self.message}"
        return text if self.excerpt is None else f"{text}\n{self.excerpt}"


@dataclass(frozen=True, slots=True)
class Series:
    """What one run holds of one metric, in order of time.

    * samples: `values` (n,) float64, read-only; `steps` (n,) int64 says in which step each value arose.
    * value: one number in `values`, shape (1,).
    * aggregate: `aggregate` holds the statistics that the source printed (`mean`, `count`, `total`, ...).
    """

    key: Key
    unit: str
    kind: Kind
    values: Values
    steps: Steps | None = None
    aggregate: Mapping[str, float] = field(default_factory=dict)
    #: The name that the source printed, where `key.metric` is an alias of it.
    printed_as: str | None = None
    #: How many values the run had, where `values` is a thinned selection of them (large baselines).
    thinned_from: int | None = None
    #: Of collectives, the process group of each value: what ranks are matched by.
    groups: tuple[str, ...] = ()


def read_only(array: Array) -> Array:
    """The same array, which nobody can change any more."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that was read: its name as the user gave it, and the SHA-256 of its bytes."""

    path: str
    format: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Run:
    """One execution: the unit of replication."""

    source: str
    format: str
    series: tuple[Series, ...]
    problems: tuple[Problem, ...] = ()
    environment: Mapping[str, Fact] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    commit: str | None = None
    #: Which run of its file this is, from 1, where a file holds several.
    part: int | None = None
    #: What gave the format away: "found `time (ms) |` on line 2022".
    recognised_by: str | None = None
    #: Whether it speaks of some metrics alone: a stored run whose others were adopted from elsewhere.
    partial: bool = False

    @property
    def name(self) -> str:
        """The source, and the number of the run where a file holds several."""
        return self.source if self.part is None else f"{self.source} (run {self.part})"


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series as `inspect` shows it: statistics over all its values, warm-up included, in base units."""

    key: Key
    unit: str
    kind: Kind
    n: int | None
    statistics: Mapping[str, float]
    #: Counts of values in equal bins from the smallest value to p99 and beyond.
    histogram: tuple[int, ...] = ()
    printed_as: str | None = None
    values: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """A part of a time, in seconds; `share` is of the whole, `count` how often it occurred."""

    name: str
    seconds: float
    share: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that did most of its own in one step, and the seconds that all others waited in collectives."""

    step: int
    rank: str
    own: float
    waited: float | None


@dataclass(frozen=True, slots=True)
class TraceView:
    """What `inspect` shows of a trace beside its series."""

    #: How a step was divided, `corrected` or `tensorboard`; None without steps.
    mode: str | None
    #: How many steps of how many ranks `parts` are the mean of; the last one is the whole step.
    steps: int
    ranks: int
    parts: tuple[Portion, ...]
    #: The names that took most time, and of how many they are, by family: `kernel`, `op`, `range`.
    top: Mapping[str, tuple[tuple[Portion, ...], int]]
    #: The steps in which others waited longest.
    stragglers: tuple[Straggler, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as `inspect` shows it."""

    source: str
    part: int | None
    format: str
    recognised_by: str | None
    environment: Mapping[str, Fact]
    series: tuple[SeriesSummary, ...]
    problems: tuple[Problem, ...]
    trace: TraceView | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """A decision made beforehand: one commit may be so much worse than the baseline in a metric."""

    #: A metric's name, or a glob.
    metric: str
    #: The tolerance that stands in for the rule's, as a share: 0.22 is 22 %.
    up_to: float
    by: str
    reason: str
    #: The last day on which it holds.
    expires: date


@dataclass(frozen=True, slots=True)
class CalibratedPrior:
    """The run-to-run noise of one metric, measured on `runs` unchanged runs of an environment.

    `s0` is a relative standard deviation, believed as much as `d0` runs. It holds for one statistic, and for one choice
    of the rank that speaks for a run.
    """

    key: Key
    statistic: str
    rank: str
    s0: float
    d0: float
    runs: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The stored runs that new ones are compared with, oldest first; empty where there are none."""

    #: `SUITE/ENVIRONMENT/LEVEL`, or None.
    place: str | None = None
    runs: tuple[Run, ...] = ()
    #: The first runs after the anchor was last reset: what a chain of small steps is held against.
    anchor: tuple[Run, ...] = ()
    #: Why there are no runs, in words, and the command that makes some.
    missing: str | None = None
    next_step: str = ""
    #: Identity facts that neither side knows, so that nobody can tell whether the machines were the same.
    unknown_facts: tuple[str, ...] = ()
    #: How `runs` were made in pairs with the new runs, the i-th with the i-th: `in-turn`, ...; None of stored runs.
    pairing: str | None = None
    #: Calibrated run-to-run noise; a metric that is not there has the default.
    priors: tuple[CalibratedPrior, ...] = ()
    #: What the measured commit was allowed to be worse in.
    allowances: tuple[Allowance, ...] = ()
    #: Older runs that nothing is compared with, oldest first: they are shown as history.
    past: tuple[Run, ...] = ()


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
class Change:
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
    change: Change | None = None
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
class PlanPoint:
    """The smallest change for the worse that `new_runs` with `steps` times the steps would show, relative."""

    new_runs: int
    steps: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one clause of a rule can see with the stored runs, and what would let it see more.

    Of a change: the noise of one run as relative standard deviations, from run to run and inside the run, the smallest
    change that `new_runs` show, and the runs with which an unchanged program passes. Of a percentile limit: the
    independent values that a pass takes, and those that the newest stored run holds.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    #: The level that was planned with, `SUITE/ENVIRONMENT/LEVEL`.
    baseline: str | None
    power: float
    confidence: float
    tolerance: float | None = None
    base_runs: int | None = None
    new_runs: int | None = None
    noise_between: float | None = None
    noise_within: float | None = None
    calibrated: bool = False
    detectable: float | None = None
    runs_needed: int | None = None
    values_needed: int | None = None
    values_held: float | None = None
    advice: str = ""
    #: Why there is no plan.
    trouble: str | None = None
    points: tuple[PlanPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether one clause of a rule would fail: what `perfgate selftest` shows on the user's own runs.

    `proven`: it fails at `fails_at`; `by-choice`: its author wrote that it does not block here; `unable`: no change
    makes it fail; `blocked`: what is unchanged does not pass already.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    state: Literal["proven", "by-choice", "unable", "blocked"]
    #: What the unchanged runs alone would make `check` exit with.
    exit_code: int
    reason: str
    unit: str | None = None
    shown_unit: str | None = None
    #: The smallest change that was tried and failed, relative to the base; of a limit, the value.
    fails_at: float | None = None
    kind: Literal["limit", "change"] = "limit"
    tolerance: float | None = None
    #: Whether its absence would be noticed.
    misses: bool = True


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


@dataclass(frozen=True, slots=True)
class Report:
    """One decision. Every report that a user sees is a rendering of this value."""

    outcome: Outcome
    exit_code: int
    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    inputs: tuple[SourceFile, ...]
    environment: Mapping[str, Fact]
    policy: Policy
    suite: str = "default"
    #: The level that new runs were compared with, `SUITE/ENVIRONMENT/LEVEL`, or None.
    baseline: str | None = None
    #: The command that would approve what was seen.
    approve_command: str | None = None
    #: The runs behind the verdicts, for reports that draw them.
    evidence: Evidence = field(default_factory=Evidence)
    #: Of a comparison without rules: how its metrics changed together, by unit.
    geometric_means: tuple[MeanChange, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts had each outcome; outcomes that did not occur are left out."""
        found = [verdict.outcome for verdict in self.verdicts]
        return {outcome: found.count(outcome) for outcome in OUTCOMES if outcome in found}


#: Worst first: the order of reports.
OUTCOMES: tuple[Outcome, ...] = ("fail", "error", "suspect", "inconclusive", "skipped", "pass")
