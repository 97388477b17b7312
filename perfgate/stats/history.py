"""The noise between runs, or between pairs, from a history of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from perfgate.core import Better
from perfgate.stats.distributions import FloatArray
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure, measure_run
from perfgate.stats.steady import RunValues, WarmUpRule

#: With fewer runs the result is the default prior.
FEWEST_RUNS = 5
#: A calibration has at most these degrees of freedom, because the next machine may differ.
MOST_FREEDOM = 8.0


class Prior(Struct, frozen=True):
    """The prior of the noise between runs: a relative standard deviation `s0`, with `d0` degrees of freedom."""

    s0: float
    d0: float


#: The prior of unknown noise. Measured: on public clusters the median is 0.22 % and the quartiles are 0.08 % and 1 %,
#: and a shared CI machine has 2.6 %.
DEFAULT = Prior(0.01, 2.0)


def calibrate_prior(
    runs: Sequence[RunValues], statistic: str = "median", warmup: WarmUpRule = "auto", better: Better = "lower"
) -> Prior:
    """Return the prior of `judge_change` from runs of the same code on the same kind of machine.

    Parameters
    ----------
    runs : each the values of one run in order of time, in any unit, or a single number. Runs without a positive
        statistic are ignored; with fewer than 5 others the result is the default.
    statistic : "median", "mean", "p95", ... (a name of the rule language).
    warmup : "auto" (see `warmup_length`), or the number of values to drop.
    better : "lower", "higher" or "neither": the direction that is better, for the warm-up.

    Returns
    -------
    `Prior`: `s0` is the relative standard deviation between runs (0.01 is 1 %), `d0` its degrees of freedom. The
    default is 0.01 with 2 degrees of freedom.

    Raises
    ------
    ValueError : `statistic`, `warmup` or `better` is unknown, or a run has more than one dimension.
    """
    return prior_from([measure_run(run, statistic, warmup, better) for run in runs])


def prior_from(measures: Sequence[RunMeasure]) -> Prior:
    """Return `calibrate_prior` of measured runs.

    The variance between runs is their total variance less the noise within them. The default prior counts as 2 runs.
    The result has at most 8 degrees of freedom and is at least 0.1 %, because the next machine may differ.
    """
    return prior_of_levels([measures])


def prior_of_levels(levels: Sequence[Sequence[RunMeasure]]) -> Prior:
    """Return the prior from runs that have the same code within each level: their variance around the level's mean.

    c runs of one level have c - 1 degrees of freedom. With fewer than 4 degrees in all, the result is the default.
    """
    held = [found for level in levels if len(found := _logs_and_noise(level)) > 1]
    df = freedom(levels)
    if df < FEWEST_RUNS - 1:
        return DEFAULT
    squares = sum(float(np.square(logs - logs.mean()).sum()) for logs, _ in (found.T for found in held))
    return learned_prior(squares / df, df, float(np.concatenate(held)[:, 1].mean()), DEFAULT)


def freedom(levels: Sequence[Sequence[RunMeasure]]) -> int:
    """Return the degrees of freedom of all levels: the runs with a logarithm, less one for each level."""
    return sum(max(len(_logs_and_noise(level)) - 1, 0) for level in levels)


def prior_of_pairs(ratios: Sequence[RunMeasure], believed: Prior) -> Prior:
    """Return the prior of pairs from 5 or more ratios new / base of the same code; with fewer, the prior `believed`.

    Base and new are the same code, so the true ratio is 1, and a side that is always slower counts as noise, too.
    """
    held = _logs_and_noise(ratios)
    if len(held) < FEWEST_RUNS:
        return believed
    return learned_prior(float(np.square(held[:, 0]).mean()), len(held), float(held[:, 1].mean()), believed)


def learned_prior(variance: float, df: int, within: float, believed: Prior, most: float = MOST_FREEDOM) -> Prior:
    """Return the prior from the variance of runs, its degrees of freedom `df`, and the usual variance within a run.

    The prior `believed` before counts with its own degrees of freedom. The result has at most `most` of them.
    """
    between = max(variance - within, 0.0)
    s0_squared = (believed.d0 * believed.s0**2 + df * between) / (believed.d0 + df)
    return Prior(max(math.sqrt(s0_squared), 0.001), float(min(df + believed.d0, most)))


def _logs_and_noise(measures: Sequence[RunMeasure]) -> FloatArray:
    """Return (c, 2): the logarithm of each run's value, if it has one, and its variance within the run."""
    rows = [(math.log(m.value), m.within_variance) for m in measures if m.value and has_logarithm(m)]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
