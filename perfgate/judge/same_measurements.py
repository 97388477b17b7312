"""Recognise one measurement under two names: a run that is compared with itself proves nothing."""

from __future__ import annotations

import math

import numpy as np

from perfgate.core import Run, Series
from perfgate.core.wording import is_machine_metric
from perfgate.judge.measured_alike import values_of

#: Units of quantities that are often equal in two runs.
_WITHOUT_NOISE = ("1", "B", "FLOP")
#: Two runs that agree by chance in this many bits are one in 1e12.
_ENOUGH_BITS = 40


def same_measurements(run: Run, other: Run) -> bool:
    """Return whether two runs have the same values, so that they are one measurement under two names.

    Only quantities with noise tell: bytes, operations and counts are often equal. Equal values count by how unlikely
    they are: of n samples, n times the entropy (of order 2) of their own distribution; of a single number, its decimal
    digits beyond the first two.
    """
    others, bits = {series.key: series for series in other.series}, 0.0
    for series in run.series:
        twin = others.get(series.key)
        if twin is None or series.unit in _WITHOUT_NOISE or is_machine_metric(series.key.metric):
            continue
        whole, part = (series, twin) if twin.thinned_from else (twin, series)  # a stored run may have fewer values
        if values_of(series) != values_of(twin) or series.kind != twin.kind or series.aggregate != twin.aggregate:
            return False
        is_thinned = part.thinned_from is not None
        if not (np.isin(part.values, whole.values).all() if is_thinned else np.array_equal(part.values, whole.values)):
            return False
        bits += _rarity(part)
    return bits >= _ENOUGH_BITS


def _rarity(series: Series) -> float:
    """Return the least number of bits that the values of a series need."""
    if series.kind == "samples":
        counts = np.unique(series.values, return_counts=True)[1] / max(len(series.values), 1)
        return float(-len(series.values) * np.log2(np.square(counts).sum())) if len(counts) else 0.0
    numbers = [*series.values.tolist(), *series.aggregate.values()]
    digits = (len(f"{number:.15e}".partition("e")[0].replace(".", "").strip("-0")) for number in numbers)
    return sum(max(count - 2, 0) for count in digits) * math.log2(10)
