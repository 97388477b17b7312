"""Runs against an absolute bound: `judge_limit`, and the same decision for runs that are measured already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Better, Comparator, Outcome
from perfgate.stats.bounds import ValueLimit, mean_limit, numbers_limit, quantile_limit
from perfgate.stats.statistics import (
    Count,
    Extreme,
    Quantile,
    RunMeasure,
    Statistic,
    describe,
    parse_statistic,
    warmup_for,
)
from perfgate.stats.steady import RunValues, SteadyRun, WarmUpRule, check_warmup, steady_run

Reason: TypeAlias = Literal[
    "interval",
    "exact",
    "equal",
    "every-value",
    "cannot-exclude",
    "noise-unknown",
    "thin-tail",
    "no-baseline",
    "no-new-run",
    "too-few-samples",
    "not-a-number",
    "not-positive",
]


class LimitTerms(Struct, frozen=True, kw_only=True):
    """The options of `judge_limit`, by the same names; raises ValueError for a bad one."""

    bound: float
    statistic: str = "median"
    comparator: Comparator = "under"
    confidence: float = 0.95
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    min_samples: int = 4
    strict: bool = False
    at_worst: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.bound):
            raise ValueError(f"bound is a finite number, not {self.bound!r}")
        if self.at_worst is not None and not (math.isfinite(self.at_worst) and self.is_bad(self.at_worst)):
            raise ValueError(f"at_worst is beyond the bound {self.bound!r}, on its bad side, not {self.at_worst!r}")
        if self.comparator not in ("under", "at most", "over", "at least"):
            raise ValueError(f'comparator is "under", "at most", "over" or "at least", not {self.comparator!r}')
        check_warmup(self.warmup, self.better)
        check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def upper(self) -> bool:
        """True if the bound is an upper one."""
        return self.comparator in ("under", "at most")

    @property
    def better(self) -> Better:
        """The good side of the bound; warm-up is searched on the other side."""
        return "lower" if self.upper else "higher"

    def is_bad(self, value: float) -> bool:
        """Return whether a value is on the bad side of the bound."""
        if value == self.bound:
            return self.comparator in ("under", "over")
        return (value > self.bound) == self.upper

    @property
    def has_share(self) -> bool:
        """True for a percentile, which is beyond the bound if more than a share of the values is."""
        return isinstance(parse_statistic(self.statistic), Quantile)

    def may_reach(self, end: float | None) -> bool:
        """Return whether an interval with this bad end reaches `at_worst`; None is an infinite end."""
        if self.at_worst is None:
            return False
        return end is None or (end >= self.at_worst if self.upper else end <= self.at_worst)


class LimitResult(Struct, frozen=True, kw_only=True):
    """The answer of `judge_limit`; None for what does not exist or is infinite.

    `estimate`, `low` and `high` are in the unit of the values; the bounds are one-sided. `n` values are left after
    warm-up in `runs` runs; `n_effective` is their effective sample size. For percentiles, `share` is the share of
    values on the bad side of the bound, with its one-sided bounds. `suspect`: the estimate is on the bad side of the
    bound, but the interval includes the bound; with `strict` the outcome is then `fail`. `excluded` says whether the
    interval is on the good side of `at_worst`; None without `at_worst`.
    """

    outcome: Outcome
    reason: Reason
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_effective: float | None = None
    runs: int
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    suspect: bool = False
    excluded: bool | None = None


def judge_limit(
    new: Sequence[RunValues],
    *,
    statistic: str = "median",
    bound: float,
    comparator: Comparator = "under",
    confidence: float = 0.95,
    warmup: WarmUpRule = "auto",
    prior: tuple[float, float] = (0.01, 2.0),
    min_samples: int = 4,
    strict: bool = False,
    at_worst: float | None = None,
) -> LimitResult:
    """Compare a statistic of runs with a bound.

    Parameters
    ----------
    new
        The runs: sequences of numbers in order of time, in one unit, or single numbers.
    statistic
        The statistic of each run: `median`, `mean`, `p95`, ...
    bound
        The bound, in the unit of the values.
    comparator
        `under` or `at most` for an upper bound, `over` or `at least` for a lower one.
    confidence
        The confidence of the one-sided interval, between .5 and 1. The interval is about these runs; it does not
        include the noise between runs.
    warmup
        `auto`, or the number of values to drop at the start of each run. `auto` drops nothing for `max`, `total` and
        `count`, which are facts about the whole run.
    prior
        (s0, d0) of the noise; only d0, the prior degrees of freedom, is used.
    min_samples
        The fewest values after warm-up.
    strict
        True to fail a suspicion: an estimate on the bad side, with an interval that includes the bound.
    at_worst
        A value beyond the bound, in the unit of the values. An inconclusive result whose interval reaches it has the
        reason `cannot-exclude`.

    Returns
    -------
    The outcome with the estimate and its interval. Bad data gives the outcome `error`, never an exception.

    Raises
    ------
    ValueError
        For a bad option.
    """
    terms = LimitTerms(
        statistic=statistic,
        bound=bound,
        comparator=comparator,
        confidence=confidence,
        warmup=warmup,
        prior=prior,
        min_samples=min_samples,
        strict=strict,
        at_worst=at_worst,
    )
    dropped = warmup_for(statistic, warmup)
    return judge_steady_limit([steady_run(run, dropped, terms.better) for run in new], terms)


@np.errstate(all="ignore")
def judge_steady_limit(runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """The decision of `judge_limit` for runs without their warm-up."""
    # The count of a run is known without its values, and is all that is needed here.
    missing = missing_data([describe(run, Count()) for run in runs], terms.min_samples) if runs else "no-new-run"
    if missing is not None:
        return LimitResult(outcome="error", reason=missing, runs=len(runs))
    statistic = parse_statistic(terms.statistic)
    if isinstance(statistic, Quantile) and not any(run.single for run in runs):
        return _judge_quantile(runs, statistic, terms)
    limit = _value_limit(runs, statistic, terms)
    if not math.isfinite(limit.estimate):
        return LimitResult(outcome="error", reason="not-a-number", runs=len(runs))
    limit = replace(limit, low=_not_below_values(limit.low, runs))
    samples = [len(run.values) for run in runs if not run.single]
    result = LimitResult(
        outcome=_compare(limit.low, limit.high, terms),
        reason="exact" if limit.exact else "interval",
        estimate=limit.estimate,
        low=finite(limit.low),
        high=finite(limit.high),
        n=sum(samples) if samples else None,
        n_effective=limit.n_effective,
        runs=len(runs),
    )
    return result if result.outcome != "inconclusive" and terms.at_worst is None else _settled(result, runs, terms)


def _not_below_values(low: float, runs: Sequence[SteadyRun]) -> float:
    """The lower end of an interval; 0 if it is negative although no value is, because no time is negative."""
    is_positive = low < 0 and all(len(run.values) and float(run.values.min()) >= 0 for run in runs)
    return 0.0 if is_positive else low


def _judge_quantile(runs: Sequence[SteadyRun], statistic: Quantile, terms: LimitTerms) -> LimitResult:
    """The decision about a percentile of samples, by the share of values beyond the bound."""
    limit = quantile_limit(
        [run.values for run in runs],
        statistic.q,
        terms.bound,
        upper=terms.upper,
        inclusive=terms.comparator in ("under", "over"),
        confidence=terms.confidence,
    )
    result = LimitResult(
        outcome="fail" if limit.broken else "pass" if limit.kept else "inconclusive",
        reason="interval",
        estimate=finite(limit.estimate),
        low=limit.low,
        high=limit.high,
        n=limit.n,
        n_effective=limit.n_effective,
        runs=len(runs),
        share=limit.share,
        share_low=limit.share_low,
        share_high=limit.share_high,
    )
    return result if result.outcome != "inconclusive" and terms.at_worst is None else _settled(result, runs, terms)


def _settled(result: LimitResult, runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """The result of an interval that includes the bound, by where the values and the estimate are."""
    excluded = None if terms.at_worst is None else not terms.may_reach(result.high if terms.upper else result.low)
    result = replace(result, excluded=excluded)
    if result.outcome != "inconclusive" or result.estimate is None:
        return result
    if all(_breaks_throughout(run, terms) for run in runs):
        return replace(result, outcome="fail", reason="every-value")
    if result.estimate != terms.bound and terms.is_bad(result.estimate):
        return replace(result, outcome="fail" if terms.strict else "suspect", suspect=True)
    return replace(result, reason="cannot-exclude") if excluded is False else result


def _breaks_throughout(run: SteadyRun, terms: LimitTerms) -> bool:
    """Return whether all values of a run are on the bad side, so that the statistic is there whatever its noise."""
    is_place = run.single or terms.statistic in ("mean", "trimmed_mean") or terms.has_share
    return is_place and terms.is_bad(float(run.values.min() if terms.upper else run.values.max()))


def _value_limit(runs: Sequence[SteadyRun], statistic: Statistic, terms: LimitTerms) -> ValueLimit:
    """The statistic over all runs, with its interval if it has one."""
    if isinstance(statistic, Extreme | Count):
        values = [_value(run, statistic) for run in runs]
        # A fact about several runs: the largest maximum, the smallest minimum, the count nearest to failing.
        largest = statistic.largest if isinstance(statistic, Extreme) else terms.upper
        worst = max(values) if largest else min(values)
        return ValueLimit(worst, worst, worst, None, exact=True)
    if isinstance(statistic, Quantile) or any(run.single for run in runs):
        # The noise inside a single number is unknown, so only the spread between runs counts.
        return numbers_limit([_value(run, statistic) for run in runs], terms.confidence)
    return mean_limit([statistic.estimate(run.values) for run in runs], terms.prior[1], terms.confidence)


def _value(run: SteadyRun, statistic: Statistic) -> float:
    return float(run.values[0]) if run.single else statistic.estimate(run.values).value


def _compare(low: float, high: float, terms: LimitTerms) -> Outcome:
    """Pass if the whole interval is on the good side of the bound, fail if it is on the bad side."""
    low, high, bound = (low, high, terms.bound) if terms.upper else (-high, -low, -terms.bound)
    bound_fails = terms.comparator in ("under", "over")
    if high < bound or (high == bound and not bound_fails):
        return "pass"
    if low > bound or (low == bound and bound_fails):
        return "fail"
    return "inconclusive"


def missing_data(runs: Sequence[RunMeasure], min_samples: int) -> Reason | None:
    """The reason why these runs cannot be judged, or None: an empty run, NaN, or too few samples after warm-up."""
    if any(run.n + run.dropped == 0 for run in runs):
        return "too-few-samples"
    if any(run.value is None and run.n > 0 for run in runs):
        return "not-a-number"
    # A run that is a single number has no samples to count.
    if any(run.n < min_samples and not run.single for run in runs):
        return "too-few-samples"
    return None


def check_evidence_options(confidence: float, prior: tuple[float, float], min_samples: int) -> None:
    """Raise ValueError for a bad confidence, prior or number of samples."""
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence is between .5 and 1, not {confidence!r}")
    s0, d0 = prior
    if not (0 < s0 < math.inf and 0 < d0 < math.inf):
        raise ValueError(f"prior is a positive standard deviation and positive degrees of freedom, not {prior!r}")
    if min_samples < 1:
        raise ValueError(f"min_samples is at least 1, not {min_samples!r}")


def finite(value: float) -> float | None:
    """The value, or None if it is NaN or infinite."""
    return value if math.isfinite(value) else None
