"""Questions about one metric: everything that can change an answer, as frozen values without words.

rule, runs -> `evidence` -> `ask` -> Question -> `decide` -> Result -> `verdict` -> Verdict
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

from perfgate.core import Allowance, Key, NextStep, Quarantine, RememberedRuns, Series
from perfgate.core.details import WorkDifference
from perfgate.core.results import Doubt, Result
from perfgate.judge.derived import RunView
from perfgate.judge.measure import Member
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.rules.syntax.grammar import COUNTS
from perfgate.stats.distributions import FloatArray
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import SteadyRun


class MeasuredSide(Struct, frozen=True):
    """The runs of one side, each represented by the rank that the rule chooses, and measured by its statistic.

    Each field has one item for each run: the whole run, the rank (member), its series, and the statistic of that.
    `views` may be empty where the whole runs are not needed.
    """

    views: tuple[RunView, ...]
    members: tuple[Member, ...]
    series: tuple[Series, ...]
    measures: tuple[RunMeasure, ...]


class MachineDifference(Struct, frozen=True):
    """A difference of the machine between the sides, such as another clock, with factors that make the runs alike.

    `base` and `new` have one factor for the value of each run. `doubts` are noted. A doubt with `decides` decides the
    outcome if the values times the factors give another answer. Reports show the change of these values: in cycles of
    the clock, or as on the same host; None is not shown.
    """

    base: tuple[float, ...]
    new: tuple[float, ...]
    doubts: tuple[Doubt, ...]
    shown_as: Literal["cycles", "same-host"] | None = None


class Exceptions(Struct, frozen=True):
    """Settings of the rule that replace an outcome: an improvement fails, a failure is expected, a quarantine.

    An open answer is undecided without a suspicion. `on_open` replaces it: `warn` by a pass, `fail` by a failure;
    `error` leaves it undecided. None is `warn`, or for a percentile with too few values beyond it to compare, `error`.
    `warn` counts as `error` if the data do not exclude `at_worst`.
    """

    on_open: Literal["warn", "fail", "error"] | None = None
    improvement_fails: bool = False
    failure_expected: bool = False
    quarantine: Quarantine | None = None


class LimitQuestion(Struct, frozen=True):
    """The question whether the statistic of these runs is on the good side of a bound."""

    terms: LimitTerms
    #: The values of the judged runs after their warm-up; `new` has the same runs with their ranks.
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
    #: The new runs alone, for a comparison with the anchor: there, `new` has the latest stored runs, too, which may
    #: hide that the new ones are beyond the anchor.
    alone: tuple[RunMeasure, ...] = ()
    #: New / base of each pair if the runs were made in pairs.
    ratios: tuple[RunMeasure, ...] | None = None
    #: Doubts about the measurements; each counts only for the outcomes and the sizes that it can change.
    doubts: tuple[Doubt, ...] = ()
    #: Differences of the machine between the sides.
    machine: tuple[MachineDifference, ...] = ()
    #: An allowance of the measured commit for the metric, and whether its last day is over.
    allowance: Allowance | None = None
    is_expired: bool = False
    #: The runs of the branch of the baseline since the baseline, as the history remembers them.
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
    """The question whether new runs do more work than base runs, or with `is_same` other work."""

    counts: tuple[WorkCount, ...]
    is_same: bool
    base_runs: int
    new_runs: int
    exceptions: Exceptions = Exceptions()
    #: How much more of a count an allowance of the measured commit accepts, as a share, by metric.
    allowances: Mapping[str, float] = field(default_factory=dict)

    def allows(self, difference: WorkDifference) -> bool:
        """Return whether a count grew by no more than its allowance."""
        return difference.new <= difference.base * (1 + self.allowances.get(difference.metric, 0.0))

    @staticmethod
    def order(metric: str) -> int:
        """Return the sort key of a count in reports: first waits and allocations, then what follows from them."""
        return COUNTS.index(metric) if metric in COUNTS else len(COUNTS)


class NotJudged(Result, frozen=True, kw_only=True):
    """A clause that could not become a question: the reason in words, and the next step. It is its own answer."""

    message: str
    next_step: NextStep
    #: The new runs if they were measured before a base was found to be missing.
    new: MeasuredSide | None = None
    #: `on_missing` or `--missing-baseline` accepted that nothing could be judged.
    accepted_missing: Literal["warn", "skip"] | None = None
    #: True if the runs have the metric, so that a report can draw them.
    is_of_runs: bool = False


Question: TypeAlias = LimitQuestion | RankQuestion | ChangeQuestion | WorkQuestion | NotJudged
