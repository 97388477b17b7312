"""Doubts about the amount of the measurements: less than in the base, gains that are not plausible, runs that disagree.

A statistic says little if the new runs measured less than the base: half of the steps, one rank of many, one printed
mean instead of samples. So the amounts are compared, too. A loss of 10 % is noted, and a loss of half makes the answer
an error. A base that was stored with less detail than the new runs have gives no doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

import numpy as np

from perfgate.core import Better, Series
from perfgate.core.results import Doubt
from perfgate.core.runs import Steps
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import Evidence
from perfgate.judge.measure import Members, Method
from perfgate.judge.question import MeasuredSide
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.syntax.sentence import selectors
from perfgate.stats.moderated import has_logarithm, runs_disagree
from perfgate.stats.statistics import RunMeasure

#: A new amount of at most NOTED of the base's amount is noted; one of at most LESS of it decides.
NOTED, LESS = 0.9, 0.5
#: A metric that is this many times better was more likely not measured: few optimisations gain so much at once.
IMPLAUSIBLE = 10.0
#: The formats of tools whose rank 0 prints for all ranks by default, with its own number.
_ONE_RANK_PRINTS = ("deepspeed",)
#: The formats in which fewer values are not a loss: of tools that measure for a fixed time, so that a slower program
#: has fewer values, and of traces, whose steps the user chooses and whose calls `work.*` counts.
_NOT_A_LOSS = (
    *("pytest-benchmark", "google-benchmark", "hyperfine", "nvbench", "torch-benchmark", "tritonbench", "torchbench"),
    *("benchmark-action", "asv", "pyperf", "torch-trace"),
)
#: A series with fewer steps has too few gaps between steps to distinguish a lost line from a rare one.
_FEWEST_STEPS = 8
#: The amount of detail of each kind of series; a summary was made from samples, and has as much.
_DETAIL = {"value": 0, "aggregate": 1, "samples": 2, "summary": 2}


def amount_doubts(
    base: MeasuredSide | None, new: MeasuredSide, method: Method, *, is_thinned: bool = False
) -> Iterator[Doubt]:
    """Yield the doubts about amounts: the new runs measured less than the base, or more.

    `base`: None if there are no stored runs to compare with. `is_thinned`: the base has fewer values only because its
    parts were stored thinned, with a selection of their values.
    """
    steps = [_steps_share(series, base.series if base else new.series) for series in new.series]
    # Of a derived metric, the share of the steps that all its parts have; else 1.
    joined = min(series.joined for series in new.series)
    if base is None:
        if joined <= NOTED:
            yield Doubt("measured-less", "joined", 1.0, joined, decides=False)
        elif min(steps) <= NOTED and not _has_schedule(new.series[steps.index(min(steps))]):
            yield Doubt("measured-less", "steps", 1.0, min(steps), decides=False)
        return
    if method.statistic != "count":  # a rule about the count judges the amount itself
        yield from _amounts(base, new, is_thinned=is_thinned)
    usual = median(series.joined for series in base.series)
    if joined / usual <= NOTED:
        yield Doubt("measured-less", "joined", usual, joined, decides=joined / usual <= LESS)
        return
    usual = median(_steps_share(series, base.series) for series in base.series)
    if min(steps) / usual <= NOTED:
        yield Doubt("measured-less", "steps", usual, min(steps), decides=min(steps) / usual <= LESS)


def disagreement(
    base: MeasuredSide, new: MeasuredSide, ratios: Sequence[RunMeasure] | None, terms: ChangeTerms, *, calibrated: bool
) -> Iterator[Doubt]:
    """Yield runs of one side that differ by more than the tolerance, and by more than noise explains.

    Their middle may be within the tolerance, but says nothing about the program. Base runs are only noted, because they
    were approved. Of pairs the ratios have to agree, because pairs remove the noise that both sides share.
    """
    own, others = (ratios, ()) if ratios else (new.measures, base.measures)
    sides: tuple[tuple[Literal["new-runs", "base-runs"], Sequence[RunMeasure], Sequence[RunMeasure]], ...]
    sides = (("new-runs", own, others), ("base-runs", others, ()))
    for what, runs, beside in sides:  # the runs `beside` are approved, so their noise is that to be expected
        values = [run.value for run in runs if run.value is not None]
        if len(values) < 2 or min(values) <= 0 or max(values) / min(values) <= 1 + (terms.tolerance or 0.0):
            continue
        if not all(map(has_logarithm, (*runs, *beside))):
            continue
        if runs_disagree(runs, beside, terms.prior, calibrated=calibrated):
            yield Doubt("runs-disagree", what, min(values), max(values), decides=what == "new-runs")


def _amounts(base: MeasuredSide, new: MeasuredSide, *, is_thinned: bool) -> Iterator[Doubt]:
    """Yield the doubt that new series have less detail, or another number of values (of an aggregate: calls)."""
    stored = [size for size in map(values_of, base.series) if size is not None]
    sizes = [size for size in map(values_of, new.series) if size is not None]
    usual = median(stored or [0])
    kinds = sorted((series.kind for series in base.series), key=lambda kind: _DETAIL[kind])
    usual_kind = kinds[len(kinds) // 2]
    for series in new.series:
        if _DETAIL[series.kind] < _DETAIL[usual_kind]:
            several = usual_kind in ("samples", "summary") or usual > 1  # an aggregate of one call is one value, too
            yield Doubt("measured-less", "kind", usual_kind, series.kind, decides=several)
            return
    if not usual or not sizes or is_thinned:
        return
    what: Literal["calls", "values"] = "calls" if new.series[0].kind == "aggregate" else "values"
    least, most = min(sizes), max(sizes)
    if least / usual <= NOTED:
        is_loss = not all(view.run.format in _NOT_A_LOSS for view in (*base.views, *new.views))
        yield Doubt("measured-less", what, usual, float(least), decides=is_loss and least / usual <= LESS)
    elif usual / max(most, 1) <= NOTED:
        yield Doubt("measured-less", what, usual, float(most), decides=False)  # more is noted by the same name


def values_of(series: Series) -> int | None:
    """Return the number of values, or of calls; None for a single number, and for an aggregate without a count."""
    if series.kind == "samples":
        return series.thinned_from or len(series.values)
    count = series.aggregate.get("count")
    return None if count is None or not math.isfinite(count) else int(count)


def _distinct_steps(series: Series) -> Steps | None:
    """Return the steps that have a value, ascending; None if they cannot show lost lines."""
    if series.steps is None or len(series.steps) < _FEWEST_STEPS or series.thinned_from is not None:
        return None
    found = np.unique(series.steps)
    return found if len(found) > 1 else None  # a tool that does not count has one step


def _stride(several: Iterable[Series]) -> int:
    """Return the most common distance between two steps of the first series that has steps; of equals the smallest."""
    steps = next(found for series in several if (found := _distinct_steps(series)) is not None)
    gaps, counts = np.unique(np.diff(steps), return_counts=True)
    return int(gaps[counts.argmax()])


def _steps_share(series: Series, usual: Sequence[Series]) -> float:
    """Return the share of the expected steps, from the first to the last, that have a value; 1 if it is unknown.

    The expected distance between steps is that of the `usual` series, or if they have no steps, of the series itself.
    """
    steps = series.steps
    if steps is None or not len(steps) or series.joined < 1:  # `joined` says how many steps a formula lost
        return 1.0
    # No gaps and no step twice: quick to see.
    if int(steps[-1]) - int(steps[0]) == len(steps) - 1 and bool((steps[1:] > steps[:-1]).all()):
        return 1.0
    found = _distinct_steps(series)
    if found is None:
        return 1.0
    return min(1.0, (len(found) - 1) * _stride((*usual, series)) / (int(found[-1]) - int(found[0])))


def _has_schedule(series: Series) -> bool:
    """Return whether all longer gaps between steps are equal, as a profiler with a schedule leaves them.

    Only for a series whose share of steps is known.
    """
    gaps = np.diff(np.unique(series.steps if series.steps is not None else ()))
    longer = gaps[gaps > _stride([series])]
    return len(longer) > 1 and bool((longer == longer[0]).all())


def gains(base: MeasuredSide | None, new: MeasuredSide, direction: Better) -> Iterator[Doubt]:
    """Yield a change for the better that is too large to be believed: ten times, or down to 0."""
    better: Callable[..., float] | None = {"lower": min, "higher": max}.get(direction)
    if base is None or better is None:
        return
    stored, found = ([run.value for run in side.measures if run.value is not None] for side in (base, new))
    usual, best = (median(stored), better(found)) if stored and found else (0.0, 0.0)
    if usual <= 0 or best < 0 or better(*stored, best) in stored:  # a base run was as good
        return
    times = (usual / best if best else math.inf) if better is min else best / usual
    if times >= IMPLAUSIBLE:
        yield Doubt("implausible", "gain", usual, best, decides=True)


def rank_doubts(evidence: Evidence, new: MeasuredSide) -> Iterator[Doubt]:
    """Yield the doubt that too few ranks of the job were measured, or more than before; none if a rule names ranks.

    Without stored runs every rank of the job is expected.
    """
    subject = evidence.subject
    if any(test.name == "rank" for one in selectors(subject.expression) for test in one.labels):
        return
    new_shares = _rank_shares(evidence, subject.new, new.views)
    found = min(new_shares, default=1.0)
    usual = median(_rank_shares(evidence, subject.base, subject.base_views) or [1.0])
    if found / usual <= NOTED:
        yield Doubt("measured-less", "ranks", usual, found, decides=found / usual <= LESS)
    before, now = (
        len({rank for member in subject.members(side) for name, rank in member if name == "rank"})
        for side in (subject.base, subject.new)
    )
    if not new_shares and now > before > 0:  # the size of the job is unknown: a known one selects its baseline
        yield Doubt("measured-less", "more-ranks", before, now, decides=False)


def _rank_shares(evidence: Evidence, runs: Sequence[Members], views: Sequence[RunView]) -> list[float]:
    """Return the share of the job's ranks that have the metric, for each run in which it is known.

    It is unknown if the series have no rank, if the size of the job is unknown, or if the tool prints on one rank for
    all ranks and the rule does not ask about ranks.
    """
    found = []
    for members, view in zip(runs, views, strict=False):
        ranks = {rank for member in members for name, rank in member if name == "rank"}
        size = view.run.environment.get("world_size", evidence.case.facts.get("world_size"))
        prints_for_all = len(ranks) == 1 and view.run.format in _ONE_RANK_PRINTS and evidence.rule.sentence.rank is None
        if ranks and isinstance(size, int) and size >= 1 and not prints_for_all:
            found.append(min(1.0, len(ranks) / size))
    return found
