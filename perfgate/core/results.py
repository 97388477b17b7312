"""The answers of the judge as frozen values without words: one type for limits, one for changes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perfgate.core.baseline import Allowance, HostDifference, PooledRuns
from perfgate.core.calculations import Comparison
from perfgate.core.details import WorkDifference
from perfgate.core.verdicts import Outcome, Quarantine

#: The looks of a plan: one new run, and two more after a doubt.
LOOKS = 3
#: Without a calibrated prior, this many runs of both sides together show some noise.
RUNS_FOR_A_PROMISE = 3
#: Without a calibrated prior, this many base runs show the noise well enough to fail a single new run.
RUNS_THAT_SHOW_NOISE = 5
#: What a doubt is about: the differing amount. `Doubt` has the meaning of its two numbers.
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
    """A reason to doubt the measurements: what differs between the two sides, and how much of it each has.

    `values`, `calls` and `more-ranks` are numbers for each run, `joined`, `steps` and `ranks` are shares of all, `kind`
    is a kind of series, `clock` is in Hz, `cycles` and `same-host` are relative changes, `lost` is a share of the time,
    `host` has names, and `host-level`, `gain` and `mean` are values of the metric in base units. `new-runs` and
    `base-runs` are the smallest and the largest value of the runs of one side that disagree. `quarter` is the number of
    all values, and of those that were dropped as warm-up.
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
    """An outcome, and its reason in one word; `suspect` if it is open because it is probably worse."""

    outcome: Outcome
    reason: str
    suspect: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """An answer: its outcome, and the reason of the outcome in one word."""

    outcome: Outcome
    reason: str
    #: True if the answer is open because it is probably worse, or because a doubt outranks a green answer.
    suspect: bool = False
    #: The answer of the statistics, if a doubt, an allowance or the rule's author outranks it.
    outranked: Judgement | None = None
    #: The bounds that the statistics compared.
    comparisons: tuple[Comparison, ...] = ()
    #: Doubts about the measurements. A reason that is one of a doubt says that it gave the outcome.
    doubts: tuple[Doubt, ...] = ()
    #: The outcome without `expect_fail`, for a rule that is known to fail.
    otherwise: Outcome | None = None
    #: The quarantine of the rule, also one that ended.
    quarantine: Quarantine | None = None

    @property
    def of_numbers(self) -> Judgement:
        """The answer of the statistics alone, which sentences about the numbers say."""
        return self.outranked or Judgement(self.outcome, self.reason, self.suspect)


class LimitResult(Result, frozen=True, kw_only=True):
    """The answer of `judge_limit`; None for what does not exist or is infinite.

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
    """The answer about exact work: what grew (the most telling first), what shrank, and what varies between runs."""

    grown: tuple[WorkDifference, ...] = ()
    shrunk: tuple[WorkDifference, ...] = ()
    #: What grew by no more than an allowance accepts.
    allowed: tuple[WorkDifference, ...] = ()
    #: The metrics that vary between runs; the means of `unclear` ones probably grew.
    varied: tuple[str, ...] = ()
    unclear: tuple[WorkDifference, ...] = ()
    #: How many counts were compared exactly.
    counts: int
    base_runs: int
    new_runs: int


class ChangeResult(Result, frozen=True, kw_only=True):
    """The answer of `judge_change`; None for what does not exist or is infinite.

    `estimate`, `low` and `high` are new / base - 1, with one-sided bounds; `log_change` and `standard_error` are of
    ln(new / base). `tolerance` and `minimum_detectable_change` are relative, too. `base_value` and `new_value` are in
    the unit of the values. `at_worst` is the size of the change that exit 0 has to exclude (relative, positive),
    `not_excluded` the largest change for the worse that the data do not exclude (new / base - 1), and `excluded`
    whether the promise is kept.
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
    #: How many metrics of a glob were corrected for multiple comparisons, if the correction concerns this one.
    family: int | None = None
    #: A recorded allowance that applies to this commit, and its effect.
    allowance: Allowance | None = None
    allowance_effect: Literal["none", "expired", "not-enough", "eased"] = "none"
    #: The remembered runs that were pooled with the new ones, or that say what the branch of the baseline did.
    pooled: PooledRuns | None = None
