"""Ideas for a prior that looks at the machine, against the default and against calibration.

Each case has one base run and up to three new runs. Of each idea two shares are taken: of same-code cases in which a
shown interval excludes no change (nominally 5 %), and of cases 10 % slower that are red at a tolerance of 5 %.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gate
import models
import numpy as np
from msgspec.structs import replace
from scipy import stats
from score import CALIBRATION, FIVE, NEW_RUNS, misses

from perfgate.stats.history import Prior, prior_from, prior_of_levels
from perfgate.stats.statistics import RunMeasure, measure_run
from perfgate.stats.steady import steady_run

RUNS = Path(__file__).resolve().parent / "real.json"
#: A run is cut into so many blocks to see whether its level wanders.
BLOCKS = 8
BASE_RUNS, SLOWER = 1, 1.1


@dataclass(frozen=True)
class Wandering:
    """A measured run with the variance of the logarithms of its block medians beyond what its steps explain.

    `chance` is the probability of as much from steps alone (an F test).
    """

    values: models.FloatArray
    measure: RunMeasure
    wander: float
    chance: float

    @classmethod
    def of(cls, run: models.FloatArray) -> Wandering:
        """Measure a run."""
        measure, x = measure_run(run), steady_run(run).values
        expected = (measure.within_variance or 0.0) * BLOCKS
        if len(x) < 4 * BLOCKS or expected <= 0:
            return cls(run, measure, 0.0, 1.0)
        found = float(np.log([np.median(part) for part in np.array_split(x, BLOCKS)]).var(ddof=1))
        chance = float(stats.f.sf(found / expected, BLOCKS - 1, 60))
        return cls(run, measure, max(found - expected, 0.0), chance)


Runs = Sequence[Wandering]
#: (s0, d0) from the runs at hand and the history; None is the default of perfgate.
Idea = Callable[[Runs, Runs], "Prior | None"]


def wander(weight: float, least: float = 1.0) -> Idea:
    """Return a prior of 1 % and a multiple of the wander of the runs at hand, unless chance explains it."""

    def prior(runs: Runs, history: Runs) -> Prior:
        seen = [run.wander if run.chance <= least else 0.0 for run in runs]
        return Prior(math.sqrt(0.01**2 + weight * sum(seen) / len(seen)), 2.0)

    return prior


def calibrated(runs: Runs, history: Runs) -> Prior:
    """Return the prior that `perfgate rules --calibrate` would have stored."""
    return prior_from([run.measure for run in history])


def stored(*sizes: int) -> Idea:
    """Return the prior of `perfgate rules --calibrate` for levels of these sizes, of code that was not equally fast."""

    def prior(runs: Runs, history: Runs) -> Prior:
        measures, levels = [run.measure for run in history], []
        for number, size in enumerate(sizes):
            level, measures = measures[:size], measures[size:]
            levels.append([replace(one, value=(one.value or 0.0) * 1.2**number) for one in level])
        return prior_of_levels(levels)

    return prior


IDEAS: dict[str, Idea] = {
    "default: the noise is unknown": lambda runs, history: None,
    "1 % with the weight of two runs": lambda runs, history: Prior(0.01, 2.0),
    "1 % and the wander of block medians within the runs": wander(1),
    "the same, four times the wander": wander(4),
    "the same, if chance does not explain it (.1 %)": wander(4, 0.001),
    "**stored runs: two older levels of three**": stored(3, 3),
    "**stored runs: older levels of two, three and five**": stored(2, 3, 5),
    "**calibrated from ten other runs**": calibrated,
}

#: History, base runs and new runs.
Case = tuple[Runs, Runs, Runs]


def score(seed: int, draws: int, source: str) -> dict[str, dict[str, list[float]]]:
    """Return of each idea the shares for one source: a group of noise models, or a workload of `workloads.py`."""
    groups = {"familiar": models.FAMILIAR, "held out": models.HELD_OUT}
    cases = list(generated(seed, list(groups[source]), draws) if source in groups else drawn(seed, source, draws))
    found = {}
    for name, idea in IDEAS.items():
        hits = np.array([_asked(idea, *case) for case in cases])
        found[name] = {source: [float(share) for share in hits.mean(axis=0)]}
    return found


def _asked(idea: Idea, history: Runs, base: Runs, new: Runs) -> tuple[bool, bool]:
    """Return whether an interval excludes no change of unchanged code, and whether +10 % is red."""
    prior = idea([*base, *new], history)
    known = None if prior is None else gate.calibrated(prior.s0, prior.d0)
    before, after = ([run.values for run in side] for side in (base, new))
    slower = [SLOWER * run for run in after]
    return misses(before, after, known), gate.until_settled(FIVE, before, slower, known)[0] == 1


def generated(seed: int, names: Sequence[str], draws: int) -> Iterator[Case]:
    """Cases of noise models."""
    for name in names:
        for number in range(max(draws // 5, 1)):
            base, new = models.case(name, seed, number, base=CALIBRATION + BASE_RUNS, new=NEW_RUNS, slower=0)
            measured = [Wandering.of(run) for run in base]
            yield measured[:CALIBRATION], measured[CALIBRATION:], [Wandering.of(run) for run in new]


def drawn(seed: int, workload: str, draws: int) -> Iterator[Case]:
    """Cases drawn from real runs of the same code, by their CPU time in microseconds."""
    rows = json.loads(RUNS.read_text(encoding="utf-8"))["runs"]
    same = [row["cpu"] for row in rows if row["workload"] == workload and row["slower"] == 0]
    pool, rng = [Wandering.of(np.array(times, float)) for times in same], np.random.default_rng(seed)
    for _ in range(draws):
        chosen = [pool[i] for i in rng.permutation(len(pool))]
        new = CALIBRATION + BASE_RUNS
        yield chosen[:CALIBRATION], chosen[CALIBRATION:new], chosen[new : new + NEW_RUNS]
