"""From a clause and a metric to a question: what must exist first, then the terms and the measured runs.

Whatever keeps a clause from being judged is raised here as `CannotJudge` or `NotAvailable`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import cast

import numpy as np

from perfgate.core.units import UNITS
from perfgate.core.wording import listed, member_name, plural
from perfgate.judge.conditions import refuse_unlike_base, unlike_run
from perfgate.judge.cures import complete_base, sources_of
from perfgate.judge.decide_change import ChangeTerms
from perfgate.judge.decide_limit import LimitTerms
from perfgate.judge.decide_promise import LOOKS, PromiseTerms
from perfgate.judge.decisions import ChangeQuestion, LimitQuestion, MeasuredSide, Question, RankQuestion
from perfgate.judge.derived import RunView
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measure import PICKS_EXTREME, Members, choose
from perfgate.judge.messages import make_baseline
from perfgate.judge.pairs import paired_ratios
from perfgate.judge.short_sweep import refuse_short_sweep
from perfgate.rules.syntax.sentence import ChangeClause, LargestLoad, LimitClause, RankChoice
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import steady_run

#: The confidence of a comparison with the anchor, so that a long unchanged history does not raise an alarm.
ANCHOR_CONFIDENCE = 0.99
#: How many of the latest runs are compared with the anchor.
ANCHOR_WINDOW = 5


def compile_question(inquiry: Inquiry) -> Question:
    """The question that a clause asks about a metric. Raises CannotJudge and NotAvailable."""
    if not all(inquiry.new):
        message = f"a run does not have {inquiry.subject.key} on every rank"
        raise CannotJudge("rank-gone", message, "find out why")
    check_terms(inquiry)
    for run in (*inquiry.new, *inquiry.base):  # no rank with NaN hides behind the rank that represents its run
        for member, series in run.items():
            if not np.isfinite(series.values).all():
                raise inquiry.bad_values("not-a-number", inquiry.name(member, inquiry.shown_statistic))
    asks = inquiry.clause.asks
    if isinstance(asks, LimitClause):
        return _limit(inquiry, asks)
    if asks.reference.endswith("rank"):
        return _rank_ratio(inquiry, asks)
    return change_question(inquiry, asks)


def check_presence(inquiry: Inquiry) -> None:
    """Refuse an absent metric, a missing rank, mixed units and damaged or cut series. Raises CannotJudge."""
    subject = inquiry.subject
    if not subject.new:
        raise CannotJudge("no-data", f"{subject.key}: there is no new run", "find out why the program wrote none")
    if subject.trouble:
        lacking = subject.lacking
        step = "see `perfgate inspect`" if lacking is None else complete_base(inquiry.case.accept, [lacking])
        raise CannotJudge("not-available", f"{subject.key}: {subject.trouble}", step)
    if subject.stored_as is not None:
        raise refuse_unlike_base(inquiry, subject.stored_as)
    stored, seen = subject.members(subject.base), subject.members(subject.new)
    for view, members in zip(subject.new_views, subject.new, strict=True):
        if not members:
            _refuse_unread(view, is_alone=not inquiry.runs.names)
            if not stored and (unlike := unlike_run(inquiry, view)):
                raise unlike
            where = "the baseline has it" if stored else "other runs have it"
            step = "find out why it is no longer written, or change the rule"
            why, step = inquiry.runs.why_absent(subject.key.metric) or (where, step)
            raise CannotJudge("metric-absent", f"{view.run.name} has no metric {subject.key}; {why}", step)
    for view, members in zip(subject.new_views, subject.new, strict=True):
        if gone := sorted((stored | seen) - members.keys()):
            names = listed([member_name(member) or "the series without rank" for member in gone])
            where = "the baseline has" if stored & set(gone) else "other new runs have"
            step = "find out why that process wrote nothing"
            if len(subject.new) > 1 and sum(map(len, subject.new)) == len(seen):  # no rank is in two of them
                why = f"{subject.key}: the new runs have different ranks, so they are probably the files of one run"
                raise CannotJudge("rank-gone", why, "give their folder: each path on the command line is a run")
            if len(subject.new) > 1:
                step += "; if these are the files of one run, one for each rank, give their folder"
            raise CannotJudge("rank-gone", f"{subject.key}: {view.run.name} lacks {names}, which {where}", step)
    units = sorted({series.unit for series in subject.all_series()})
    if len(units) > 1:  # seconds must not be compared with calls per second
        message = f"{subject.key} has different units: {' and '.join(units)}"
        raise CannotJudge("unit-mismatch", message, "write it in one unit, or under another name")
    if problems := subject.concerned_by(inquiry.runs.left_out):
        message = f"{subject.key}: a value was left out: {problems[0].at}: {problems[0].message}"
        raise CannotJudge("not-a-number", message, "find out why the job wrote it")
    _check_rank_lengths(inquiry)


def _refuse_unread(view: RunView, *, is_alone: bool) -> None:
    """Name the fault of a run without any metric, which is the cause of each absent one. Raises CannotJudge.

    `is_alone` is True if no other new run has a metric: then a report shows the fault once, and no table.
    """
    errors = [] if view.names else [problem for problem in view.run.problems if problem.severity == "error"]
    if errors:
        message = f"not judged, because {view.run.name} has no metrics: {errors[0].at}: {errors[0].message}"
        raise CannotJudge("no-data" if is_alone else "metric-absent", message, "fix that first")


def _check_rank_lengths(inquiry: Inquiry) -> None:
    """A rank that ended early must not hide behind the rank that represents its run."""
    for view, members in zip(inquiry.subject.new_views, inquiry.subject.new, strict=True):
        lengths = {member: len(series.values) for member, series in members.items() if series.kind == "samples"}
        usual = median(lengths.values()) if lengths else 0
        for member, length in lengths.items():
            if length < usual / 2:
                name = member_name(member) or "the series without rank"
                message = (
                    f"{inquiry.subject.key}: in {view.run.name}, {name} has {length} values; others have {usual:g}"
                )
                raise CannotJudge("too-few-samples", message, "that process seems to have died early: run it again")


def check_terms(inquiry: Inquiry) -> None:
    """Refuse a bound on the improving side, and a quantity that does not fit the metric. Raises CannotJudge."""
    asks, unit, key = inquiry.clause.asks, inquiry.unit, inquiry.subject.key  # `unit` raises for an improving side
    quantity = asks.bound if isinstance(asks, LimitClause) else asks.absolute
    if quantity is None or (quantity.base == unit and (quantity.unit is not None or unit == "1")):
        return
    examples = [known.symbol for symbol, known in UNITS.items() if known.base == unit and symbol != "\u03bcs"]
    share = f"{quantity}%, or " if isinstance(asks, ChangeClause) and quantity.unit is None else ""
    step = f"write {share}a quantity in {listed(examples, most=20)}"
    if quantity.unit is None:
        message = f"{quantity} has no unit, and {key} is measured in {unit}"
        raise CannotJudge("no-unit", message, f"{step}, such as {quantity} {examples[len(examples) // 2]}")
    raise CannotJudge("unit-mismatch", f"{quantity} does not fit {key}, which is measured in {unit}", step)


def _check_run_count(inquiry: Inquiry, runs: int, side: str) -> None:
    needed = inquiry.rule.settings.min_runs
    if runs < needed:
        message = f"the rule needs {plural(needed, 'run')}; the {side} side has {runs}"
        raise CannotJudge("too-few-runs", message, f"give {needed - runs} more")


def _limit(inquiry: Inquiry, asks: LimitClause) -> LimitQuestion:
    _check_run_count(inquiry, len(inquiry.new), "new")
    new = inquiry.measured(inquiry.new, inquiry.subject.new_views)
    if isinstance(inquiry.subject.expression, LargestLoad):
        refuse_short_sweep(inquiry, new, -math.inf if asks.upper else asks.bound.value)
    terms = LimitTerms(
        statistic=inquiry.method.statistic,
        bound=asks.bound.value,
        comparator=asks.comparator,
        confidence=limit_confidence(inquiry, inquiry.new),
        warmup=inquiry.rule.settings.warmup,
        min_samples=inquiry.rule.settings.min_samples,
        strict=inquiry.case.strict,
        at_worst=_limit_at_worst(inquiry, asks),
    )
    return LimitQuestion(terms, tuple(inquiry.method.steady(series) for series in new.series), new)


def limit_confidence(inquiry: Inquiry, runs: Sequence[Members]) -> float:
    """The confidence of a limit at this look; for the extreme of R ranks it is 1 - (1 - confidence)/R."""
    ranks = max(len(members) for members in runs) if inquiry.rank in PICKS_EXTREME else 1
    rate = (1 - inquiry.rule.settings.confidence) / ranks
    counts = inquiry.case.looks
    if counts and len(runs) in counts and len(counts) > 1:
        rate = nominal_levels(tuple(map(float, counts)), rate, 1.0, counts.index(len(runs)) + 1)[-1]
    return min(1 - rate, 1 - 1e-12)


def _limit_at_worst(inquiry: Inquiry, asks: LimitClause) -> float | None:
    """The value beyond a limit that must be excluded; None if the rule does not say any.

    A value on the good side comes from `defaults`, where it is a size of changes.
    """
    at_worst = inquiry.rule.settings.at_worst
    value = None if at_worst is None else at_worst.beyond(asks)
    return value if value is not None and (value > asks.bound.value) == asks.upper else None


def _rank_ratio(inquiry: Inquiry, asks: ChangeClause) -> RankQuestion:
    """The ratio of two ranks of each run, as limits on it: `at most 1.1x the median rank`."""
    key, method, settings = inquiry.subject.key, inquiry.method, inquiry.rule.settings
    if any(len(members) < 2 for members in inquiry.new):
        raise CannotJudge("too-few-ranks", f"{key} has a single rank", "give the files of all ranks")
    _check_run_count(inquiry, len(inquiry.new), "new")
    new = inquiry.measured(inquiry.new, inquiry.subject.new_views)
    other = cast(RankChoice, asks.reference.split()[0])
    references = [choose(members, other, method)[1] for members in inquiry.new]
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
            strict=inquiry.case.strict,
        )
        for upper in ((True, False) if both else (method.better == "lower",))
    )
    ratios = tuple(steady_run(a / b if b else math.nan) for a, b in values)
    return RankQuestion(terms, ratios, values, tolerance, new)


def change_question(inquiry: Inquiry, asks: ChangeClause) -> ChangeQuestion:
    """The question whether new runs are worse than stored ones. Raises CannotJudge if there are none to compare."""
    _check_base(inquiry, asks)
    _check_run_count(inquiry, len(inquiry.base), asks.reference)
    new = inquiry.measured(inquiry.new, inquiry.subject.new_views)
    anchored, subject = asks.reference == "anchor", inquiry.subject
    base = inquiry.measured(inquiry.base, subject.anchor_views if anchored else subject.base_views)
    new = _latest(inquiry, new) if anchored else new
    if isinstance(subject.expression, LargestLoad):
        refuse_short_sweep(inquiry, new, max(run.value or 0.0 for run in base.measures))
    terms = change_terms(inquiry, asks, [*base.measures, *new.measures])
    pairing = inquiry.case.baseline.pairing
    ratios = None if pairing is None or anchored else tuple(paired_ratios(base, new, terms.statistic, pairing))
    promise = None if anchored else promise_terms(inquiry, asks)
    return ChangeQuestion(terms, "anchor" if anchored else "baseline", base, new, ratios, promise)


def _check_base(inquiry: Inquiry, asks: ChangeClause) -> None:
    case, key = inquiry.case, inquiry.subject.key
    if all(inquiry.base) and inquiry.base:
        return
    subject = inquiry.subject
    views = subject.anchor_views if asks.reference == "anchor" else subject.base_views
    if case.baseline.pairing is not None and case.baseline.runs and asks.reference == "baseline":
        message = f"the base of a pair has no metric {key}"
        raise CannotJudge("no-baseline", message, "make pairs again once the base program writes it")
    if any(inquiry.base):
        lacking = [view.run for view, members in zip(views, inquiry.base, strict=True) if not members]
        step = complete_base(case.accept, sources_of(lacking))
        raise CannotJudge("no-baseline", f"some runs of the {asks.reference} have no metric {key}", step)
    new = inquiry.measured(inquiry.new, inquiry.subject.new_views)
    if asks.reference == "baseline" and case.baseline.runs:
        message = f"the baseline {case.baseline.place} has no metric {key}"
        raise CannotJudge("no-baseline", message, complete_base(case.accept, sources_of(case.baseline.runs)), new)
    step = case.baseline.next_step if case.baseline.next_step.text else make_baseline(case.accept)
    message = case.baseline.missing or f"there is no {asks.reference} to compare {key} with"
    raise CannotJudge("no-baseline", message, step, new)


def _latest(inquiry: Inquiry, new: MeasuredSide) -> MeasuredSide:
    """The latest runs of the history, new ones included: what is compared with the anchor."""
    subject = inquiry.subject
    kept = [pair for pair in zip(subject.base, subject.base_views, strict=True) if pair[0]]
    stored = inquiry.measured([members for members, _ in kept], [view for _, view in kept])
    keep = max(ANCHOR_WINDOW, len(new.series))
    return MeasuredSide(
        (stored.views + new.views)[-keep:],
        (stored.members + new.members)[-keep:],
        (stored.series + new.series)[-keep:],
        (stored.measures + new.measures)[-keep:],
    )


def change_terms(inquiry: Inquiry, asks: ChangeClause, runs: Sequence[RunMeasure]) -> ChangeTerms:
    """The terms of a change; `runs` are those of both sides."""
    settings, statistic = inquiry.rule.settings, inquiry.method.statistic
    anchored = asks.reference == "anchor"
    pairing = inquiry.case.baseline.pairing if asks.reference == "baseline" else None
    return ChangeTerms(
        statistic=statistic,
        tolerance=asks.relative,
        tolerance_absolute=asks.absolute.value if asks.absolute else None,
        better=inquiry.method.better,
        two_sided=asks.side == "both",
        confidence=ANCHOR_CONFIDENCE if anchored else settings.confidence,
        power=settings.power,
        warmup=settings.warmup,
        prior=inquiry.prior(pairing),
        strict=inquiry.case.strict and not anchored,
        # A small change of the latencies can move the answer by a whole step of the sweep.
        exact=is_exact(inquiry.unit, statistic, runs) and not isinstance(inquiry.subject.expression, LargestLoad),
        min_samples=settings.min_samples,
    )


def promise_terms(inquiry: Inquiry, asks: ChangeClause) -> PromiseTerms:
    """Return the change that a green answer has to exclude, and the numbers of new runs at which it is judged."""
    at_worst, pairing = inquiry.rule.settings.at_worst, inquiry.case.baseline.pairing
    fits = at_worst is not None and at_worst.absolute is not None and at_worst.absolute.base == inquiry.unit
    return PromiseTerms(
        at_worst=at_worst.relative if at_worst else None,
        at_worst_absolute=at_worst.absolute.value if at_worst and at_worst.absolute and fits else None,
        looks=inquiry.case.looks or tuple(range(1, LOOKS + 1)),
        noise_known=pairing is not None or inquiry.calibrated(pairing) is not None,
    )


def is_exact(unit: str, statistic: str, runs: Sequence[RunMeasure]) -> bool:
    """Return whether a metric is compared without noise if its runs agree: bytes, operations and counts.

    A count is recognised by its values: whole numbers without a unit, unlike shares and ratios.
    """
    if unit in ("B", "FLOP") or statistic == "count":
        return True
    return unit == "1" and all(run.value is not None and run.value.is_integer() for run in runs)
