"""What somebody allowed beforehand: one commit may be so much worse than the baseline in a metric."""

from __future__ import annotations

from dataclasses import replace

from perfgate.core import Allowance
from perfgate.judge.changes import change_finding
from perfgate.judge.finding import Finding
from perfgate.judge.question import Question
from perfgate.rules.syntax.sentence import ChangeClause, glob_matches


def after_allowance(question: Question, asks: ChangeClause, found: Finding) -> Finding:
    """A finding, or what it is under the tolerance that was allowed, if that excuses it.

    An allowance stands in for the tolerance of a change from the baseline alone: neither for a limit, nor for what
    the metric may drift from its anchor.
    """
    if asks.reference != "baseline" or found.outcome not in ("fail", "suspect", "inconclusive"):
        return found
    metric = question.subject.key.metric
    for allowance in question.case.baseline.allowances:
        if glob_matches(allowance.metric, metric) or allowance.metric == metric:
            return _under(question, asks, found, allowance)
    return found


def _under(question: Question, asks: ChangeClause, found: Finding, allowance: Allowance) -> Finding:
    words = f"{100 * allowance.up_to:g}% by {allowance.by}"
    if question.case.today > allowance.expires:
        return replace(found, notes=(*found.notes, f"what was allowed, {words}, has expired on {allowance.expires}"))
    eased = change_finding(question, replace(asks, relative=max(asks.relative or 0.0, allowance.up_to)))
    if eased.outcome != "pass" and eased.outcome == found.outcome:
        return replace(found, notes=(*found.notes, f"{words} was allowed, and does not settle it"))
    reason = "allowed" if eased.outcome == "pass" else eased.reason
    message = f"allowed up to {words} until {allowance.expires} ({allowance.reason}): {eased.message}"
    # A pass shows no message, and this one is beyond what its rule says.
    notes = (f"allowed by {allowance.by}: {allowance.reason}", *eased.notes)
    fields = {**eased.fields, "allowed_by": allowance.by}
    return replace(eased, reason=reason, message=message, notes=notes, fields=fields)
