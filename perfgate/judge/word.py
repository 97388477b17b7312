"""From a decision to a verdict: its numbers, its message, its next step and its notes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from msgspec.structs import replace

from perfgate.core import QUARANTINED, Estimate, NextStep, Quarantine, RelativeChange, RunEstimate, Verdict
from perfgate.core.runs import machine_notes
from perfgate.core.units import format_number, format_value
from perfgate.core.wording import listed, plural
from perfgate.judge import messages
from perfgate.judge.decide_promise import PromiseResult
from perfgate.judge.decisions import ChangeDecision, Decision, LimitDecision, MeasuredSide, NotJudged, RankDecision
from perfgate.judge.explanation import explained_by, parts_not_stored
from perfgate.judge.inquiry import Inquiry
from perfgate.judge.pairs import WORDS, base_goes_first, number_of, order_bias
from perfgate.judge.report import verdict_exit_code
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause
from perfgate.stats.bounds import values_to_settle
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import two_modes

_ONE_RUN = ("one run: the interval does not include the noise between runs",)
#: A change that one run shows is suspect at first, and its parts are what a user looks for next.
_EXPLAINED = ("fail", "suspect")


def word(inquiry: Inquiry, decision: Decision, left_out: Sequence[str] = ()) -> Verdict:
    """The verdict of a decision; `left_out` are metrics of a glob whose unit does not fit the quantity."""
    if isinstance(decision, LimitDecision):
        verdict = _limit(inquiry, decision)
    elif isinstance(decision, RankDecision):
        verdict = _rank_ratio(inquiry, decision)
    elif isinstance(decision, ChangeDecision):
        verdict = _change(inquiry, decision)
    else:
        verdict = _not_judged(inquiry, decision)
    message, next_step = verdict.message, verdict.next_step
    notes = list(verdict.notes)
    if decision.doubts:
        message, next_step, notes = _with_doubts(inquiry, decision, verdict)
    if decision.accepted_missing:
        message = ("warning: " if decision.accepted_missing == "warn" else "") + f"not judged: {message}"
    if decision.expected:
        known = f"expected to fail until {decision.expected.until} ({decision.expected.reason})"
        message = f"{known}; now: {decision.otherwise}: {message}"
        next_step = messages.expected_next_step(decision.otherwise)
    if decision.quarantine:
        message, notes = _with_quarantine(decision.quarantine, verdict, message, notes)
    if left_out:
        notes.append(f"not judged by this rule, because the unit does not fit: {listed([*dict.fromkeys(left_out)])}")
    notes += machine_notes(inquiry.case.facts)
    doubtful = bool(decision.doubts)
    return replace(verdict, message=message, next_step=next_step, notes=tuple(notes), doubtful=doubtful)


def _with_quarantine(quarantine: Quarantine, verdict: Verdict, message: str, notes: list[str]) -> tuple[str, list[str]]:
    """The message of a verdict that the quarantine keeps from blocking, or that blocks again; a pass has a note."""
    if verdict.outcome not in QUARANTINED:
        over = f"the quarantine of this rule ended on {quarantine.until}: remove it"
        return message, [*notes, *([over] if quarantine.ended else [])]
    said = "the quarantine ended on" if quarantine.ended else "quarantined until"
    return f"{said} {quarantine.until} ({quarantine.reason}): {message}", notes


def _with_doubts(inquiry: Inquiry, decision: Decision, verdict: Verdict) -> tuple[str, NextStep, list[str]]:
    """The message, the next step and the notes of a verdict with its doubts: the one that decides comes first."""
    from perfgate.judge.doubt_messages import doubt_next_step, doubt_sentence

    first = next((one for one in decision.doubts if one.decides and one.reason == decision.reason), None)
    texts = {one: doubt_sentence(one, inquiry.unit, inquiry.shown_unit) for one in decision.doubts}
    notes = [*verdict.notes, *(text for one, text in texts.items() if one is not first)]
    if first is None:
        return verdict.message, verdict.next_step, notes
    has_base = any(inquiry.subject.base)
    step = doubt_next_step(first, inquiry.case.accept, has_base=has_base)
    return f"{texts[first]}; {verdict.message}", step, notes


def _verdict(
    inquiry: Inquiry, decision: Decision, message: str, next_step: NextStep, notes: Sequence[str] = ()
) -> Verdict:
    """Return a verdict with the fields that all decisions have in common."""
    rule, asks = inquiry.rule, inquiry.clause.asks
    return Verdict(
        rule=rule.name,
        metric=inquiry.subject.key.metric,
        labels=dict(inquiry.subject.key.labels),
        statistic=rule.sentence.statistic,
        outcome=decision.outcome,
        reason=decision.reason,
        severity=rule.settings.severity,
        exit_code=verdict_exit_code(decision.outcome, decision.reason, rule.settings, decision.quarantine),
        kind="limit" if isinstance(asks, LimitClause) else "change",
        unit=None,
        message=message,
        next_step=next_step,
        at=rule.at,
        against=None if isinstance(asks, LimitClause) else asks.reference,
        member=dict(inquiry.member),
        asks=inquiry.clause.text,
        confidence=rule.settings.confidence,
        notes=tuple(notes),
        why=rule.why,
        owner=rule.settings.owner,
        quarantine=decision.quarantine,
    )


def _not_judged(inquiry: Inquiry, decision: NotJudged) -> Verdict:
    verdict, new = _verdict(inquiry, decision, decision.message, decision.next_step), decision.new
    if new is None:
        return verdict
    values = [run.value for run in new.measures if run.value is not None]
    return replace(
        verdict,
        unit=inquiry.unit,
        shown_unit=inquiry.shown_unit,
        statistic=inquiry.shown_statistic,
        member=dict(inquiry.shown_member(new)),
        new=_estimate(sum(values) / len(values) if values else None, new.measures),
        runs=_run_estimates("new", new),
    )


def _limit(inquiry: Inquiry, decision: LimitDecision) -> Verdict:
    question, result, asks = decision.question, decision.result, inquiry.clause.text
    terms, member = question.terms, inquiry.shown_member(question.new)
    allowed = needed = None
    if result.share is not None:  # of a percentile
        q = 0.5 if terms.statistic == "median" else float(terms.statistic[1:]) / 100
        allowed = 1 - q if terms.upper else q
        if result.outcome in ("inconclusive", "suspect"):
            needed = values_to_settle(result.share, allowed, terms.confidence)
    name, units = inquiry.name(member, inquiry.shown_statistic), (inquiry.unit, inquiry.shown_unit)
    dropped = sum(run.dropped for run in question.runs)
    bad_end = result.high if terms.upper else result.low
    is_open = (result.outcome, result.reason, bad_end) == ("inconclusive", "interval", None)
    message = messages.limit_message(
        name, result, asks, units, confidence=terms.confidence, dropped=dropped, is_open=is_open
    )
    may_pass = is_open and inquiry.rule.settings.on_inconclusive is None
    at, ref = str(inquiry.rule.at), inquiry.case.accept.ref
    step = messages.limit_next_step(result, asks, at, needed, ref, is_open=may_pass)
    notes = [*(_ONE_RUN if result.runs == 1 else ()), *_two_modes(inquiry, question.new)]
    size = (result.n, result.n_effective, result.runs)
    return replace(
        _verdict(inquiry, decision, message, step, notes),
        unit=inquiry.unit,
        shown_unit=inquiry.shown_unit,
        statistic=inquiry.shown_statistic,
        member=dict(member),
        better=inquiry.method.better,
        bound=terms.bound,
        comparator=terms.comparator,
        confidence=terms.confidence,
        new=Estimate(result.estimate, result.low, result.high, *size),
        share=None if allowed is None else Estimate(result.share, result.share_low, result.share_high, *size),
        allowed_share=allowed,
        suspect=result.suspect,
        runs=_run_estimates("new", question.new),
    )


def _rank_ratio(inquiry: Inquiry, decision: RankDecision) -> Verdict:
    """The verdict on a ratio of ranks, which reads as a change from the reference rank to the judged one."""
    question, result, terms = decision.question, decision.result, decision.terms
    member, statistic = inquiry.shown_member(question.new), inquiry.method.statistic
    asks = inquiry.clause.text
    reference = inquiry.clause.asks.reference if isinstance(inquiry.clause.asks, ChangeClause) else ""
    one, two = (format_value(value, inquiry.unit) for value in question.values[-1])
    about = f"{inquiry.name((), statistic)} is {one} on the {inquiry.rank} rank, {two} on the {reference}: "
    ratio = messages.limit_message(inquiry.name(member), result, asks, ("1", "x"), confidence=terms.confidence)
    bounds = (None if bound is None else bound - 1 for bound in (result.estimate, result.low, result.high))
    new, base = (
        Estimate(fmean(side), None, None, None, None, result.runs) for side in zip(*question.values, strict=True)
    )
    next_step = messages.limit_next_step(result, asks, str(inquiry.rule.at), None, inquiry.case.accept.ref)
    return replace(
        _verdict(inquiry, decision, about + ratio, next_step, _ONE_RUN if result.runs == 1 else ()),
        unit=inquiry.unit,
        statistic=statistic,
        member=dict(member),
        better=inquiry.method.better,
        confidence=terms.confidence,
        new=new,
        base=base,
        change=RelativeChange(*bounds),
        tolerance=question.tolerance,
        suspect=result.suspect,
    )


def _change(inquiry: Inquiry, decision: ChangeDecision) -> Verdict:
    question, result, asks = decision.question, decision.result, inquiry.clause.asks
    assert isinstance(asks, ChangeClause)
    terms, base, new, member = question.terms, question.base, question.new, inquiry.shown_member(question.new)
    if question.ratios is not None:
        next_step, notes = messages.paired_next_step(result), _paired_notes(inquiry, decision)
    else:
        next_step = messages.change_next_step(result, inquiry.case.accept, question.reference)
        notes = _change_notes(inquiry, decision)
    if decision.pooled:
        notes = [*notes, messages.pooled_note(decision.pooled)]
    if decision.allowance or decision.family:
        notes = _with_adjustments(decision, notes)
    # Exact values have no noise, and a note tells that of pairs.
    has_noise = question.ratios is None and result.reason not in ("exact", "equal")
    known = inquiry.calibrated() if has_noise else None
    allowance = decision.allowance if decision.allowance_effect == "eased" else None
    message = _change_message(inquiry, decision, asks)
    if decision.pooled and decision.pooled.decides:
        message = f"with {plural(len(decision.pooled.commits), 'earlier run')} of {decision.pooled.branch}: {message}"
    if allowance:
        until = f"until {allowance.expires} ({allowance.reason})"
        message = f"allowed up to {100 * allowance.up_to:g}% by {allowance.by} {until}: {message}"
    return replace(
        _verdict(inquiry, decision, message, next_step, notes),
        unit=inquiry.unit,
        shown_unit=inquiry.shown_unit,
        statistic=inquiry.shown_statistic,
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
        at_worst=result.at_worst if isinstance(result, PromiseResult) else None,
        not_excluded=result.not_excluded if isinstance(result, PromiseResult) else None,
        suspect=result.suspect,
        improved=result.improved,
        allowed_by=allowance.by if allowance else None,
        runs=_run_estimates("base", base) + _run_estimates("new", new),
        noise=None if known is None else known.said(),
        pooled=decision.pooled,
        explained_by=explained_by(inquiry, question, result) if decision.outcome in _EXPLAINED else (),
    )


def _change_message(inquiry: Inquiry, decision: ChangeDecision, asks: ChangeClause) -> str:
    question = decision.question
    tolerance = question.terms.tolerance  # eased if an allowance applies
    parts = [f"{100 * tolerance:g}%"] if tolerance is not None else []
    parts += [str(asks.absolute)] if asks.absolute is not None else []
    text = ("±" if asks.side == "both" else "") + " and ".join(parts)
    name = inquiry.name(inquiry.shown_member(question.new), inquiry.shown_statistic)
    reference = asks.reference if question.ratios is None else "paired base"
    units, dropped = (inquiry.unit, inquiry.shown_unit), sum(run.dropped for run in question.new.measures)
    return messages.change_message(name, decision.result, reference, units, text, dropped)


def _with_adjustments(decision: ChangeDecision, notes: list[str]) -> list[str]:
    """The notes of a change with what the adjustments did."""
    allowance = decision.allowance
    if allowance:
        allowed = f"{100 * allowance.up_to:g}% by {allowance.by}"
        if decision.allowance_effect == "eased":  # a pass shows no message, and this one is beyond its own rule
            notes = [f"allowed by {allowance.by}: {allowance.reason}", *notes]
        elif decision.allowance_effect == "expired":
            notes = [*notes, f"the allowance of {allowed} expired on {allowance.expires}"]
        else:
            notes = [*notes, f"the allowance of {allowed} is not enough"]
    if decision.family:
        level = f"{100 * (1 - decision.question.terms.confidence):g}%"
        notes = [*notes, f"one of {decision.family} metrics of a glob, corrected with Benjamini-Hochberg at {level}"]
    return notes


def _change_notes(inquiry: Inquiry, decision: ChangeDecision) -> list[str]:
    question, result, baseline = decision.question, decision.result, inquiry.case.baseline
    notes = ["an improvement beyond the tolerance"] if result.improved else []
    if result.outcome in _EXPLAINED and (parts := parts_not_stored(inquiry, question)):
        notes.append(
            f"the slower part is unknown: the baseline has none of {listed(parts)}; a run that is stored now has them"
        )
    if result.base_runs == 1:
        notes.append("one base run: weak evidence")
    if not all(run.settled for run in (*question.base.measures, *question.new.measures)):
        notes.append("the warm-up of a run did not end: a quarter of its values was dropped")
    if inquiry.calibrated() is None and result.reason in ("interval", "cannot-exclude"):
        learned = inquiry.calibrated(is_believed=True)
        advice = ": `perfgate calibrate` measures it from the stored runs" if baseline.calibratable else ""
        source = "estimated from these few runs" if question.promise else "assumed to be 1%"
        if learned is not None:
            advice = f": these runs differ by more than the {format_number(100 * learned.s0, 2)}% of the history"
        notes.append(f"run-to-run noise is {source}, not calibrated{advice}")
    if inquiry.method.better == "higher" and (result.tolerance or 0) >= 1:
        notes.append("this rule cannot fail: nothing falls by 100% or more")
    if inquiry.method.better == "neither":
        notes.append("the better direction is unknown, so both are judged: set `better:` in the rule")
    return notes + _two_modes(inquiry, question.new)


def _paired_notes(inquiry: Inquiry, decision: ChangeDecision) -> list[str]:
    """Return notes on how the pairs were made, the effect of their order, and their limits."""
    question, result, baseline = decision.question, decision.result, inquiry.case.baseline
    pairing = baseline.pairing or "whole-runs"
    notes = ["an improvement beyond the tolerance"] if result.improved else []
    known = inquiry.calibrated(pairing)
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
    return notes + _two_modes(inquiry, question.new)


def _two_modes(inquiry: Inquiry, side: MeasuredSide) -> list[str]:
    """A warning about the first run with two modes: its median can jump between them."""
    if inquiry.method.statistic != "median":
        return []
    for series in side.series:
        modes = two_modes(inquiry.method.steady(series).values) if series.kind == "samples" else None
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
