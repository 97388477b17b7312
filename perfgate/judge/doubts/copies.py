"""Recognise one measurement under two names: a run that is compared with itself proves nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.core import Location, Problem, Run, Series, Severity, Verdict
from perfgate.core.outlines import Outlines
from perfgate.core.runs import is_large
from perfgate.core.wording import MACHINE_FILE, is_machine_metric, listed
from perfgate.judge.doubts.amounts import values_of
from perfgate.judge.evidence import Case
from perfgate.stats.distributions import BoolArray, FloatArray

#: Units of quantities that are often equal in two runs.
WITHOUT_NOISE = ("1", "count", "B", "FLOP")
#: Two runs agree in this many bits by chance with a probability of 1e-12.
_ENOUGH_BITS = 40
#: Runs are copies if more than this share of their values is equal, up to this relative error: six digits.
_COPIED, _DIGITS = 0.5, 1e-6
#: Values times a factor in this range are a copy. A copy that is worse by more seldom passes its rule.
_FACTORS = 0.8, 1.05
#: The rarity of very many values is computed from the first of them, this many.
_TELLING = 1 << 16


def same_measurements(run: Run, other: Run) -> bool:
    """Return whether two runs have the same values, so that they are one measurement under two names.

    More than half of the values are enough, also with other last digits, in another order, or times a factor. Only
    quantities with noise are compared: bytes, operations and counts are often equal. Equal values have to be unlikely,
    too, which is counted in bits: n samples have n times the entropy (of order 2) of their own distribution, and a
    single number has its decimal digits beyond the first two.
    """
    twins = [(series, twin, max(values_of(series) or 1, 1)) for series, twin in _comparable(run, other)]
    if not twins:
        return False
    bits = equal = 0.0
    left = compared = sum(count for _, _, count in twins)
    for series, twin, count in twins:
        share, is_reordered = _equal_share(series, twin)
        equal += share * count
        left -= count
        if equal + left <= _COPIED * compared:  # too few values are left
            return False
        if share >= _COPIED:
            bits += _bits_of_counts(series.values) if is_reordered else share * rarity(series)
    more = _bits_of_outlines(run, other)
    return more is not None and bits + more >= _ENOUGH_BITS


def _comparable(run: Run, other: Run) -> Iterator[tuple[Series, Series]]:
    """Yield the series with noise that both runs have."""
    others = {series.key: series for series in other.series}
    for series in run.series:
        twin = others.get(series.key)
        if twin is None or series.unit in WITHOUT_NOISE or is_machine_metric(series.key.metric):
            continue
        # A summary was stored of a metric that no rule read: it cannot be compared with values.
        if twin.kind != "summary" or series.kind == "summary":
            yield series, twin


def _equal_share(one: Series, other: Series) -> tuple[float, bool]:
    """Return the share of the values of a series that another series has, too, up to a factor and last digits.

    Thinned or very many values and single numbers have to be equal in all digits. The second result is True if the
    values are equal only after sorting: then (1.0, True).
    """
    whole, part = (one, other) if other.thinned_from else (other, one)  # a stored run may have fewer values
    if values_of(one) != values_of(other) or one.kind != other.kind or one.aggregate != other.aggregate:
        return 0.0, False
    if part.thinned_from is not None:
        return float(np.isin(part.values, whole.values).mean()), False
    if one.kind != "samples" or is_large(one.values) or is_large(other.values):
        return float(np.array_equal(part.values, whole.values)), False
    if not len(one.values):
        return 0.0, False
    ordered, twin = np.sort(one.values), np.sort(other.values)
    # Sorted values of few digits are often equal by chance: only values that occur once show a copy.
    differs = np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))
    is_single = differs[1:] & differs[:-1]
    is_same = _equal_but_for_a_factor(ordered, twin)
    share = float(max(_equal_but_for_a_factor(one.values, other.values).mean(), (is_same & is_single).mean()))
    return (1.0, True) if share <= _COPIED and is_same.all() else (share, False)


def _bits_of_counts(values: FloatArray) -> float:
    """Return how unlikely it is, in bits, that another run has each value equally often.

    Two Poisson counts with the mean m are equal with the probability 1 / sqrt(4 pi m).
    """
    counts = np.unique(values, return_counts=True)[1]
    return float(np.log2(4 * np.pi * counts).sum() - np.log2(4 * np.pi * len(values))) / 2


@np.errstate(all="ignore")
def _equal_but_for_a_factor(one: FloatArray, other: FloatArray) -> BoolArray:
    """Return which values equal those of the other side times one factor, to six digits; both have one length."""
    ratios = one / other
    factor = float(np.median(ratios))
    found: BoolArray = np.abs(ratios - factor) <= _DIGITS * abs(factor)
    return found if _FACTORS[0] <= factor <= _FACTORS[1] else np.zeros_like(found)


def _bits_of_outlines(run: Run, other: Run) -> float | None:
    """Return the bits in which outlined metrics (kept without their values) of two runs agree; None if they differ.

    An outline cannot be compared with a stored summary: such runs differ. Outlines of one run alone add 0 bits.
    """
    one, two = run.outlines, other.outlines
    if one is None or two is None:
        return None if _has_summary(other, one) or _has_summary(run, two) else 0.0
    shared = [rank for rank in one.fingerprints if rank in two.fingerprints]
    if any(one.fingerprints[rank].digest != two.fingerprints[rank].digest for rank in shared):
        return None
    return sum(one.fingerprints[rank].bits for rank in shared)


def _has_summary(run: Run, outlines: Outlines | None) -> bool:
    """Return whether a run has a summary of one of the outlined metrics of another run."""
    known = outlines.of if outlines else {}
    keys = [(series.key.without_members(), series.unit) for series in run.series if series.kind == "summary"]
    return any((key.metric, key.labels, unit) in known for key, unit in keys)


def measured_twice(case: Case, verdicts: Sequence[Verdict], stored: Sequence[Run]) -> list[Problem]:
    """Return a problem for each new run with the measurements of a run of the baseline, or of another new run.

    A run compared with itself proves nothing: that is an error, unless nothing was compared. `stored` are the runs of
    the stored baseline, which pairs replace in the case.
    """
    known = {file.sha256 for run in stored for file in run.files}
    is_compared = any(verdict.kind == "change" and verdict.outcome != "skipped" for verdict in verdicts)
    severity: Severity = "error" if is_compared else "warning"
    counts: Counter[Problem] = Counter()
    for index, run in enumerate(case.new):
        counts.update(_copies(run, case.new[:index], case.baseline.runs, known, severity))
    return [
        one if count == 1 else replace(one, message=f"{one.message} (and {count - 1} more runs of this file)")
        for one, count in counts.items()
    ]


def _copies(
    run: Run, earlier: Sequence[Run], base: Sequence[Run], known: Collection[str], severity: Severity
) -> Iterator[Problem]:
    """Yield the problems of a new run that is in the baseline, or that is the same as an earlier new run.

    `known`: the hashes of the stored files. `severity`: that of a whole run in the baseline.
    """
    at = Location(run.files[0].path if run.files else run.source)
    files = [file for file in run.files if not file.path.endswith(MACHINE_FILE)]
    stored = [file.path for file in files if file.sha256 in known]
    if stored and len(stored) == len(files):
        yield Problem(severity, "this file is in the baseline: nothing was measured; give a new run", at)
    elif stored:
        yield Problem("warning", f"not measured again: {listed(stored)} of this run is in the baseline", at)
    elif any(same_measurements(run, other) for other in base):
        message = "the same measurements are in the baseline: it is compared with itself; measure again"
        yield Problem(severity, message, at)
    twin = next((other for other in earlier if same_measurements(run, other)), None)
    if twin is not None:
        message = f"the same measurements are in {twin.name}: one run counts once; measure again"
        yield Problem("error", message, at)


def rarity(series: Series) -> float:
    """Return how unlikely it is that another series has the same values, in bits."""
    if series.kind == "samples":
        if is_large(series.values):
            return rarity(replace(series, values=np.asarray(series.values[:_TELLING])))
        counts = np.unique(series.values, return_counts=True)[1] / max(len(series.values), 1)
        return float(-len(series.values) * np.log2(np.square(counts).sum())) if len(counts) else 0.0
    numbers = [*series.values.tolist(), *series.aggregate.values()]
    digits = (len(f"{number:.15e}".partition("e")[0].replace(".", "").strip("-0")) for number in numbers)
    return sum(max(count - 2, 0) for count in digits) * math.log2(10)
