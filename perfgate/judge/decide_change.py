"""New runs against base runs: `judge_change`, and the same decision for runs that are measured already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Better, Outcome
from perfgate.judge.decide_limit import Reason, check_evidence_options, finite, missing_data
from perfgate.stats.moderated import LogChange, WorseSide, exact_change, has_logarithm, moderated_t
from perfgate.stats.paired_t import paired_t
from perfgate.stats.statistics import Quantile, RunMeasure, describe, parse_statistic, warmup_for
from perfgate.stats.steady import RunValues, WarmUpRule, check_warmup, steady_run

#: A change beyond the tolerance is suspect if its p-value against no change is smaller than this.
SUSPICIOUS = 0.05
#: The prior noise of quantities that are mostly exact, such as bytes, once they differ at all.
EXACT_S0 = 0.001
#: With this many new runs a suspicion is a failure.
RUNS_TO_CONFIRM = 3
#: The independent values that a percentile needs beyond it.
FEWEST_IN_TAIL = 2
#: Room for rounding in every comparison.
SLACK = 1e-12


class ChangeTerms(Struct, frozen=True, kw_only=True):
    """The options of `judge_change`, by the same names; raises ValueError for a bad one."""

    statistic: str = "median"
    tolerance: float | None = None
    tolerance_absolute: float | None = None
    better: Better = "lower"
    two_sided: bool = False
    confidence: float = 0.95
    power: float = 0.8
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    strict: bool = False
    exact: bool = False
    min_samples: int = 4

    def __post_init__(self) -> None:
        if self.tolerance is None and self.tolerance_absolute is None:
            raise ValueError("a change needs a tolerance, a tolerance_absolute, or both")
        for name, value in (("tolerance", self.tolerance), ("tolerance_absolute", self.tolerance_absolute)):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
        if not 0 < self.power < 1:
            raise ValueError(f"power is between 0 and 1, not {self.power!r}")
        check_warmup(self.warmup, self.better)
        check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def noise(self) -> tuple[float, float]:
        """The prior (s0, d0) of values that differ."""
        return (EXACT_S0 if self.exact else self.prior[0]), self.prior[1]

    @property
    def worse(self) -> WorseSide:
        """The direction of a change for the worse."""
        if self.two_sided or self.better == "neither":
            return "either"
        return "up" if self.better == "lower" else "down"


class Margin(Struct, frozen=True):
    """The tolerated changes: from `down` to `up`, on the scale of the change; only the `worse` side is a limit."""

    up: float
    down: float
    worse: WorseSide

    @classmethod
    def of_ratio(cls, tolerance: float, worse: WorseSide) -> Margin:
        """The margin of ln(new / base) for a relative tolerance; a fall is always smaller than 100 %."""
        return cls(math.log1p(tolerance), math.log1p(-tolerance) if tolerance < 1 else -math.inf, worse)

    @property
    def room(self) -> float:
        """The largest tolerated change for the worse; the nearer side counts if both are worse."""
        return -self.down if self.worse == "down" else self.up

    def compare(self, low: float, high: float) -> Literal["pass", "fail", "inconclusive"]:
        """Fail if the whole interval is beyond the margin, pass if it is within it."""
        up_is_worse, down_is_worse = self.worse != "down", self.worse != "up"
        if (up_is_worse and low > self.up + SLACK) or (down_is_worse and high < self.down - SLACK):
            return "fail"
        if (up_is_worse and not high <= self.up + SLACK) or (down_is_worse and not low >= self.down - SLACK):
            return "inconclusive"
        return "pass"

    def includes(self, low: float, high: float) -> bool:
        """Return whether the interval is within the margin and does not reach it."""
        touches = (self.worse != "down" and high >= self.up) or (self.worse != "up" and low <= self.down)
        return self.compare(low, high) == "pass" and not touches

    def is_improved(self, low: float, high: float) -> bool:
        """Return whether the whole interval is beyond the margin on the better side."""
        if self.worse == "either":
            return False
        opposite: WorseSide = "down" if self.worse == "up" else "up"
        return Margin(self.up, self.down, opposite).compare(low, high) == "fail"


class ChangeResult(Struct, frozen=True, kw_only=True):
    """The answer of `judge_change`; None for what does not exist or is infinite.

    `estimate`, `low` and `high` are new / base - 1, with one-sided bounds; `log_change` and `standard_error` are of
    ln(new / base). `tolerance` and `minimum_detectable_change` are relative, too. `base_value` and `new_value` are in
    the unit of the values.
    """

    outcome: Outcome
    reason: Reason
    suspect: bool = False
    improved: bool = False
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    log_change: float | None = None
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    p_no_change: float | None = None
    base_value: float | None = None
    new_value: float | None = None
    base_runs: int
    new_runs: int
    tolerance: float | None
    minimum_detectable_change: float | None = None
    runs_needed: int | None = None


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
    """Decide whether new runs are worse than base runs by more than a tolerance.

    Parameters
    ----------
    base, new
        The runs: sequences of numbers in order of time, in one unit, or single numbers.
    statistic
        The statistic of each run: `median`, `mean`, `p95`, ...
    tolerance, tolerance_absolute
        The tolerated change, relative (.05 is 5 %) and in the unit of the values; with both, a change fails only
        beyond both.
    better
        The better direction, or `neither` to judge both.
    two_sided
        True to judge both directions.
    confidence, power
        Of the one-sided interval, and of the minimum detectable change; between 0 and 1.
    warmup
        `auto`, or the number of values to drop at the start of each run.
    prior
        (s0, d0): the expected relative noise between runs, and its prior degrees of freedom; see `calibrate_prior`.
    strict
        True to fail a suspicion from one or two new runs.
    exact
        True to compare values without noise if all runs of each side are equal.
    min_samples
        The fewest values after warm-up.

    Returns
    -------
    The outcome with the change and its interval. Bad data gives the outcome `error`, never an exception.

    Raises
    ------
    ValueError
        For a bad option.
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
    """Each run as one number, for `judge_measured_change`."""
    statistic = parse_statistic(terms.statistic)
    warmup = warmup_for(terms.statistic, terms.warmup)
    return [describe(steady_run(run, warmup, terms.better), statistic) for run in runs]


def judge_measured_change(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    terms: ChangeTerms,
    ratios: Sequence[RunMeasure] | None = None,
) -> ChangeResult:
    """The decision of `judge_change` for measured runs; `ratios` are new / base of pairs."""
    decided = decide_without_noise(base, new, terms)
    if decided is not None:
        return decided
    change = moderated_t(base, new, terms.noise) if ratios is None else paired_t(base, new, ratios, terms.noise)
    reason: Reason = "thin-tail" if has_thin_tail([*base, *new], terms) else "interval"
    return _judge_ratio(change, reason, len(new), terms)


def decide_without_noise(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], terms: ChangeTerms
) -> ChangeResult | None:
    """The decision where noise plays no part: errors, exact values, values without a ratio; None for a t test."""
    missing = missing_data([*base, *new], terms.min_samples) if base and new else None
    if not base or not new or missing:
        reason: Reason = "no-baseline" if not base else "no-new-run" if not new else missing or "not-a-number"
        return _error(reason, len(base), len(new), terms)
    base_values, new_values = ([run.value for run in side if run.value is not None] for side in (base, new))
    each_equal = len(set(base_values)) == 1 and len(set(new_values)) == 1
    if min(*base_values, *new_values) > 0 and each_equal and terms.exact:
        change = exact_change(base_values[0], new_values[0], len(base), terms.prior)
        return _judge_ratio(change, "exact", len(new), terms)
    if not all(has_logarithm(run) for run in (*base, *new)):
        return _judge_without_ratio(base_values, new_values, terms)
    return None


def has_thin_tail(runs: Sequence[RunMeasure], terms: ChangeTerms) -> bool:
    """Return whether a run has too few independent values beyond the percentile to compare it."""
    statistic = parse_statistic(terms.statistic)
    if not isinstance(statistic, Quantile) or statistic.q == 0.5:  # the median has half of the values on each side
        return False
    sizes = [run.n_effective for run in runs if run.n_effective is not None]
    return min(sizes, default=math.inf) * min(statistic.q, 1 - statistic.q) < FEWEST_IN_TAIL


def _judge_ratio(change: LogChange, reason: Reason, new_runs: int, terms: ChangeTerms) -> ChangeResult:
    """The decision about a change that has a logarithm."""
    tolerance = applied_tolerance(change.base_value, terms)
    margin = Margin.of_ratio(tolerance, terms.worse)
    low, high = change.bounds(terms.confidence)
    p = change.p_no_change(terms.worse)

    thin = reason == "thin-tail"  # the interval is shown, but decides nothing
    outcome: Outcome = "inconclusive" if thin else margin.compare(low, high)
    beyond = margin.compare(change.log_change, change.log_change) == "fail" and p < SUSPICIOUS
    suspect = outcome == "inconclusive" and beyond and not thin
    if suspect:
        outcome = "fail" if terms.strict or new_runs >= RUNS_TO_CONFIRM else "suspect"
    return ChangeResult(
        outcome=outcome,
        reason=reason,
        suspect=suspect,
        improved=margin.is_improved(low, high) and not thin,
        estimate=as_ratio(change.log_change),
        low=as_ratio(low),
        high=as_ratio(high),
        log_change=change.log_change,
        standard_error=change.standard_error,
        degrees_of_freedom=change.degrees_of_freedom,
        p_no_change=p,
        base_value=change.base_value,
        new_value=change.new_value,
        base_runs=change.base_runs,
        new_runs=new_runs,
        tolerance=finite(tolerance),
        minimum_detectable_change=detectable_change(margin, change.detectable(terms.confidence, terms.power)),
        runs_needed=change.runs_needed(margin.room, terms.confidence, terms.power),
    )


def _judge_without_ratio(base_values: list[float], new_values: list[float], terms: ChangeTerms) -> ChangeResult:
    """The decision if a statistic is 0 or negative, so that a ratio does not exist."""
    unknown = replace(
        _error("not-positive", len(base_values), len(new_values), terms),
        base_value=finite(sum(base_values) / len(base_values)),
        new_value=finite(sum(new_values) / len(new_values)),
    )
    if len({*base_values, *new_values}) == 1 and base_values[0] <= 0:
        nothing = replace(unknown, estimate=0.0, low=0.0, high=0.0, log_change=0.0, standard_error=0.0)
        return replace(nothing, outcome="pass", reason="equal")
    if not terms.exact or terms.tolerance_absolute is None or unknown.base_value is None:
        return unknown
    tolerance = max((terms.tolerance or 0.0) * abs(unknown.base_value), terms.tolerance_absolute)
    # Without noise every difference counts: the smallest and the largest one if the values of a side differ.
    low, high = min(new_values) - max(base_values), max(new_values) - min(base_values)
    outcome = Margin(tolerance, -tolerance, terms.worse).compare(low, high)
    return replace(unknown, outcome=outcome, reason="exact", standard_error=0.0)


def _error(reason: Reason, base_runs: int, new_runs: int, terms: ChangeTerms) -> ChangeResult:
    return ChangeResult(
        outcome="error", reason=reason, base_runs=base_runs, new_runs=new_runs, tolerance=terms.tolerance
    )


def applied_tolerance(base_value: float, terms: ChangeTerms) -> float:
    """The relative tolerance; an absolute one widens it, because both must be exceeded."""
    absolute = terms.tolerance_absolute
    return max(terms.tolerance or 0.0, 0.0 if absolute is None else absolute / base_value)


def detectable_change(margin: Margin, distance: float) -> float | None:
    """The change for the worse that is `distance` (in logarithms) beyond the margin; relative and positive."""
    return -math.expm1(margin.down - distance) if margin.worse == "down" else as_ratio(margin.up + distance)


def as_ratio(log_change: float) -> float | None:
    """A logarithm of a ratio as a relative change; None if it is too large for a float."""
    try:
        return finite(math.expm1(log_change))
    except OverflowError:
        return None
