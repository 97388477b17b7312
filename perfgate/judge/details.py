"""The runs behind a verdict as a report draws them: each run as the rule sees it, thinned to a few hundred values.

A report stays small: if there are too many values, the passing verdicts lose theirs first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import OUTCOMES, Run, Series, Verdict
from perfgate.core.conditions import CONDITIONS, Labels
from perfgate.core.details import QUANTILES, RunDetails, Standing, SweepCurve, VerdictDetails, rounded
from perfgate.core.runs import MEMBER_LABELS, is_large
from perfgate.core.units import SPEEDS
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.largest_load import load_size
from perfgate.judge.measure import (
    Member,
    Members,
    Method,
    NotAvailable,
    choose,
    default_statistic,
    number_of_run,
    statistic_unit,
)
from perfgate.judge.subjects import members_by_key
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.distributions import FloatArray, sample_quantile
from perfgate.stats.statistics import warmup_for
from perfgate.stats.steady import kept_for_drawing, stalls

#: The most values of a run that are drawn: for the rank that represents a new run, and for any other.
POINTS = {"judged": 240, "other": 80}
#: The most other ranks of a new run that are drawn beside the rank that represents it.
OTHER_RANKS = 7
#: The most values of a report, and the number of values that take as much JSON as a run beside its values.
MOST_VALUES = 220_000
_RUN_COSTS = 20
#: Statistics that are not a position among the values, so that quantiles do not describe them.
_NO_PLACE = ("count", "total", "stddev", "cv")


class _RunOfSubject(Struct, frozen=True):
    """One run: its side, and the series of the judged metric by member (rank or device)."""

    name: str
    standing: Standing
    members: Members


def verdict_details(evidence: Evidence, verdict: Verdict, index: int) -> VerdictDetails | None:
    """Return the runs behind the verdict with this index in its report; None if nothing can be measured."""
    try:
        method, unit = evidence.method, evidence.series.unit
    except (CannotJudge, StopIteration):  # StopIteration: no run has the series
        return None
    runs = [run for run in _runs(evidence) if run.members]
    shown = [details for run in runs for details in _ranks(run, evidence, method)]
    members = max((len(run.members) for run in runs if run.standing == "new"), default=1)
    low, high = _accepted(verdict)
    return VerdictDetails(index, unit, tuple(shown), members, low, high) if shown else None


def _runs(evidence: Evidence) -> Iterator[_RunOfSubject]:
    """Yield every run in which the judged metric may be: the stored ones, oldest first, then the new ones."""
    runs, subject, asks = evidence.runs, evidence.subject, evidence.clause.asks
    reference = runs.anchor if isinstance(asks, ChangeClause) and asks.reference == "anchor" else runs.base
    compared = {view.run.name for view in reference}
    drawn = {view.run.name for view in (*runs.past, *runs.base)}
    oldest = [view for view in reference if view.run.name not in drawn]  # the anchor may be older than `past`
    for view in (*oldest, *runs.past, *runs.base):
        members = _only(_stored_members(view, evidence), evidence.member)
        yield _RunOfSubject(view.run.name, "base" if view.run.name in compared else "past", members)
    for view, found in zip(subject.new_views, subject.new, strict=True):
        yield _RunOfSubject(view.run.name, "new", _only(found, evidence.member))


def _stored_members(view: RunView, evidence: Evidence) -> Members:
    """Return the series of the judged metric in a stored run, by member; empty if it has none, or another unit."""
    try:
        found = members_by_key(evidence.subject.key.metric, view, evidence.subject.expression)
    except NotAvailable:
        return {}
    members = found.get(evidence.subject.key, {})
    return {member: series for member, series in members.items() if series.unit == evidence.series.unit}


def _only(members: Members, member: Member) -> Members:
    return {m: series for m, series in members.items() if not member or m == member}


def _ranks(run: _RunOfSubject, evidence: Evidence, method: Method) -> Iterator[RunDetails]:
    """Yield the rank that represents a run, and for a new run some other ranks."""
    try:
        chosen, series = choose(run.members, evidence.rank, method)
    except NotAvailable:
        return
    is_new = run.standing == "new"
    yield _rank_details(run, chosen, series, method, POINTS["judged" if is_new else "other"], judged=True)
    others = {member: other for member, other in run.members.items() if member != chosen} if is_new else {}
    for member in _spread(others, method):
        yield _rank_details(run, member, others[member], method, POINTS["other"], judged=False)


def _spread(others: Members, method: Method) -> list[Member]:
    """Return a few of many ranks: the slowest, the fastest, and some at equal distances between them."""
    if not others:
        return []
    ordered = sorted(others, key=lambda member: (_value(others[member], method), member))
    chosen = np.linspace(0, len(ordered) - 1, min(OTHER_RANKS, len(ordered))).round()
    return sorted(ordered[int(i)] for i in chosen)


def _value(series: Series, method: Method) -> float:
    try:
        value = method.value(series)
    except NotAvailable:
        return math.inf
    return math.inf if math.isnan(value) else value


def _rank_details(
    run: _RunOfSubject, member: Member, series: Series, method: Method, points: int, *, judged: bool
) -> RunDetails:
    """Return one rank of a run: its statistic, and of samples at most about `points` values."""
    estimate = _value(series, method)
    seen = RunDetails(run.name, run.standing, judged, estimate if math.isfinite(estimate) else None, dict(member))
    return _with_values(seen, series, method, points) if series.kind == "samples" else seen


def _with_values(seen: RunDetails, series: Series, method: Method, points: int) -> RunDetails:
    key = (id(series), warmup_for(method.statistic, method.warmup), method.better_value or method.better, points)
    if key not in method.cache.drawn:  # many rules may be about one metric
        method.cache.drawn[key] = _drawn(seen, series, method, points)
    drawn = method.cache.drawn[key]
    return replace(
        drawn,
        run=seen.run,
        standing=seen.standing,
        judged=seen.judged,
        estimate=seen.estimate,
        member=seen.member,
        n=method.measure(series).n,
        quantiles=() if method.statistic in _NO_PLACE else drawn.quantiles,
    )


@np.errstate(all="ignore")
def _drawn(seen: RunDetails, series: Series, method: Method, points: int) -> RunDetails:
    """Return the details with the drawn values, their steps, and the warm-up and stalls among them."""
    if series.stalled is not None:
        series = replace(series, stalled=series.stalled & False)  # mark no step as stalled, so that all are drawn
    steady = method.steady(series)
    kept = kept_for_drawing(series.values, points)
    timed = steady.values if series.unit in SPEEDS else steady.values[:0]  # other units have no stalls
    stalled = stalls(timed, method.better_value or method.better)
    warmup = int(np.searchsorted(kept, steady.dropped))
    # The stalls among the drawn values after warm-up; `stalled` has a mark for each value after warm-up.
    drawn = np.flatnonzero(stalled[kept[warmup:] - steady.dropped]) if len(stalled) else ()
    steps = kept if series.steps is None else series.steps[kept]
    described = steady.finite and len(steady.values)
    return replace(
        seen,
        dropped=steady.dropped,
        stalled=int(stalled.sum()),
        quantiles=tuple(rounded(_quantiles(steady.values))) if described else (),
        values=tuple(rounded(series.values[kept].tolist())),
        steps=tuple(np.asarray(steps).tolist()),
        warmup=warmup,
        stalls=tuple(warmup + int(i) for i in drawn),
    )


def _quantiles(values: FloatArray) -> list[float]:
    """Return the values at QUANTILES."""
    if is_large(values):
        return [float(value) for value in np.quantile(values, QUANTILES)]
    ordered = np.sort(values)
    return [sample_quantile(ordered, q) for q in QUANTILES]


def _accepted(verdict: Verdict) -> tuple[float | None, float | None]:
    """Return the lowest and the highest value that the rule accepts; None if there is no bound."""
    if verdict.bound is not None:
        return (None, verdict.bound) if verdict.comparator in ("under", "at most") else (verdict.bound, None)
    base = verdict.base.estimate if verdict.base else None
    if verdict.tolerance is None or base is None:
        return None, None
    low, high = base * (1 - verdict.tolerance), base * (1 + verdict.tolerance)
    if verdict.two_sided:
        return low, high
    return (low, None) if verdict.better == "higher" else (None, high)


def within_budget(
    verdicts: Sequence[Verdict], found: Sequence[VerdictDetails], most: int = MOST_VALUES
) -> tuple[tuple[VerdictDetails, ...], int]:
    """Return the details in at most `most` values, and the number of verdicts from which something was left out.

    The worst verdicts keep their details. A verdict that does not fit loses its values, and if need be its runs, too.
    """
    small: dict[int, VerdictDetails] = {}
    left_out = 0
    for one in sorted(found, key=lambda details: OUTCOMES.index(verdicts[details.verdict].outcome)):
        bare = replace(one, runs=tuple(replace(run, values=(), steps=(), warmup=0, stalls=()) for run in one.runs))
        fitting = next((details for details in (one, bare) if _cost(details) <= most), None)
        left_out += fitting is not one
        if fitting is not None:
            small[one.verdict] = fitting
            most -= _cost(fitting)
    return tuple(small[one.verdict] for one in found if one.verdict in small), left_out


def _cost(details: VerdictDetails) -> int:
    return sum(_RUN_COSTS + len(run.values) for run in details.runs)


#: The largest number of curves in a report, and the smallest number of loads of a sweep.
MOST_CURVES, FEWEST_LOADS = 12, 3
#: The values of a metric by its labels, one for each run and rank.
_Values = Mapping[Labels, Sequence[float]]


def sweep_curves(
    metrics: Collection[str], base: Sequence[Run], new: Sequence[Run], conditions: Collection[str] = CONDITIONS
) -> tuple[SweepCurve, ...]:
    """Return the curves of these metrics along the condition with most values in the new runs; () without a sweep.

    A value is the mean over runs and ranks.
    """
    found: list[SweepCurve] = []
    labelled = (series.key for run in new for series in run.series if series.key.metric in metrics)
    at_loads = {key.metric for key in labelled if any(name in conditions for name, _ in key.labels)}
    for metric in sorted(at_loads):  # only metrics with a load: to measure a thousand ranks takes long
        unit, own = _values(metric, new)
        _, stored = _values(metric, base)
        if condition := _swept(own, conditions):
            curves, others = _curves(own, condition), _curves(stored, condition)
            found += [
                SweepCurve(metric, dict(rest), condition, unit, others.get(rest, ()), curve)
                for rest, curve in sorted(curves.items())
                if len(curve) >= FEWEST_LOADS
            ]
    return tuple(found[:MOST_CURVES])


def _values(metric: str, runs: Sequence[Run]) -> tuple[str, _Values]:
    """Return the unit of a metric and its finite values, by labels."""
    found: dict[Labels, list[float]] = {}
    unit = ""
    for series in (series for run in runs for series in run.series if series.key.metric == metric):
        try:
            statistic = default_statistic(series)
            value = number_of_run(series, statistic)
        except NotAvailable:
            continue
        if math.isfinite(value):
            unit = statistic_unit(series, statistic)
            labels = tuple(pair for pair in series.key.labels if pair[0] not in MEMBER_LABELS)
            found.setdefault(labels, []).append(value)
    return unit, found


def _swept(values: _Values, conditions: Collection[str]) -> str | None:
    """Return the condition with the most different numbers; None if each has fewer than FEWEST_LOADS."""
    loads: dict[str, set[float]] = {}
    for name, text in (pair for labels in values for pair in labels):
        if name in conditions and (load := load_size(text)) is not None:
            loads.setdefault(name, set()).add(load)
    best = max(sorted(loads), key=lambda name: len(loads[name]), default=None)
    return best if best is not None and len(loads[best]) >= FEWEST_LOADS else None


def _curves(values: _Values, condition: str) -> dict[Labels, tuple[tuple[float, float], ...]]:
    """Return the points of each curve, by the labels that do not change along it."""
    found: dict[Labels, list[tuple[float, float]]] = {}
    for labels, numbers in values.items():
        load = load_size(dict(labels).get(condition, ""))
        if load is not None:
            rest = tuple(pair for pair in labels if pair[0] != condition)
            found.setdefault(rest, []).append((load, fmean(numbers)))
    return {rest: tuple(sorted(points)) for rest, points in found.items()}
