"""The sentences of one verdict, which are chosen from `perfgate.words` for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from msgspec.structs import replace

from perfgate.core import NextStep, Verdict
from perfgate.core.results import ChangeResult, Result
from perfgate.core.runs import is_large
from perfgate.core.units import SPEEDS, format_change
from perfgate.judge.evidence import Evidence
from perfgate.judge.exact_work import less_work
from perfgate.judge.explanation import parts_not_stored
from perfgate.judge.pairs import base_goes_first, number_of, order_bias
from perfgate.judge.question import ChangeQuestion, MeasuredSide
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.statistics import MIDDLES
from perfgate.stats.steady import stalls, two_modes
from perfgate.words import change, notes


def is_explained(found: Result) -> bool:
    """Return whether the parts of a change are shown: if it failed, by the numbers or in the end, or is suspect."""
    return found.of_numbers.outcome == "fail" or found.outcome == "fail" or found.suspect


def with_doubts(evidence: Evidence, found: Result, verdict: Verdict) -> tuple[str, NextStep, list[str]]:
    """Return the message, the next step and the notes of a verdict with its doubts; the deciding doubt comes first."""
    first = next((one for one in found.doubts if one.decides and one.reason == found.reason), None)
    texts = {one: notes.doubt_sentence(one, evidence.unit, evidence.shown_unit) for one in found.doubts}
    added = [*verdict.notes, *(text for one, text in texts.items() if one is not first)]
    if first is None:
        return verdict.message, verdict.next_step, added
    has_base = any(evidence.subject.base)
    accept = evidence.case.accept
    if evidence.case.baseline.pairing is not None:
        accept = replace(accept, has_store=False)  # the base of a pair is not stored
    step = notes.doubt_next_step(first, accept, has_base=has_base)
    return f"{texts[first]}; {verdict.message}", step, added


def change_message(evidence: Evidence, question: ChangeQuestion, result: ChangeResult, asks: ChangeClause) -> str:
    """Return the sentence about a change; an allowance or earlier runs that decide come first."""
    tolerance = question.terms.tolerance
    if result.allowance is not None and result.allowance_effect == "eased":
        tolerance = max(tolerance or 0.0, result.allowance.up_to)
    parts = [f"{100 * tolerance:g}%"] if tolerance is not None else []
    parts += [str(asks.absolute)] if asks.absolute is not None else []
    text = ("±" if asks.side == "both" else "") + " and ".join(parts)
    name = evidence.name(evidence.shown_member(question.new), evidence.shown_statistic)
    reference = asks.reference if question.ratios is None else change.PAIRED_BASE
    units, dropped = (evidence.unit, evidence.shown_unit), sum(run.dropped for run in question.new.measures)
    message = change.change_message(name, result, reference, units, text, dropped)
    if result.pooled is not None and result.pooled.decides:
        message = notes.with_earlier_runs(result.pooled, message)
    if result.allowance is not None and result.allowance_effect == "eased":
        message = notes.allowed_up_to(result.allowance, message)
    return message


def change_notes(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> list[str]:
    """Return the notes below a change."""
    added = [notes.IMPROVED] if result.improved else []
    if result.improved and (found := less_work(evidence)) is not None:
        added.append(notes.less_work(result.estimate, *found))
    of_side = _of_runs if question.ratios is None else _of_pairs
    added += of_side(evidence, question, result)
    added += of_values(evidence, question.new, question.base)
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
    """Yield notes on the limits of stored runs: missing parts, few runs, long warm-up, unknown noise or direction."""
    if is_explained(result) and (parts := parts_not_stored(evidence, question)):
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
    pairing = evidence.case.baseline.pairing or "whole-runs"  # never None here
    known = evidence.calibrated(pairing)
    yield notes.paired(result.new_runs, pairing, None if known is None else known.runs)
    firsts = [base_goes_first(number_of(view.run.source)) for view in question.base.views]
    bias = order_bias(question.base.series, question.new.series, firsts) if pairing != "whole-runs" else None
    if bias is not None:
        yield notes.order_effect(bias, result.tolerance or 0.0)
    if result.new_runs == 1 and pairing != "one-process":
        yield notes.ONE_PAIR


def of_values(evidence: Evidence, *sides: MeasuredSide) -> Iterator[str]:
    """Yield notes on the stalls that a statistic leaves out or includes, and on the first new run with two modes."""
    found = [one.stalled.sum() for side in sides for one in side.series if one.stalled is not None]
    if evidence.method.statistic in MIDDLES and any(found):
        yield notes.stalled(int(sum(found)))
    elif evidence.method.statistic == "mean" and len(sides) == 2:
        yield from _stalls(evidence, *sides)
    for series in sides[0].series if evidence.method.statistic == "median" else ():
        modes = two_modes(evidence.method.steady(series).values) if series.kind == "samples" else None
        if modes is not None:
            yield notes.two_modes(modes.low_centre, modes.high_centre, modes.low_share, series.unit)
            return


def _stalls(evidence: Evidence, new: MeasuredSide, base: MeasuredSide) -> Iterator[str]:
    """Yield how many values are stalls, which the means include, and how the means change without them."""
    series = [one for side in (new, base) for one in side.series]
    if evidence.unit not in SPEEDS or any(one.kind != "samples" or is_large(one.values) for one in series):
        return
    counts, means = [], []
    for side in (new, base):
        runs = [evidence.method.steady(one).values for one in side.series]
        marks = [stalls(values, evidence.method.better) for values in runs]
        counts.append((sum(int(one.sum()) for one in marks), sum(map(len, runs))))
        means.append(fmean(float(values[~one].mean()) for values, one in zip(runs, marks, strict=True)))
    if any(count for count, _ in counts) and means[1] > 0:
        yield notes.stalls(counts[0], counts[1], format_change(means[0] / means[1] - 1))
