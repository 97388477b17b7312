"""A change between runs that were measured in pairs: a moderated one-sample t on the logarithms of their ratios.

Noise that both sides of a pair share (clocks, neighbours, heat) cancels in the ratio. Three parts remain:

* the noise within the two runs, which is estimated from their values;
* differences between processes, which only more pairs show; a prior counts as a few pairs (Smyth 2004, as in
  `moderated`);
* the order, which the turns base, new, new, base cancel, and `order_effect` estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfgate.stats.distributions import FloatArray, t_quantile
from perfgate.stats.moderated import MOST_RUNS, LogChange, exp_within, logs_of
from perfgate.stats.statistics import RunMeasure, measure_run

#: With fewer blocks of two steps, the ratio of the medians of both sides is as precise.
FEWEST_BLOCKS = 8


class PairedChange(LogChange, frozen=True):
    """ln(new / base) from pairs: `run_variance` is the variance of one pair, `base_runs` the number of pairs."""

    def runs_needed(self, margin: float, confidence: float, power: float) -> int | None:
        """Return the fewest pairs that pass an unchanged program with this power.

        None beyond MOST_RUNS, and for a change without noise.
        """
        if self.degrees_of_freedom is None:
            return None
        for pairs in range(1, MOST_RUNS + 1):
            # One more degree of freedom for each additional pair.
            df = max(self.degrees_of_freedom + pairs - self.base_runs, 1.0)
            standard_error = math.sqrt(self.run_variance / pairs)
            if (t_quantile(df, confidence) + t_quantile(df, power)) * standard_error <= margin:
                return pairs
        return None


@np.errstate(all="ignore")
def paired_t(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], ratios: Sequence[RunMeasure], prior: tuple[float, float]
) -> PairedChange:
    """Return the change from base to new in m >= 1 pairs; `ratios[i]` is the ratio of `new[i]` to `base[i]`.

    `prior` is (s0, d0): the standard deviation of a pair's log ratio beyond the noise within its runs, and its prior
    degrees of freedom; a prior of none needs two pairs. The variance of one pair is
    (d0 (s0^2 + v) + (m - 1) S^2) / (d0 + m - 1), where v is the mean variance of a ratio from within the runs, and S^2
    the variance between pairs, with d0 + m - 1 degrees of freedom.
    """
    s0, d0 = prior
    logs = logs_of(ratios)
    m = len(logs)
    within = sum(ratio.within_variance or 0.0 for ratio in ratios) / m
    df = d0 + m - 1
    variance = (d0 * (s0 * s0 + within) + float(np.square(logs - logs.mean()).sum())) / df
    values = ([run.value for run in side if run.value is not None] for side in (base, new))
    base_value, new_value = (exp_within(float(np.log(one).mean()), min(one), max(one)) for one in values)
    return PairedChange(base_value, new_value, float(logs.mean()), math.sqrt(variance / m), df, variance, m, d0)


def ratio_of(base: RunMeasure, new: RunMeasure) -> RunMeasure:
    """Return the ratio new / base of two runs from their statistics alone, without their single values."""
    value = new.value / base.value if base.value and new.value is not None else None
    within = None
    if base.within_variance is not None and new.within_variance is not None:
        within = base.within_variance + new.within_variance
    effective = [run.n_effective for run in (base, new) if run.n_effective is not None]  # empty for single numbers
    dropped = max(base.dropped, new.dropped)
    return RunMeasure(value, min(base.n, new.n), sum(effective) or None, within, dropped, settled=True)


@np.errstate(all="ignore")
def median_ratio(base: FloatArray, new: FloatArray, dropped: int) -> RunMeasure | None:
    """Return the median of new / base over blocks of two interleaved steps, one step in each order.

    `base` and `new` are (n,), one value per step, the same steps on both sides; the first `dropped` are warm-up. Shared
    noise cancels within a block, so the noise is about half that of `ratio_of`. None if there are too few blocks, or a
    value has no logarithm.
    """
    # A side may be several short processes, each with an even number of steps: so no block has steps of two processes.
    dropped += dropped % 2
    blocks = (min(len(base), len(new)) - dropped) // 2
    if blocks < FEWEST_BLOCKS:
        return None
    steps = slice(dropped, dropped + 2 * blocks)
    logs = np.log(new[steps]) - np.log(base[steps])
    if not np.isfinite(logs).all():
        return None
    ratios = np.exp(logs.reshape(-1, 2).mean(axis=1))
    found = measure_run(ratios, "median", warmup=0)
    return RunMeasure(found.value, found.n, found.n_effective, found.within_variance, dropped, settled=True)


def order_effect(base_first: FloatArray, new_first: FloatArray) -> float | None:
    """Return the cost of going second as a logarithm of times: half the difference of the median ratio by order.

    `base_first` and `new_first` are ln(new / base) of the steps in which base, or new, went first. It cancels in the
    verdict, because both orders are equally frequent. None if one order has no steps.
    """
    if not len(base_first) or not len(new_first):
        return None
    return (float(np.median(base_first)) - float(np.median(new_first))) / 2
