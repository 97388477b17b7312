"""What changes a decision after the numbers: the anchor, allowances, many metrics at once, and what users accept.

Each adjustment takes an inquiry and a decision and returns a decision; `perfgate.judge.verdicts` lists them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.core.units import format_number
from perfgate.judge.compile import change_question
from perfgate.judge.decide_change import RUNS_TO_CONFIRM
from perfgate.judge.decisions import ChangeDecision, Decision, NotJudged, RankDecision, decide
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.pairs import LEAST_TOLERANCE
from perfgate.rules.syntax.sentence import ChangeClause, Selector, glob_matches
from perfgate.stats.distributions import discoveries

#: A glob is corrected for multiple comparisons if it has more metrics than this, or a narrower tolerance.
MOST_UNCORRECTED = 10
NARROW = 0.03


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


def apply_allowance(inquiry: Inquiry, decision: Decision) -> Decision:
    """A recorded allowance replaces the tolerance of a change from the baseline, if that makes it pass.

    It does not apply to a limit, nor to a comparison with the anchor.
    """
    asks = inquiry.clause.asks
    if not isinstance(decision, ChangeDecision) or not isinstance(asks, ChangeClause):
        return decision
    if decision.question.reference != "baseline" or decision.outcome not in ("fail", "suspect", "inconclusive"):
        return decision
    if decision.doubts:  # no tolerance makes a metric plausible that became 0
        return decision
    metric = inquiry.subject.key.metric
    allowances = inquiry.case.baseline.allowances
    allowance = next((a for a in allowances if glob_matches(a.metric, metric) or a.metric == metric), None)
    if allowance is None:
        return decision
    if inquiry.case.today > allowance.expires:
        return replace(decision, allowance=allowance, allowance_effect="expired")
    eased = decide(change_question(inquiry, replace(asks, relative=max(asks.relative or 0.0, allowance.up_to))))
    if not isinstance(eased, ChangeDecision) or (eased.outcome != "pass" and eased.outcome == decision.outcome):
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


def expect_failure(inquiry: Inquiry, decision: Decision) -> Decision:
    """A rule that is known to fail is skipped until its date, and says what it would have said."""
    expected = inquiry.rule.expect_fail
    if expected is None or inquiry.case.today > expected.until or decision.outcome in ("error", "skipped"):
        return decision
    return replace(
        decision, outcome="skipped", reason="expected-failure", expected=expected, otherwise=decision.outcome
    )
