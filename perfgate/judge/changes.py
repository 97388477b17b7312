"""A clause that asks for a change: `within 5% of baseline`, `within 10% of anchor`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from perfgate.core import Estimate, RelativeChange
from perfgate.core.wording import listed
from perfgate.judge import messages
from perfgate.judge.attribution import explained_by, parts_not_stored
from perfgate.judge.change import ChangeResult, judge_measured_change
from perfgate.judge.derived import RunView
from perfgate.judge.families import p_beyond
from perfgate.judge.finding import Finding, Undecidable
from perfgate.judge.paired import check_tolerance, is_paired, paired_notes, paired_prior, paired_ratios
from perfgate.judge.question import Question, Side, run_estimates
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.statistics import RunMeasure

#: The anchor is held at this confidence, so that a long history of unchanged runs does not alarm.
ANCHOR_CONFIDENCE = 0.99
#: How many runs at the end of a history are held against the anchor.
ANCHOR_WINDOW = 5


def change_finding(question: Question, asks: ChangeClause) -> Finding:
    """Judge new runs against stored ones. Raises Undecidable where there is nothing to compare with."""
    _check_base(question, asks)
    question.check_runs(len(question.base), asks.reference)
    new = question.new_side()
    base = question.side(question.base, _stored(question, asks))
    if asks.reference == "anchor":
        new = _latest(question, new)
    base_runs = [question.reading.measure(series) for series in base.series]
    new_runs = [question.reading.measure(series) for series in new.series]
    terms = change_terms(question, asks, [*base_runs, *new_runs])
    _check_lengths(question, base_runs, new_runs)
    ratios = paired_ratios(question, base, new, base_runs, new_runs) if is_paired(question, asks) else None
    result = judge_measured_change(base_runs, new_runs, terms, ratios)
    subject, units = question.words(question.speaker(new)), (question.unit, question.shown)
    if result.outcome == "error":
        raise question.data_error(result.reason, subject)
    if ratios is not None:
        check_tolerance(question, result)
    if asks.reference == "anchor" and result.suspect:
        # One history cannot be run again: a suspicion against the anchor never convicts.
        result = replace(result, outcome="suspect")
    return Finding(
        result.outcome,
        result.reason,
        messages.change_message(subject, result, _called(question, asks), units, tolerance_words(asks))
        + messages.warmup([run.dropped for run in new_runs]),
        messages.change_next_step(result, question.case.approve_command)
        if ratios is None
        else messages.paired_next_step(result),
        {**_fields(result, terms, base_runs, new_runs), **_shown(question, result, base, new)},
        tuple(
            _notes(question, result, [*base_runs, *new_runs], base, new)
            if ratios is None
            else paired_notes(question, result, base, new)
        ),
        p_beyond=p_beyond(result, terms),
    )


def _called(question: Question, asks: ChangeClause) -> str:
    """What a message calls the reference."""
    return "paired base" if is_paired(question, asks) else asks.reference


def tolerance_words(asks: ChangeClause) -> str:
    """A tolerance as its author wrote it: `5% and 2 ms`."""
    parts = [f"{100 * asks.relative:g}%"] if asks.relative is not None else []
    if asks.absolute is not None:
        parts.append(str(asks.absolute))
    return ("±" if asks.side == "both" else "") + " and ".join(parts)


def _check_base(question: Question, asks: ChangeClause) -> None:
    case, key = question.case, question.subject.key
    approve = f"approve runs that hold it: {case.approve_command}"
    if not any(question.base):
        known = _new_side(question)
        if asks.reference == "baseline" and case.baseline.runs:
            raise Undecidable(
                "no-baseline", f"the baseline {case.baseline.place} does not hold {key}", approve, **known
            )
        message = case.baseline.missing or f"there is no {asks.reference} to compare {key} with"
        step = case.baseline.next_step or f"make one: {case.approve_command}"
        raise Undecidable("no-baseline", message, step, **known)
    if not all(question.base):
        raise Undecidable("no-baseline", f"some runs of the {asks.reference} do not hold {key}", approve)


def _new_side(question: Question) -> dict[str, Any]:
    """What was measured, where there is nothing yet to hold it against."""
    side = question.new_side()
    measures = [question.reading.measure(series) for series in side.series]
    values = [run.value for run in measures if run.value is not None]
    estimate = _estimate(sum(values) / len(values) if values else None, measures)
    return {
        "new": estimate,
        "runs": run_estimates(question, "new", side),
        "unit": question.unit,
        "statistic": question.shown_statistic,
        "member": dict(question.speaker(side)),
    }


def _check_lengths(question: Question, base: Sequence[RunMeasure], new: Sequence[RunMeasure]) -> None:
    """A run with under half of the baseline's values is a job that died early."""
    usual = [run.n for run in base if not run.single]
    shortest = min((run.n for run in new if not run.single), default=math.inf)
    if usual and shortest < median(usual) / 2:
        message = (
            f"{question.subject.key} has {shortest} values, under half of the {median(usual):g} of the baseline's runs"
        )
        raise Undecidable("too-few-samples", message, "the job seems to have died early: run it again to its end")


def _latest(question: Question, new: Side) -> Side:
    """The last runs of the history, new ones included: what is held against the anchor."""
    held = [pair for pair in zip(question.subject.base, question.subject.base_views, strict=True) if pair[0]]
    stored = question.side([members for members, _ in held], [view for _, view in held])
    keep = max(ANCHOR_WINDOW, len(new.series))
    members, series = stored.members + new.members, stored.series + new.series
    return Side((stored.views + new.views)[-keep:], members[-keep:], series[-keep:])


def _stored(question: Question, asks: ChangeClause) -> Sequence[RunView]:
    """The runs of the reference."""
    return question.subject.anchor_views if asks.reference == "anchor" else question.subject.base_views


def is_exact(unit: str, statistic: str, runs: Sequence[RunMeasure]) -> bool:
    """Whether a metric is compared without noise as long as its runs agree: bytes, operations and counts.

    A count is known by what it holds: whole numbers without a unit, which shares and ratios are not.
    """
    if unit in ("B", "FLOP") or statistic == "count":
        return True
    return unit == "1" and all(run.value is not None and run.value.is_integer() for run in runs)


def change_terms(question: Question, asks: ChangeClause, runs: Sequence[RunMeasure]) -> ChangeTerms:
    """How the rule wants a change judged; `runs` are those of both sides."""
    settings, statistic = question.settings, question.reading.statistic
    anchored = asks.reference == "anchor"
    return ChangeTerms(
        statistic=statistic,
        tolerance=asks.relative,
        tolerance_absolute=asks.absolute.value if asks.absolute else None,
        better=question.reading.better,
        two_sided=asks.side == "both",
        confidence=ANCHOR_CONFIDENCE if anchored else settings.confidence,
        power=settings.power,
        warmup=settings.warmup,
        prior=paired_prior(question) if is_paired(question, asks) else question.prior,
        strict=question.case.strict and not anchored,
        exact=is_exact(question.unit, statistic, runs),
        min_samples=settings.min_samples,
    )


def _fields(
    result: ChangeResult, terms: ChangeTerms, base: Sequence[RunMeasure], new: Sequence[RunMeasure]
) -> dict[str, Any]:
    return {
        "better": terms.better,
        "new": _estimate(result.new_value, new),
        "base": _estimate(result.base_value, base),
        "change": RelativeChange(result.estimate, result.low, result.high),
        "tolerance": result.tolerance,
        "two_sided": terms.worse == "either",
        "confidence": terms.confidence,
        "minimum_detectable_change": result.minimum_detectable_change,
        "runs_needed": result.runs_needed,
        "suspect": result.suspect,
        "improved": result.improved,
    }


def _shown(question: Question, result: ChangeResult, base: Side, new: Side) -> dict[str, Any]:
    """What reports show beside the numbers."""
    return {
        "unit": question.unit,
        "shown_unit": question.shown,
        "statistic": question.shown_statistic,
        "member": dict(question.speaker(new)),
        "runs": run_estimates(question, "base", base) + run_estimates(question, "new", new),
        "explained_by": explained_by(question, result, base, new),
    }


def _estimate(value: float | None, runs: Sequence[RunMeasure]) -> Estimate:
    """One side; a run that is a single number has no values to count."""
    effective = [run.n_effective for run in runs if run.n_effective is not None]
    n = sum(run.n for run in runs) if effective else None
    return Estimate(value, None, None, n, sum(effective) if len(effective) == len(runs) else None, len(runs))


def _notes(question: Question, result: ChangeResult, runs: Sequence[RunMeasure], base: Side, new: Side) -> list[str]:
    baseline = question.case.baseline
    notes = ["an improvement beyond the tolerance: approve it to hold the gain"] if result.improved else []
    if parts := parts_not_stored(question, result, base, new):
        told = listed(parts)
        notes.append(f"which part grew is not known: the baseline holds none of {told}; approve with --all keeps them")
    if result.base_runs == 1:
        notes.append("one base run: weak evidence")
    if not all(run.settled for run in runs):
        notes.append("a run did not settle: a quarter of it was taken for warm-up")
    if question.calibrated is None and result.reason == "interval":
        advice = ": `perfgate calibrate` learns it from the stored runs" if baseline.calibratable else ""
        notes.append(f"run-to-run noise is assumed to be 1%, not calibrated{advice}")
    if question.reading.better == "higher" and (result.tolerance or 0) >= 1:
        notes.append("this rule cannot fail: nothing falls by 100% or more")
    if baseline.unknown_facts:
        notes.append(f"{listed(baseline.unknown_facts)}: unknown on both sides")
    if question.reading.better == "neither":
        notes.append("nothing says which direction is better, so both are judged: set `better:` in the rule")
    return notes + question.mode_notes(new.series)
