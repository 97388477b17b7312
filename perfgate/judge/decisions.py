"""Questions about one metric, the decisions about them, and `decide`, which turns one into the other.

Plain data: no words and no policy. The way of a verdict:

rule, clause, subject, runs -> compile -> Question -> decide -> Decision -> adjust -> Decision -> word -> Verdict
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perfgate.core import OUTCOMES, Allowance, HostDifference, NextStep, Outcome, PooledRuns, Quarantine, Series
from perfgate.judge.decide_change import ChangeResult, ChangeTerms, Margin, judge_measured_change
from perfgate.judge.decide_limit import LimitResult, LimitTerms, judge_steady_limit
from perfgate.judge.decide_promise import PromiseTerms, judge_measured_promise
from perfgate.judge.derived import RunView
from perfgate.judge.measure import Member
from perfgate.rules.ruleset import ExpectedFailure
from perfgate.stats.distributions import t_tail
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import SteadyRun


class MeasuredSide(Struct, frozen=True):
    """The runs of one side, each represented by the rank that the rule chooses, and measured by its statistic."""

    views: tuple[RunView, ...]
    members: tuple[Member, ...]
    series: tuple[Series, ...]
    measures: tuple[RunMeasure, ...]


class LimitQuestion(Struct, frozen=True):
    """The question whether the statistic of these runs is on the good side of a bound."""

    terms: LimitTerms
    runs: tuple[SteadyRun, ...]
    new: MeasuredSide


class ChangeQuestion(Struct, frozen=True):
    """The question whether new runs are worse than base runs by more than a tolerance."""

    terms: ChangeTerms
    reference: Literal["baseline", "anchor"]
    base: MeasuredSide
    new: MeasuredSide
    #: New / base of each pair if the runs were made in pairs.
    ratios: tuple[RunMeasure, ...] | None = None
    #: The change that a green answer has to exclude; None against an anchor, which cannot be measured again.
    promise: PromiseTerms | None = None


class RankQuestion(Struct, frozen=True):
    """The question whether the ratio of two ranks of the same run is within a tolerance."""

    #: One limit on the ratio, or two if both directions are bad.
    terms: tuple[LimitTerms, ...]
    ratios: tuple[SteadyRun, ...]
    #: The statistic of the judged rank and of the reference rank, for each run.
    values: tuple[tuple[float, float], ...]
    tolerance: float
    new: MeasuredSide


Question: TypeAlias = LimitQuestion | ChangeQuestion | RankQuestion


class Doubt(Struct, frozen=True):
    """A reason to doubt the measurements: what differs between the two sides, and how much of it each has.

    `values`, `calls` and `more-ranks` are numbers for each run, `joined`, `steps` and `ranks` are shares of all, `kind`
    is a kind of series, `clock` is in Hz, `cycles` and `same-host` are relative changes, `lost` is a share of the time,
    `host` has names, and `host-level`, `gain` and `mean` are values of the metric in base units. `new-runs` and
    `base-runs` are the smallest and the largest value of the runs of one side that disagree. `quarter` is the number of
    all values, and of those that were dropped as warm-up.
    """

    reason: Literal["measured-less", "implausible", "runs-disagree", "warm-up", "mean-moved", "machine"]
    what: Literal[
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
    base: float | str
    new: float | str
    #: True if it changes the outcome; False if it is only noted.
    decides: bool
    #: The kind of lost time in words; `slower` or `faster` for a host.
    of: str = ""
    #: The difference between the hosts that the history shows.
    hosts: HostDifference | None = None


class _Decision(Struct, frozen=True, kw_only=True):
    """An outcome, the reason in one word, and what the user said beforehand about it."""

    outcome: Outcome
    reason: str
    #: `on_missing` or `--missing-baseline` accepted that nothing could be judged.
    accepted_missing: Literal["warn", "skip"] | None = None
    #: The rule is known to fail; `otherwise` is its outcome without `expect_fail`.
    expected: ExpectedFailure | None = None
    otherwise: Outcome | None = None
    #: Doubts about the measurements.
    doubts: tuple[Doubt, ...] = ()
    #: The quarantine of the rule, also one that ended.
    quarantine: Quarantine | None = None


class NotJudged(_Decision, frozen=True, kw_only=True):
    """No decision: the reason, in words, and the next step."""

    message: str
    next_step: NextStep
    #: The new runs if they were measured before a base was found to be missing.
    new: MeasuredSide | None = None


class LimitDecision(_Decision, frozen=True, kw_only=True):
    """The answer to a limit."""

    question: LimitQuestion
    result: LimitResult


class RankDecision(_Decision, frozen=True, kw_only=True):
    """The answer to a ratio of ranks; `terms` is the bound that decided."""

    question: RankQuestion
    terms: LimitTerms
    result: LimitResult


class ChangeDecision(_Decision, frozen=True, kw_only=True):
    """The answer to a change."""

    question: ChangeQuestion
    result: ChangeResult
    #: The p-value of the data if the true change is exactly the tolerance; None without an interval.
    p_beyond: float | None = None
    #: How many metrics of a glob were corrected for multiple comparisons.
    family: int | None = None
    #: A recorded allowance that applies to this commit, and its effect.
    allowance: Allowance | None = None
    allowance_effect: Literal["none", "expired", "not-enough", "eased"] = "none"
    #: The remembered runs that were pooled with the new ones, or that say what the branch of the baseline did.
    pooled: PooledRuns | None = None


Decision: TypeAlias = NotJudged | LimitDecision | RankDecision | ChangeDecision


def decide(question: Question) -> LimitDecision | RankDecision | ChangeDecision:
    """The answer to a question; an outcome of `error` means that the values cannot be judged."""
    if isinstance(question, ChangeQuestion):
        change = _change(question)
        p = p_beyond(change, question.terms)
        return ChangeDecision(
            outcome=change.outcome, reason=change.reason, question=question, result=change, p_beyond=p
        )
    if isinstance(question, LimitQuestion):
        limit = judge_steady_limit(question.runs, question.terms)
        return LimitDecision(outcome=limit.outcome, reason=limit.reason, question=question, result=limit)
    answers = [(terms, judge_steady_limit(question.ratios, terms)) for terms in question.terms]
    terms, ratio = min(answers, key=lambda answer: OUTCOMES.index(answer[1].outcome))
    return RankDecision(outcome=ratio.outcome, reason=ratio.reason, question=question, terms=terms, result=ratio)


def _change(question: ChangeQuestion) -> ChangeResult:
    base, new, terms, ratios = question.base.measures, question.new.measures, question.terms, question.ratios
    if question.promise is None:
        return judge_measured_change(base, new, terms, ratios)
    return judge_measured_promise(base, new, terms, question.promise, ratios)


def p_beyond(result: ChangeResult, terms: ChangeTerms) -> float | None:
    """The p-value of a change this bad if the true change equals the tolerance; None without an interval.

    It is at most 1 - confidence exactly if the interval is beyond the tolerance.
    """
    d, error, df = result.log_change, result.standard_error, result.degrees_of_freedom
    if result.reason == "thin-tail" or d is None or not error or df is None or result.tolerance is None:
        return None
    margin = Margin.of_ratio(result.tolerance, terms.worse)
    above, below = t_tail(df, (d - margin.up) / error), t_tail(df, (margin.down - d) / error)
    return {"up": above, "down": below, "either": min(above, below)}[terms.worse]
