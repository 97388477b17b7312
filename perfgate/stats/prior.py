"""The noise between runs, learned from a history of runs of the same code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.stats.describe import RunMeasure, measure_run
from perfgate.stats.warmup import Better, RunValues, WarmUpRule

#: A standard deviation of 1 % between runs, believed as much as 2 runs: the median of public clusters is .22
#: %, the quartiles .08 and 1 %, a shared CI machine has 2.6 %.
DEFAULT_S0, DEFAULT_D0 = 0.01, 2.0
#: A history shorter than this changes nothing.
FEWEST_RUNS = 5


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of run-to-run noise: a relative standard deviation `s0`, worth `d0` runs."""

    s0: float
    d0: float


def calibrate_prior(
    runs: Sequence[RunValues],
    statistic: str = "median",
    warmup: WarmUpRule = "auto",
    better: Better = "lower",
) -> Prior:
    """The prior of `judge_change` from runs of the same code on the same kind of machine.

    Runs whose statistic has no logarithm do not count; fewer than 5 others leave the default, 1 % worth 2
    runs. Raises ValueError for an unknown statistic, warm-up or direction.
    """
    return prior_from([measure_run(run, statistic, warmup, better) for run in runs])


def prior_from(measures: Sequence[RunMeasure]) -> Prior:
    """`calibrate_prior` for runs that are measured already.

    The variance between runs is what their spread has over the noise inside them. The default keeps a say of
    2 runs in it, the result is worth at most 8 runs and never below .1 %: the next machine may differ.
    """
    logs_and_noise = [
        (math.log(m.value), m.within_variance)
        for m in measures
        if m.value is not None and m.value > 0 and m.within_variance is not None
    ]
    c = len(logs_and_noise)
    if c < FEWEST_RUNS:
        return Prior(DEFAULT_S0, DEFAULT_D0)
    logs, within = np.array(logs_and_noise).T
    between = max(float(logs.var(ddof=1) - within.mean()), 0.0)
    s0_squared = (DEFAULT_D0 * DEFAULT_S0**2 + (c - 1) * between) / (DEFAULT_D0 + c - 1)
    return Prior(max(math.sqrt(s0_squared), 0.001), float(min(c + 1, 8)))
