"""From a question to a decision, by the functions that `perfgate.judge_limit` and `judge_change` use, too."""

from __future__ import annotations

from perfgate.core import OUTCOMES
from perfgate.judge.decide_change import ChangeResult, judge_measured_change
from perfgate.judge.decide_limit import judge_steady_limit
from perfgate.judge.decisions import (
    ChangeDecision,
    ChangeQuestion,
    LimitDecision,
    LimitQuestion,
    Question,
    RankDecision,
)
from perfgate.judge.margin import Margin
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.distributions import t_tail


def decide(question: Question) -> LimitDecision | RankDecision | ChangeDecision:
    """The answer to a question; an outcome of `error` means that the values cannot be judged."""
    if isinstance(question, ChangeQuestion):
        change = judge_measured_change(question.base.measures, question.new.measures, question.terms, question.ratios)
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


def p_beyond(result: ChangeResult, terms: ChangeTerms) -> float | None:
    """The p-value of a change this bad if the true change equals the tolerance; None without an interval.

    It is at most 1 - confidence exactly if the interval is beyond the tolerance.
    """
    d, error, df = result.log_change, result.standard_error, result.degrees_of_freedom
    if result.reason != "interval" or d is None or not error or df is None or result.tolerance is None:
        return None
    margin = Margin.of_ratio(result.tolerance, terms.worse)
    above, below = t_tail(df, (d - margin.up) / error), t_tail(df, (margin.down - d) / error)
    return {"up": above, "down": below, "either": min(above, below)}[terms.worse]
