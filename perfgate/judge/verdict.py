"""From an answer to a verdict: its numbers, its message, its next step and its notes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from msgspec.structs import replace

from perfgate.core import QUARANTINED, Estimate, NextStep, Quarantine, RelativeChange, RunEstimate, Verdict
from perfgate.core.results import ChangeResult, LimitResult, Result
from perfgate.core.runs import machine_notes
from perfgate.core.units import format_number, format_value
from perfgate.core.wording import listed, plural
from perfgate.judge import messages
from perfgate.judge.evidence import Evidence
from perfgate.judge.explanation import explained_by, parts_not_stored
from perfgate.judge.pairs import WORDS, base_goes_first, number_of, order_bias
from perfgate.judge.question import ChangeQuestion, LimitQuestion, MeasuredSide, NotJudged, Question, RankQuestion
from perfgate.judge.report import verdict_exit_code
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause
from perfgate.stats.bounds import values_to_settle
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import two_modes

#: Values that the statistics cannot judge, although the runs have them.
BAD_VALUES = ("too-few-samples", "not-a-number", "not-positive", "tolerance-too-small", "no-new-run", "no-baseline")
_ONE_RUN = ("one run: the interval does not include the noise between runs",)
#: A change that one run shows is suspect at first, and its parts are what a user looks for next.
_EXPLAINED = ("fail", "suspect")


def verdict_of(evidence: Evidence, question: Question, found: Result, left_out: Sequence[str] = ()) -> Verdict:
    """The verdict of an answer; `left_out` are metrics of a glob whose unit does not fit the quantity."""
    verdict = _numbers(evidence, question, found)
    message, next_step = verdict.message, verdict.next_step
    notes = list(verdict.notes)
    if found.doubts:
        message, next_step, notes = _with_doubts(evidence, found, verdict)
    if isinstance(found, NotJudged) and found.accepted_missing:
        message = ("warning: " if found.accepted_missing == "warn" else "") + f"not judged: {message}"
    if found.otherwise is not None and (expected := evidence.rule.expect_fail):
        message = f"expected to fail until {expected.until} ({expected.reason}); now: {found.otherwise}: {message}"
        next_step = messages.expected_next_step(found.otherwise)
    if found.quarantine:
        message, notes = _with_quarantine(found.quarantine, verdict, message, notes)
    if left_out:
        notes.append(f"not judged by this rule, because the unit does not fit: {listed([*dict.fromkeys(left_out)])}")
    notes += machine_notes(evidence.case.facts)
    doubtful = bool(found.doubts)
    return replace(verdict, message=message, next_step=next_step, notes=tuple(notes), doubtful=doubtful)


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


def _with_quarantine(quarantine: Quarantine, verdict: Verdict, message: str, notes: list[str]) -> tuple[str, list[str]]:
    """The message of a verdict that the quarantine keeps from blocking, or that blocks again; a pass has a note."""
    if verdict.outcome not in QUARANTINED:
        over = f"the quarantine of this rule ended on {quarantine.until}: remove it"
        return message, [*notes, *([over] if quarantine.ended else [])]
    said = "the quarantine ended on" if quarantine.ended else "quarantined until"
    return f"{said} {quarantine.until} ({quarantine.reason}): {message}", notes


def _with_doubts(evidence: Evidence, found: Result, verdict: Verdict) -> tuple[str, NextStep, list[str]]:
    """The message, the next step and the notes of a verdict with its doubts: the one that decides comes first."""
    from perfgate.judge.doubt_messages import doubt_next_step, doubt_sentence

    first = next((one for one in found.doubts if one.decides and one.reason == found.reason), None)
    texts = {one: doubt_sentence(one, evidence.unit, evidence.shown_unit) for one in found.doubts}
    notes = [*verdict.notes, *(text for one, text in texts.items() if one is not first)]
    if first is None:
        return verdict.message, verdict.next_step, notes
    has_base = any(evidence.subject.base)
    step = doubt_next_step(first, evidence.case.accept, has_base=has_base)
    return f"{texts[first]}; {verdict.message}", step, notes


def _verdict(
    evidence: Evidence, found: Result, message: str, next_step: NextStep, notes: Sequence[str] = ()
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
        notes=tuple(notes),
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
    message = messages.limit_message(
        name, result, asks, units, confidence=terms.confidence, dropped=dropped, is_open=is_open
    )
    may_pass = is_open and evidence.rule.settings.on_inconclusive is None
    at, ref = str(evidence.rule.at), evidence.case.accept.ref
    step = messages.limit_next_step(result, asks, at, needed, ref, is_open=may_pass)
    notes = [*(_ONE_RUN if result.runs == 1 else ()), *_two_modes(evidence, question.new)]
    size = (result.n, result.n_effective, result.runs)
    return replace(
        _verdict(evidence, result, message, step, notes),
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
    one, two = (format_value(value, evidence.unit) for value in question.values[-1])
    about = f"{evidence.name((), statistic)} is {one} on the {evidence.rank} rank, {two} on the {reference}: "
    ratio = messages.limit_message(evidence.name(member), result, asks, ("1", "x"), confidence=terms.confidence)
    bounds = (None if bound is None else bound - 1 for bound in (result.estimate, result.low, result.high))
    new, base = (
        Estimate(fmean(side), None, None, None, None, result.runs) for side in zip(*question.values, strict=True)
    )
    next_step = messages.limit_next_step(result, asks, str(evidence.rule.at), None, evidence.case.accept.ref)
    return replace(
        _verdict(evidence, result, about + ratio, next_step, _ONE_RUN if result.runs == 1 else ()),
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
        next_step, notes = messages.paired_next_step(result), _paired_notes(evidence, question, result)
    else:
        next_step = messages.change_next_step(result, evidence.case.accept, question.reference)
        notes = _change_notes(evidence, question, result)
    if result.pooled:
        notes = [*notes, messages.pooled_note(result.pooled)]
    if result.allowance or result.family:
        notes = _with_adjustments(question, result, notes)
    # Exact values have no noise, and a note tells that of pairs.
    has_noise = question.ratios is None and result.of_numbers.reason not in ("exact", "equal")
    known = evidence.calibrated() if has_noise else None
    allowance = result.allowance if result.allowance_effect == "eased" else None
    message = _change_message(evidence, question, result, asks)
    if result.pooled and result.pooled.decides:
        message = f"with {plural(len(result.pooled.commits), 'earlier run')} of {result.pooled.branch}: {message}"
    if allowance:
        until = f"until {allowance.expires} ({allowance.reason})"
        message = f"allowed up to {100 * allowance.up_to:g}% by {allowance.by} {until}: {message}"
    return replace(
        _verdict(evidence, result, message, next_step, notes),
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
    return messages.change_message(name, result, reference, units, text, dropped)


def _with_adjustments(question: ChangeQuestion, result: ChangeResult, notes: list[str]) -> list[str]:
    """The notes of a change with what an allowance and the correction for many metrics did."""
    allowance = result.allowance
    if allowance:
        allowed = f"{100 * allowance.up_to:g}% by {allowance.by}"
        if result.allowance_effect == "eased":  # a pass shows no message, and this one is beyond its own rule
            notes = [f"allowed by {allowance.by}: {allowance.reason}", *notes]
        elif result.allowance_effect == "expired":
            notes = [*notes, f"the allowance of {allowed} expired on {allowance.expires}"]
        else:
            notes = [*notes, f"the allowance of {allowed} is not enough"]
    if result.family:
        level = f"{100 * (1 - question.terms.confidence):g}%"
        notes = [*notes, f"one of {result.family} metrics of a glob, corrected with Benjamini-Hochberg at {level}"]
    return notes


def _change_notes(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> list[str]:
    baseline = evidence.case.baseline
    notes = ["an improvement beyond the tolerance"] if result.improved else []
    if result.of_numbers.outcome in _EXPLAINED and (parts := parts_not_stored(evidence, question)):
        notes.append(
            f"the slower part is unknown: the baseline has none of {listed(parts)}; a run that is stored now has them"
        )
    if result.base_runs == 1:
        notes.append("one base run: weak evidence")
    if not all(run.settled for run in (*question.base.measures, *question.new.measures)):
        notes.append("the warm-up of a run did not end: a quarter of its values was dropped")
    if evidence.calibrated() is None and result.of_numbers.reason in ("interval", "cannot-exclude"):
        learned = evidence.calibrated(is_believed=True)
        advice = ": `perfgate calibrate` measures it from the stored runs" if baseline.calibratable else ""
        source = "estimated from these few runs" if question.terms.looks else "assumed to be 1%"
        if learned is not None:
            advice = f": these runs differ by more than the {format_number(100 * learned.s0, 2)}% of the history"
        notes.append(f"run-to-run noise is {source}, not calibrated{advice}")
    if evidence.method.better == "higher" and (result.tolerance or 0) >= 1:
        notes.append("this rule cannot fail: nothing falls by 100% or more")
    if evidence.method.better == "neither":
        notes.append("the better direction is unknown, so both are judged: set `better:` in the rule")
    return notes + _two_modes(evidence, question.new)


def _paired_notes(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> list[str]:
    """Return notes on how the pairs were made, the effect of their order, and their limits."""
    baseline = evidence.case.baseline
    pairing = baseline.pairing or "whole-runs"
    notes = ["an improvement beyond the tolerance"] if result.improved else []
    known = evidence.calibrated(pairing)
    measured = f"; noise measured on {plural(known.runs, 'pair')}" if known else ""
    notes.append(f"judged against the paired base: {plural(result.new_runs, 'pair')}, {WORDS[pairing]}{measured}")
    firsts = [base_goes_first(number_of(view.run.source)) for view in question.base.views]
    bias = order_bias(question.base.series, question.new.series, firsts) if pairing != "whole-runs" else None
    if bias is not None:
        large = abs(bias) > (result.tolerance or 0.0)
        effect = "more than the tolerance, so look at what a step leaves to the next" if large else "removed"
        notes.append(f"order effect: {format_number(100 * abs(bias), 2)}% ({effect})")
    if result.new_runs == 1 and pairing != "one-process":
        notes.append("one pair: the random memory layout of its processes does not average out")
    return notes + _two_modes(evidence, question.new)


def _two_modes(evidence: Evidence, side: MeasuredSide) -> list[str]:
    """A warning about the first run with two modes: its median can jump between them."""
    if evidence.method.statistic != "median":
        return []
    for series in side.series:
        modes = two_modes(evidence.method.steady(series).values) if series.kind == "samples" else None
        if modes is not None:
            low, high = format_value(modes.low_centre, series.unit), format_value(modes.high_centre, series.unit)
            shares = f"{100 * modes.low_share:.0f}% near {low}, {100 * modes.high_share:.0f}% near {high}"
            return [f"two modes: {shares}; the median can jump: use p90 or mean"]
    return []


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
