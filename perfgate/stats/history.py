"""What a history of runs shows: the noise between runs, or between pairs, and slow drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.core import Better
from perfgate.stats.distributions import FloatArray
from perfgate.stats.moderated import WorseSide, has_logarithm, run_noise
from perfgate.stats.statistics import RunMeasure, measure_run
from perfgate.stats.steady import RunValues, WarmUpRule

#: A history shorter than this changes nothing.
FEWEST_RUNS = 5


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of run-to-run noise: a relative standard deviation `s0`, worth `d0` runs."""

    s0: float
    d0: float


#: The median of public clusters is .22 %, the quartiles .08 and 1 %, a shared CI machine has 2.6 %.
DEFAULT = Prior(0.01, 2.0)


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
    return prior_of_levels([measures])


def prior_of_levels(levels: Sequence[Sequence[RunMeasure]]) -> Prior:
    """The prior from runs that are of the same code within each level: their spread around their own level's mean.

    Levels that together tell less than 5 runs of one code do leave the default; c runs of one code tell c - 1
    differences.
    """
    held = [found for level in levels if len(found := _logs_and_noise(level)) > 1]
    df = freedom(levels)
    if df < FEWEST_RUNS - 1:
        return DEFAULT
    squares = sum(float(np.square(logs - logs.mean()).sum()) for logs, _ in (found.T for found in held))
    return _learned(squares / df, df, float(np.concatenate(held)[:, 1].mean()), DEFAULT)


def freedom(levels: Sequence[Sequence[RunMeasure]]) -> int:
    """How many differences the runs of each level tell, those with a logarithm: one less than there are."""
    return sum(max(len(_logs_and_noise(level)) - 1, 0) for level in levels)


def prior_of_pairs(ratios: Sequence[RunMeasure], believed: Prior) -> Prior:
    """The prior of `judge_pairs` from 5 or more pairs of the same code, each with new / base; else what is believed.

    Base and new are equal, so that each pair tells a difference from 1, and a side that is always slower counts as
    noise, too.
    """
    held = _logs_and_noise(ratios)
    if len(held) < FEWEST_RUNS:
        return believed
    return _learned(float(np.square(held[:, 0]).mean()), len(held), float(held[:, 1].mean()), believed)


def _learned(variance: float, df: int, within: float, believed: Prior) -> Prior:
    between = max(variance - within, 0.0)
    s0_squared = (believed.d0 * believed.s0**2 + df * between) / (believed.d0 + df)
    return Prior(max(math.sqrt(s0_squared), 0.001), float(min(df + believed.d0, 8)))


def _logs_and_noise(measures: Sequence[RunMeasure]) -> FloatArray:
    """(c, 2): the logarithm of each run's value that has one, and the variance of that from inside the run."""
    rows = [(math.log(m.value), m.within_variance) for m in measures if m.value and has_logarithm(m)]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


#: A CUSUM beyond this warns: 8 standard deviations. It is a hint: docs/detection.md says how often it errs.
WARNS = 8.0
#: How much of a deviation is forgiven at each run, in standard deviations: half of the shift that is looked for.
_SLACK = 0.5


@dataclass(frozen=True, slots=True)
class Drift:
    """A cumulative sum at the end of a history.

    `score` is in standard deviations of one run; `runs` have passed since it was last 0, and their mean is
    `shift` away from the reference, as a difference of logarithms.
    """

    score: float
    runs: int
    shift: float


def cusum(
    reference: Sequence[RunMeasure], later: Sequence[RunMeasure], prior: tuple[float, float], worse: WorseSide
) -> Drift:
    """The drift of `later` runs, oldest first, away from K >= 1 reference runs; all have a logarithm.

    C = max(0, C + z - 1/2) with z = (T - centre) / s: Page, "Continuous inspection schemes" (1954). The noise s is
    moderated by the prior, as that of a change is. Where either side is worse, the larger drift counts.
    """
    centre, noise = run_noise(reference, prior)
    spread = math.sqrt(noise.variance)
    deviations = [math.log(run.value) - centre for run in later if run.value is not None]
    signs = {"up": (1,), "down": (-1,), "either": (1, -1)}[worse]
    return max((_one_sided(deviations, spread, sign) for sign in signs), key=lambda drift: drift.score)


def _one_sided(deviations: Sequence[float], spread: float, sign: int) -> Drift:
    score, rising = 0.0, 0
    for deviation in deviations:
        score = max(0.0, score + sign * deviation / spread - _SLACK)
        rising = rising + 1 if score > 0 else 0
    shift = sum(deviations[-rising:]) / rising if rising else 0.0
    return Drift(score, rising, shift)
