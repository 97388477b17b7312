"""Slow drift along a history of runs, which no comparison of the newest with the last ones can see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.stats.describe import RunMeasure
from perfgate.stats.moderated import WorseSide, run_noise

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
