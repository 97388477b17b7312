"""Decide about a change from the baseline over several looks; exit 0 excludes `at_worst`: `judge_promise`.

Three questions have three error rates, shared by all looks of a plan (see `perfgate.stats.sequential`):

* Green: is a change of `at_worst` or more excluded? Wrong in at most 1 - confidence of all plans.
* Pass: is the interval of the t test within the tolerance, too?
* Red: is "no change" excluded, and is the change beyond the tolerance? A false alarm is rarer than a wrong green,
  because the more runs there are, the less an alarm gains from being early.

If the noise between runs was not calibrated, each side assumes what is worse for it: green never takes the noise to
be much smaller than `at_worst` suggests, red never to be much smaller than the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.core import Better, Outcome
from perfgate.judge.decide_change import (
    SUSPICIOUS,
    ChangeResult,
    ChangeTerms,
    Margin,
    applied_tolerance,
    as_ratio,
    detectable_change,
    judge_measured_change,
    measure_runs,
)
from perfgate.judge.decide_limit import finite
from perfgate.stats.distributions import t_quantile
from perfgate.stats.moderated import LogChange, WorseSide, moderated_t
from perfgate.stats.paired_t import paired_t
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import RunValues, WarmUpRule

#: The looks of a plan: one new run, and two more after a doubt.
LOOKS = 3
#: Without a calibrated prior, this many base runs show the noise well enough to fail a single new run.
RUNS_THAT_SHOW_NOISE = 5
#: Without a calibrated prior, this many runs of both sides together show some noise.
FEWEST_RUNS = 3

#: Green spends its rate early (total * sqrt(t)), so that most unchanged programs need one run; red spends it late.
_GREEN_SPENDING, _RED_SPENDING = 0.5, 4.0
#: The noise that green assumes before it has seen any: this share of at_worst, counted as this many runs.
GREEN_PRIOR = (0.31, 2.5)
#: The noise that red assumes: the tolerance, counted as half a run.
RED_PRIOR = (1.0, 0.5)
#: Of the error rate of green, the share of a bound without any prior. It lets quiet machines pass early.
_PLAIN_SHARE = 0.1
#: The error rate of red is this many times 1 - confidence, divided by the degrees of freedom, and at most this share.
_RED_RATE, _MOST_RED = 1.25, 0.4
#: Base runs further from their median than this many robust standard deviations are clipped. Normal noise of a few
#: runs often reaches 3, and clipping it there makes the noise look smaller than it is.
_CLIPPED_AT = 8.0
#: The smallest noise that a prior assumes, for a tolerance of 0.
_LEAST_NOISE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseTerms:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseResult(ChangeResult):
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


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The distance of each bound from the estimate, in logarithms; `is_alarm` if red excludes no change.

    `interval` is half of the interval that is shown, from the runs alone.
    """

    green: float
    interval: float
    red: float
    is_alarm: bool


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
    first = judge_measured_change(base, new, terms, ratios)
    found = PromiseResult.of(first)
    if first.reason not in ("interval", "thin-tail") or first.base_value is None:
        # Nothing could be judged, or it was compared without noise.
        at_worst = None if first.base_value is None else finite(promise.applied(abs(first.base_value) or 1.0, terms))
        found = replace(found, at_worst=at_worst, excluded=first.outcome == "pass")
        if first.outcome != "inconclusive":
            return found
        wider = judge_measured_change(base, new, promise.widened(terms), ratios)
        return replace(found, excluded=True) if wider.outcome == "pass" else replace(found, reason="cannot-exclude")
    at_worst = promise.applied(first.base_value, terms)
    if terms.exact:  # the prior of quantities that are mostly exact is known
        promise = replace(promise, noise_known=True)
    tolerated = Margin.of_ratio(first.tolerance or 0.0, terms.worse)
    doubted = Margin.of_ratio(at_worst, terms.worse)
    change = _change(base, new, ratios, terms, promise, doubted)
    bounds = _bounds(base, new, ratios, terms, promise, (tolerated, doubted), change)
    return _judged(found, change, bounds, (tolerated, doubted), terms, promise)


def _change(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    ratios: Sequence[RunMeasure] | None,
    terms: ChangeTerms,
    promise: PromiseTerms,
    doubted: Margin,
) -> LogChange:
    """The change with the noise that green assumes."""
    if ratios is not None:
        return paired_t(base, new, ratios, terms.noise)
    if promise.noise_known:
        return moderated_t(base, new, terms.noise)
    return moderated_t(base, new, prior_of(GREEN_PRIOR, doubted), _CLIPPED_AT)


def prior_of(prior: tuple[float, float], margin: Margin) -> tuple[float, float]:
    """The prior (s0, d0) from a share of a margin; s0 is relative."""
    return max(prior[0] * min(margin.room, 1.0), _LEAST_NOISE), prior[1]


def _bounds(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    ratios: Sequence[RunMeasure] | None,
    terms: ChangeTerms,
    promise: PromiseTerms,
    margins: tuple[Margin, Margin],
    change: LogChange,
) -> _Bounds:
    """Return the bounds at this look."""
    rate = 1 - terms.confidence
    known = promise.noise_known or ratios is not None
    counts = _plan(promise.looks, len(new))
    if not known and len(base) + len(new) >= FEWEST_RUNS:  # a look that can promise nothing spends nothing
        counts = tuple(count for count in counts if len(base) + count >= FEWEST_RUNS)
    look = counts.index(len(new))
    per_run = 0.0 if ratios is not None else 1 / len(base)
    information = tuple(1 / (per_run + 1 / count) for count in counts)

    def reach(of: LogChange, total: float) -> float:
        level = nominal_levels(information, total, _GREEN_SPENDING)[look]
        return t_quantile(of.degrees_of_freedom or 1.0, 1 - level) * of.standard_error

    if known:
        green = interval = reach(change, rate)
        red, df = change, terms.prior[1] + len(base) + counts[-1] - 2
    else:
        green = interval = reach(change, (1 - _PLAIN_SHARE) * rate)
        if len(base) + len(new) >= FEWEST_RUNS:
            plain = moderated_t(base, new, (0.0, 0.0), _CLIPPED_AT)
            # If base runs agree by luck, the noise within the new runs is left, whose many values do not show the rest.
            plain = replace(plain, degrees_of_freedom=len(base) + len(new) - 2)
            if plain.standard_error > 0:  # equal values do not show that there is no noise
                green = min(green, reach(plain, _PLAIN_SHARE * rate))
                interval = min(green, reach(plain, rate))  # it never reaches beyond what green excludes
        red = moderated_t(base, new, prior_of(RED_PRIOR, margins[0]), _CLIPPED_AT)
        df = len(base) + counts[-1] - 2
    total = rate * min(_MOST_RED, _RED_RATE / max(df - 1, 1))
    alarm = red.p_no_change(terms.worse) <= nominal_levels(information, total, _RED_SPENDING)[look]
    return _Bounds(green, interval, reach(red, rate), alarm)


def _plan(looks: tuple[int, ...], new_runs: int) -> tuple[int, ...]:
    """The numbers of new runs at all looks; more runs than planned are one further look."""
    return looks if new_runs in looks else (*(count for count in looks if count < new_runs), new_runs)


def _judged(
    found: PromiseResult,
    change: LogChange,
    bounds: _Bounds,
    margins: tuple[Margin, Margin],
    terms: ChangeTerms,
    promise: PromiseTerms,
) -> PromiseResult:
    """The outcome from the bounds."""
    tolerated, doubted = margins
    d = change.log_change
    least, most = d - bounds.green, d + bounds.green
    low, high = d - bounds.interval, d + bounds.interval
    shows_noise = promise.noise_known or found.base_runs + found.new_runs >= FEWEST_RUNS
    # A green answer needs precision, not luck: an estimate of no change would be green, too. A gain beyond the noise
    # needs no luck.
    side: WorseSide = terms.worse
    gained = (side == "up" and most < 0) or (side == "down" and least > 0)
    if not gained and bounds.green >= doubted.room:
        least, most = min(least, -bounds.green), max(most, bounds.green)
    excluded = shows_noise and doubted.compare(least, most) == "pass" and not _touches(doubted, least, most)

    is_last = found.new_runs >= promise.looks[-1]
    is_beyond = tolerated.compare(d, d) == "fail"
    clearly = tolerated.compare(d - bounds.red, d + bounds.red) == "fail"
    alarm = bounds.is_alarm and (clearly or (is_last and doubted.compare(d, d) == "fail"))
    may_convict = promise.noise_known or found.base_runs >= RUNS_THAT_SHOW_NOISE or found.new_runs > 1 or terms.strict
    suspect = is_beyond and (alarm or change.p_no_change(terms.worse) < SUSPICIOUS)

    outcome: Outcome = "inconclusive"
    reason = found.reason
    if found.reason == "thin-tail":
        suspect = excluded = False
    elif alarm and may_convict:
        outcome, suspect = "fail", False
        low, high = max(low, d - bounds.red), min(high, d + bounds.red)
    elif suspect:
        outcome, excluded = ("fail" if terms.strict else "suspect"), False
    elif excluded and tolerated.compare(low, high) == "pass":
        outcome = "pass"
    elif not excluded:
        reason = "cannot-exclude" if shows_noise else "noise-unknown"
    farthest = most if side == "up" or (side == "either" and most > -least) else least
    return replace(
        found,
        outcome=outcome,
        reason=reason,
        suspect=suspect,
        improved=tolerated.is_improved(low, high) and found.reason != "thin-tail" and shows_noise,
        estimate=as_ratio(d),
        low=as_ratio(low),
        high=as_ratio(high),
        log_change=d,
        standard_error=change.standard_error,
        degrees_of_freedom=change.degrees_of_freedom,
        p_no_change=change.p_no_change(side),
        base_value=change.base_value,
        new_value=change.new_value,
        minimum_detectable_change=detectable_change(tolerated, change.detectable(terms.confidence, terms.power)),
        runs_needed=change.runs_needed(doubted.room, terms.confidence, terms.power),
        at_worst=finite(at_worst_of(doubted)),
        not_excluded=as_ratio(farthest),
        excluded=excluded,
    )


def _touches(margin: Margin, low: float, high: float) -> bool:
    """Return whether the interval ends exactly at the margin: a change of at_worst itself must be excluded."""
    return (margin.worse != "down" and high >= margin.up) or (margin.worse != "up" and low <= margin.down)


def at_worst_of(margin: Margin) -> float:
    """Return the size of the relative change at the margin; positive."""
    return -math.expm1(margin.down) if margin.worse == "down" else math.expm1(margin.up)
