"""Pool doubts with the remembered runs of the branch since its baseline.

After a merge, a doubt about the branch itself is judged once more, together with its remembered runs since the
baseline: they were measured to answer the same question. The runs since the baseline, or since its last change point,
are parted into blocks of ten, and each block is one plan of ten looks, whose boundaries share the error rate of one
plan. So many merges raise few false alarms (`benchmarks/detection/pooling.py`). Pooled runs can confirm a doubt, and
never dispel it: they are mostly of older commits, which say nothing about what this merge added.

On another branch they only inform: a change that the branch of the baseline has is not from the judged commit.
"""

from __future__ import annotations

from msgspec.structs import replace

from perfgate.core import PooledRuns, RememberedRuns
from perfgate.judge.decide_promise import PromiseResult, judge_measured_promise
from perfgate.judge.decisions import ChangeDecision, ChangeQuestion, Decision, p_beyond
from perfgate.judge.inquiry import Inquiry
from perfgate.stats.statistics import RunMeasure

#: The looks of a plan with pooled runs.
POOLED_RUNS = 10
#: The branch of the baseline is only mentioned with at least this many runs of it.
_FEWEST_TOLD = 3


def pool_doubt(inquiry: Inquiry, decision: Decision) -> Decision:
    """Return the decision that the remembered runs confirm, or with what they say about the branch."""
    if not isinstance(decision, ChangeDecision) or decision.question.ratios or decision.question.promise is None:
        return decision
    if decision.reason in ("exact", "equal", "thin-tail") or any(doubt.decides for doubt in decision.doubts):
        return decision
    found = inquiry.of_series(inquiry.case.baseline.remembered)
    if found is None or decision.outcome == "pass":
        return decision
    if found.is_measured:
        return _confirmed(decision, found) if decision.outcome in ("inconclusive", "suspect") else decision
    return _informed(decision, found)


def _confirmed(decision: ChangeDecision, remembered: RememberedRuns) -> ChangeDecision:
    """The decision as a failure, if the pooled runs show one."""
    count = len(remembered.values) % POOLED_RUNS
    runs = _measures(remembered)[len(remembered.values) - count :]
    result = _judged(decision.question, (*runs, *decision.question.new.measures))
    if not runs or result.outcome != "fail":
        return decision
    pooled = _pooled(remembered, count, result, decides=True)
    p = p_beyond(result, decision.question.terms)
    return replace(decision, outcome="fail", reason="pooled", result=result, p_beyond=p, pooled=pooled)


def _informed(decision: ChangeDecision, remembered: RememberedRuns) -> ChangeDecision:
    """The decision with the change of the branch itself, if that is clearly for the worse."""
    if len(remembered.values) < _FEWEST_TOLD:
        return decision
    result = _judged(decision.question, _measures(remembered))
    low, high = result.low or 0.0, result.high or 0.0
    worse = decision.question.terms.worse
    if (worse != "down" and low > 0) or (worse != "up" and high < 0):
        return replace(decision, pooled=_pooled(remembered, len(remembered.values), result, decides=False))
    return decision


def _judged(question: ChangeQuestion, new: tuple[RunMeasure, ...]) -> PromiseResult:
    """The answer to a question with these new runs."""
    assert question.promise is not None
    promise = replace(question.promise, looks=tuple(range(1, POOLED_RUNS + 1)))
    return judge_measured_promise(question.base.measures, new, question.terms, promise)


def _measures(remembered: RememberedRuns) -> tuple[RunMeasure, ...]:
    pairs = zip(remembered.values, remembered.variances, strict=True)
    return tuple(RunMeasure(value, 1, None, variance, 0, True) for value, variance in pairs)


def _pooled(remembered: RememberedRuns, count: int, result: PromiseResult, *, decides: bool) -> PooledRuns:
    labels = remembered.labels[len(remembered.labels) - count :]
    return PooledRuns(remembered.branch, labels, result.estimate or 0.0, result.low, result.high, decides)
