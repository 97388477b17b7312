"""Compare the amounts that both sides measured, and doubt a decision about unlike measurements or large gains.

A statistic says little if the new runs measured less than the base: half of the steps, one rank of many, one printed
mean instead of samples. So what was measured is compared, too. A difference of 10 % is noted, and from half on nothing
is decided. A base that was stored with fewer details than the new runs have gives no doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Literal

import numpy as np
from msgspec.structs import replace

from perfgate.core import Series
from perfgate.judge.decisions import ChangeDecision, Decision, Doubt, MeasuredSide, NotJudged
from perfgate.judge.derived import RunView
from perfgate.judge.inquiry import Inquiry
from perfgate.judge.measure import Members, NotAvailable
from perfgate.rules.syntax.sentence import Selector, selectors
from perfgate.stats.moderated import has_logarithm, runs_disagree
from perfgate.stats.statistics import RunMeasure

#: A share of the base's amount: at most NOTED of it is noted, at most LESS of it decides.
NOTED, LESS = 0.9, 0.5
#: A metric that is this many times better was more likely not measured: few optimisations gain so much at once.
IMPLAUSIBLE = 10.0
#: A series with fewer steps has too few gaps to tell a lost line from a rare one.
_FEWEST_STEPS = 8
#: The formats of tools that print on rank 0 alone by default, with its number.
_ONE_RANK_PRINTS = ("deepspeed",)
#: The amount of detail of each kind of series.
_DETAIL = {"value": 0, "aggregate": 1, "samples": 2, "summary": 2}


def compare_measured(inquiry: Inquiry, decision: Decision) -> Decision:
    """The decision with its doubts: what was measured on the two sides, and gains that are not plausible.

    A limit is compared with the baseline, too, if there is one. A limit or a ratio of ranks that is broken stays so.
    """
    if isinstance(decision, NotJudged) or decision.reason == "implausible":
        return decision
    new = decision.question.new
    count = len(inquiry.new)  # of a comparison with the anchor, the last ones: the others are stored
    new = MeasuredSide(new.views[-count:], new.members[-count:], new.series[-count:], new.measures[-count:])
    base = _stored(inquiry, decision)
    found = (*_unlike(inquiry, base, new), *gains(inquiry, base, new), *_disagreeing(inquiry, decision))
    doubts = (*decision.doubts, *found)
    if not doubts:
        return decision
    decided = replace(decision, doubts=doubts)
    reasons = {doubt.reason for doubt in doubts if doubt.decides}
    if "measured-less" in reasons and isinstance(decided, ChangeDecision):
        return replace(decided, outcome="error", reason="measured-less", p_beyond=None)
    if "measured-less" in reasons and decision.outcome != "fail":
        return replace(decided, outcome="error", reason="measured-less")
    if reasons and decision.outcome in ("pass", "inconclusive"):
        reason = "implausible" if "implausible" in reasons else "runs-disagree"
        return replace(decided, outcome="suspect", reason=reason)
    return decided


def _stored(inquiry: Inquiry, decision: Decision) -> MeasuredSide | None:
    """The baseline's runs of the metric, measured as the new ones; None if there are none.

    A comparison with the anchor has them, too: an approved difference must not be doubted until the anchor is reset.
    """
    if isinstance(decision, ChangeDecision) and decision.question.reference == "baseline":
        return decision.question.base
    subject = inquiry.subject
    kept: list[tuple[Members, RunView]] = []
    for members, view in zip(subject.base, subject.base_views, strict=True):
        one = members if inquiry.rank != "each" else {m: s for m, s in members.items() if m == inquiry.member}
        if one:
            kept.append((one, view))
    try:
        return inquiry.measured([one for one, _ in kept], [view for _, view in kept]) if kept else None
    except NotAvailable:  # the stored runs lack the statistic of a limit
        return None


def _disagreeing(inquiry: Inquiry, decision: Decision) -> Iterator[Doubt]:
    """Runs of one side that differ by more than the tolerance, and by more than noise explains.

    Their middle may be within the tolerance, but says nothing of what the program does. Base runs are only noted: they
    were approved. Of pairs the ratios have to agree, because pairs remove the noise that both sides share.
    """
    if not isinstance(decision, ChangeDecision) or decision.question.reference != "baseline":
        return
    question, tolerance = decision.question, decision.result.tolerance or 0.0
    new, base = question.ratios or question.new.measures, () if question.ratios else question.base.measures
    sides: tuple[tuple[Literal["new-runs", "base-runs"], Sequence[RunMeasure], Sequence[RunMeasure]], ...]
    sides = (("new-runs", new, base), ("base-runs", base, ()))
    for what, runs, others in sides:
        values = [run.value for run in runs if run.value is not None]
        if len(values) < 2 or min(values) <= 0 or max(values) / min(values) <= 1 + tolerance:
            continue
        if not all(map(has_logarithm, (*runs, *others))):
            continue
        pairing = inquiry.case.baseline.pairing
        known = inquiry.calibrated(pairing) is not None
        if runs_disagree(runs, others, question.terms.prior, calibrated=known):
            yield Doubt("runs-disagree", what, min(values), max(values), decides=what == "new-runs")


def _unlike(inquiry: Inquiry, base: MeasuredSide | None, new: MeasuredSide) -> Iterator[Doubt]:
    """Return the doubts about amounts: the new runs measured less than the base, or much more."""
    if any(member for members in inquiry.subject.new for member in members):
        yield from _ranks(inquiry, new)
    steps = [_steps_share(series, base.series if base else new.series) for series in new.series]
    joined = min(series.joined for series in new.series)
    if base is None:
        if joined <= NOTED:
            yield Doubt("measured-less", "joined", 1.0, joined, decides=False)
        elif min(steps) <= NOTED and not _has_schedule(new.series[steps.index(min(steps))]):
            yield Doubt("measured-less", "steps", 1.0, min(steps), decides=False)
        return
    if inquiry.method.statistic != "count":  # there the number is what is judged
        yield from _amounts(inquiry, base, new)
    usual = median(series.joined for series in base.series)
    if joined / usual <= NOTED:
        yield Doubt("measured-less", "joined", usual, joined, decides=joined / usual <= LESS)
        return
    usual = median(_steps_share(series, base.series) for series in base.series)
    if min(steps) / usual <= NOTED:
        yield Doubt("measured-less", "steps", usual, min(steps), decides=min(steps) / usual <= LESS)


def _amounts(inquiry: Inquiry, base: MeasuredSide, new: MeasuredSide) -> Iterator[Doubt]:
    """The kind of the series, and how many values, or calls of an aggregate, each run has."""
    usual_kind = sorted(base.series, key=lambda series: _DETAIL[series.kind])[len(base.series) // 2]
    stored = [size for series in base.series if (size := values_of(series)) is not None]
    usual = median(stored) if stored else None
    for series in new.series:
        if _DETAIL[series.kind] < _DETAIL[usual_kind.kind]:
            several = usual_kind.kind in ("samples", "summary") or (usual or 0) > 1
            yield Doubt("measured-less", "kind", usual_kind.kind, series.kind, decides=several)
            return
    sizes = [size for series in new.series if (size := values_of(series)) is not None]
    if not usual or not sizes:
        return
    what: Literal["calls", "values"] = "calls" if new.series[0].kind == "aggregate" else "values"
    least, most = min(sizes), max(sizes)
    if min(least / usual, usual / max(most, 1)) > NOTED or _is_thinned(inquiry, base):
        return
    if least / usual <= NOTED:
        yield Doubt("measured-less", what, usual, float(least), decides=least / usual <= LESS)
    else:
        yield Doubt("measured-less", what, usual, float(most), decides=False)


def values_of(series: Series) -> int | None:
    """The number of values, or of calls; None for a single number, and for an aggregate without a count."""
    if series.kind == "samples":
        return series.thinned_from or len(series.values)
    count = series.aggregate.get("count")
    return None if count is None or not math.isfinite(count) else int(count)


def _is_thinned(inquiry: Inquiry, base: MeasuredSide) -> bool:
    """Return whether a derived metric of the base has fewer values only because its parts were stored thinned."""
    names = inquiry.subject.components
    if isinstance(inquiry.subject.expression, Selector) and inquiry.subject.key.metric not in inquiry.runs.metrics:
        return False
    return any(one.thinned_from and one.key.metric in names for view in base.views for one in view.run.series)


def _ranks(inquiry: Inquiry, new: MeasuredSide) -> Iterator[Doubt]:
    """The measured ranks of all ranks of the job, unless the rule names its ranks.

    Without stored runs every rank of the job is expected.
    """
    subject = inquiry.subject
    if any(test.name == "rank" for one in selectors(subject.expression) for test in one.labels):
        return
    new_shares = _rank_shares(inquiry, subject.new, new.views)
    found, usual = (
        min(new_shares, default=1.0),
        median(_rank_shares(inquiry, subject.base, subject.base_views) or [1.0]),
    )
    if found / usual <= NOTED:
        yield Doubt("measured-less", "ranks", usual, found, decides=found / usual <= LESS)
    before, now = (
        len({rank for member in subject.members(side) for name, rank in member if name == "rank"})
        for side in (subject.base, subject.new)
    )
    if not new_shares and now > before > 0:  # a known size of the job chooses the baseline
        yield Doubt("measured-less", "more-ranks", before, now, decides=False)


def _rank_shares(inquiry: Inquiry, runs: Sequence[Members], views: Sequence[RunView]) -> list[float]:
    """The share of the job's ranks that have the metric, for each run that tells.

    A run does not tell if its series have no rank, if the size of the job is unknown, or if its tool prints on one rank
    for all of them and the rule does not ask about ranks.
    """
    found = []
    for members, view in zip(runs, views, strict=False):
        ranks = {rank for member in members for name, rank in member if name == "rank"}
        size = view.run.environment.get("world_size", inquiry.case.facts.get("world_size"))
        prints_for_all = len(ranks) == 1 and view.run.format in _ONE_RANK_PRINTS and inquiry.rule.sentence.rank is None
        if ranks and isinstance(size, int) and size >= 1 and not prints_for_all:
            found.append(min(1.0, len(ranks) / size))
    return found


def _stride(several: Sequence[Series]) -> int:
    """The usual distance between two steps: the most common one, the smallest of several."""
    for series in several:
        if series.steps is not None and len(series.steps) >= _FEWEST_STEPS and series.thinned_from is None:
            gaps, counts = np.unique(np.diff(np.unique(series.steps)), return_counts=True)
            return int(gaps[counts.argmax()]) if len(gaps) else 1
    return 1


def _steps_share(series: Series, usual: Sequence[Series]) -> float:
    """The share of the steps from the first to the last that have a value; 1 if it is unknown.

    `usual` are the series whose distance between steps is the expected one.
    """
    steps = series.steps
    if steps is None or len(steps) < _FEWEST_STEPS or series.thinned_from is not None or series.joined < 1:
        return 1.0
    if int(steps[-1]) - int(steps[0]) == len(steps) - 1:  # usual, and known at once
        return 1.0
    found = np.unique(steps)
    return min(1.0, (len(found) - 1) * _stride(usual) / max(int(found[-1]) - int(found[0]), 1))


def _has_schedule(series: Series) -> bool:
    """Return whether all longer gaps between steps are equal, as a profiler with a schedule leaves them."""
    gaps = np.diff(np.unique(series.steps if series.steps is not None else ()))
    longer = gaps[gaps > _stride([series])]
    return len(longer) > 1 and bool((longer == longer[0]).all())


def gains(inquiry: Inquiry, base: MeasuredSide | None, new: MeasuredSide) -> Iterator[Doubt]:
    """A change for the better that is too large to be believed: ten times, or down to 0."""
    better: Callable[..., float] | None = {"lower": min, "higher": max}.get(inquiry.method.better)
    if base is None or better is None:
        return
    stored, found = ([run.value for run in side.measures if run.value is not None] for side in (base, new))
    usual, best = (median(stored), better(found)) if stored and found else (0.0, 0.0)
    if usual <= 0 or best < 0:
        return
    times = (usual / best if best else math.inf) if better is min else best / usual
    if times >= IMPLAUSIBLE:
        yield Doubt("implausible", "gain", usual, best, decides=True)
