"""New runs against base runs: where the outcome of a change is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.core import Better, Outcome
from perfgate.judge.margin import Margin
from perfgate.judge.terms import ChangeTerms, Reason, missing_data
from perfgate.stats.moderated import LogChange, exact_change, has_logarithm, moderated_t
from perfgate.stats.paired_t import paired_t
from perfgate.stats.statistics import Quantile, RunMeasure, Statistic, describe
from perfgate.stats.steady import RunValues, WarmUpRule, steady_run

#: A change beyond the tolerance is suspect when no change at all would show as much less often than this.
SUSPICIOUS = 0.05
#: Run-to-run noise of quantities that are mostly exact, such as bytes, once they differ at all.
EXACT_S0 = 0.001
#: From this many new runs on a suspicion is a failure.
RUNS_TO_CONFIRM = 3
#: Independent values that a percentile needs beyond it.
FEWEST_IN_TAIL = 2


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The answer of `judge_change`; what does not exist, or is infinite, is None.

    `estimate`, `low` and `high` are new / base - 1, with one-sided bounds; `log_change` and `standard_error`
    are of ln(new / base). `tolerance` and `minimum_detectable_change` are relative, too. `base_value` and
    `new_value` are in the unit of the values.
    """

    outcome: Outcome
    reason: Reason
    suspect: bool
    improved: bool
    estimate: float | None
    low: float | None
    high: float | None
    log_change: float | None
    standard_error: float | None
    degrees_of_freedom: float | None
    p_no_change: float | None
    base_value: float | None
    new_value: float | None
    base_runs: int
    new_runs: int
    tolerance: float | None
    minimum_detectable_change: float | None
    runs_needed: int | None


def judge_change(
    base: Sequence[RunValues],
    new: Sequence[RunValues],
    *,
    statistic: str = "median",
    tolerance: float | None = None,
    tolerance_absolute: float | None = None,
    better: Better = "lower",
    two_sided: bool = False,
    confidence: float = 0.95,
    power: float = 0.8,
    warmup: WarmUpRule = "auto",
    prior: tuple[float, float] = (0.01, 2.0),
    strict: bool = False,
    exact: bool = False,
    min_samples: int = 4,
) -> ChangeResult:
    """Whether new runs are worse than base runs by more than a tolerance.

    `base` and `new` are runs: sequences of numbers in order of time, in one unit, or single numbers.
    `tolerance` is relative (.05 is 5 %), `tolerance_absolute` in the unit of the values; with both, a change
    fails only beyond both. `prior` is what is believed of run-to-run noise (see `calibrate_prior`). `strict`
    makes a suspicion a failure; `exact` takes values without noise where all of each side are equal.

    Raises ValueError for bad options; never for what the runs hold: those give the outcome "error".
    """
    terms = ChangeTerms(
        statistic=statistic,
        tolerance=tolerance,
        tolerance_absolute=tolerance_absolute,
        better=better,
        two_sided=two_sided,
        confidence=confidence,
        power=power,
        warmup=warmup,
        prior=prior,
        strict=strict,
        exact=exact,
        min_samples=min_samples,
    )
    return judge_measured_change(measure_runs(base, terms), measure_runs(new, terms), terms)


def measure_runs(runs: Sequence[RunValues], terms: ChangeTerms) -> list[RunMeasure]:
    """Each run as `judge_measured_change` wants it."""
    return [describe(steady_run(run, terms.warmup, terms.better), terms.measured_by) for run in runs]


def judge_measured_change(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    terms: ChangeTerms,
    ratios: Sequence[RunMeasure] | None = None,
) -> ChangeResult:
    """`judge_change` for runs that are measured already; `ratios` are those of base and new made in pairs."""
    missing = _missing(base, new, terms.min_samples)
    if missing is not None:
        return _unmeasured(missing, len(base), len(new), terms)
    base_values, new_values = _values(base), _values(new)
    each_equal = len(set(base_values)) == 1 and len(set(new_values)) == 1
    if min(*base_values, *new_values) > 0 and each_equal and terms.exact:
        change = exact_change(base_values[0], new_values[0], len(base), terms.prior)
        return _judge_ratio(change, "exact", len(new), terms)
    if not all(has_logarithm(run) for run in (*base, *new)):
        return _judge_without_ratio(base_values, new_values, terms)
    s0, d0 = terms.prior
    prior = (EXACT_S0 if terms.exact else s0, d0)
    change = moderated_t(base, new, prior) if ratios is None else paired_t(base, new, ratios, prior)
    thin = any(_has_thin_tail(run, terms.measured_by) for run in (*base, *new))
    return _judge_ratio(change, "thin-tail" if thin else "interval", len(new), terms)


def _judge_ratio(change: LogChange, reason: Reason, new_runs: int, terms: ChangeTerms) -> ChangeResult:
    """The outcome of a change that has a logarithm."""
    tolerance = applied_tolerance(change.base_value, terms)
    margin = Margin.of_ratio(tolerance, terms.worse)
    low, high = change.bounds(terms.confidence)
    p = change.p_no_change(terms.worse)

    thin = reason == "thin-tail"  # then the interval is printed, and nothing is concluded from it
    outcome: Outcome = "inconclusive" if thin else margin.compare(low, high)
    beyond = margin.is_exceeded_by(change.log_change) and p < SUSPICIOUS
    suspect = outcome == "inconclusive" and beyond and not thin
    if suspect:
        outcome = "fail" if terms.strict or new_runs >= RUNS_TO_CONFIRM else "suspect"
    return ChangeResult(
        outcome=outcome,
        reason=reason,
        suspect=suspect,
        improved=margin.is_improved(low, high) and not thin,
        estimate=_relative(change.log_change),
        low=_relative(low),
        high=_relative(high),
        log_change=change.log_change,
        standard_error=change.standard_error,
        degrees_of_freedom=change.degrees_of_freedom,
        p_no_change=p,
        base_value=change.base_value,
        new_value=change.new_value,
        base_runs=change.base_runs,
        new_runs=new_runs,
        tolerance=_finite(tolerance),
        minimum_detectable_change=detectable_change(margin, change.detectable(terms.confidence, terms.power)),
        runs_needed=change.runs_needed(margin.room, terms.confidence, terms.power),
    )


def _judge_without_ratio(base_values: list[float], new_values: list[float], terms: ChangeTerms) -> ChangeResult:
    """The outcome where a statistic is 0 or negative, so that there is no ratio."""
    unknown = replace(
        _unmeasured("not-positive", len(base_values), len(new_values), terms),
        base_value=_finite(sum(base_values) / len(base_values)),
        new_value=_finite(sum(new_values) / len(new_values)),
    )
    if len({*base_values, *new_values}) == 1 and base_values[0] <= 0:
        nothing = replace(unknown, estimate=0.0, low=0.0, high=0.0, log_change=0.0, standard_error=0.0)
        return replace(nothing, outcome="pass", reason="equal")
    if not terms.exact or terms.tolerance_absolute is None or unknown.base_value is None:
        return unknown
    tolerance = max((terms.tolerance or 0.0) * abs(unknown.base_value), terms.tolerance_absolute)
    # Without noise all differences count: where the values of one side differ, the least and the largest one.
    low, high = min(new_values) - max(base_values), max(new_values) - min(base_values)
    outcome = Margin(tolerance, -tolerance, terms.worse).compare(low, high)
    return replace(unknown, outcome=outcome, reason="exact", standard_error=0.0)


def _unmeasured(reason: Reason, base_runs: int, new_runs: int, terms: ChangeTerms) -> ChangeResult:
    """The error of runs that cannot be compared."""
    return ChangeResult(
        outcome="error",
        reason=reason,
        suspect=False,
        improved=False,
        estimate=None,
        low=None,
        high=None,
        log_change=None,
        standard_error=None,
        degrees_of_freedom=None,
        p_no_change=None,
        base_value=None,
        new_value=None,
        base_runs=base_runs,
        new_runs=new_runs,
        tolerance=terms.tolerance,
        minimum_detectable_change=None,
        runs_needed=None,
    )


def _missing(base: Sequence[RunMeasure], new: Sequence[RunMeasure], min_samples: int) -> Reason | None:
    if not base:
        return "no-baseline"
    if not new:
        return "no-new-run"
    return missing_data([*base, *new], min_samples)


def _values(runs: Sequence[RunMeasure]) -> list[float]:
    return [run.value for run in runs if run.value is not None]


def _has_thin_tail(run: RunMeasure, statistic: Statistic) -> bool:
    """Whether too few independent values are beyond the percentile; the median has half on each side."""
    if not isinstance(statistic, Quantile) or statistic.q == 0.5 or run.n_effective is None:
        return False
    return run.n_effective * min(statistic.q, 1 - statistic.q) < FEWEST_IN_TAIL


def applied_tolerance(base_value: float, terms: ChangeTerms) -> float:
    """The relative tolerance; an absolute one beside it widens it, so that both must be exceeded."""
    absolute = terms.tolerance_absolute
    return max(terms.tolerance or 0.0, 0.0 if absolute is None else absolute / base_value)


def detectable_change(margin: Margin, distance: float) -> float | None:
    """The change for the worse that lies `distance` beyond the margin, in logarithms; relative and positive."""
    if margin.worse == "down":
        return -math.expm1(margin.down - distance)
    return _relative(margin.up + distance)


def _relative(log_change: float) -> float | None:
    """A logarithm of a ratio as a relative change, None beyond every float."""
    try:
        return _finite(math.expm1(log_change))
    except OverflowError:
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
