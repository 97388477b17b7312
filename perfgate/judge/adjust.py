"""Adjustments: they change a decision for the anchor, allowances, many metrics at once, and settings of the rule.

Each adjustment takes an inquiry and a decision and returns a decision; `perfgate.judge.verdicts` lists them in order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.core import Quarantine, Series
from perfgate.core.units import format_number, format_value
from perfgate.judge.compile import change_question
from perfgate.judge.decide_change import RUNS_TO_CONFIRM, Margin
from perfgate.judge.decisions import ChangeDecision, Decision, Doubt, LimitDecision, NotJudged, RankDecision, decide
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measured_alike import gains
from perfgate.judge.pairs import LEAST_TOLERANCE
from perfgate.judge.slow_start import FEWEST_STEPS, LEAST_SHARE, grown_warmup
from perfgate.rules.syntax.sentence import (
    Arithmetic,
    ChangeClause,
    Expression,
    LargestLoad,
    Number,
    Selector,
    StatisticOf,
    glob_matches,
)
from perfgate.stats.distributions import discoveries
from perfgate.stats.steady import median

#: A glob is corrected for multiple comparisons if it has more metrics than this, or a narrower tolerance.
MOST_UNCORRECTED = 10
NARROW = 0.03
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


def refuse_bad_values(inquiry: Inquiry, decision: Decision) -> Decision:
    """Raise CannotJudge for values that the statistics refused, and for too small a tolerance between pairs."""
    if isinstance(decision, NotJudged):
        return decision
    if decision.outcome == "error":
        statistic = None if isinstance(decision, RankDecision) else inquiry.shown_statistic
        raise inquiry.bad_values(decision.reason, inquiry.name(inquiry.shown_member(decision.question.new), statistic))
    if isinstance(decision, ChangeDecision) and decision.question.ratios is not None:
        tolerance = decision.result.tolerance or 0.0
        if tolerance < LEAST_TOLERANCE and decision.reason not in ("exact", "equal"):
            message = (
                f"{inquiry.subject.key}: a tolerance of {format_number(100 * tolerance)}% is too small for pairs: "
                "order and memory layout alone move unchanged code by up to 0.6%"
            )
            raise CannotJudge("tolerance-too-small", message, "write `within 1% of baseline` or more")
    return decision


def keep_anchor_suspect(_: Inquiry, decision: Decision) -> Decision:
    """A suspicion against the anchor never fails: one history cannot be run again."""
    if isinstance(decision, ChangeDecision) and decision.question.reference == "anchor" and decision.result.suspect:
        return replace(decision, outcome="suspect", result=replace(decision.result, outcome="suspect"))
    return decision


def doubt_start(inquiry: Inquiry, decision: Decision) -> Decision:
    """A pass that hides a slow start is suspect if the warm-up grew, and says so if values at the start tell more.

    `max`, `total` and `count` see the whole run, so nothing is hidden from them.
    """
    if not isinstance(decision, LimitDecision | ChangeDecision) or decision.outcome not in ("pass", "inconclusive"):
        return decision
    if inquiry.case.baseline.pairing is not None:  # both sides share the machine, and its disturbances
        return decision
    doubts: list[Doubt] = []
    found = [series for run in inquiry.new for series in run.values() if len(series.values)]
    starts = [(series, inquiry.method.steady(series)) for series in found]
    long = [(one.values[: run.dropped], run.values) for one, run in starts if run.dropped >= FEWEST_STEPS]
    medians = ((len(head), median(head), len(rest), median(rest)) for head, rest in long)
    # A first look, without the base runs.
    if any(slow * abs(start - usual) > LEAST_SHARE / 2 * count * abs(usual) for slow, start, count, usual in medians):
        doubts += grown_warmup(inquiry.new, inquiry.subject.base, inquiry.method)
    quarters = [(len(one.values), run.dropped) for one, run in starts if 1 < run.dropped == len(one.values) // 4]
    moved = _mean_moved(decision) if decision.outcome == "pass" else []
    if quarters and inquiry.method.warmup == "auto":
        count, dropped = max(quarters)
        # What a quarter of the steps hides may be more than warm-up, unless the base runs start in the same way.
        is_usual = any(_drops_a_quarter(inquiry, series) for run in inquiry.subject.base for series in run.values())
        hides = bool(moved) or (isinstance(decision, LimitDecision) and _breaks_with_start(decision))
        runs = sum(any(_drops_a_quarter(inquiry, series) for series in run.values()) for run in inquiry.new)
        decides = hides and dropped >= FEWEST_STEPS and 2 * runs >= len(inquiry.new) and not is_usual
        doubts.append(Doubt("warm-up", "quarter", count, dropped, decides=decides))
    doubts += moved
    if not doubts:
        return decision
    decided = replace(decision, doubts=tuple(doubts))
    if not any(doubt.decides for doubt in doubts):
        return decided
    return replace(decided, outcome="fail" if inquiry.case.strict else "suspect", reason="warm-up")


def _drops_a_quarter(inquiry: Inquiry, series: Series) -> bool:
    """Return whether the warm-up of a stored series is a quarter of its values."""
    if series.kind != "samples":
        return series.summary is not None and 4 * series.summary.dropped >= series.summary.n - 3
    return len(series.values) > 0 and inquiry.method.steady(series).dropped == len(series.values) // 4


def _breaks_with_start(decision: LimitDecision) -> bool:
    """Return whether the mean of all values of a run, warm-up included, is on the bad side of the limit."""
    means = [float(one.values.mean()) for one in decision.question.new.series if one.kind == "samples"]
    return any(decision.question.terms.is_bad(mean) for mean in means)


def _mean_moved(decision: LimitDecision | ChangeDecision) -> list[Doubt]:
    """A mean of all values, warm-up included, that is worse than in any base run and beyond the tolerance."""
    if not isinstance(decision, ChangeDecision):
        return []
    question, result = decision.question, decision.result
    sides = [[one.values for one in side.series if one.kind == "samples"] for side in (question.base, question.new)]
    length = min((len(values) for side in sides for values in side), default=0)  # longer runs have less warm-up
    if question.terms.statistic not in ("median", "p50") or question.reference == "anchor" or not all(sides):
        return []
    base, new = ([float(values[:length].mean()) for values in side] for side in sides)
    before, now = sum(base) / len(base), sum(new) / len(new)
    if not (before > 0 and now > 0) or min(base) <= now <= max(base):
        return []
    change = math.log(now) - math.log(before)  # the ratio of two floats can be 0
    is_beyond = Margin.of_ratio(result.tolerance or 0.0, question.terms.worse).compare(change, change) == "fail"
    return [Doubt("mean-moved", "mean", before, now, decides=False)] if is_beyond else []


def doubt_machine(inquiry: Inquiry, decision: Decision) -> Decision:
    """A change that the state of the machine can explain is suspect, if the runs tell what or which it was."""
    base = inquiry.case.baseline
    if not inquiry.runs.has_machine and ("host" not in inquiry.case.facts or base.pairing is not None):
        return decision
    from perfgate.judge.machine_doubt import doubt_machine as doubted

    return doubted(inquiry, decision)


def apply_allowance(inquiry: Inquiry, decision: Decision) -> Decision:
    """A recorded allowance replaces the tolerance of a change from the baseline, if that makes it pass.

    It does not apply to a limit, nor to a comparison with the anchor.
    """
    asks = inquiry.clause.asks
    if not isinstance(decision, ChangeDecision) or not isinstance(asks, ChangeClause):
        return decision
    if decision.question.reference != "baseline" or decision.outcome not in ("fail", "suspect", "inconclusive"):
        return decision
    if decision.reason == "implausible":  # no tolerance makes a metric plausible that became 0
        return decision
    metric = inquiry.subject.key.metric
    allowances = inquiry.case.baseline.allowances
    allowance = next((a for a in allowances if glob_matches(a.metric, metric) or a.metric == metric), None)
    if allowance is None:
        return decision
    if inquiry.case.today > allowance.expires:
        return replace(decision, allowance=allowance, allowance_effect="expired")
    eased = decide(change_question(inquiry, replace(asks, relative=max(asks.relative or 0.0, allowance.up_to))))
    unmoved = (eased.outcome, eased.reason) == (decision.outcome, decision.reason)
    if not isinstance(eased, ChangeDecision) or (eased.outcome != "pass" and unmoved):
        return replace(decision, allowance=allowance, allowance_effect="not-enough")
    reason = "allowed" if eased.outcome == "pass" else eased.reason
    return replace(eased, reason=reason, allowance=allowance, allowance_effect="eased")


def correct_for_many(inquiries: Sequence[Inquiry], decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions about the metrics of a glob, corrected for multiple comparisons (Benjamini and Hochberg 1995).

    A failure that chance may explain among many metrics becomes suspect, unless three new runs or `--strict` confirm
    it.
    """
    p_values = [one.p_beyond for one in decisions if isinstance(one, ChangeDecision) and one.p_beyond is not None]
    if len(p_values) < 2:
        return list(decisions)
    subject, asks = inquiries[0].rule.sentence.subject, inquiries[0].clause.asks
    narrow = isinstance(asks, ChangeClause) and asks.relative is not None and asks.relative < NARROW
    if not (isinstance(subject, Selector) and subject.is_glob) or not (narrow or len(p_values) > MOST_UNCORRECTED):
        return list(decisions)
    is_discovery = iter(discoveries(p_values, 1 - inquiries[0].rule.settings.confidence))
    found: list[Decision] = []
    for decision in decisions:
        if not isinstance(decision, ChangeDecision) or decision.p_beyond is None:
            found.append(decision)
            continue
        confirmed = next(is_discovery) or inquiries[0].case.strict or decision.result.new_runs >= RUNS_TO_CONFIRM
        if decision.outcome != "fail":
            found.append(decision)
        elif confirmed:
            found.append(replace(decision, family=len(p_values)))
        else:
            suspect = replace(decision.result, outcome="suspect", suspect=True)
            found.append(replace(decision, outcome="suspect", result=suspect, family=len(p_values)))
    return found


def accept_missing(inquiry: Inquiry, decision: Decision) -> Decision:
    """An absent metric or baseline is skipped if `on_missing` or `--missing-baseline` accepts it."""
    case, settings = inquiry.case, inquiry.rule.settings
    policies = {"metric-absent": settings.on_missing, "no-baseline": case.missing_baseline}
    policy = policies.get(decision.reason, "error")
    if not isinstance(decision, NotJudged) or policy == "error":
        return decision
    return replace(decision, outcome="skipped", accepted_missing=policy)


def fail_on_improvement(inquiry: Inquiry, decision: Decision) -> Decision:
    """An improvement beyond the tolerance fails if `on_improvement: fail` asks for it."""
    wanted = inquiry.rule.settings.on_improvement == "fail"
    if wanted and isinstance(decision, ChangeDecision) and decision.result.improved and decision.outcome != "error":
        return replace(decision, outcome="fail", reason="improved")
    return decision


def set_aside(inquiry: Inquiry, decision: Decision) -> Decision:
    """A rule in quarantine does not block up to its last day. The report says so, and that the quarantine ended."""
    quarantine = inquiry.rule.quarantine
    if quarantine is None or decision.outcome in ("error", "skipped"):
        return decision
    ended = inquiry.case.today > quarantine.until
    return replace(decision, quarantine=Quarantine(str(quarantine.until), quarantine.reason, ended))


def expect_failure(inquiry: Inquiry, decision: Decision) -> Decision:
    """A rule that is known to fail is skipped until its date, and says what it would have said."""
    expected = inquiry.rule.expect_fail
    if expected is None or inquiry.case.today > expected.until or decision.outcome in ("error", "skipped"):
        return decision
    return replace(
        decision, outcome="skipped", reason="expected-failure", expected=expected, otherwise=decision.outcome
    )
