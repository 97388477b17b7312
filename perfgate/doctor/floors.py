"""Noise floors: how much an unchanged program seems to change, as the standard deviation of the relative change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

from perfgate.core.examination import Floor, Way
from perfgate.stats.distributions import t_quantile

#: A usual comparison: this many base runs, and this many pairs.
BASE_RUNS, PAIRS = 5, 6
#: Fewer runs or pairs do not show their noise.
FEWEST = 4


def floor_of_runs(way: Way, values: Sequence[float], new_runs: int = 1) -> Floor | None:
    """Return the floor of a comparison of `new_runs` with `BASE_RUNS`; None for too few values, or one that is not > 0.

    Parameters
    ----------
    values : the statistic of each run of one program, in any unit.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return None
    return Floor(way, stdev(map(math.log, values)) * math.sqrt(1 / new_runs + 1 / BASE_RUNS), len(values))


def floor_of_pairs(base: Sequence[float], new: Sequence[float]) -> Floor | None:
    """Return the floor of a comparison by `PAIRS` pairs, from pairs of one program with itself."""
    if min(len(base), len(new)) < FEWEST or min(*base, *new) <= 0:
        return None
    ratios = [math.log(one / other) for other, one in zip(base, new, strict=True)]
    return Floor("pairs", stdev(ratios) / math.sqrt(PAIRS), len(ratios))


def floors_of(
    separate: Sequence[float],
    pinned: Sequence[float],
    cpu_times: Sequence[float],
    pairs: tuple[Sequence[float], Sequence[float]],
) -> tuple[Floor, ...]:
    """Return the floors of all ways that were measured often enough."""
    found = (
        floor_of_runs("separate", separate),
        floor_of_runs("pinned", pinned),
        floor_of_runs("cpu-time", cpu_times),
        floor_of_runs("three-runs", separate, 3),
        floor_of_pairs(*pairs),
    )
    return tuple(floor for floor in found if floor is not None)


def needed_floor(at_worst: float, confidence: float, power: float) -> float:
    """Return the floor with which one new run of an unchanged program passes with this power, as `plan` computes it.

    Parameters
    ----------
    at_worst : the relative change that exit 0 must exclude.
    """
    freedom = BASE_RUNS - 1
    return math.log1p(at_worst) / (t_quantile(freedom, confidence) + t_quantile(freedom, power))
