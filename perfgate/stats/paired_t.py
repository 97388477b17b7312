"""A change between runs that were made in pairs: a moderated one-sample t on the logarithms of their ratios.

What disturbs both sides of a pair alike (clocks, neighbours, heat) cancels in the ratio. Three things are left: the
noise inside the two runs, which they tell of themselves; what each process drew at its start, which only fresh pairs
tell, and a prior on it counts as a few of them (Smyth 2004, as in `moderated`); and the order, which taking turns as
base, new, new, base cancels, and `order_effect` measures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.stats.distributions import FloatArray, t_quantile
from perfgate.stats.moderated import MOST_RUNS, LogChange
from perfgate.stats.statistics import RunMeasure, measure_run

#: With fewer blocks of two steps, the median of each side by itself says as much.
FEWEST_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class PairedChange(LogChange):
    """ln(new / base) from pairs: `run_variance` is that of one pair, and `base_runs` counts the pairs."""

    def runs_needed(self, margin: float, confidence: float, power: float) -> int | None:
        """The fewest pairs that show no change to be within `margin` with this power, None beyond MOST_RUNS."""
        if self.degrees_of_freedom is None:
            return None
        for pairs in range(1, MOST_RUNS + 1):
            # The degrees of freedom at hand, and one for every pair more.
            df = max(self.degrees_of_freedom + pairs - self.base_runs, 1.0)
            standard_error = math.sqrt(self.run_variance / pairs)
            if (t_quantile(df, confidence) + t_quantile(df, power)) * standard_error <= margin:
                return pairs
        return None


@np.errstate(all="ignore")
def paired_t(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], ratios: Sequence[RunMeasure], prior: tuple[float, float]
) -> PairedChange:
    """The change from base to new in m >= 1 pairs: `base[i]` and `new[i]` were measured together, with `ratios[i]`.

    `prior` is (s0, d0): the standard deviation of a pair's log ratio beyond the noise inside its runs, and how many
    pairs that belief is worth. With v the mean variance of a ratio from inside the runs, the variance of one pair is
    (d0 (s0^2 + v) + (m-1) S^2) / (d0 + m - 1). Its degrees of freedom are those of Welch and Satterthwaite over the
    three parts, for v is known from many steps and s0 from belief.
    """
    s0, d0 = prior
    logs = _logs(ratios)
    m = len(logs)
    within = sum(ratio.within_variance or 0.0 for ratio in ratios) / m
    within_df = max(sum((ratio.n_effective or 1.0) - 1 for ratio in ratios), 1.0)
    spread = float(logs.var(ddof=1)) if m > 1 else 0.0
    weight = d0 / (d0 + m - 1)
    parts = [(weight * s0 * s0, d0), (weight * within, within_df), ((1 - weight) * spread, max(m - 1, 1))]
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / part_df for part, part_df in parts)
    base_value, new_value = (_geometric_mean(side) for side in (base, new))
    return PairedChange(base_value, new_value, float(logs.mean()), math.sqrt(variance / m), df, variance, m, d0)


def ratio_of(base: RunMeasure, new: RunMeasure) -> RunMeasure:
    """New / base of two runs that each have a value: a pair of which only the statistics are known."""
    value = new.value / base.value if base.value and new.value is not None else None
    within = None
    if base.within_variance is not None and new.within_variance is not None:
        within = base.within_variance + new.within_variance
    effective = [run.n_effective for run in (base, new) if run.n_effective is not None]
    return RunMeasure(value, min(base.n, new.n), sum(effective) or None, within, max(base.dropped, new.dropped), True)


@np.errstate(all="ignore")
def median_ratio(base: FloatArray, new: FloatArray, dropped: int) -> RunMeasure | None:
    """The median of new / base over blocks of two steps, one in each order, of steps that were taken by turns.

    `base` and `new` are (n,), one value a step, the same steps on both sides; `dropped` of them are warm-up. What both
    sides share cancels within a block, which halves the noise that `ratio_of` leaves. None with too few blocks, or
    where a value has no logarithm.
    """
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
    return RunMeasure(found.value, found.n, found.n_effective, found.within_variance, dropped, True)


def order_effect(base_first: FloatArray, new_first: FloatArray) -> float | None:
    """What going second costs, as a logarithm of times: half of what the order moves the median ratio by.

    `base_first` and `new_first` are ln(new / base) of the steps in which base, or new, went first. Taking turns in both
    orders equally often cancels it in the verdict. None where either order has no steps.
    """
    if not len(base_first) or not len(new_first):
        return None
    return (float(np.median(base_first)) - float(np.median(new_first))) / 2


def _logs(runs: Sequence[RunMeasure]) -> FloatArray:
    return np.log([run.value for run in runs if run.value is not None])


def _geometric_mean(runs: Sequence[RunMeasure]) -> float:
    """Rounding may not carry it beyond the values, so that one run keeps its value."""
    values = [run.value for run in runs if run.value is not None]
    return min(max(float(np.exp(_logs(runs).mean())), min(values)), max(values))
