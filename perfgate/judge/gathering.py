"""What a verdict rests on, gathered while it is judged: each run as the rule sees it, thinned to be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfgate.core import Series
from perfgate.core.details import QUANTILES, RunDetails, Standing, VerdictDetails
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import Member, Members, members_by_key
from perfgate.judge.finding import Finding, Undecidable
from perfgate.judge.measure import NotAvailable
from perfgate.judge.question import Question
from perfgate.judge.ranks import Reading, choose
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.steady import kept_for_drawing, stalls

if TYPE_CHECKING:
    from perfgate.core.runs import Values

#: How many values of a run are kept for drawing: of the rank that speaks for a new run, and of all others.
POINTS = {"judged": 240, "other": 80}
#: How many ranks of a new run are shown beside the one that speaks for it.
OTHER_RANKS = 7

#: Statistics that are no place within the values, so that their distribution says nothing of them.
_NO_PLACE = ("count", "total", "stddev", "cv")
#: Units of times and of rates, in which a step can stall.
_STALLING = ("s", "1/s", "B/s", "FLOP/s")


@dataclass(frozen=True, slots=True)
class _RunOfSubject:
    """The ranks that a run holds of the subject, and what the run is to the verdict."""

    name: str
    standing: Standing
    members: Members


def gather(question: Question, member: Member, finding: Finding) -> VerdictDetails | None:
    """The runs behind an answer; None where they hold nothing that can be measured.

    With `on each rank`, `member` is the rank that the question is about, else empty.
    """
    try:
        reading, unit = question.reading, question.series.unit
    except (Undecidable, StopIteration):
        return None
    runs = [run for run in _runs(question, member) if run.members]
    shown = [evidence for run in runs for evidence in _ranks(run, question, reading)]
    members = max((len(run.members) for run in runs if run.standing == "new"), default=1)
    return VerdictDetails(-1, unit, tuple(shown), members, *_allowed(finding.fields)) if shown else None


def _runs(question: Question, member: Member) -> Iterator[_RunOfSubject]:
    """Every run in which the subject occurs: history, base and new."""
    evidence, subject = question.evidence, question.subject
    asks = question.clause.asks
    reference = evidence.anchor if isinstance(asks, ChangeClause) and asks.reference == "anchor" else evidence.base
    compared = {view.run.name for view in reference}
    for view in (*evidence.past, *evidence.base):
        members = _only(_held(view, question), member)
        yield _RunOfSubject(view.run.name, "base" if view.run.name in compared else "past", members)
    for view, found in zip(evidence.new, subject.new, strict=True):
        yield _RunOfSubject(view.run.name, "new", _only(found, member))


def _held(view: RunView, question: Question) -> Members:
    """What a stored run holds of the subject; a metric that it lacks, or holds otherwise, is no matter there."""
    try:
        found = members_by_key(question.subject.key.metric, view, question.subject.expression)
    except NotAvailable:
        return {}
    held = found.get(question.subject.key, {})
    return {member: series for member, series in held.items() if series.unit == question.series.unit}


def _only(members: Members, member: Member) -> Members:
    return {m: series for m, series in members.items() if not member or m == member}


def _ranks(run: _RunOfSubject, question: Question, reading: Reading) -> Iterator[RunDetails]:
    """The rank that speaks for a run, and beside it others of a new one."""
    try:
        speaker, series = choose(run.members, question.rank, reading)
    except NotAvailable:
        return
    is_new = run.standing == "new"
    yield _through(run, speaker, series, reading, POINTS["judged" if is_new else "other"], judged=True)
    others = {member: other for member, other in run.members.items() if member != speaker} if is_new else {}
    for member in _spread(others, reading):
        yield _through(run, member, others[member], reading, POINTS["other"], judged=False)


def _spread(others: Members, reading: Reading) -> list[Member]:
    """Some of many ranks: the slowest, the fastest, and others at equal distances between them."""
    ordered = sorted(others, key=lambda member: (_value(others[member], reading), member))
    chosen = np.linspace(0, len(ordered) - 1, min(OTHER_RANKS, len(ordered))).round()
    return sorted(ordered[int(i)] for i in chosen)


def _value(series: Series, reading: Reading) -> float:
    try:
        value = reading.value(series)
    except NotAvailable:
        return math.inf
    return math.inf if math.isnan(value) else value


def _through(
    run: _RunOfSubject, member: Member, series: Series, reading: Reading, points: int, *, judged: bool
) -> RunDetails:
    """One rank of one run as numbers and a line."""
    estimate = _value(series, reading)
    seen = RunDetails(run.name, run.standing, judged, estimate if math.isfinite(estimate) else None, dict(member))
    return _with_values(seen, series, reading, points) if series.kind == "samples" else seen


@np.errstate(all="ignore")
def _with_values(seen: RunDetails, series: Series, reading: Reading, points: int) -> RunDetails:
    steady = reading.steady(series)
    kept = kept_for_drawing(series.values, points)
    stalled = np.zeros(len(series.values), dtype=np.bool_)
    if series.unit in _STALLING:
        stalled[steady.dropped :] = stalls(steady.values, reading.better)
    steps = np.arange(len(series.values)) if series.steps is None else series.steps
    described = steady.finite and len(steady.values) and reading.statistic not in _NO_PLACE
    return RunDetails(
        run=seen.run,
        standing=seen.standing,
        judged=seen.judged,
        estimate=seen.estimate,
        member=seen.member,
        n=reading.measure(series).n,
        dropped=steady.dropped,
        stalled=int(stalled.sum()),
        quantiles=_rounded(np.quantile(steady.values, QUANTILES)) if described else (),
        values=_rounded(series.values[kept]),
        steps=tuple(int(step) for step in steps[kept]),
        warmup=int(np.searchsorted(kept, steady.dropped)),
        stalls=tuple(int(i) for i in np.flatnonzero(stalled[kept])),
    )


def _rounded(values: Values) -> tuple[float, ...]:
    """To five digits, more than any screen shows, so that a report stays small."""
    return tuple(float(f"{value:.5g}") for value in values)


def _allowed(fields: Mapping[str, object]) -> tuple[float | None, float | None]:
    """What the rule accepts, as the lowest and the highest value of the statistic; None where there is no bound."""
    bound, tolerance = fields.get("bound"), fields.get("tolerance")
    if isinstance(bound, float | int):
        return (None, bound) if fields.get("comparator") in ("under", "at most") else (bound, None)
    base = getattr(fields.get("base"), "estimate", None)
    if not isinstance(tolerance, float | int) or base is None:
        return None, None
    low, high = base * (1 - tolerance), base * (1 + tolerance)
    if fields.get("two_sided"):
        return low, high
    return (low, None) if fields.get("better") == "higher" else (None, high)
