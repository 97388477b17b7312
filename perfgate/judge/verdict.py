"""From an answer to a verdict: its numbers, and the sentences of `perfgate.words` about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Literal

from msgspec.structs import replace

from perfgate.core import QUARANTINED, Estimate, NextStep, RelativeChange, RunEstimate, Verdict
from perfgate.core.results import ChangeResult, LimitResult, Result
from perfgate.core.runs import machine_notes
from perfgate.judge.evidence import Evidence
from perfgate.judge.explanation import explained_by, parts_not_stored
from perfgate.judge.pairs import base_goes_first, number_of, order_bias
from perfgate.judge.question import ChangeQuestion, LimitQuestion, MeasuredSide, NotJudged, Question, RankQuestion
from perfgate.judge.report import verdict_exit_code
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause
from perfgate.stats.bounds import values_to_settle
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import two_modes
from perfgate.words import change, limit, notes, steps
from perfgate.words.doubts import doubt_next_step, doubt_sentence

#: Values that the statistics cannot judge, although the runs have them.
BAD_VALUES = ("too-few-samples", "not-a-number", "not-positive", "tolerance-too-small", "no-new-run", "no-baseline")
#: A change that one run shows is suspect at first, and its parts are what a user looks for next.
_EXPLAINED = ("fail", "suspect")


def verdict_of(
    evidence: Evidence, question: Question, found: Result, left_out: Sequence[str] = (), worst: float = 0.0
) -> Verdict:
    """The verdict of an answer.

    Parameters
    ----------
    left_out: the metrics of a glob whose unit does not fit the quantity.
    worst: the largest worsening of the metric in all verdicts, which an allowance has to allow.
    """
    verdict = _numbers(evidence, question, found)
    message, next_step, added = verdict.message, verdict.next_step, list(verdict.notes)
    if found.doubts:
        message, next_step, added = _with_doubts(evidence, found, verdict)
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
    if next_step.action == "allow":
        next_step = steps.allow_step(next_step, evidence.case.accept, verdict.metric, worst)
    doubtful = bool(found.doubts)
    return replace(verdict, message=message, next_step=next_step, notes=tuple(added), doubtful=doubtful)


def worsening(found: Result) -> float:
    """The largest worsening that the interval of a change includes; 0 for other answers."""
    if not isinstance(found, ChangeResult):
        return 0.0
    end = found.low if (found.estimate or 0.0) < 0 else found.high
    return abs(end or found.estimate or 0.0)


def _numbers(evidence: Evidence, question: Question, found: Result) -> Verdict:
    """The verdict with the numbers of its answer and the sentence about them."""
    if isinstance(found, NotJudged):
        return _not_judged(evidence, found)
    if found.outcome == "error" and found.reason in BAD_VALUES and not isinstance(question, NotJudged):
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


def _with_doubts(evidence: Evidence, found: Result, verdict: Verdict) -> tuple[str, NextStep, list[str]]:
    """The message, the next step and the notes of a verdict with its doubts: the one that decides comes first."""
    first = next((one for one in found.doubts if one.decides and one.reason == found.reason), None)
    texts = {one: doubt_sentence(one, evidence.unit, evidence.shown_unit) for one in found.doubts}
    added = [*verdict.notes, *(text for one, text in texts.items() if one is not first)]
    if first is None:
        return verdict.message, verdict.next_step, added
    has_base = any(evidence.subject.base)
    step = doubt_next_step(first, evidence.case.accept, has_base=has_base)
    return f"{texts[first]}; {verdict.message}", step, added


def _verdict(
    evidence: Evidence, found: Result, message: str, next_step: NextStep, added: Sequence[str] = ()
) -> Verdict:
    """Return a verdict with the fields that all answers have in common."""
    rule, asks = evidence.rule, evidence.clause.asks
    return Verdict(
        rule=rule.name,
        metric=evidence.subject.key.metric,
        labels=dict(evidence.subject.key.labels),
        statistic=rule.sentence.statistic,
        outcome=found.outcome,
        reason=found.reason,
        severity=rule.settings.severity,
        exit_code=verdict_exit_code(found.outcome, found.reason, rule.settings, found.quarantine),
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
    )


def _not_judged(evidence: Evidence, found: NotJudged) -> Verdict:
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
    asks = evidence.clause.text
    terms, member = question.terms, evidence.shown_member(question.new)
    allowed = needed = None
    if result.share is not None:  # of a percentile
        q = 0.5 if terms.statistic == "median" else float(terms.statistic[1:]) / 100
        allowed = 1 - q if terms.upper else q
        if result.of_numbers.outcome in ("inconclusive", "suspect"):
            needed = values_to_settle(result.share, allowed, terms.confidence)
    name, units = evidence.name(member, evidence.shown_statistic), (evidence.unit, evidence.shown_unit)
    dropped = sum(run.dropped for run in question.runs)
    bad_end = result.high if terms.upper else result.low
    is_open = (result.of_numbers.outcome, result.of_numbers.reason, bad_end) == ("inconclusive", "interval", None)
    message = limit.limit_message(
        name, result, asks, units, confidence=terms.confidence, dropped=dropped, is_open=is_open
    )
    may_pass = is_open and evidence.rule.settings.on_inconclusive is None
    at, ref = str(evidence.rule.at), evidence.case.accept.ref
    step = limit.limit_next_step(result, asks, at, needed, ref, is_open=may_pass)
    added = [*_of_one_run(result), *_two_modes(evidence, question.new)]
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
    """The verdict on a ratio of ranks, which reads as a change from the reference rank to the judged one."""
    terms = question.terms[0]
    member, statistic = evidence.shown_member(question.new), evidence.method.statistic
    asks = evidence.clause.text
    reference = evidence.clause.asks.reference if isinstance(evidence.clause.asks, ChangeClause) else ""
    about = limit.rank_values(
        evidence.name((), statistic), question.values[-1], evidence.unit, evidence.rank, reference
    )
    ratio = limit.limit_message(evidence.name(member), result, asks, ("1", "x"), confidence=terms.confidence)
    bounds = (None if bound is None else bound - 1 for bound in (result.estimate, result.low, result.high))
    new, base = (
        Estimate(fmean(side), None, None, None, None, result.runs) for side in zip(*question.values, strict=True)
    )
    next_step = limit.limit_next_step(result, asks, str(evidence.rule.at), None, evidence.case.accept.ref)
    return replace(
        _verdict(evidence, result, about + ratio, next_step, _of_one_run(result)),
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
    asks = evidence.clause.asks
    assert isinstance(asks, ChangeClause)
    terms, base, new, member = question.terms, question.base, question.new, evidence.shown_member(question.new)
    if question.ratios is not None:
        next_step = change.paired_next_step(result)
    else:
        next_step = change.change_next_step(result, evidence.case.accept, question.reference)
    added = _change_notes(evidence, question, result)
    # Exact values have no noise, and a note tells that of pairs.
    has_noise = question.ratios is None and result.of_numbers.reason not in ("exact", "equal")
    known = evidence.calibrated() if has_noise else None
    allowance = result.allowance if result.allowance_effect == "eased" else None
    message = _change_message(evidence, question, result, asks)
    if result.pooled and result.pooled.decides:
        message = notes.with_earlier_runs(result.pooled, message)
    if allowance:
        message = notes.allowed_up_to(allowance, message)
    return replace(
        _verdict(evidence, result, message, next_step, added),
        unit=evidence.unit,
        shown_unit=evidence.shown_unit,
        statistic=evidence.shown_statistic,
        member=dict(member),
        better=terms.better,
        new=_estimate(result.new_value, new.measures),
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
        runs=_run_estimates("base", base) + _run_estimates("new", new),
        noise=None if known is None else known.said(),
        pooled=result.pooled,
        explained_by=explained_by(evidence, question, result) if result.outcome in _EXPLAINED else (),
    )


def _change_message(evidence: Evidence, question: ChangeQuestion, result: ChangeResult, asks: ChangeClause) -> str:
    tolerance = question.terms.tolerance
    if result.allowance is not None and result.allowance_effect == "eased":
        tolerance = max(tolerance or 0.0, result.allowance.up_to)
    parts = [f"{100 * tolerance:g}%"] if tolerance is not None else []
    parts += [str(asks.absolute)] if asks.absolute is not None else []
    text = ("±" if asks.side == "both" else "") + " and ".join(parts)
    name = evidence.name(evidence.shown_member(question.new), evidence.shown_statistic)
    reference = asks.reference if question.ratios is None else "paired base"
    units, dropped = (evidence.unit, evidence.shown_unit), sum(run.dropped for run in question.new.measures)
    return change.change_message(name, result, reference, units, text, dropped)


def _change_notes(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> list[str]:
    added = [notes.IMPROVED] if result.improved else []
    added += (
        _of_pairs(evidence, question, result) if question.ratios is not None else _of_runs(evidence, question, result)
    )
    added += _two_modes(evidence, question.new)
    if result.pooled:
        added.append(change.pooled_note(result.pooled))
    if result.allowance:
        said = notes.allowance(result.allowance, result.allowance_effect)
        # A pass shows no message, and this one is beyond its own rule.
        added = [said, *added] if result.allowance_effect == "eased" else [*added, said]
    if result.family:
        added.append(notes.one_of_many(result.family, question.terms.confidence))
    return added


def _of_runs(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> Iterator[str]:
    """Yield notes on what the runs do not show."""
    if result.of_numbers.outcome in _EXPLAINED and (parts := parts_not_stored(evidence, question)):
        yield notes.unstored_parts(parts)
    if result.base_runs == 1:
        yield notes.ONE_BASE_RUN
    if not all(run.settled for run in (*question.base.measures, *question.new.measures)):
        yield notes.UNSETTLED
    if evidence.calibrated() is None and result.of_numbers.reason in ("interval", "cannot-exclude"):
        learned = evidence.calibrated(is_believed=True)
        yield notes.uncalibrated(
            has_looks=question.terms.looks is not None,
            can_calibrate=evidence.case.baseline.calibratable,
            history=None if learned is None else learned.s0,
        )
    if evidence.method.better == "higher" and (result.tolerance or 0) >= 1:
        yield notes.CANNOT_FAIL
    if evidence.method.better == "neither":
        yield notes.NO_DIRECTION


def _of_pairs(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> Iterator[str]:
    """Yield notes on how the pairs were made, the effect of their order, and their limits."""
    pairing = evidence.case.baseline.pairing or "whole-runs"
    known = evidence.calibrated(pairing)
    yield notes.paired(result.new_runs, pairing, None if known is None else known.runs)
    firsts = [base_goes_first(number_of(view.run.source)) for view in question.base.views]
    bias = order_bias(question.base.series, question.new.series, firsts) if pairing != "whole-runs" else None
    if bias is not None:
        yield notes.order_effect(bias, result.tolerance or 0.0)
    if result.new_runs == 1 and pairing != "one-process":
        yield notes.ONE_PAIR


def _of_one_run(result: LimitResult) -> tuple[str, ...]:
    return (notes.ONE_RUN,) if result.runs == 1 else ()


def _two_modes(evidence: Evidence, side: MeasuredSide) -> Iterator[str]:
    """Yield a warning about the first run with two modes: its median can jump between them."""
    for series in side.series if evidence.method.statistic == "median" else ():
        modes = two_modes(evidence.method.steady(series).values) if series.kind == "samples" else None
        if modes is not None:
            yield notes.two_modes(modes.low_centre, modes.high_centre, modes.low_share, series.unit)
            return


def _estimate(value: float | None, runs: Sequence[RunMeasure]) -> Estimate:
    """One side; a run that is a single number has no values to count."""
    effective = [run.n_effective for run in runs if run.n_effective is not None]
    n = sum(run.n for run in runs) if effective else None
    return Estimate(value, None, None, n, sum(effective) if len(effective) == len(runs) else None, len(runs))


def _run_estimates(side: Literal["base", "new"], measured: MeasuredSide) -> tuple[RunEstimate, ...]:
    """Each run of a side by itself, as reports list them."""
    return tuple(
        RunEstimate(side, view.run.name, run.value, run.n, run.dropped, run.settled)
        for view, run in zip(measured.views, measured.measures, strict=True)
    )
