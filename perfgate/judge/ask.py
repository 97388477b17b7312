"""From evidence to a question: the terms, the measured runs, and every doubt about them.

If a clause cannot be judged, the reason is raised as `CannotJudge` or `NotAvailable`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from perfgate.core import Quarantine
from perfgate.core.results import LOOKS, Doubt
from perfgate.judge.derived import RunView
from perfgate.judge.doubts.amounts import amount_doubts, disagreement, gains, rank_doubts
from perfgate.judge.doubts.machine import machine_differences
from perfgate.judge.doubts.starts import FEWEST_PAIRS, breaks_with_start, mean_doubts, start_doubts
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.largest_load import LOAD
from perfgate.judge.measure import PICKS_EXTREME, Members, NotAvailable, choose, is_exact
from perfgate.judge.pairs import paired_ratios
from perfgate.judge.presence import check_base, check_run_count, refuse_impossible, refuse_partial, refuse_short_sweep
from perfgate.judge.question import (
    ChangeQuestion,
    Exceptions,
    LimitQuestion,
    MachineDifference,
    MeasuredSide,
    RankQuestion,
)
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.rules.ruleset import is_narrower
from perfgate.rules.syntax.sentence import (
    ChangeClause,
    LargestLoad,
    LimitClause,
    RankChoice,
    Selector,
    WorkClause,
    glob_matches,
)
from perfgate.stats.moderated import has_logarithm, run_noise
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import steady_run

#: The anchor is the first stored runs, which show the sum of many small changes. A comparison with it has this high
#: confidence, so that a long unchanged history does not raise an alarm.
ANCHOR_CONFIDENCE = 0.99
#: The relative noise between runs of a metric with a limit if it is unknown: that of a crowded CI machine.
ASSUMED_NOISE = 0.02
#: The number of latest runs, stored and new, that are compared with the anchor; more if there are more new runs.
ANCHOR_WINDOW = 5


def ask(evidence: Evidence) -> LimitQuestion | RankQuestion | ChangeQuestion:
    """Return the question that a clause asks about a metric. Raises CannotJudge and NotAvailable."""
    refuse_partial(evidence)
    asks = evidence.clause.asks
    if isinstance(asks, LimitClause):
        question: LimitQuestion | RankQuestion | ChangeQuestion = _limit(evidence, asks)
    elif isinstance(asks, WorkClause):  # `ask_work` asks it instead
        raise CannotJudge("not-available", "work is compared as a whole", "write `no more work than baseline`")
    elif asks.reference.endswith("rank"):
        question = _rank_ratio(evidence, asks)
    else:
        question = _change(evidence, asks)
    refuse_impossible(evidence)
    return replace(question, exceptions=exceptions_of(evidence))


def exceptions_of(evidence: Evidence) -> Exceptions:
    """Return the settings of the rule that replace an outcome."""
    rule, today = evidence.rule, evidence.case.today
    expected, aside = rule.expect_fail, rule.quarantine
    return Exceptions(
        on_open=rule.settings.on_inconclusive,
        improvement_fails=rule.settings.on_improvement == "fail",
        failure_expected=expected is not None and today <= expected.until,
        quarantine=None if aside is None else Quarantine(str(aside.until), aside.reason, today > aside.until),
    )


def _limit(evidence: Evidence, asks: LimitClause) -> LimitQuestion:
    """Return the question whether the new runs are on the good side of a limit."""
    check_run_count(evidence, len(evidence.new), "new")
    new = evidence.measured(evidence.new, evidence.subject.new_views)
    if isinstance(evidence.subject.expression, LargestLoad):
        refuse_short_sweep(evidence, new)
    stored, settings = _stored(evidence), evidence.rule.settings
    at_worst = None
    # A value inside the limit comes from `defaults`, where it is meant for rules about changes.
    if settings.at_worst is not None and not is_narrower(settings.at_worst, asks):
        at_worst = settings.at_worst.beyond(asks)
    terms = LimitTerms(
        statistic=evidence.method.statistic,
        bound=asks.bound.value,
        comparator=asks.comparator,
        confidence=limit_confidence(evidence, evidence.new),
        warmup=settings.warmup,
        min_samples=settings.min_samples,
        strict=evidence.case.strict,
        at_worst=at_worst,
        noise=_noise_between(evidence, new, stored),
        exact=is_exact(evidence.unit, evidence.method.statistic, new.measures),
    )
    doubts = (*_start(evidence, hides=breaks_with_start(new, terms)), *_amounts(evidence, new, stored))
    return LimitQuestion(terms, tuple(evidence.method.steady(series) for series in new.series), new, doubts)


def _noise_between(evidence: Evidence, new: MeasuredSide, stored: MeasuredSide | None) -> float:
    """Return the relative noise between runs of a metric with a limit: calibrated, of the stored runs, or assumed.

    Exact values and extremes have none.
    """
    method = evidence.method
    if is_exact(evidence.unit, method.statistic, new.measures) or method.statistic in ("max", "min", "p100", "p0"):
        return 0.0
    if (known := evidence.calibrated()) is not None:
        return known.s0
    runs = [run for run in (stored.measures if stored is not None else ()) if has_logarithm(run)]
    return math.sqrt(run_noise(runs, evidence.prior())[1].variance) if len(runs) > 1 else ASSUMED_NOISE  # [0]: the mean


def limit_confidence(evidence: Evidence, runs: Sequence[Members]) -> float:
    """Return the confidence of a limit with this number of runs; for the extreme of R ranks 1 - (1 - confidence)/R."""
    ranks = max(len(members) for members in runs) if evidence.rank in PICKS_EXTREME else 1
    rate = (1 - evidence.rule.settings.confidence) / ranks
    counts = evidence.case.looks  # the numbers of runs at several looks, which share the error rate
    if counts and len(runs) in counts and len(counts) > 1:
        rate = nominal_levels(tuple(map(float, counts)), rate, power=1.0, looks=counts.index(len(runs)) + 1)[-1]
    return min(1 - rate, 1 - 1e-12)  # a confidence of 1 is refused


def _rank_ratio(evidence: Evidence, asks: ChangeClause) -> RankQuestion:
    """Return the question whether the ratio of two ranks keeps its limits. Raises CannotJudge for a single rank."""
    key, method, settings = evidence.subject.key, evidence.method, evidence.rule.settings
    if any(len(members) < 2 for members in evidence.new):
        raise CannotJudge("too-few-ranks", f"{key} has a single rank", "give the files of all ranks")
    check_run_count(evidence, len(evidence.new), "new")
    new = evidence.measured(evidence.new, evidence.subject.new_views)
    other = cast(RankChoice, asks.reference.split()[0])  # of `slowest rank`
    references = [choose(members, other, method)[1] for members in evidence.new]
    values = tuple((method.value(a), method.value(b)) for a, b in zip(new.series, references, strict=True))
    reference = min(b for _, b in values)
    # With a relative and an absolute tolerance the larger one counts, because a failure exceeds both.
    absolute = asks.absolute.value / reference if asks.absolute and reference else 0.0
    tolerance = max(asks.relative or 0.0, absolute)
    both = asks.side == "both" or method.better == "neither"
    terms = tuple(
        LimitTerms(
            statistic="mean",
            bound=1 + tolerance if upper else 1 - tolerance,
            comparator="at most" if upper else "at least",
            confidence=settings.confidence,
            warmup=settings.warmup,
            min_samples=settings.min_samples,
            strict=evidence.case.strict,
        )
        for upper in ((True, False) if both else (method.better == "lower",))
    )
    ratios = tuple(steady_run(a / b if b else math.nan) for a, b in values)
    return RankQuestion(terms, ratios, values, tolerance, new, _amounts(evidence, new, _stored(evidence)))


def _change(evidence: Evidence, asks: ChangeClause) -> ChangeQuestion:
    """Return the question whether new runs are worse than stored ones. Raises CannotJudge without stored runs."""
    check_base(evidence, asks)
    check_run_count(evidence, len(evidence.base), asks.reference)
    new = evidence.measured(evidence.new, evidence.subject.new_views)
    anchored, subject, asked = asks.reference == "anchor", evidence.subject, evidence.rule.sentence.subject
    base = evidence.measured(evidence.base, subject.anchor_views if anchored else subject.base_views)
    compared = _latest(evidence, new) if anchored else new
    if isinstance(subject.expression, LargestLoad):
        refuse_short_sweep(evidence, compared, load=max(series.aggregate[LOAD] for series in base.series))
    terms = change_terms(evidence, asks, [*base.measures, *compared.measures])
    doubts = [*_start(evidence, hides=True), *_amounts(evidence, new, _stored(evidence) if anchored else base)]
    question = ChangeQuestion(
        terms,
        base,
        compared,
        "anchor" if anchored else "baseline",
        alone=new.measures if anchored else (),
        doubts=tuple(doubts),
        is_one_of_many=isinstance(asked, Selector) and asked.is_glob,
    )
    return question if anchored else _with_baseline(evidence, question)


def _with_baseline(evidence: Evidence, question: ChangeQuestion) -> ChangeQuestion:
    """Return the question about a change since the baseline with its pairs, machine, allowances and later runs."""
    base, new, terms, pairing = question.base, question.new, question.terms, evidence.case.baseline.pairing
    ratios = None if pairing is None else tuple(paired_ratios(base, new, terms.statistic, pairing))
    doubts = [*question.doubts, *mean_doubts(base, new, terms)]
    doubts += disagreement(base, new, ratios, terms, calibrated=terms.noise_known)
    differences: tuple[MachineDifference, ...] = ()
    if evidence.runs.has_machine or ("host" in evidence.case.facts and pairing is None):  # pairs share a host
        differences, noted = machine_differences(evidence, base, new)
        doubts += noted
    metric = evidence.subject.key.metric
    allowances = evidence.case.baseline.allowances
    of_metric = [one for one in allowances if one.metric == metric or glob_matches(one.metric, metric)]
    # Of several allowances the largest valid one counts, as for exact work. An expired one only gives a note.
    allowance = max(of_metric, key=lambda one: (evidence.case.today <= one.expires, one.up_to), default=None)
    return replace(
        question,
        ratios=ratios,
        doubts=tuple(doubts),
        machine=differences,
        allowance=allowance,
        is_expired=allowance is not None and evidence.case.today > allowance.expires,
        remembered=None if ratios is not None else evidence.of_series(evidence.case.baseline.remembered),
    )


def _start(evidence: Evidence, *, hides: bool) -> tuple[Doubt, ...]:
    """Return the doubts about the start of the new runs; `hides`: the dropped start could change the answer."""
    if evidence.case.baseline.pairing is not None and len(evidence.new) < FEWEST_PAIRS:
        return ()
    return tuple(start_doubts(evidence.new, evidence.subject.base, evidence.method, hides=hides))


def _amounts(evidence: Evidence, new: MeasuredSide, base: MeasuredSide | None) -> tuple[Doubt, ...]:
    """Return the doubts whether the new runs measured as much as the base (ranks, steps, values), and about gains."""
    has_members = any(member for members in evidence.subject.new for member in members)
    ranks = rank_doubts(evidence, new) if has_members else ()
    is_thinned = base is not None and _is_thinned(evidence, base)
    amounts = amount_doubts(base, new, evidence.method, is_thinned=is_thinned)
    return (*ranks, *amounts, *gains(base, new, evidence.method.better))


def _stored(evidence: Evidence) -> MeasuredSide | None:
    """Return the baseline's runs of the metric, measured as the new ones; None if they lack it or its statistic.

    In a comparison with the anchor, too, the amounts of the new runs are compared with these runs, so a difference that
    was approved after the anchor gives no doubt. There, a missing statistic raises NotAvailable.
    """
    subject, is_each = evidence.subject, evidence.rank == "each"
    kept: list[tuple[Members, RunView]] = []
    for ranks, view in zip(subject.base, subject.base_views, strict=True):
        members = {one: series for one, series in ranks.items() if one == evidence.member} if is_each else ranks
        if members:
            kept.append((members, view))
    try:
        return evidence.measured([members for members, _ in kept], [view for _, view in kept]) if kept else None
    except NotAvailable:
        if isinstance(evidence.clause.asks, ChangeClause) and evidence.clause.asks.reference == "anchor":
            raise  # these runs are compared with the anchor, too
        return None


def _is_thinned(evidence: Evidence, base: MeasuredSide) -> bool:
    """Return whether a derived metric of the base has fewer values only because its parts were stored thinned."""
    names = evidence.subject.components
    if isinstance(evidence.subject.expression, Selector) and evidence.subject.key.metric not in evidence.runs.metrics:
        return False  # it is printed, not derived
    return any(one.thinned_from and one.key.metric in names for view in base.views for one in view.run.series)


def _latest(evidence: Evidence, new: MeasuredSide) -> MeasuredSide:
    """Return the latest runs, stored and new, which are compared with the anchor."""
    stored = _stored(evidence)
    if stored is None:
        return new
    keep = max(ANCHOR_WINDOW, len(new.series))
    views, members = (stored.views + new.views)[-keep:], (stored.members + new.members)[-keep:]
    series, measures = (stored.series + new.series)[-keep:], (stored.measures + new.measures)[-keep:]
    return MeasuredSide(views, members, series, measures)


def change_terms(evidence: Evidence, asks: ChangeClause, runs: Sequence[RunMeasure]) -> ChangeTerms:
    """Return the terms of a change; `runs` are those of both sides. An `at_worst` in another unit is not meant."""
    settings, statistic = evidence.rule.settings, evidence.method.statistic
    at_worst = settings.at_worst
    absolute = at_worst.absolute if at_worst else None
    anchored = asks.reference == "anchor"
    pairing = evidence.case.baseline.pairing if asks.reference == "baseline" else None
    known = evidence.calibrated(pairing)
    return ChangeTerms(
        statistic=statistic,
        tolerance=asks.relative,
        tolerance_absolute=asks.absolute.value if asks.absolute else None,
        at_worst=at_worst.relative if at_worst else None,
        at_worst_absolute=absolute.value if absolute and absolute.base == evidence.unit else None,
        better=evidence.method.better,
        two_sided=asks.side == "both",
        confidence=ANCHOR_CONFIDENCE if anchored else settings.confidence,
        power=settings.power,
        warmup=settings.warmup,
        prior=evidence.prior(pairing),
        noise_known=known is not None,
        wander=0.0 if known is None else known.wander,
        looks=None if anchored else evidence.case.looks or tuple(range(1, LOOKS + 1)),
        strict=evidence.case.strict and not anchored,  # a suspicion about the anchor never fails
        # A small change of the latencies can move the answer by a whole step of the sweep.
        exact=is_exact(evidence.unit, statistic, runs) and not isinstance(evidence.subject.expression, LargestLoad),
        min_samples=settings.min_samples,
    )
