"""Refuse measurements that cannot be true: negative times, sizes, rates and counts, and metrics that became 0."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perfgate.core import Series
from perfgate.core.units import format_value
from perfgate.judge.decisions import ChangeDecision, Decision, NotJudged
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measured_alike import gains
from perfgate.rules.syntax.sentence import Arithmetic, ChangeClause, Expression, LargestLoad, Number, StatisticOf

#: Changes of memory, and the net memory of an operator (allocated less freed): these may be negative.
_SIGNED = re.compile(r".*_delta|.*\.(self_)?[a-z]+_memory")


def refuse_impossible(inquiry: Inquiry, decision: Decision) -> Decision:
    """Raise CannotJudge for a negative time, size, rate or count; a metric that became 0 is suspect.

    Such a measurement is wrong, whatever was decided. Without a ratio, 0 is decided here.
    """
    if isinstance(decision, NotJudged):
        return decision
    asks, subject = inquiry.clause.asks, inquiry.subject
    is_anchor = isinstance(asks, ChangeClause) and asks.reference == "anchor"
    base_views = subject.anchor_views if is_anchor else subject.base_views
    for views, runs in ((subject.new_views, inquiry.new), (base_views, inquiry.base)):
        for view, run in zip(views, runs, strict=False):
            for member, series in run.items():
                number, unit = _negative(series)
                if number is None or (unit != "1" and _may_be_negative(inquiry)):
                    continue
                name, value = inquiry.name(member), format_value(number, unit)
                message = f"{name} has the value {value} in {view.run.name}, which cannot be negative"
                raise CannotJudge("impossible", message, "find out why the program wrote it, and measure again")
    if isinstance(decision, ChangeDecision) and decision.reason == "not-positive":
        doubts = tuple(gains(inquiry, decision.question.base, decision.question.new))
        return replace(decision, outcome="suspect", reason="implausible", doubts=doubts) if doubts else decision
    return decision


def _negative(series: Series) -> tuple[float | None, str]:
    """A number of the series that cannot be negative and is, with its unit; None without any."""
    count = series.aggregate.get("count", 0.0)
    if count < 0:
        return count, "1"
    lowest = min([float(np.min(series.values, initial=0.0)), *series.aggregate.values()])
    return (lowest, series.unit) if lowest < 0 and series.unit != "1" else (None, series.unit)


def _may_be_negative(inquiry: Inquiry) -> bool:
    """Return whether the metric is a change of memory, or a difference."""
    waiting: list[Expression] = [inquiry.subject.expression]
    seen: set[str] = set()
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Arithmetic):
            if expression.operator == "-":
                return True
            waiting += [expression.left, expression.right]
        elif isinstance(expression, StatisticOf):
            waiting.append(expression.of)
        elif isinstance(expression, Number):
            if expression.value < 0:
                return True
        elif isinstance(expression, LargestLoad):
            return False
        elif expression.pattern not in seen:
            seen.add(expression.pattern)
            if _SIGNED.fullmatch(expression.pattern):
                return True
            derived = inquiry.runs.metrics.get(expression.pattern)
            waiting += [derived.expression] if derived else []
    return False
