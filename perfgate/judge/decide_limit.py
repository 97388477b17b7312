"""Runs against an absolute bound: where the outcome of a limit is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.core import Comparator, Outcome
from perfgate.judge.terms import LimitTerms, Reason, missing_data
from perfgate.stats.bounds import ValueLimit, mean_limit, numbers_limit, quantile_limit
from perfgate.stats.statistics import Count, Extreme, Quantile, Statistic, describe
from perfgate.stats.steady import RunValues, SteadyRun, WarmUpRule, steady_run


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The answer of `judge_limit`; what does not exist, or is infinite, is None.

    `estimate`, `low` and `high` are in the unit of the values, the bounds one-sided. `n` values are left
    after warm-up in `runs` runs, as good as `n_effective` independent ones. For percentiles, `share` of the
    values is on the bad side of the bound, with its one-sided bounds.
    """

    outcome: Outcome
    reason: Reason
    estimate: float | None
    low: float | None
    high: float | None
    n: int | None
    n_effective: float | None
    runs: int
    share: float | None
    share_low: float | None
    share_high: float | None


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
) -> LimitResult:
    """Whether a statistic of runs keeps a bound, which is in the unit of the values.

    `new` holds runs: sequences of numbers in order of time, or single numbers. Of the prior only the weight
    counts: that of the noise inside the runs against their spread. The interval holds for these runs: how
    another one would differ is not in it.

    Raises ValueError for bad options; never for what the runs hold: those give the outcome "error".
    """
    terms = LimitTerms(
        statistic=statistic,
        bound=bound,
        comparator=comparator,
        confidence=confidence,
        warmup=warmup,
        prior=prior,
        min_samples=min_samples,
    )
    return judge_steady_limit([steady_run(run, warmup, terms.better) for run in new], terms)


@np.errstate(all="ignore")
def judge_steady_limit(runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """`judge_limit` for runs whose warm-up is gone."""
    missing = "no-new-run" if not runs else _missing(runs, terms)
    if missing is not None:
        return _unmeasured(missing, len(runs))
    statistic = terms.measured_by
    if isinstance(statistic, Quantile) and not any(run.single for run in runs):
        return _judge_quantile(runs, statistic, terms)
    limit = _value_limit(runs, statistic, terms)
    if not math.isfinite(limit.estimate):
        return _unmeasured("not-a-number", len(runs))
    samples = [len(run.values) for run in runs if not run.single]
    return LimitResult(
        outcome=_compare(limit.low, limit.high, terms),
        reason="exact" if limit.exact else "interval",
        estimate=limit.estimate,
        low=_finite(limit.low),
        high=_finite(limit.high),
        n=sum(samples) if samples else None,
        n_effective=limit.n_effective,
        runs=len(runs),
        share=None,
        share_low=None,
        share_high=None,
    )


def _judge_quantile(runs: Sequence[SteadyRun], statistic: Quantile, terms: LimitTerms) -> LimitResult:
    """The outcome of a percentile of samples: by the share of values beyond the bound."""
    limit = quantile_limit(
        [run.values for run in runs],
        statistic.q,
        terms.bound,
        upper=terms.upper,
        inclusive=terms.strict,
        confidence=terms.confidence,
    )
    return LimitResult(
        outcome="fail" if limit.broken else "pass" if limit.kept else "inconclusive",
        reason="interval",
        estimate=_finite(limit.estimate),
        low=limit.low,
        high=limit.high,
        n=limit.n,
        n_effective=limit.n_effective,
        runs=len(runs),
        share=limit.share,
        share_low=limit.share_low,
        share_high=limit.share_high,
    )


def _value_limit(runs: Sequence[SteadyRun], statistic: Statistic, terms: LimitTerms) -> ValueLimit:
    """The statistic over all runs with its interval, if it has one."""
    if isinstance(statistic, Extreme | Count):
        worst = _worst([_value(run, statistic) for run in runs], statistic, terms)
        return ValueLimit(worst, worst, worst, None, exact=True)
    if isinstance(statistic, Quantile) or any(run.single for run in runs):
        # What a single number hides inside is unknown, so the spread between runs has to speak for all of
        # them.
        return numbers_limit([_value(run, statistic) for run in runs], terms.confidence)
    return mean_limit([statistic.estimate(run.values) for run in runs], terms.prior[1], terms.confidence)


def _value(run: SteadyRun, statistic: Statistic) -> float:
    return float(run.values[0]) if run.single else statistic.estimate(run.values).value


def _worst(values: Sequence[float], statistic: Extreme | Count, terms: LimitTerms) -> float:
    """A fact about several runs: the largest maximum, the smallest minimum, the count nearest to failing."""
    largest = statistic.largest if isinstance(statistic, Extreme) else terms.upper
    return max(values) if largest else min(values)


def _compare(low: float, high: float, terms: LimitTerms) -> Outcome:
    """Pass when the whole interval keeps the bound, fail when the whole interval breaks it."""
    low, high, bound = (low, high, terms.bound) if terms.upper else (-high, -low, -terms.bound)
    if high < bound or (high == bound and not terms.strict):
        return "pass"
    if low > bound or (low == bound and terms.strict):
        return "fail"
    return "inconclusive"


def _missing(runs: Sequence[SteadyRun], terms: LimitTerms) -> Reason | None:
    # The count of a run is known without looking at its values, and all that is asked here.
    return missing_data([describe(run, Count()) for run in runs], terms.min_samples)


def _unmeasured(reason: Reason, runs: int) -> LimitResult:
    """The error of runs that cannot be judged."""
    return LimitResult(
        outcome="error",
        reason=reason,
        estimate=None,
        low=None,
        high=None,
        n=None,
        n_effective=None,
        runs=runs,
        share=None,
        share_low=None,
        share_high=None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
