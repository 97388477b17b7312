"""Decide about a change from the baseline over several looks; exit 0 excludes `at_worst`: `judge_promise`.

Three questions have three error rates, shared by all looks of a plan (see `perfgate.stats.sequential`):

* Green: is a change of `at_worst` or more excluded? Wrong in at most 1 - confidence of all plans.
* Pass: is the interval of the t test within the tolerance, too?
* Red: is "no change" excluded, and is the change beyond the tolerance? The better the noise is known, the rarer a
  false alarm is.

`promise_bounds` computes the bounds; here they become an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Better, Outcome
from perfgate.judge.decide_change import (
    SUSPICIOUS,
    ChangeResult,
    ChangeTerms,
    Margin,
    applied_tolerance,
    as_ratio,
    decide_without_noise,
    detectable_change,
    has_thin_tail,
    measure_runs,
)
from perfgate.judge.decide_limit import Reason, finite
from perfgate.judge.promise_bounds import (
    RUNS_FOR_A_PROMISE,
    Bounds,
    ComparedRuns,
    bounds_of_known_noise,
    bounds_of_unknown_noise,
)
from perfgate.stats.moderated import moderated_t
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import RunValues, WarmUpRule

#: The looks of a plan: one new run, and two more after a doubt.
LOOKS = 3
#: Without a calibrated prior, this many base runs show the noise well enough to fail a single new run.
RUNS_THAT_SHOW_NOISE = 5


class PromiseTerms(Struct, frozen=True, kw_only=True):
    """The change that a green answer excludes, and the plan of the looks.

    `at_worst` is relative, `at_worst_absolute` in the unit of the values; None is twice the tolerance of that kind.
    """

    at_worst: float | None = None
    at_worst_absolute: float | None = None
    #: The numbers of new runs at which the data are looked at; more runs than the last one are a further look.
    looks: tuple[int, ...] = tuple(range(1, LOOKS + 1))
    #: True if the prior was calibrated, or comes from pairs.
    noise_known: bool = False

    def __post_init__(self) -> None:
        for name, value in (("at_worst", self.at_worst), ("at_worst_absolute", self.at_worst_absolute)):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")

    def widened(self, terms: ChangeTerms) -> ChangeTerms:
        """The terms of the same change with `at_worst` for a tolerance."""
        relative = None if terms.tolerance is None else 2 * terms.tolerance
        absolute = None if terms.tolerance_absolute is None else 2 * terms.tolerance_absolute
        return replace(
            terms,
            tolerance=relative if self.at_worst is None else self.at_worst,
            tolerance_absolute=absolute if self.at_worst_absolute is None else self.at_worst_absolute,
        )

    def applied(self, base_value: float, terms: ChangeTerms) -> float:
        """The relative change that green excludes; at least the tolerance, and for a fall less than 100 %."""
        tolerance = applied_tolerance(base_value, terms)
        found = max(applied_tolerance(base_value, self.widened(terms)), tolerance)
        return found if terms.worse == "up" or found < 1 else (1 + min(tolerance, 1)) / 2


class PromiseResult(ChangeResult, frozen=True, kw_only=True):
    """The answer of `judge_promise`: that of `judge_change`, with bounds that hold over all looks.

    `at_worst` is the size of the change that green has to exclude (relative, positive), `not_excluded` the largest
    change for the worse that the data do not exclude (new / base - 1), and `excluded` whether the promise is kept.
    """

    at_worst: float | None = None
    not_excluded: float | None = None
    excluded: bool = False

    @classmethod
    def of(cls, change: ChangeResult) -> PromiseResult:
        """The same answer, without a promise yet."""
        return cls(
            outcome=change.outcome,
            reason=change.reason,
            suspect=change.suspect,
            improved=change.improved,
            estimate=change.estimate,
            low=change.low,
            high=change.high,
            log_change=change.log_change,
            standard_error=change.standard_error,
            degrees_of_freedom=change.degrees_of_freedom,
            p_no_change=change.p_no_change,
            base_value=change.base_value,
            new_value=change.new_value,
            base_runs=change.base_runs,
            new_runs=change.new_runs,
            tolerance=change.tolerance,
            minimum_detectable_change=change.minimum_detectable_change,
            runs_needed=change.runs_needed,
        )


def judge_promise(
    base: Sequence[RunValues],
    new: Sequence[RunValues],
    *,
    statistic: str = "median",
    tolerance: float | None = None,
    tolerance_absolute: float | None = None,
    at_worst: float | None = None,
    at_worst_absolute: float | None = None,
    better: Better = "lower",
    two_sided: bool = False,
    confidence: float = 0.95,
    power: float = 0.8,
    warmup: WarmUpRule = "auto",
    prior: tuple[float, float] | None = None,
    looks: int = LOOKS,
    strict: bool = False,
    exact: bool = False,
    min_samples: int = 4,
) -> PromiseResult:
    """Decide about new runs as `perfgate check` does: after each run, at most `looks` times.

    Parameters
    ----------
    base, new
        The runs, as for `judge_change`. The look is the number of new runs.
    at_worst, at_worst_absolute
        The change that must be excluded before the answer may be green: relative (.1 is 10 %), and in the unit of the
        values. None is twice the tolerance of that kind.
    prior
        The calibrated noise (s0, d0) of `calibrate_prior`; None if the noise is unknown.
    looks
        How many new runs there may be in all.

    The other parameters are those of `judge_change`.

    Returns
    -------
    The outcome. Green is `pass`, or `inconclusive` with `excluded`. Run the new code once more after `suspect` and
    after `inconclusive` without `excluded`, up to `looks` runs.

    Raises
    ------
    ValueError
        For a bad option.
    """
    if looks < 1:
        raise ValueError(f"looks is 1 or more, not {looks!r}")
    promise = PromiseTerms(
        at_worst=at_worst,
        at_worst_absolute=at_worst_absolute,
        looks=tuple(range(1, looks + 1)),
        noise_known=prior is not None,
    )
    terms = ChangeTerms(
        statistic=statistic,
        tolerance=tolerance,
        tolerance_absolute=tolerance_absolute,
        better=better,
        two_sided=two_sided,
        confidence=confidence,
        power=power,
        warmup=warmup,
        prior=prior or (0.01, 2.0),
        strict=strict,
        exact=exact,
        min_samples=min_samples,
    )
    return judge_measured_promise(measure_runs(base, terms), measure_runs(new, terms), terms, promise)


def judge_measured_promise(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    terms: ChangeTerms,
    promise: PromiseTerms,
    ratios: Sequence[RunMeasure] | None = None,
) -> PromiseResult:
    """The decision of `judge_promise` for measured runs; `ratios` are new / base of pairs."""
    first = decide_without_noise(base, new, terms)
    if first is not None:
        return _promised_without_noise(first, base, new, terms, promise)
    if terms.exact or ratios is not None:  # their prior is known
        promise = replace(promise, noise_known=True)
    base_value = moderated_t(base, new, terms.noise).base_value
    tolerated = Margin.of_ratio(applied_tolerance(base_value, terms), terms.worse)
    doubted = Margin.of_ratio(promise.applied(base_value, terms), terms.worse)
    runs = ComparedRuns(tuple(base), tuple(new), None if ratios is None else tuple(ratios))
    rate, looks = 1 - terms.confidence, promise.looks
    if promise.noise_known:
        bounds = bounds_of_known_noise(runs, terms.noise, terms.worse, rate, looks)
    else:
        bounds = bounds_of_unknown_noise(runs, (tolerated, doubted), terms.worse, rate, looks)
    return _judged(runs, bounds, (tolerated, doubted), terms, promise)


def _promised_without_noise(
    first: ChangeResult,
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    terms: ChangeTerms,
    promise: PromiseTerms,
) -> PromiseResult:
    """Answer for exact values, and for runs without a judgement: judge an open difference again with `at_worst`."""
    at_worst = None if first.base_value is None else finite(promise.applied(abs(first.base_value) or 1.0, terms))
    found = replace(PromiseResult.of(first), at_worst=at_worst, excluded=first.outcome == "pass")
    if first.outcome != "inconclusive":
        return found
    wider = decide_without_noise(base, new, promise.widened(terms))
    is_kept = wider is not None and wider.outcome == "pass"
    return replace(found, excluded=True) if is_kept else replace(found, reason="cannot-exclude")


def _judged(
    runs: ComparedRuns, bounds: Bounds, margins: tuple[Margin, Margin], terms: ChangeTerms, promise: PromiseTerms
) -> PromiseResult:
    """The outcome from the bounds."""
    (tolerated, doubted), change, d = margins, bounds.change, bounds.change.log_change
    low, high = d - bounds.interval, d + bounds.interval
    least, most = _not_excluded(d, bounds.green, doubted)
    shows_noise = promise.noise_known or runs.count >= RUNS_FOR_A_PROMISE
    is_thin = has_thin_tail([*runs.base, *runs.new], terms)
    excluded = shows_noise and not is_thin and doubted.includes(least, most)
    alarm = _is_alarm(runs, bounds, margins, promise)
    may_fail = promise.noise_known or len(runs.base) >= RUNS_THAT_SHOW_NOISE or len(runs.new) > 1 or terms.strict
    is_beyond = tolerated.compare(d, d) == "fail"
    suspect = is_beyond and (alarm or change.p_no_change(terms.worse) < SUSPICIOUS) and not is_thin

    outcome: Outcome = "inconclusive"
    reason: Reason = "thin-tail" if is_thin else "interval"
    if alarm and may_fail and not is_thin:
        outcome, suspect = "fail", False
        low, high = max(low, d - bounds.red), min(high, d + bounds.red)
    elif suspect:
        outcome, excluded = ("fail" if terms.strict else "suspect"), False
    elif excluded and tolerated.compare(low, high) == "pass":
        outcome = "pass"
    elif not excluded and not is_thin:
        reason = "cannot-exclude" if shows_noise else "noise-unknown"
    farthest = most if terms.worse == "up" or (terms.worse == "either" and most > -least) else least
    return PromiseResult(
        outcome=outcome,
        reason=reason,
        suspect=suspect,
        improved=tolerated.is_improved(low, high) and not is_thin and shows_noise,
        estimate=as_ratio(d),
        low=as_ratio(low),
        high=as_ratio(high),
        log_change=d,
        standard_error=bounds.alarm.standard_error,
        degrees_of_freedom=bounds.alarm.degrees_of_freedom,
        p_no_change=change.p_no_change(terms.worse),
        base_value=change.base_value,
        new_value=change.new_value,
        base_runs=len(runs.base),
        new_runs=len(runs.new),
        tolerance=finite(size_of(tolerated)),
        minimum_detectable_change=detectable_change(tolerated, change.detectable(terms.confidence, terms.power)),
        runs_needed=change.runs_needed(doubted.room, terms.confidence, terms.power),
        at_worst=finite(size_of(doubted)),
        not_excluded=as_ratio(farthest),
        excluded=excluded,
    )


def _not_excluded(d: float, green: float, doubted: Margin) -> tuple[float, float]:
    """The changes, in logarithms, that green does not exclude.

    A green answer needs precision, not luck: an estimate of no change has to be green, too. A gain beyond the noise
    needs no luck.
    """
    least, most = d - green, d + green
    gained = (doubted.worse == "up" and most < 0) or (doubted.worse == "down" and least > 0)
    if gained or green < doubted.room:
        return least, most
    return min(least, -green), max(most, green)


def _is_alarm(runs: ComparedRuns, bounds: Bounds, margins: tuple[Margin, Margin], promise: PromiseTerms) -> bool:
    """Return whether no change is excluded, and the change is clearly beyond the tolerance.

    At the last look, an estimate beyond `at_worst` is clear enough.
    """
    (tolerated, doubted), d = margins, bounds.change.log_change
    clearly = tolerated.compare(d - bounds.red, d + bounds.red) == "fail"
    is_last = len(runs.new) >= promise.looks[-1]
    return bounds.excludes_no_change and (clearly or (is_last and doubted.compare(d, d) == "fail"))


def size_of(margin: Margin) -> float:
    """Return the size of the relative change at the margin; positive."""
    return -math.expm1(margin.down) if margin.worse == "down" else math.expm1(margin.up)
