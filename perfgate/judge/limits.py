"""A clause that asks for a limit: `under 50 ms`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perfgate.core import Comparator, Estimate, Series
from perfgate.judge import messages
from perfgate.judge.evidence import Member, Members
from perfgate.judge.finding import Finding
from perfgate.judge.limit import LimitResult, judge_steady_limit
from perfgate.judge.question import Question, run_estimates
from perfgate.judge.ranks import PICKS_EXTREME
from perfgate.judge.terms import LimitTerms
from perfgate.rules.syntax.sentence import LimitClause
from perfgate.stats.bounds import values_to_settle
from perfgate.stats.steady import SteadyRun


def limit_finding(question: Question, asks: LimitClause) -> Finding:
    """Judge a limit. Raises Undecidable."""
    question.check_runs(len(question.new), "new")
    side = question.new_side()
    found = judge_values(
        question,
        [question.reading.steady(series) for series in side.series],
        asks.comparator,
        asks.bound.value,
        unit=question.unit,
        shown=question.shown,
        confidence=limit_confidence(question, question.new),
        member=question.speaker(side),
        series=side.series,
    )
    return replace(found, fields={**found.fields, "runs": run_estimates(question, "new", side)})


def limit_confidence(question: Question, runs: Sequence[Members]) -> float:
    """The confidence of a limit: a bound on the extreme of R ranks is held at 1 - (1 - confidence)/R."""
    ranks = max(len(members) for members in runs) if question.rank in PICKS_EXTREME else 1
    return min(1 - (1 - question.settings.confidence) / ranks, 1 - 1e-12)


def judge_values(
    question: Question,
    runs: Sequence[SteadyRun],
    comparator: Comparator,
    bound: float,
    *,
    unit: str,
    shown: str | None,
    confidence: float,
    member: Member,
    series: Sequence[Series] = (),
) -> Finding:
    """Hold one entry a run against a bound in base units. Raises Undecidable for values that cannot be judged."""
    reading, settings = question.reading, question.settings
    terms = LimitTerms(
        statistic=reading.statistic,
        bound=bound,
        comparator=comparator,
        confidence=confidence,
        warmup=settings.warmup,
        min_samples=settings.min_samples,
    )
    result = judge_steady_limit(runs, terms)
    subject = question.words(member)
    if result.outcome == "error":
        raise question.data_error(result.reason, subject)
    fields = {
        **_fields(result, terms, reading.statistic),
        "unit": unit,
        "shown_unit": shown,
        "statistic": question.shown_statistic,
        "member": dict(member),
        "better": reading.better,
    }
    text = question.clause.text
    needed = _values_needed(result, fields.get("allowed_share"), confidence)
    return Finding(
        result.outcome,
        result.reason,
        messages.limit_message(subject, result, text, unit, shown, confidence=confidence)
        + messages.warmup([run.dropped for run in runs]),
        messages.limit_next_step(result, text, str(question.rule.at), needed),
        fields,
        tuple(_notes(question, result, series)),
    )


def _fields(result: LimitResult, terms: LimitTerms, statistic: str) -> dict[str, Any]:
    size = (result.n, result.n_effective, result.runs)
    fields: dict[str, Any] = {
        "bound": terms.bound,
        "comparator": terms.comparator,
        "confidence": terms.confidence,
        "new": Estimate(result.estimate, result.low, result.high, *size),
    }
    if result.share is not None:
        q = 0.5 if statistic == "median" else float(statistic[1:]) / 100
        fields["share"] = Estimate(result.share, result.share_low, result.share_high, *size)
        fields["allowed_share"] = 1 - q if terms.upper else q
    return fields


def _values_needed(result: LimitResult, allowed: float | None, confidence: float) -> int | None:
    """How many independent values would settle a percentile, if the share beyond the bound stayed what it is."""
    if result.outcome != "inconclusive" or result.share is None or allowed is None:
        return None
    return values_to_settle(result.share, allowed, confidence)


def _notes(question: Question, result: LimitResult, series: Sequence[Series]) -> list[str]:
    notes = ["one run: how another would differ is not in the interval"] if result.runs == 1 else []
    return notes + question.mode_notes(series)
