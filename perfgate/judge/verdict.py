"""From an answer to a verdict: its numbers, and the sentences of `perfgate.words` about them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from msgspec.structs import replace

from perfgate.core import QUARANTINED, Estimate, NextStep, RelativeChange, RunEstimate, Verdict
from perfgate.core.calculations import Calculation
from perfgate.core.results import ChangeResult, Judgement, LimitResult, Result, WorkResult
from perfgate.core.runs import machine_notes
from perfgate.judge.evidence import Evidence
from perfgate.judge.exact_work import with_places
from perfgate.judge.explanation import explained_by
from perfgate.judge.question import (
    ChangeQuestion,
    LimitQuestion,
    MeasuredSide,
    NotJudged,
    Question,
    RankQuestion,
    WorkQuestion,
)
from perfgate.judge.report import verdict_exit_code
from perfgate.judge.sentences import change_message, change_notes, is_explained, of_values, with_doubts
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause
from perfgate.stats.bounds import values_to_settle
from perfgate.stats.statistics import RunMeasure
from perfgate.words import change, notes, steps, work

#: The reasons of errors if the statistics cannot judge the values of the runs.
BAD_VALUES = ("too-few-samples", "not-a-number", "not-positive", "tolerance-too-small", "no-new-run", "no-baseline")
#: The most counts of work in one verdict; a program has some thirty.
_MOST_DIFFERENCES = 100


def verdict_of(
    evidence: Evidence, question: Question, found: Result, left_out: Sequence[str] = (), worst: float = 0.0
) -> Verdict:
    """Return the verdict of an answer.

    `left_out`: the metrics of a glob whose unit does not fit the quantity. `worst`: the largest worsening of the metric
    in all verdicts, which an allowance has to allow.
    """
    verdict = _numbers(evidence, question, found)
    message, next_step, added = verdict.message, verdict.next_step, list(verdict.notes)
    if found.doubts:
        message, next_step, added = with_doubts(evidence, found, verdict)
    if isinstance(found, NotJudged) and found.accepted_missing:
        message = notes.accepted_missing(found.accepted_missing, message)
    if found.otherwise is not None and (expected := evidence.rule.expect_fail):
        message = notes.expected_failure(expected.until, expected.reason, found.otherwise, message)
        next_step = steps.expected_next_step(found.otherwise)
    if found.quarantine and verdict.outcome in QUARANTINED:
        message = notes.in_quarantine(found.quarantine, message)
    elif found.quarantine and found.quarantine.ended:
        added.append(notes.quarantine_over(found.quarantine))
    if left_out:
        added.append(notes.left_out(left_out))
    added += machine_notes(evidence.case.facts)
    # A percentile of a rate, such as p95, is of its best values: such a pass says little.
    best = None
    if verdict.outcome == "pass" and verdict.better == "higher":
        best = notes.of_best_values(verdict.statistic or "")
    if best is not None:
        added.append(best)
    if next_step.action == "allow":
        next_step = steps.allow_step(next_step, evidence.case.accept, verdict.metric, worst)
    doubtful = bool(found.doubts) or best is not None
    return replace(verdict, message=message, next_step=next_step, notes=tuple(added), doubtful=doubtful)


def worsening(found: Result) -> float:
    """Return the largest worsening that the interval of a failed change includes; 0 for limits and exact work."""
    if not isinstance(found, ChangeResult):
        return 0.0
    end = found.low if (found.estimate or 0.0) < 0 else found.high
    return abs(end or found.estimate or 0.0)


def _numbers(evidence: Evidence, question: Question, found: Result) -> Verdict:
    """Return the verdict with the numbers of its answer and the sentence about them."""
    if isinstance(found, NotJudged):
        return _not_judged(evidence, found)
    if isinstance(found, WorkResult):
        return _work(evidence, found)
    if found.outcome == "error" and found.reason in BAD_VALUES and not isinstance(question, NotJudged | WorkQuestion):
        statistic = None if isinstance(question, RankQuestion) else evidence.shown_statistic
        name = evidence.name(evidence.shown_member(question.new), statistic)
        tolerance = found.tolerance if isinstance(found, ChangeResult) else None
        return _not_judged(evidence, evidence.bad_values(found.reason, name, tolerance).as_answer())
    if isinstance(found, LimitResult) and isinstance(question, LimitQuestion):
        return _limit(evidence, question, found)
    if isinstance(found, LimitResult) and isinstance(question, RankQuestion):
        return _rank_ratio(evidence, question, found)
    assert isinstance(found, ChangeResult)
    assert isinstance(question, ChangeQuestion)
    return _change(evidence, question, found)


def _verdict(
    evidence: Evidence, found: Result, message: str, next_step: NextStep, added: Sequence[str] = ()
) -> Verdict:
    """Return a verdict with the fields that all answers have in common."""
    rule, asks, said = evidence.rule, evidence.clause.asks, found.of_numbers
    is_outranked = (said.outcome, said.reason) != (found.outcome, found.reason)
    calculation = Calculation(found.comparisons, said.outcome, said.reason, said.suspect)
    return Verdict(
        rule=rule.name,
        metric=evidence.subject.key.metric,
        labels=dict(evidence.subject.key.labels),
        statistic=rule.sentence.statistic,
        outcome=found.outcome,
        reason=found.reason,
        severity=rule.settings.severity,
        exit_code=verdict_exit_code(found.outcome, found.reason, rule.settings.severity, found.quarantine),
        kind="limit" if isinstance(asks, LimitClause) else "change",
        unit=None,
        message=message,
        next_step=next_step,
        at=rule.at,
        against=None if isinstance(asks, LimitClause) else asks.reference,
        member=dict(evidence.member),
        asks=evidence.clause.text,
        confidence=rule.settings.confidence,
        notes=tuple(added),
        why=rule.why,
        owner=rule.settings.owner,
        quarantine=found.quarantine,
        calculation=calculation if found.comparisons or is_outranked else None,
    )


def _not_judged(evidence: Evidence, found: NotJudged) -> Verdict:
    """Return the verdict of an error or a skip, with the numbers of the new runs if they were measured."""
    verdict, new = _verdict(evidence, found, found.message, found.next_step), found.new
    if new is None:
        return verdict
    values = [run.value for run in new.measures if run.value is not None]
    return replace(
        verdict,
        unit=evidence.unit,
        shown_unit=evidence.shown_unit,
        statistic=evidence.shown_statistic,
        member=dict(evidence.shown_member(new)),
        new=_estimate(sum(values) / len(values) if values else None, new.measures),
        runs=_run_estimates("new", new),
    )


def _limit(evidence: Evidence, question: LimitQuestion, result: LimitResult) -> Verdict:
    """Return the verdict on a limit; for a percentile also with the share of values beyond the bound."""
    asks = evidence.clause.text
    terms, member = question.terms, evidence.shown_member(question.new)
    allowed = needed = None
    if result.share is not None:  # of a percentile
        q = 0.5 if terms.statistic == "median" else float(terms.statistic[1:]) / 100
        allowed = 1 - q if terms.upper else q
        if result.of_numbers.outcome == "undecided":
            needed = values_to_settle(result.share, allowed, terms.confidence)
    name, units = evidence.name(member, evidence.shown_statistic), (evidence.unit, evidence.shown_unit)
    dropped = sum(run.dropped for run in question.runs)
    bad_end = result.high if terms.upper else result.low
    # Too few values for a bad end: such an interval excludes nothing, and the verdict passes without `on_inconclusive`.
    is_open = result.of_numbers == Judgement("undecided", "interval") and bad_end is None
    message = change.limit_message(
        name, result, asks, units, confidence=terms.confidence, dropped=dropped, is_open=is_open
    )
    may_pass = is_open and evidence.rule.settings.on_inconclusive is None
    at, ref = str(evidence.rule.at), evidence.case.accept.ref
    subject = evidence.name((), evidence.shown_statistic)
    step = change.limit_next_step(subject, result, asks, at, needed, ref, may_pass=may_pass)
    added = [*([notes.ONE_RUN] if result.runs == 1 else []), *of_values(evidence, question.new)]
    size = (result.n, result.n_effective, result.runs)
    return replace(
        _verdict(evidence, result, message, step, added),
        unit=evidence.unit,
        shown_unit=evidence.shown_unit,
        statistic=evidence.shown_statistic,
        member=dict(member),
        better=evidence.method.better,
        bound=terms.bound,
        comparator=terms.comparator,
        confidence=terms.confidence,
        new=Estimate(result.estimate, result.low, result.high, *size),
        share=None if allowed is None else Estimate(result.share, result.share_low, result.share_high, *size),
        allowed_share=allowed,
        suspect=result.suspect,
        runs=_run_estimates("new", question.new),
    )


def _rank_ratio(evidence: Evidence, question: RankQuestion, result: LimitResult) -> Verdict:
    """Return the verdict on a ratio of ranks, which reads as a change from the reference rank to the judged one."""
    terms = question.terms[0]
    member, statistic = evidence.shown_member(question.new), evidence.method.statistic
    asks = evidence.clause.text
    reference = evidence.clause.asks.reference if isinstance(evidence.clause.asks, ChangeClause) else ""
    about = change.rank_values(
        evidence.name((), statistic), question.values[-1], evidence.unit, evidence.rank, reference
    )
    ratio = change.limit_message(evidence.name(member), result, asks, ("1", "x"), confidence=terms.confidence)
    bounds = (None if bound is None else bound - 1 for bound in (result.estimate, result.low, result.high))
    new, base = (
        Estimate(fmean(side), None, None, None, None, result.runs) for side in zip(*question.values, strict=True)
    )
    at, ref = str(evidence.rule.at), evidence.case.accept.ref
    next_step = change.limit_next_step(evidence.name(()), result, asks, at, None, ref)
    return replace(
        _verdict(evidence, result, about + ratio, next_step, [notes.ONE_RUN] if result.runs == 1 else []),
        unit=evidence.unit,
        statistic=statistic,
        member=dict(member),
        better=evidence.method.better,
        confidence=terms.confidence,
        new=new,
        base=base,
        change=RelativeChange(*bounds),
        tolerance=question.tolerance,
        suspect=result.suspect,
    )


def _change(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> Verdict:
    """Return the verdict on a change from base to new runs, or within pairs."""
    asks = evidence.clause.asks
    assert isinstance(asks, ChangeClause)
    terms, base, new, member = question.terms, question.base, question.new, evidence.shown_member(question.new)
    if question.ratios is not None:
        next_step = change.paired_next_step(result, max(evidence.case.looks or (), default=None))
    else:
        next_step = change.change_next_step(result, evidence.case.accept, question.reference)
    added = change_notes(evidence, question, result)
    # Exact values have no noise, and pairs have a note about theirs.
    has_noise = question.ratios is None and result.of_numbers.reason not in ("exact", "equal")
    known = evidence.calibrated() if has_noise else None
    allowance = result.allowance if result.allowance_effect == "eased" else None
    message = change_message(evidence, question, result, asks)
    return replace(
        _verdict(evidence, result, message, next_step, added),
        unit=evidence.unit,
        shown_unit=evidence.shown_unit,
        statistic=evidence.shown_statistic,
        member=dict(member),
        better=terms.better,
        # With an anchor, stored runs may come before the new ones; if the new ones alone fail, only they are shown.
        new=_estimate(result.new_value, new.measures[-result.new_runs :]),
        base=_estimate(result.base_value, base.measures),
        change=RelativeChange(result.estimate, result.low, result.high),
        tolerance=result.tolerance,
        two_sided=terms.worse == "either",
        confidence=terms.confidence,
        minimum_detectable_change=result.minimum_detectable_change,
        runs_needed=result.runs_needed,
        at_worst=result.at_worst,
        not_excluded=result.not_excluded,
        suspect=result.suspect,
        improved=result.improved,
        allowed_by=allowance.by if allowance else None,
        runs=_run_estimates("base", base) + _run_estimates("new", new)[-result.new_runs :],
        noise=None if known is None else known.said(),
        pooled=result.pooled,
        explained_by=explained_by(evidence, question, result) if is_explained(result) else (),
    )


def _work(evidence: Evidence, found: WorkResult) -> Verdict:
    """Return the verdict on exact work, with the places of the counts that grew."""
    if found.grown:
        sides = ([view.run for view in side] for side in (evidence.subject.base_views, evidence.subject.new_views))
        found = replace(found, grown=with_places(found.grown, *sides))
    step = work.work_next_step(found, evidence.case.accept)
    return replace(
        _verdict(evidence, found, work.work_message(found), step),
        statistic=None,
        work=(*found.grown, *found.shrunk, *found.unclear)[:_MOST_DIFFERENCES],
        improved=bool(found.shrunk) and not found.grown and found.outcome == "pass",
    )


def _estimate(value: float | None, runs: Sequence[RunMeasure]) -> Estimate:
    """Return the estimate of one side without bounds.

    The number of values is None if all runs are single numbers, and their effective number if any run is one.
    """
    effective = [run.n_effective for run in runs if run.n_effective is not None]
    n = sum(run.n for run in runs) if effective else None
    return Estimate(value, None, None, n, sum(effective) if len(effective) == len(runs) else None, len(runs))


def _run_estimates(side: Literal["base", "new"], measured: MeasuredSide) -> tuple[RunEstimate, ...]:
    """Return each run of a side by itself, as reports list them."""
    return tuple(
        RunEstimate(side, view.run.name, run.value, run.n, run.dropped, run.settled)
        for view, run in zip(measured.views, measured.measures, strict=True)
    )
