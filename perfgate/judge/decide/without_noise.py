"""Changes that are judged without a t test, or by differences: missing data, exact values, values without a ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.core.results import ChangeResult
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.margin import Margin, as_ratio, finite
from perfgate.stats.moderated import exact_change, has_logarithm
from perfgate.stats.paired_t import ratio_of
from perfgate.stats.statistics import RunMeasure

#: Values are moved from zero by 20 tolerances, and by at least 10 times the largest value. There, a difference of
#: logarithms is nearly proportional to the difference of the values.
_TOLERANCES, _LARGEST = 20.0, 10.0


def missing_data(runs: Sequence[RunMeasure], min_samples: int) -> str | None:
    """Return the reason why these runs cannot be judged, or None: an empty run, NaN, or too few samples."""
    if any(run.n + run.dropped == 0 for run in runs):
        return "too-few-samples"
    if any(run.value is None and run.n > 0 for run in runs):
        return "not-a-number"
    # A run that is a single number has no samples to count.
    if any(run.n < min_samples and not run.single for run in runs):
        return "too-few-samples"
    return None


def decided_without_noise(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], ratios: Sequence[RunMeasure], terms: ChangeTerms
) -> ChangeResult | None:
    """Return the answer if the noise does not matter; None if a t test has to decide. `ratios`: new / base of pairs."""
    missing = "no-baseline" if not base else "no-new-run" if not new else missing_data([*base, *new], terms.min_samples)
    if missing is not None:
        return _error(missing, len(base), len(new), terms)
    base_values, new_values = ([run.value for run in side if run.value is not None] for side in (base, new))
    each_equal = len(set(base_values)) == 1 and len(set(new_values)) == 1
    if min(*base_values, *new_values) > 0 and each_equal and terms.exact:
        return _exact(base_values, new_values, terms)
    if not all(has_logarithm(run) for run in (*base, *new, *ratios)):
        return _without_ratio(base_values, new_values, terms)
    return None


def moved_from_zero(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], terms: ChangeTerms, *, in_pairs: bool
) -> tuple[list[RunMeasure], list[RunMeasure], ChangeTerms, list[RunMeasure] | None] | None:
    """Return both sides moved away from zero, their terms, and the ratios of pairs, as `judge_runs` takes them.

    A value of zero or less has no logarithm, but an absolute tolerance can judge it after the same amount was added to
    all values. None if that is not needed (each value has a logarithm, or no noise), or not possible (the tolerance is
    relative, all values are equal, or data are missing).
    """
    runs, absolute = (*base, *new), terms.tolerance_absolute
    if absolute is None or terms.exact or all(map(has_logarithm, runs)):
        return None
    values = [run.value for run in runs if run.value is not None]
    if not base or not new or missing_data(runs, terms.min_samples) or len(set(values)) == 1:
        return None
    # The tolerance and `at_worst` in the unit of the values: of each the relative or the absolute one, the larger.
    level = abs(math.fsum(values[: len(base)]) / len(base))
    room, doubted = (
        max((relative or 0.0) * level, size or 0.0) for relative, size in ((terms.tolerance, absolute), terms.widened)
    )
    shift = max(_TOLERANCES * room, _LARGEST * max(map(abs, values)))
    if not math.isfinite(shift):
        return None

    def moved(run: RunMeasure) -> RunMeasure:
        value = run.value or 0.0
        # The noise within a run is relative to its value, and unknown for a value without a logarithm.
        share = value / (value + shift)
        return replace(run, value=value + shift, within_variance=(run.within_variance or 0.0) * share**2)

    # Known noise is relative to values that were not moved.
    absolutely = replace(
        terms, tolerance=None, tolerance_absolute=room, at_worst=None, at_worst_absolute=doubted, noise_known=False
    )
    sides = [moved(run) for run in base], [moved(run) for run in new]
    return *sides, absolutely, [*map(ratio_of, *sides)] if in_pairs else None


def as_differences(
    found: ChangeResult, base: Sequence[RunMeasure], new: Sequence[RunMeasure], terms: ChangeTerms
) -> ChangeResult:
    """Return the answer about moved values, without the numbers that are relative to a moved value."""
    values = (finite(math.fsum(run.value or 0.0 for run in side) / len(side)) for side in (base, new))
    plain = replace(found, estimate=None, low=None, high=None, log_change=None, standard_error=None)
    plain = replace(plain, degrees_of_freedom=None, minimum_detectable_change=None, at_worst=None, not_excluded=None)
    plain = replace(plain, tolerance=terms.tolerance, comparisons=())
    return replace(plain, base_value=next(values), new_value=next(values))


def _error(reason: str, base_runs: int, new_runs: int, terms: ChangeTerms) -> ChangeResult:
    return ChangeResult(
        outcome="error", reason=reason, base_runs=base_runs, new_runs=new_runs, tolerance=terms.tolerance
    )


def _exact(base_values: list[float], new_values: list[float], terms: ChangeTerms) -> ChangeResult:
    """Return the answer if all runs of each side have one positive value, of a quantity without noise."""
    change = exact_change(base_values[0], new_values[0], len(base_values), terms.prior)
    tolerated, d = terms.tolerated(change.base_value), change.log_change
    outcome = tolerated.compare(d, d)
    found = ChangeResult(
        outcome=outcome,
        reason="exact",
        improved=tolerated.is_improved(d, d),
        estimate=as_ratio(d),
        low=as_ratio(d),
        high=as_ratio(d),
        log_change=d,
        standard_error=0.0,
        p_no_change=change.p_no_change(terms.worse),
        base_value=change.base_value,
        new_value=change.new_value,
        base_runs=len(base_values),
        new_runs=len(new_values),
        tolerance=finite(terms.applied_tolerance(change.base_value)),
        minimum_detectable_change=tolerated.detectable(0.0),
    )
    return _promised(found, change.base_value, terms)


def _without_ratio(base_values: list[float], new_values: list[float], terms: ChangeTerms) -> ChangeResult:
    """Return the answer if a statistic is 0 or negative, so that a ratio does not exist."""
    base_value, new_value = (finite(sum(values) / len(values)) for values in (base_values, new_values))
    unknown = replace(
        _error("not-positive", len(base_values), len(new_values), terms), base_value=base_value, new_value=new_value
    )
    if len({*base_values, *new_values}) == 1 and base_values[0] <= 0:
        nothing = replace(unknown, estimate=0.0, low=0.0, high=0.0, log_change=0.0, standard_error=0.0)
        return _promised(replace(nothing, outcome="pass", reason="equal"), base_values[0], terms)
    if not terms.exact or terms.tolerance_absolute is None or base_value is None:
        return _promised(unknown, base_value, terms)
    # Without noise every difference counts: the smallest and the largest one if the values of a side differ.
    low, high = min(new_values) - max(base_values), max(new_values) - min(base_values)

    def compared(relative: float | None, absolute: float | None) -> ChangeResult:
        room = max((relative or 0.0) * abs(base_value), absolute or 0.0)
        outcome = Margin(room, -room, terms.worse).compare(low, high)  # in the unit of the values
        return replace(unknown, outcome=outcome, reason="exact", standard_error=0.0)

    found = compared(terms.tolerance, terms.tolerance_absolute)
    if found.outcome != "undecided" or terms.looks is None:
        return _promised(found, base_value, terms)
    is_kept = compared(*terms.widened).outcome == "pass"
    found = found if is_kept else replace(found, reason="cannot-exclude")
    return replace(_promised(found, base_value, terms), excluded=is_kept)


def _promised(found: ChangeResult, base_value: float | None, terms: ChangeTerms) -> ChangeResult:
    """Return the answer with `at_worst` and whether it is excluded; unchanged for a comparison without that promise."""
    if terms.looks is None:
        return found
    # Nothing is relative to 0, so a base value of 0 counts as 1.
    at_worst = None if base_value is None else finite(terms.doubted(abs(base_value) or 1.0).size)
    return replace(found, at_worst=at_worst, excluded=found.outcome == "pass")
