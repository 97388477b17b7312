"""Decide about a change over several looks: `judge_runs` is the statistics, `weigh` adds what else is known.

Three questions have three error rates, shared by all looks of a plan (see `perfgate.stats.sequential`):

* Green: is a change of `at_worst` or more excluded? Wrong in at most 1 - confidence of all plans.
* Pass: is the interval of the t test within the tolerance, too?
* Red: is "no change" excluded, and is the change beyond the tolerance?

`Bounds` describes the bounds; here they become an answer. A comparison with the anchor (the first stored runs) has one
look, and does not promise to exclude `at_worst`. A suspicion is an undecided answer that is probably a failure (with
`strict`, it is one).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfgate.core import PooledRuns, RememberedRuns
from perfgate.core.results import LOOKS, ChangeResult, Doubt
from perfgate.judge.decide.bounds import Bounds, ComparedRuns, bounds_of
from perfgate.judge.decide.comparisons import of_change
from perfgate.judge.decide.without_noise import as_differences, decided_without_noise, moved_from_zero
from perfgate.judge.question import ChangeQuestion, MeasuredSide
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.margin import Margin, as_ratio, finite
from perfgate.stats.moderated import change_of_sides
from perfgate.stats.statistics import Quantile, RunMeasure, parse_statistic

#: A change beyond the tolerance is suspect if its p-value against no change is smaller than this.
SUSPICIOUS = 0.05
#: The fewest independent values beyond a percentile with which it is compared.
FEWEST_IN_TAIL = 2
#: Order and memory layout left a bias of up to .6 % in pairs of unchanged code, so a smaller tolerance is refused.
LEAST_TOLERANCE_OF_PAIRS = 0.01
#: The runs, and so the looks, of a plan with pooled runs.
POOLED_RUNS = 10
#: A change of the baseline's branch is mentioned only with at least this many runs of it.
_FEWEST_TOLD = 3


def weigh(question: ChangeQuestion) -> ChangeResult:
    """Return the answer of the runs, an allowance or the pooled runs, with all doubts; no doubt changes it yet."""
    judged = judge_runs(question.base.measures, question.new.measures, question.terms, question.ratios)
    if len(question.alone) > 1 and judged.outcome in ("pass", "undecided"):
        # `new` are the latest five runs, stored and new; `alone` are the new ones: they may be beyond the anchor first.
        # One run is not judged alone: of many, some are beyond by chance. No comparison with the anchor promises to
        # exclude `at_worst`.
        terms = replace(question.terms, looks=tuple(range(1, LOOKS + 1)))
        alone = judge_runs(question.base.measures, question.alone, terms)
        judged = replace(alone, at_worst=None, not_excluded=None) if alone.outcome == "fail" else judged
    is_settled = judged.estimate is None or judged.reason in ("exact", "equal")
    if question.ratios is not None and not is_settled and (judged.tolerance or 0.0) < LEAST_TOLERANCE_OF_PAIRS:
        judged = replace(judged, outcome="error", reason="tolerance-too-small")
    if judged.outcome == "error":  # only a gain down to 0 explains values without a ratio
        gains = [doubt for doubt in question.doubts if doubt.reason == "implausible"]
        return replace(judged, doubts=tuple(gains) if judged.reason == "not-positive" else ())
    judged = replace(judged, doubts=(*_doubts_of_start(question, judged), *_doubts_of_machine(question, judged)))
    judged, terms = _eased(question, judged)  # an allowance also covers the doubts about start and machine
    judged = replace(judged, doubts=(*judged.doubts, *_doubts_of_amounts(question, judged)))
    return _pooled(question, judged, terms)


def judge_runs(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    terms: ChangeTerms,
    ratios: Sequence[RunMeasure] | None = None,
) -> ChangeResult:
    """Return the answer of measured runs alone; `ratios` are new / base of each pair if they were made in pairs."""
    moved = moved_from_zero(base, new, terms, in_pairs=ratios is not None)
    if moved is not None:
        return as_differences(judge_runs(*moved), base, new, terms)
    decided = decided_without_noise(base, new, ratios or (), terms)
    if decided is not None:
        return decided
    runs = ComparedRuns(tuple(base), tuple(new), None if ratios is None else tuple(ratios))
    base_value = change_of_sides(*runs.sides, terms.noise).base_value
    margins = terms.tolerated(base_value), terms.doubted(base_value)
    return _answer(runs, bounds_of(runs, margins, terms), margins, terms)


def _answer(runs: ComparedRuns, bounds: Bounds, margins: tuple[Margin, Margin], terms: ChangeTerms) -> ChangeResult:
    """Return the answer from the bounds, with its numbers."""
    (tolerated, doubted), change, d = margins, bounds.change, bounds.change.log_change
    found = _outcome(runs, bounds, margins, terms)
    # A failure shows the narrowest bound of red, if that is narrower than the interval.
    is_red = found.outcome == "fail" and not found.suspect
    reds = (bounds.red, *([bounds.sharp] if bounds.sharp else []))
    reach = min(bound.distance for bound in (bounds.interval, *(reds if is_red else ())))
    low, high = d - reach, d + reach
    promises = terms.looks is not None
    least, most = bounds.not_excluded(doubted)
    farthest = most if terms.worse == "up" or (terms.worse == "either" and most > -least) else least
    shows_noise = bounds.noise_known or runs.freedom > 0 or not promises
    # The noise with which a failure was proved, or would have been; `p_beyond` of `outcome.py` uses it.
    alarm = (bounds.sharp if bounds.sharp and bounds.is_sharp(tolerated) else bounds.red).change
    return replace(
        found,
        improved=tolerated.is_improved(low, high) and found.reason != "thin-tail" and shows_noise,
        estimate=as_ratio(d),
        low=as_ratio(low),
        high=as_ratio(high),
        log_change=d,
        standard_error=alarm.standard_error,
        degrees_of_freedom=alarm.degrees_of_freedom,
        p_no_change=change.p_no_change(terms.worse),
        base_value=change.base_value,
        new_value=change.new_value,
        tolerance=finite(terms.applied_tolerance(change.base_value)),
        minimum_detectable_change=tolerated.detectable(change.detectable(terms.confidence, terms.power)),
        runs_needed=change.runs_needed((doubted if promises else tolerated).room, terms.confidence, terms.power),
        at_worst=finite(doubted.size) if promises else None,
        not_excluded=as_ratio(farthest) if promises else None,
        comparisons=tuple(of_change(found, bounds, margins, promises=promises)),
    )


def _outcome(runs: ComparedRuns, bounds: Bounds, margins: tuple[Margin, Margin], terms: ChangeTerms) -> ChangeResult:
    """Return the outcome and its reason, without the numbers."""
    (tolerated, doubted), change, d = margins, bounds.change, bounds.change.log_change
    promises = terms.looks is not None
    found = ChangeResult(
        outcome="undecided",
        reason="interval",
        base_runs=len(runs.base),
        new_runs=len(runs.new),
        tolerance=terms.tolerance,
    )
    if has_thin_tail([*runs.base, *runs.new], terms):
        return replace(found, reason="thin-tail")
    alarm = _is_alarm(runs, bounds, margins, terms)
    is_gross = bounds.gross is not None and bounds.is_sharp(tolerated)  # one run, far beyond the tolerance
    may_fail = bounds.noise_known or runs.may_fail(len(runs.new)) or is_gross or terms.strict
    shows_noise = bounds.noise_known or runs.freedom > 0  # three runs on both sides together, or two pairs
    excluded = promises and shows_noise and doubted.includes(*bounds.not_excluded(doubted))
    if alarm and may_fail:
        return replace(found, outcome="fail", excluded=excluded)
    if tolerated.exceeds(d) and (alarm or change.p_no_change(terms.worse) < SUSPICIOUS):
        return replace(found, outcome="fail" if terms.strict else "undecided", suspect=True)
    is_within = tolerated.compare(d - bounds.interval.distance, d + bounds.interval.distance) == "pass"
    if is_within and (excluded or not promises):
        return replace(found, outcome="pass", excluded=excluded)
    if promises and not excluded:
        return replace(found, reason="cannot-exclude" if shows_noise else "noise-unknown")
    return replace(found, excluded=excluded)


def has_thin_tail(runs: Sequence[RunMeasure], terms: ChangeTerms) -> bool:
    """Return whether a run has too few independent values beyond the percentile to compare it."""
    statistic = parse_statistic(terms.statistic)
    if not isinstance(statistic, Quantile) or statistic.q == 0.5:  # the median has half of the values on each side
        return False
    sizes = [run.n_effective for run in runs if run.n_effective is not None]
    return min(sizes, default=math.inf) * min(statistic.q, 1 - statistic.q) < FEWEST_IN_TAIL


def _is_alarm(runs: ComparedRuns, bounds: Bounds, margins: tuple[Margin, Margin], terms: ChangeTerms) -> bool:
    """Return whether "no change" is excluded, and the change is clearly beyond the tolerance.

    At the last look of a plan, an estimate beyond `at_worst` is clear enough. The sharp bound is enough by itself.
    """
    (tolerated, doubted), d = margins, bounds.change.log_change
    if bounds.is_sharp(tolerated):
        return True
    clearly = tolerated.compare(d - bounds.red.distance, d + bounds.red.distance) == "fail"
    is_last = terms.looks is not None and len(runs.new) >= terms.looks[-1]
    return bounds.excludes_no_change and (clearly or (is_last and doubted.exceeds(d)))


def _doubts_of_start(question: ChangeQuestion, judged: ChangeResult) -> Iterator[Doubt]:
    """Yield the doubts about the start of the runs; none if the answer is red or suspect without them."""
    if judged.outcome == "fail" or judged.suspect:
        return
    margin = Margin.of_ratio(judged.tolerance or 0.0, question.terms.worse)
    is_green = judged.outcome == "pass" or judged.excluded
    moved = [doubt for doubt in question.doubts if doubt.reason == "mean-moved" and is_green]
    moved = [one for one in moved if margin.exceeds(math.log(float(one.new)) - math.log(float(one.base)))]
    for doubt in question.doubts:
        if doubt.what == "quarter":  # decides only if the mean of all values moved, too, which alone is only noted
            yield replace(doubt, decides=doubt.decides and bool(moved))
        elif doubt.reason == "warm-up":
            yield doubt
    yield from moved


def _doubts_of_amounts(question: ChangeQuestion, judged: ChangeResult) -> Iterator[Doubt]:
    """Yield the doubts about amounts and gains, and about runs of one side that span more than the eased tolerance."""
    # In `runs-disagree`, `base` and `new` are the smallest and the largest run of one side.
    most = 1 + (judged.tolerance or 0.0)
    for doubt in question.doubts:
        is_wide = doubt.reason == "runs-disagree" and float(doubt.new) > float(doubt.base) * most
        if is_wide or doubt.reason in ("measured-less", "implausible"):
            yield doubt


def _doubts_of_machine(question: ChangeQuestion, judged: ChangeResult) -> Iterator[Doubt]:
    """Yield the differences of the machine; they decide if the same runs on equal machines have another answer."""
    if judged.reason == "exact":
        return
    is_red = judged.outcome == "fail" or judged.suspect
    for difference in question.machine:
        base, new = _scaled(question.base, difference.base), _scaled(question.new, difference.new)
        alike = judge_runs(base, new, question.terms)
        if alike.outcome == "error":
            continue
        differs = _is_another_answer(judged, alike, question.terms)
        for doubt in difference.doubts:
            # Lost time makes its side worse: more of the new runs explains a red answer, more of the base a green one.
            explains = doubt.what != "lost" or (float(doubt.new) > float(doubt.base)) == is_red
            yield replace(doubt, decides=doubt.decides and differs and explains)
        if difference.shown_as is not None and alike.log_change is not None:
            yield Doubt("machine", difference.shown_as, 0.0, math.expm1(alike.log_change), decides=False)
    for doubt in question.doubts:
        # Another host is worth a note only if something may be wrong.
        if doubt.reason == "machine" and (doubt.what != "host" or judged.outcome != "pass"):
            yield doubt


def _scaled(side: MeasuredSide, factors: Sequence[float]) -> list[RunMeasure]:
    """Return the measured runs with each value times its factor."""
    pairs = zip(side.measures, factors, strict=True)
    return [run if run.value is None else replace(run, value=run.value * factor) for run, factor in pairs]


def _is_another_answer(judged: ChangeResult, alike: ChangeResult, terms: ChangeTerms) -> bool:
    """Return whether `alike`, the answer for equal machines, explains a failure or suspicion, or shows a hidden one."""
    d, other = judged.log_change or 0.0, alike.log_change or 0.0
    # How much worse the change is on equal machines: less to explain a failure, more to show a hidden one.
    worse = {"up": other - d, "down": d - other, "either": abs(other) - abs(d)}[terms.worse]
    if (worse < 0) != (judged.outcome == "fail" or judged.suspect):  # it makes this answer only surer
        return False
    if judged.outcome == "fail":
        return alike.outcome != "fail"
    is_open = alike.reason == "cannot-exclude" and judged.reason != "cannot-exclude"  # it excludes less
    # A suspicion is explained by a calm answer; any other answer hides one that is not calm.
    is_calm = alike.outcome != "fail" and not alike.suspect and not is_open
    return is_calm if judged.suspect else not is_calm


def _eased(question: ChangeQuestion, judged: ChangeResult) -> tuple[ChangeResult, ChangeTerms]:
    """Return the answer and the terms: under an allowance if its larger tolerance gives a pass or another answer."""
    allowance = question.allowance
    if allowance is None or (judged.outcome == "pass" and not any(doubt.decides for doubt in judged.doubts)):
        return judged, question.terms
    if question.is_expired:
        return replace(judged, allowance=allowance, allowance_effect="expired"), question.terms
    terms = replace(question.terms, tolerance=max(question.terms.tolerance or 0.0, allowance.up_to))
    eased = judge_runs(question.base.measures, question.new.measures, terms, question.ratios)
    if terms == question.terms or (eased.outcome != "pass" and eased.of_numbers == judged.of_numbers):
        return replace(judged, allowance=allowance, allowance_effect="not-enough"), question.terms
    return replace(eased, allowance=allowance, allowance_effect="eased"), terms


def _pooled(question: ChangeQuestion, judged: ChangeResult, terms: ChangeTerms) -> ChangeResult:
    """Return the answer with the remembered runs of the branch of the baseline.

    If the judged commit is on another branch, they only inform: a change that they show is not from this commit.
    """
    remembered = question.remembered
    is_settled = judged.outcome == "pass" or judged.reason in ("exact", "thin-tail")
    if remembered is None or is_settled or any(doubt.decides for doubt in judged.doubts):
        return judged
    terms = replace(terms, looks=tuple(range(1, POOLED_RUNS + 1)))
    pairs = zip(remembered.values, remembered.variances, strict=True)
    runs = [RunMeasure(value, 1, None, variance, 0, True) for value, variance in pairs]  # one number each
    if remembered.is_measured:  # the judged commit is on the branch
        return _pooled_until_red(question, judged, terms, remembered, runs)
    if len(runs) < _FEWEST_TOLD:
        return judged
    found = judge_runs(question.base.measures, runs, terms)
    low, high, worse = found.low or 0.0, found.high or 0.0, terms.worse
    is_worse = (worse != "down" and low > 0) or (worse != "up" and high < 0)
    pooled = PooledRuns(remembered.branch, remembered.labels, found.estimate or 0.0, found.low, found.high, False)
    return replace(judged, pooled=pooled) if is_worse else judged


def _pooled_until_red(
    question: ChangeQuestion, judged: ChangeResult, terms: ChangeTerms, known: RememberedRuns, runs: list[RunMeasure]
) -> ChangeResult:
    """Return the answer, or if it is undecided and the remembered and new runs together are red, the answer of these.

    `runs` are the remembered ones since the baseline, or since the last change point. Each block of ten is one plan of
    ten looks, which share the error rate of one plan, so many merges raise few false alarms
    (`benchmarks/detection/pooling.py`). Nothing else is taken from them, because most are of older commits.
    """
    count = len(runs) % POOLED_RUNS  # of the newest block, which is not complete
    if not count or judged.outcome != "undecided":
        return judged
    found = judge_runs(question.base.measures, [*runs[-count:], *question.new.measures], terms)
    if found.outcome != "fail":
        return judged
    pooled = PooledRuns(known.branch, known.labels[-count:], found.estimate or 0.0, found.low, found.high, True)
    effect = judged.allowance_effect
    return replace(found, pooled=pooled, doubts=judged.doubts, allowance=judged.allowance, allowance_effect=effect)
