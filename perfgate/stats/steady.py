"""The steady part of one run: its warm-up, its clock resolution, its stalls and its modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.core import Better
from perfgate.core.runs import is_large
from perfgate.stats.distributions import BoolArray, FloatArray, sample_quantile

#: A run: its values in order of time, in any unit, or a single number.
RunValues: TypeAlias = float | Sequence[float] | FloatArray
WarmUpRule: TypeAlias = Literal["auto"] | int


class WarmUp(Struct, frozen=True):
    """The number of warm-up values at the start of a run; `settled` is True if the warm-up ends after them."""

    dropped: int
    settled: bool


class SteadyRun(Struct, frozen=True, dict=True):
    """A run without its warm-up.

    `values` is one-dimensional. `single` is True for a run that is one number, not samples. `finite` is False if any
    value of the run, warm-up included, is not a finite number; such a run keeps all its values. `dropped` is the number
    of warm-up values, and `settled` is False if the warm-up did not end.
    """

    values: FloatArray
    single: bool
    finite: bool
    dropped: int
    settled: bool

    @cached_property
    def clock_variance(self) -> float:
        """The variance that the clock resolution adds to the logarithm of a statistic of n >= 1 finite values.

        A clock with ticks rounds each value by up to half a tick, which adds tick^2 / 12, relative to the median. The
        smallest gap between values counts as a tick only if at least half of the values are repeated.
        """
        ordered = np.sort(self.values)
        median = sample_quantile(ordered, 0.5)
        gaps = np.diff(ordered)
        distinct = 1 + np.count_nonzero(gaps)
        if 2 * distinct > len(ordered) or not median > 0:
            return 0.0
        ticks = gaps[gaps >= 1e-9 * np.abs(ordered).max()]  # smaller gaps are rounding errors
        if not len(ticks):
            return 0.0
        return float(np.square(ticks.min() / median)) / 12


def warmup_length(values: RunValues, better: Better = "lower") -> WarmUp:
    """Return how many values at the start of a run are warm-up, by the rule `auto`.

    With 8 values or more, the second half of the run is the reference. The warm-up ends at the first three values in a
    row that are not worse than the median of the reference by more than 4 standard deviations (estimated by the median
    absolute deviation). At least one value is dropped. If the warm-up does not end within the first quarter, that
    quarter is dropped. Of 6 or 7 values the first is dropped; of 3 to 5 only if it is worse than the median of the
    others by a factor of 1.2. Later outliers are never dropped, because rules about percentiles need them.

    Parameters
    ----------
    values : the values of the run in order of time, in any unit, or a single number, which has no warm-up.
    better : "lower" if large values are worse, "higher" if small values are worse, "neither" if both are.

    Returns
    -------
    `WarmUp`: `dropped` is the number of warm-up values; `settled` is False if the warm-up did not end within the first
    quarter of the run.

    Raises
    ------
    ValueError : `better` is unknown, or `values` has more than one dimension.
    """
    run = steady_run(values, "auto", better)
    return WarmUp(run.dropped, run.settled)


@np.errstate(all="ignore")
def steady_run(values: RunValues, warmup: WarmUpRule = "auto", better: Better = "lower") -> SteadyRun:
    """Return a run without its warm-up: by the rule `auto` of `warmup_length`, or without its first `warmup` values.

    Raises ValueError for an unknown `warmup` or `better`, and for values of more than one dimension.
    """
    check_warmup(warmup, better)
    try:
        samples = cast(FloatArray, values) if is_large(values) else np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):  # one is not a number, or does not fit into a float
        samples = np.full(np.shape(values), np.nan)
    if samples.ndim > 1:
        raise ValueError(f"a run must be one number or a sequence of numbers, not {samples.ndim}-dimensional")
    single = samples.ndim == 0
    samples = np.atleast_1d(samples)
    finite = bool(np.isfinite(samples).all())
    if single or not finite:
        found = WarmUp(0, True)
    elif warmup == "auto":
        found = _warmup(samples, better)
    else:
        found = WarmUp(min(warmup, len(samples)), True)
    return SteadyRun(samples[found.dropped :], single, finite, found.dropped, found.settled)


def check_warmup(warmup: WarmUpRule, better: Better) -> None:
    """Raise ValueError for a warm-up that is neither "auto" nor a count, and for an unknown `better`."""
    if warmup != "auto" and (isinstance(warmup, bool | str) or not isinstance(warmup, int) or warmup < 0):
        raise ValueError(f'warmup must be "auto" or the number of values to drop, not {warmup!r}')
    if better not in ("lower", "higher", "neither"):
        raise ValueError(f'better must be "lower", "higher" or "neither", not {better!r}')


def slow_start(values: FloatArray, better: Better) -> int:
    """Return the number of finite values before the run settles, which may be more than a quarter of them.

    The rule is that of `warmup_length`. If the run never settles, the result is the number of all values.
    """
    found = _warmup(values, better, longest=len(values))
    return found.dropped if found.settled else len(values)


def _warmup(x: FloatArray, better: Better, longest: int | None = None) -> WarmUp:
    """Apply the rule of `warmup_length` to finite values; the default of `longest` is a quarter of them."""
    n = len(x)
    if n < 3:
        return WarmUp(0, True)
    if n < 6:
        first, usual = float(x[0]), median(x[1:])
        slow, fast = first > 1.2 * usual, first < usual / 1.2
        return WarmUp(int((slow and better != "higher") or (fast and better != "lower")), True)
    if n < 8:
        return WarmUp(1, True)
    longest = n // 4 if longest is None else longest
    head, half = x[: longest + 3], x[n // 2 :]
    centre = median(half)
    # The median absolute deviation is 0 if most values are equal; a thousandth allows for rounding.
    spread = max(1.4826 * median(np.abs(half - centre)), abs(centre) / 1000)
    good = head <= (math.inf if better == "higher" else centre + 4 * spread)
    if better != "lower":
        good = good & (head >= centre - 4 * spread)
    # True at i if the values i, i + 1 and i + 2 are good, for i from 0 to `longest`.
    settled = good[:-2] & good[1:-1] & good[2:]
    if not settled.any():
        return WarmUp(longest, False)
    return WarmUp(max(1, int(settled.argmax())), True)


def median(x: FloatArray) -> float:
    """Return the median of finite values, NaN of none. `numpy.median` gives the same, but first imports numpy.ma."""
    if not len(x):
        return math.nan
    if is_large(x):
        return float(np.median(x))
    half = len(x) // 2
    if len(x) % 2:
        return float(np.partition(x, half)[half])
    below, above = np.partition(x, (half - 1, half))[half - 1 : half + 1].tolist()
    return float((below + above) / 2)


#: With 20 normal values, 8 % of runs seem to have two modes; with 50 values, 0.1 %.
FEWEST_VALUES = 50
#: The smaller group has at least this share of the values; fewer are outliers.
SMALLEST_SHARE = 0.1


class TwoModes(Struct, frozen=True):
    """Two groups of values: the share of each and its mean, the lower group first."""

    low_share: float
    low_centre: float
    high_share: float
    high_centre: float


@np.errstate(all="ignore")
def two_modes(values: RunValues) -> TwoModes | None:
    """Return the two groups of values of one run, or None if the values are one group.

    Two modes make the median jump from one to the other between runs. The sorted values are cut at the place with the
    smallest sum of squares within both parts (Fisher 1958, Otsu 1979). They are two modes if the means are more than 4
    standard deviations apart and each part has 10 % of the values. The result is None for fewer than 50 values, and for
    values that are not finite. The cost is that of sorting.
    """
    run = steady_run(values, warmup=0)
    n = len(run.values)
    if n < FEWEST_VALUES or not run.finite:
        return None
    ordered = np.sort(run.values)
    centred = ordered - ordered.mean()
    sums = np.cumsum(centred)[:-1]
    sizes: npt.NDArray[np.int64]
    if is_large(sums):
        from perfgate.stats.large_runs import counted

        sizes = counted(sums)
    else:
        sizes = np.arange(1, n, dtype=np.int64)
    # The total is 0 after centring, so the sum of the lower group is enough.
    cut = 1 + int((sums * sums / (sizes * (n - sizes))).argmax())
    low, high = ordered[:cut], ordered[cut:]
    spread = np.sqrt((low.var() + high.var()) / 2)
    if min(cut, n - cut) < SMALLEST_SHARE * n or not high.mean() - low.mean() > 4 * spread:
        return None
    return TwoModes(cut / n, float(low.mean()), 1 - cut / n, float(high.mean()))


#: A stall takes this many times the run's median.
STALL = 2.0
#: The values of each part of a run that are drawn.
_EXTREMES = (np.argmin, np.argmax)


def kept_for_drawing(values: FloatArray, most: int) -> npt.NDArray[np.int64]:
    """Return the positions, ascending, of at most `most` >= 2 of the finite values.

    If there are more, the run is cut into equal parts (the first parts may be longer by one value). The smallest and
    the largest value of each part are kept, so that a line through them shows every peak.
    """
    if is_large(values):
        from perfgate.stats.large_runs import drawn_places

        return drawn_places(values, most)
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= most:
        return finite
    length, longer = divmod(len(finite), most // 2)
    cut = longer * (length + 1)
    rows = (finite[:cut].reshape(longer, length + 1), finite[cut:].reshape(-1, length))
    kept = np.zeros(len(values), dtype=np.bool_)
    for part in rows:
        for extreme in _EXTREMES:
            kept[part[np.arange(len(part)), extreme(values[part], axis=1)]] = True
    return np.flatnonzero(kept)


def stalls(values: FloatArray, better: Better) -> BoolArray:
    """Return which values of a steady run are stalls: STALL times slower than the median.

    The values are times if `better` is "lower" or "neither", and rates if it is "higher".
    """
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    usual = median(values)
    if not usual > 0:
        return np.zeros(len(values), dtype=np.bool_)
    return values <= usual / STALL if better == "higher" else values >= STALL * usual
