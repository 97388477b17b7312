"""The answers of the judge as frozen values without words: one type each for limits, changes and exact work."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perfgate.core.baseline import Allowance, HostDifference, PooledRuns
from perfgate.core.calculations import Comparison
from perfgate.core.details import WorkDifference
from perfgate.core.verdicts import Outcome, Quarantine

#: How often the growing data may be judged: with one new run, and after each of two more if the answer is open.
LOOKS = 3
#: If the noise between runs is not calibrated, a pass needs this many runs on both sides together, to see some noise.
RUNS_FOR_A_PROMISE = 3
#: If the noise is not calibrated, this many base runs show it well enough to fail a single new run.
RUNS_THAT_SHOW_NOISE = 5
#: The amount that a doubt is about. `Doubt` says what its two numbers mean.
What = Literal[
    "values",
    "calls",
    "kind",
    "joined",
    "steps",
    "ranks",
    "more-ranks",
    "gain",
    "new-runs",
    "base-runs",
    "warm-up time",
    "warm-up steps",
    "quarter",
    "mean",
    "clock",
    "cycles",
    "lost",
    "host",
    "host-level",
    "same-host",
]


class Doubt(Struct, frozen=True):
    """A reason to doubt the measurements: the amount that differs between the two sides, with its value on each.

    By `what`, `base` and `new` are: numbers for each run (`values`, `calls`, `more-ranks`), shares of all (`joined`,
    `steps`, `ranks`), the kind of the series (`kind`), seconds or steps of warm-up (`warm-up time`, `warm-up steps`),
    Hz (`clock`), a share of the time (`lost`), names (`host`), or values of the metric in base units (`host-level`,
    `gain`, `mean`). In `cycles` and `same-host`, `new` is the relative change on equal machines. In `new-runs` and
    `base-runs`, they are the smallest and the largest value of runs of one side that disagree. In `quarter`, they are
    the number of all values, and of those that were dropped as warm-up.
    """

    reason: Literal["measured-less", "implausible", "runs-disagree", "warm-up", "mean-moved", "machine"]
    what: What
    base: float | str
    new: float | str
    #: True if it may change the outcome; False if it is only noted.
    decides: bool
    #: The kind of lost time in words; `slower` or `faster` for a host; `rule` for a warm-up that the rule names.
    of: str = ""
    #: The difference between the hosts that the history shows.
    hosts: HostDifference | None = None


class Judgement(Struct, frozen=True):
    """An outcome, and its reason in one word; `suspect` as in `Result`."""

    outcome: Outcome
    reason: str
    suspect: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """An answer: its outcome, and the reason of the outcome in one word."""

    outcome: Outcome
    reason: str
    #: True if the metric is probably worse, without proof, or a doubt leaves the answer undecided.
    suspect: bool = False
    #: The answer of the statistics, if a doubt, an allowance or the rule's author outranks it.
    outranked: Judgement | None = None
    #: The bounds that the statistics compared.
    comparisons: tuple[Comparison, ...] = ()
    #: Doubts about the measurements. If `reason` is the reason of a doubt, that doubt gave the outcome.
    doubts: tuple[Doubt, ...] = ()
    #: For a rule with `expect_fail`, which is known to fail: the outcome without that setting.
    otherwise: Outcome | None = None
    #: The quarantine of the rule, even if it has ended.
    quarantine: Quarantine | None = None

    @property
    def of_numbers(self) -> Judgement:
        """The answer of the statistics alone, for the sentences about the numbers."""
        return self.outranked or Judgement(self.outcome, self.reason, self.suspect)


class LimitResult(Result, frozen=True, kw_only=True):
    """The answer of `judge_limit`. A number is None if it does not exist or is infinite.

    `estimate`, `low` and `high` are in the unit of the values; the bounds are one-sided. `n` values are left after
    warm-up in `runs` runs; `n_effective` is their effective sample size. For percentiles, `share` is the share of
    values on the bad side of the bound, with its one-sided bounds. `excluded` says whether the interval is on the good
    side of `at_worst`; None without `at_worst`.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_effective: float | None = None
    runs: int
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    excluded: bool | None = None


class WorkResult(Result, frozen=True, kw_only=True):
    """The answer about exact work: the counts that grew (the most telling first), shrank, or vary between runs."""

    grown: tuple[WorkDifference, ...] = ()
    shrunk: tuple[WorkDifference, ...] = ()
    #: The counts that grew, but within an allowance.
    allowed: tuple[WorkDifference, ...] = ()
    #: The metrics that vary between runs, and the counts among them whose mean probably grew.
    varied: tuple[str, ...] = ()
    unclear: tuple[WorkDifference, ...] = ()
    #: The number of counts that were compared exactly.
    counts: int
    base_runs: int
    new_runs: int


class ChangeResult(Result, frozen=True, kw_only=True):
    """The answer of `judge_change`. A number is None if it does not exist or is infinite.

    `estimate`, `low` and `high` are new / base - 1, with one-sided bounds; `log_change` and `standard_error` are of
    ln(new / base). `tolerance` is relative, and so is `minimum_detectable_change`: the smallest true change for the
    worse that is found to be beyond the tolerance with the power of the terms. `base_value` and `new_value` are in the
    unit of the values. `at_worst` is the size of the change that exit 0 has to exclude (relative, positive), and
    `excluded` is True if the data exclude it. `not_excluded` is the largest change for the worse that they do not
    exclude (new / base - 1). `p_no_change` is the p-value against no change. `runs_needed` is how many new runs an
    unchanged program would need to pass.
    """

    improved: bool = False
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    log_change: float | None = None
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    p_no_change: float | None = None
    base_value: float | None = None
    new_value: float | None = None
    base_runs: int
    new_runs: int
    tolerance: float | None
    minimum_detectable_change: float | None = None
    runs_needed: int | None = None
    at_worst: float | None = None
    not_excluded: float | None = None
    excluded: bool = False
    #: The number of metrics of the glob, if the answer was corrected for their number (multiple comparisons).
    family: int | None = None
    #: A recorded allowance that applies to this commit, and its effect.
    allowance: Allowance | None = None
    allowance_effect: Literal["none", "expired", "not-enough", "eased"] = "none"
    #: The remembered runs that were judged with the new ones, or that show a change of the baseline's branch.
    pooled: PooledRuns | None = None
