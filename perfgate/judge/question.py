"""Questions about one metric: everything that can change an answer, as frozen values without words.

rule, runs -> `evidence` -> `ask` -> Question -> `decide` -> Result -> `verdict` -> Verdict
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

from perfgate.core import Allowance, Better, Comparator, Key, NextStep, Quarantine, RememberedRuns, Series
from perfgate.core.results import LOOKS, Doubt, Result
from perfgate.judge.derived import RunView
from perfgate.judge.measure import Member
from perfgate.stats.distributions import FloatArray, normal_quantile
from perfgate.stats.margin import Margin
from perfgate.stats.moderated import WorseSide
from perfgate.stats.statistics import Quantile, RunMeasure, parse_statistic
from perfgate.stats.steady import SteadyRun, WarmUpRule, check_warmup

#: The prior noise of quantities that are mostly exact, such as bytes, once they differ at all.
EXACT_S0 = 0.001


#: The counts of work, the most telling first.
WORK = tuple(
    f"work.{name}"
    for name in (
        *("syncs", "allocations", "copies", "copied_bytes", "collectives", "collective_bytes", "flops", "kernels"),
        *("graph_launches", "blocks", "memsets", "launches", "ops"),
    )
)


class LimitTerms(Struct, frozen=True, kw_only=True):
    """The options of `judge_limit`, by the same names; raises ValueError for a bad one."""

    bound: float
    statistic: str = "median"
    comparator: Comparator = "under"
    confidence: float = 0.95
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    min_samples: int = 1
    strict: bool = False
    at_worst: float | None = None
    #: The standard deviation of the logarithm between runs, as far as it is known; 0 for what has no noise.
    noise: float = 0.0
    #: True for counts and sizes, which have no noise if all values of a run are equal.
    exact: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.bound):
            raise ValueError(f"bound is a finite number, not {self.bound!r}")
        if self.at_worst is not None and not (math.isfinite(self.at_worst) and self.is_bad(self.at_worst)):
            raise ValueError(f"at_worst is beyond the bound {self.bound!r}, on its bad side, not {self.at_worst!r}")
        if self.comparator not in ("under", "at most", "over", "at least"):
            raise ValueError(f'comparator is "under", "at most", "over" or "at least", not {self.comparator!r}')
        check_warmup(self.warmup, self.better)
        _check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def upper(self) -> bool:
        """True if the bound is an upper one."""
        return self.comparator in ("under", "at most")

    @property
    def better(self) -> Better:
        """The good side of the bound; warm-up is searched on the other side."""
        return "lower" if self.upper else "higher"

    def is_bad(self, value: float) -> bool:
        """Return whether a value is on the bad side of the bound."""
        if value == self.bound:
            return self.comparator in ("under", "over")
        return (value > self.bound) == self.upper

    @property
    def has_share(self) -> bool:
        """True for a percentile, which is beyond the bound if more than a share of the values is."""
        return isinstance(parse_statistic(self.statistic), Quantile)

    def is_near(self, estimate: float) -> bool:
        """Return whether the noise between runs could move one run this far beyond the bound."""
        if not (self.noise and estimate > 0 and self.bound > 0):
            return False
        return abs(math.log(estimate / self.bound)) < normal_quantile(self.confidence) * self.noise

    def may_reach(self, end: float | None) -> bool:
        """Return whether an interval with this bad end reaches `at_worst`; None is an infinite end."""
        if self.at_worst is None:
            return False
        return end is None or (end >= self.at_worst if self.upper else end <= self.at_worst)


class ChangeTerms(Struct, frozen=True, kw_only=True):
    """The options of `judge_change`, by the same names; raises ValueError for a bad one.

    `prior` is (s0, d0), known noise or a guess as `noise_known` says. `looks` are the numbers of new runs at which the
    data are judged; more runs than the last one are a further look. Without looks there is one comparison, and no
    promise: a comparison with the anchor, which cannot be measured again.
    """

    statistic: str = "median"
    tolerance: float | None = None
    tolerance_absolute: float | None = None
    at_worst: float | None = None
    at_worst_absolute: float | None = None
    better: Better = "lower"
    two_sided: bool = False
    confidence: float = 0.95
    power: float = 0.8
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    noise_known: bool = False
    looks: tuple[int, ...] | None = tuple(range(1, LOOKS + 1))
    strict: bool = False
    exact: bool = False
    min_samples: int = 1

    def __post_init__(self) -> None:
        if self.tolerance is None and self.tolerance_absolute is None:
            raise ValueError("a change needs a tolerance, a tolerance_absolute, or both")
        for name, value in (
            ("tolerance", self.tolerance),
            ("tolerance_absolute", self.tolerance_absolute),
            ("at_worst", self.at_worst),
            ("at_worst_absolute", self.at_worst_absolute),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
        if not 0 < self.power < 1:
            raise ValueError(f"power is between 0 and 1, not {self.power!r}")
        if self.looks is not None and (not self.looks or self.looks[0] < 1):
            raise ValueError(f"looks is 1 or more, not {self.looks!r}")
        check_warmup(self.warmup, self.better)
        _check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def noise(self) -> tuple[float, float]:
        """The prior (s0, d0) of values that differ."""
        return (EXACT_S0 if self.exact else self.prior[0]), self.prior[1]

    @property
    def worse(self) -> WorseSide:
        """The direction of a change for the worse."""
        if self.two_sided or self.better == "neither":
            return "either"
        return "up" if self.better == "lower" else "down"

    def applied_tolerance(self, base_value: float) -> float:
        """The relative tolerance; an absolute one widens it, because both must be exceeded."""
        return _relative(self.tolerance, self.tolerance_absolute, base_value)

    def tolerated(self, base_value: float) -> Margin:
        """The margin of the tolerance."""
        return Margin.of_ratio(self.applied_tolerance(base_value), self.worse)

    def doubted(self, base_value: float) -> Margin:
        """The margin of what a green answer excludes, `at_worst`: at least the tolerance, a fall less than 100 %."""
        tolerance = self.applied_tolerance(base_value)
        found = max(_relative(*self.widened, base_value), tolerance)
        fits = self.worse == "up" or found < 1
        return Margin.of_ratio(found if fits else (1 + min(tolerance, 1)) / 2, self.worse)

    @property
    def widened(self) -> tuple[float | None, float | None]:
        """`at_worst`, relative and in the unit of the values: twice the tolerance of that kind if it is not set."""
        relative = None if self.tolerance is None else 2 * self.tolerance
        absolute = None if self.tolerance_absolute is None else 2 * self.tolerance_absolute
        return (
            relative if self.at_worst is None else self.at_worst,
            absolute if self.at_worst_absolute is None else self.at_worst_absolute,
        )


def _relative(relative: float | None, absolute: float | None, base_value: float) -> float:
    return max(relative or 0.0, 0.0 if absolute is None else absolute / base_value)


def _check_evidence_options(confidence: float, prior: tuple[float, float], min_samples: int) -> None:
    """Raise ValueError for a bad confidence, prior or number of samples."""
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence is between .5 and 1, not {confidence!r}")
    s0, d0 = prior
    if not (0 < s0 < math.inf and 0 < d0 < math.inf):
        raise ValueError(f"prior is a positive standard deviation and positive degrees of freedom, not {prior!r}")
    if min_samples < 1:
        raise ValueError(f"min_samples is at least 1, not {min_samples!r}")


class MeasuredSide(Struct, frozen=True):
    """The runs of one side, each represented by the rank that the rule chooses, and measured by its statistic."""

    views: tuple[RunView, ...]
    members: tuple[Member, ...]
    series: tuple[Series, ...]
    measures: tuple[RunMeasure, ...]


class MachineDifference(Struct, frozen=True):
    """A difference of the machine between the sides: the factors that make their runs alike, and what it is.

    `base` and `new` are one factor for each run. `doubts` are noted; those that `may_decide` decide if the runs give
    another answer with the factors. `cycles` or `same-host` names the change with the factors; None is not shown.
    """

    base: tuple[float, ...]
    new: tuple[float, ...]
    doubts: tuple[Doubt, ...]
    shown_as: Literal["cycles", "same-host"] | None = None


class Exceptions(Struct, frozen=True):
    """Settings of the rule that replace an outcome: an improvement fails, a failure is expected, a quarantine.

    `on_open` replaces an open answer of the numbers without a suspicion: `warn` passes it. By default, too few values
    beyond a percentile stay open. What breaks the promise of a green answer never passes.
    """

    on_open: Literal["warn", "fail", "error"] | None = None
    improvement_fails: bool = False
    failure_expected: bool = False
    quarantine: Quarantine | None = None


class LimitQuestion(Struct, frozen=True):
    """The question whether the statistic of these runs is on the good side of a bound."""

    terms: LimitTerms
    runs: tuple[SteadyRun, ...]
    new: MeasuredSide
    doubts: tuple[Doubt, ...] = ()
    exceptions: Exceptions = Exceptions()


class RankQuestion(Struct, frozen=True):
    """The question whether the ratio of two ranks of the same run is within a tolerance."""

    #: One limit on the ratio, or two if both directions are bad.
    terms: tuple[LimitTerms, ...]
    ratios: tuple[SteadyRun, ...]
    #: The statistic of the judged rank and of the reference rank, for each run.
    values: tuple[tuple[float, float], ...]
    tolerance: float
    new: MeasuredSide
    doubts: tuple[Doubt, ...] = ()
    exceptions: Exceptions = Exceptions()


class ChangeQuestion(Struct, frozen=True):
    """The question whether new runs are worse than base runs by more than a tolerance."""

    terms: ChangeTerms
    base: MeasuredSide
    new: MeasuredSide
    reference: Literal["baseline", "anchor"] = "baseline"
    #: New / base of each pair if the runs were made in pairs.
    ratios: tuple[RunMeasure, ...] | None = None
    #: Doubts about the measurements; each counts only for the outcomes and the sizes that it can change.
    doubts: tuple[Doubt, ...] = ()
    #: Differences of the machine between the sides.
    machine: tuple[MachineDifference, ...] = ()
    #: An allowance of the measured commit for the metric, and whether its last day is over.
    allowance: Allowance | None = None
    is_expired: bool = False
    #: The later runs of the branch of the baseline.
    remembered: RememberedRuns | None = None
    #: True if the metric is one of a glob that is corrected for multiple comparisons.
    is_one_of_many: bool = False
    exceptions: Exceptions = Exceptions()


class WorkCount(Struct, frozen=True):
    """One count of work of one rank or device: its value in each step, (steps,), in each run of both sides."""

    key: Key
    member: Member
    base: tuple[FloatArray, ...]
    new: tuple[FloatArray, ...]


class WorkQuestion(Struct, frozen=True):
    """The question whether new runs ask the device for more work than base runs, or with `is_same` for other work."""

    counts: tuple[WorkCount, ...]
    is_same: bool
    base_runs: int
    new_runs: int
    exceptions: Exceptions = Exceptions()
    #: How much more of a count an allowance of the measured commit accepts, as a share, by metric.
    allowances: Mapping[str, float] = field(default_factory=dict)

    def allowed(self, metric: str) -> float:
        """How much more of a count is allowed, as a share."""
        return self.allowances.get(metric, 0.0)

    @staticmethod
    def order(metric: str) -> int:
        """The place of a count among those that differ: what waits or allocates says more than what follows from it."""
        return WORK.index(metric) if metric in WORK else len(WORK)


class NotJudged(Result, frozen=True, kw_only=True):
    """A clause that could not be asked: the reason in words, and the next step."""

    message: str
    next_step: NextStep
    #: The new runs if they were measured before a base was found to be missing.
    new: MeasuredSide | None = None
    #: `on_missing` or `--missing-baseline` accepted that nothing could be judged.
    accepted_missing: Literal["warn", "skip"] | None = None
    #: True if the runs have the metric, so that a report can draw them.
    is_of_runs: bool = False


Question: TypeAlias = LimitQuestion | RankQuestion | ChangeQuestion | WorkQuestion | NotJudged
