"""Two modes in one run: a warning that its median can jump from one to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.stats.warmup import RunValues, steady_run

#: 20 values of one normal mode look like two in 8 % of runs, 50 in .1 %.
FEWEST_VALUES = 50
#: The smaller group holds at least this share of the values; fewer are outliers.
SMALLEST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class TwoModes:
    """Two groups of values: the share of each and its mean, the lower group first."""

    low_share: float
    low_centre: float
    high_share: float
    high_centre: float


@np.errstate(all="ignore")
def two_modes(values: RunValues) -> TwoModes | None:
    """The two groups that the values of one run fall into, or None when they are one group.

    The sorted values are cut where the sum of squares within both parts is least (Fisher 1958, Otsu 1979);
    they are two modes when the means are more than 4 standard deviations apart and each part has 10 % of the
    values. Fewer than 50 values, and values that are not finite, are None. The cost is that of sorting.
    """
    run = steady_run(values, warmup=0)
    n = len(run.values)
    if n < FEWEST_VALUES or not run.finite:
        return None
    ordered = np.sort(run.values)
    centred = ordered - ordered.mean()
    sums = np.cumsum(centred)[:-1]
    sizes = np.arange(1, n)
    # The total is 0 after centring, so the squares between the groups need the sum of the lower one alone.
    cut = 1 + int((sums * sums / (sizes * (n - sizes))).argmax())
    low, high = ordered[:cut], ordered[cut:]
    spread = np.sqrt((low.var() + high.var()) / 2)
    if min(cut, n - cut) < SMALLEST_SHARE * n or not high.mean() - low.mean() > 4 * spread:
        return None
    return TwoModes(cut / n, float(low.mean()), 1 - cut / n, float(high.mean()))
