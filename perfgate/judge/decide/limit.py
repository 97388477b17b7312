"""Decide about runs against an absolute bound.

A percentile is judged by the share of values beyond the bound, another statistic by its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.core import Outcome
from perfgate.core.results import LimitResult
from perfgate.judge.decide.comparisons import of_limit
from perfgate.judge.decide.without_noise import missing_data
from perfgate.judge.terms import LimitTerms
from perfgate.stats.bounds import ValueLimit, mean_limit, numbers_limit, quantile_limit
from perfgate.stats.margin import finite
from perfgate.stats.statistics import Count, Extreme, Quantile, Statistic, describe, parse_statistic
from perfgate.stats.steady import SteadyRun


def judge_steady_limit(runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """Return the answer to a limit of runs without their warm-up.

    A single run that breaks the limit by less than the noise between runs may be unlucky: it is suspect, not failed.
    """
    found = _judged(runs, terms)
    if found.outcome != "fail" or found.suspect or len(runs) > 1 or terms.strict or found.estimate is None:
        return found
    return (
        replace(found, outcome="undecided", reason="one-run", suspect=True) if terms.is_near(found.estimate) else found
    )


@np.errstate(all="ignore")
def _judged(runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """Return the answer of these runs alone."""
    # To find missing data, counts are enough; they need no other statistic.
    missing = missing_data([describe(run, Count()) for run in runs], terms.min_samples) if runs else "no-new-run"
    if missing is not None:
        return LimitResult(outcome="error", reason=missing, runs=len(runs))
    statistic = parse_statistic(terms.statistic)
    is_constant = _is_constant(runs, terms)
    if isinstance(statistic, Quantile) and not is_constant and not any(run.single for run in runs):
        return _judge_quantile(runs, statistic, terms)
    limit = _value_limit(runs, statistic, terms)
    if not math.isfinite(limit.estimate):
        return LimitResult(outcome="error", reason="not-a-number", runs=len(runs))
    if limit.low < 0 and all(float(run.values.min()) >= 0 for run in runs):  # no time is negative
        limit = replace(limit, low=0.0)
    samples = [len(run.values) for run in runs if not run.single]
    outcome = _compare(limit.low, limit.high, terms)
    result = LimitResult(
        outcome=outcome,
        reason="exact" if limit.exact else "interval",
        estimate=limit.estimate,
        low=finite(limit.low),
        high=finite(limit.high),
        n=sum(samples) if samples else None,
        n_effective=limit.n_effective,
        runs=len(runs),
        comparisons=of_limit(limit, terms, is_broken=outcome == "fail"),
    )
    return result if result.outcome != "undecided" and terms.at_worst is None else _settled(result, runs, terms)


def _judge_quantile(runs: Sequence[SteadyRun], statistic: Quantile, terms: LimitTerms) -> LimitResult:
    """Return the answer about a percentile of samples, by the share of values beyond the bound."""
    limit = quantile_limit(
        [run.values for run in runs],
        statistic.q,
        terms.bound,
        upper=terms.upper,
        inclusive=terms.comparator in ("under", "over"),  # a value on the bound is bad
        confidence=terms.confidence,
    )
    result = LimitResult(
        outcome="fail" if limit.broken else "pass" if limit.kept else "undecided",
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
    return result if result.outcome != "undecided" and terms.at_worst is None else _settled(result, runs, terms)


def _settled(result: LimitResult, runs: Sequence[SteadyRun], terms: LimitTerms) -> LimitResult:
    """Return the result with `excluded`; if its interval includes the bound, all values or the estimate may decide."""
    excluded = None if terms.at_worst is None else not terms.may_reach(result.high if terms.upper else result.low)
    result = replace(result, excluded=excluded)
    if result.outcome != "undecided" or result.estimate is None:
        return result
    if all(_breaks_throughout(run, terms) for run in runs):
        return replace(result, outcome="fail", reason="every-value")
    if result.estimate != terms.bound and terms.is_bad(result.estimate):
        return replace(result, outcome="fail" if terms.strict else "undecided", suspect=True)
    return replace(result, reason="cannot-exclude") if excluded is False else result


def _breaks_throughout(run: SteadyRun, terms: LimitTerms) -> bool:
    """Return whether all values of a run are on the bad side, so that a statistic between them is there, too."""
    is_place = run.single or terms.statistic in ("mean", "trimmed_mean") or terms.has_share
    return is_place and terms.is_bad(float(run.values.min() if terms.upper else run.values.max()))


def _value_limit(runs: Sequence[SteadyRun], statistic: Statistic, terms: LimitTerms) -> ValueLimit:
    """Return the statistic over all runs, with its interval if it has one."""
    if isinstance(statistic, Extreme | Count) or _is_constant(runs, terms):
        values = [_value(run, statistic) for run in runs]
        # A fact about several runs: the largest maximum, the smallest minimum, otherwise the value nearest to failing.
        largest = statistic.largest if isinstance(statistic, Extreme) else terms.upper
        worst = max(values) if largest else min(values)
        return ValueLimit(worst, worst, worst, None, exact=True)
    if isinstance(statistic, Quantile) or any(run.single for run in runs):
        # The noise inside a single number is unknown, so only the spread between runs counts.
        return numbers_limit([_value(run, statistic) for run in runs], terms.confidence)
    return mean_limit([statistic.estimate(run.values) for run in runs], terms.prior[1], terms.confidence)


def _is_constant(runs: Sequence[SteadyRun], terms: LimitTerms) -> bool:
    """Return whether these are counts or sizes with one value in each run, which have no noise."""
    return terms.exact and all(bool((run.values == run.values[0]).all()) for run in runs)


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
    return "undecided"
