"""A clause that holds one rank against another of the same run: `at most 1.1x the median rank`."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

from perfgate.core import OUTCOMES, Estimate, RelativeChange
from perfgate.core.units import format_value
from perfgate.judge.finding import Finding, Undecidable
from perfgate.judge.limits import judge_values
from perfgate.judge.question import Question
from perfgate.judge.ranks import choose
from perfgate.rules.syntax.sentence import ChangeClause, RankChoice
from perfgate.stats.steady import steady_run


def rank_ratio_finding(question: Question, asks: ChangeClause) -> Finding:
    """Judge the ratio of two ranks' statistics, one number a run, against 1 + tolerance. Raises Undecidable."""
    key, reading = question.subject.key, question.reading
    if any(len(members) < 2 for members in question.new):
        raise Undecidable("too-few-ranks", f"{key} has a single rank", "give the files of all ranks")
    question.check_runs(len(question.new), "new")
    side = question.new_side()
    other = cast(RankChoice, asks.reference.split()[0])
    references = [choose(members, other, reading)[1] for members in question.new]
    pairs = [(reading.value(a), reading.value(b)) for a, b in zip(side.series, references, strict=True)]
    tolerance = _tolerance(asks, min(b for _, b in pairs))
    member = question.speaker(side)
    both = asks.side == "both" or reading.better == "neither"
    sides = (True, False) if both else (reading.better == "lower",)
    answers = [
        judge_values(
            _as_numbers(question),
            [steady_run(a / b if b else math.nan) for a, b in pairs],
            "at most" if high else "at least",
            1 + tolerance if high else 1 - tolerance,
            unit="1",
            shown="x",
            confidence=question.settings.confidence,
            member=member,
        )
        for high in sides
    ]
    found = min(answers, key=lambda answer: OUTCOMES.index(answer.outcome))
    one, two = (format_value(value, question.unit) for value in pairs[-1])
    message = f"{reading.statistic} of {key} is {one} on the {question.rank} rank, {two} on the {asks.reference}: "
    fields = {
        **found.fields,
        **_fields(found, pairs),
        "unit": question.unit,
        "shown_unit": None,
        "tolerance": tolerance,
    }
    return replace(found, message=message + found.message, fields=fields | {"statistic": reading.statistic})


def _fields(found: Finding, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """The verdict of a ratio reads as that of a change: from the reference rank to the one that is judged."""
    ratio: Estimate = found.fields["new"]
    bounds = (None if bound is None else bound - 1 for bound in (ratio.estimate, ratio.low, ratio.high))
    new, base = (Estimate(fmean(side), None, None, None, None, ratio.runs) for side in zip(*pairs, strict=True))
    return {"new": new, "base": base, "change": RelativeChange(*bounds), "bound": None, "comparator": None}


def _tolerance(asks: ChangeClause, reference: float) -> float:
    """The relative tolerance; of a relative and an absolute one the larger, since a failure exceeds both."""
    absolute = asks.absolute.value / reference if asks.absolute and reference else 0.0
    return max(asks.relative or 0.0, absolute)


def _as_numbers(question: Question) -> Question:
    """The same question about ratios, which are single numbers already."""
    changed = replace(question, of_numbers=True)
    changed.__dict__["reading"] = replace(question.reading, statistic="mean")
    return changed
