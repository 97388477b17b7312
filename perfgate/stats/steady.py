"""The steady part of one run: its warm-up, the resolution of its clock, its stalls and its modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perfgate.core import Better
from perfgate.stats.distributions import BoolArray, FloatArray, sample_quantile


def clock_variance(x: FloatArray) -> float:
    """The variance that the resolution of the clock adds to the logarithm of a statistic of n >= 1 values.

    A clock with ticks rounds each value by up to half a tick: tick^2 / 12, relative to the median. Half of
    the values have to be repeated before a gap between values is taken for a tick.
    """
    ordered = np.sort(x)
    median = sample_quantile(ordered, 0.5)
    gaps = np.diff(ordered)
    distinct = 1 + np.count_nonzero(gaps)
    ticks = gaps[gaps >= 1e-9 * np.abs(x).max()]  # a smaller gap is rounding in the last digits
    if 2 * distinct > len(x) or not median > 0 or not len(ticks):
        return 0.0
    return float(np.square(ticks.min() / median)) / 12


#: A run: its values in order of time, in any unit, or one number where the source holds only one.
RunValues: TypeAlias = float | Sequence[float] | FloatArray
WarmUpRule: TypeAlias = Literal["auto"] | int


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How many values to drop at the start of a run, and whether the run settles after them."""

    dropped: int
    settled: bool


@dataclass(frozen=True)
class SteadyRun:
    """A run without its warm-up.

    `values` is one-dimensional. `single` marks a run whose source holds one number, not samples. `finite` is
    False where any value of the run, warm-up included, is no finite number; such a run keeps all its values.
    """

    values: FloatArray
    single: bool
    finite: bool
    dropped: int
    settled: bool

    @cached_property
    def clock_variance(self) -> float:
        """What the clock adds to the variance of the logarithm of any statistic; for n >= 1 finite values."""
        return clock_variance(self.values)


def warmup_length(values: RunValues, better: Better = "lower") -> WarmUp:
    """How much of the start of a run is warm-up, by the rule `auto`.

    From 8 values on, the second half tells what is usual: the run has settled at the first three values in a
    row that are not worse than its median by more than 4 standard deviations (by the median absolute
    deviation), and at least one value is dropped. `better` says which side is worse: large values for
    "lower", small ones for "higher", both for "neither". A run that does not settle within its first quarter
    loses that quarter. 6 or 7 values lose the first; 3 to 5 only when it stands out by a factor of 1.2:
    short profiles keep what they have. Later outliers are never dropped: tail rules look for stalls.

    Raises ValueError for an unknown `better`; never for what the values are.
    """
    run = steady_run(values, "auto", better)
    return WarmUp(run.dropped, run.settled)


@np.errstate(all="ignore")
def steady_run(values: RunValues, warmup: WarmUpRule = "auto", better: Better = "lower") -> SteadyRun:
    """A run without its warm-up: by the rule `auto` of `warmup_length`, or without its first values.

    Raises ValueError for an unknown `warmup` or `better`, and for values of more than one dimension.
    """
    check_warmup(warmup, better)
    samples = _as_samples(values)
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
    """Raise ValueError for a warm-up that is neither "auto" nor a count, and for an unknown direction."""
    if warmup != "auto" and (isinstance(warmup, bool | str) or not isinstance(warmup, int) or warmup < 0):
        raise ValueError(f'warmup is "auto" or the number of values to drop, not {warmup!r}')
    if better not in ("lower", "higher", "neither"):
        raise ValueError(f'better is "lower", "higher" or "neither", not {better!r}')


def _as_samples(values: RunValues) -> FloatArray:
    """The values as float64; NaN wherever they are no numbers at all, or integers beyond every float."""
    try:
        samples = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        samples = np.full(np.shape(values), np.nan)
    if samples.ndim > 1:
        raise ValueError(f"a run is one number or a sequence of numbers, not {samples.ndim}-dimensional")
    return samples


def _warmup(x: FloatArray, better: Better) -> WarmUp:
    """The rule of `warmup_length` for finite values."""
    n = len(x)
    if n < 3:
        return WarmUp(0, True)
    if n < 6:
        return WarmUp(int(_stands_out(float(x[0]), float(np.median(x[1:])), better)), True)
    if n < 8:
        return WarmUp(1, True)
    # Three good values in a row starting at i, for i from 0 to n // 4.
    good = _usual(x[: n // 4 + 3], x[n // 2 :], better)
    settled = good[:-2] & good[1:-1] & good[2:]
    if not settled.any():
        return WarmUp(n // 4, False)
    return WarmUp(max(1, int(settled.argmax())), True)


def _stands_out(first: float, usual: float, better: Better) -> bool:
    """Whether the first value of a very short run is far worse than the median of the others."""
    slow, fast = first > 1.2 * usual, first < usual / 1.2
    return (slow and better != "higher") or (fast and better != "lower")


def _usual(head: FloatArray, half: FloatArray, better: Better) -> BoolArray:
    """Which values of `head` are no worse than the second `half` of the run lets expect."""
    centre = np.median(half)
    # The median absolute deviation is 0 when most values are equal; a thousandth leaves room for rounding.
    spread = max(1.4826 * np.median(np.abs(half - centre)), abs(centre) / 1000)
    good = np.ones(len(head), dtype=np.bool_)
    if better != "higher":
        good &= head <= centre + 4 * spread
    if better != "lower":
        good &= head >= centre - 4 * spread
    return good


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


#: A stall takes this many times as long as the run's median step.
STALL = 2.0


def kept_for_drawing(values: FloatArray, most: int) -> npt.NDArray[np.int64]:
    """Positions of at most `most` of the finite values, ascending: the extremes of equal stretches.

    The smallest and the largest value of every stretch are kept, so that no peak of a line drawn through them is
    lost; all finite values are kept where there are no more than `most`. `most` is at least 2.
    """
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= most:
        return finite
    stretches = np.array_split(finite, most // 2)
    extremes = [(stretch[np.argmin(values[stretch])], stretch[np.argmax(values[stretch])]) for stretch in stretches]
    return np.unique(np.array(extremes, dtype=np.int64))


def stalls(values: FloatArray, better: Better) -> BoolArray:
    """Which values of a steady run of times or rates are stalls: STALL times slower than the median.

    `better` says whether values are times ("lower", and "neither") or rates ("higher").
    """
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    usual = np.median(values)
    if not usual > 0:
        return np.zeros(len(values), dtype=np.bool_)
    return values <= usual / STALL if better == "higher" else values >= STALL * usual
