"""Ideas for a prior that looks at the machine, against the default and against calibration.

    python benchmarks/detection/ideas.py [--runs FOLDER --metric NAME] [--draws 200]

FOLDER holds unchanged runs as `perfgate.results/1`, one a file. Of each idea three shares are printed: of same-code
cases that fail at tolerance 0 (nominally 5 %) and at 5 %, and of cases 10 % slower that fail at 5 %. The page
`docs/detection.md` says what was found.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import models
import numpy as np
from msgspec.structs import replace
from scipy import stats
from score import CALIBRATION, judged

from perfgate.stats.history import prior_from, prior_of_levels
from perfgate.stats.statistics import RunMeasure, measure_run
from perfgate.stats.steady import steady_run

RUNS = Path(__file__).resolve().parent / "real.json"
#: A run is cut into so many blocks to see whether its level wanders.
BLOCKS = 8


@dataclass(frozen=True)
class Wandering:
    """A measured run with the variance of the logarithms of its block medians beyond what its steps explain.

    `chance` is the probability of as much from steps alone (an F test).
    """

    measure: RunMeasure
    wander: float
    chance: float

    @classmethod
    def of(cls, run: models.FloatArray) -> Wandering:
        """Measure a run."""
        measure, x = measure_run(run), steady_run(run).values
        expected = (measure.within_variance or 0.0) * BLOCKS
        if len(x) < 4 * BLOCKS or expected <= 0:
            return cls(measure, 0.0, 1.0)
        found = float(np.log([np.median(part) for part in np.array_split(x, BLOCKS)]).var(ddof=1))
        chance = float(stats.f.sf(found / expected, BLOCKS - 1, 60))
        return cls(measure, max(found - expected, 0.0), chance)


Runs = Sequence[Wandering]
Prior = Callable[[Runs, Runs], tuple[float, float]]


def wander(weight: float, gate: float = 1.0) -> Prior:
    """Return a prior of 1 % and a multiple of the wander of the runs at hand, unless chance explains it."""

    def prior(runs: Runs, history: Runs) -> tuple[float, float]:
        seen = [run.wander if run.chance <= gate else 0.0 for run in runs]
        return math.sqrt(0.01**2 + weight * sum(seen) / len(seen)), 2.0

    return prior


def calibrated(runs: Runs, history: Runs) -> tuple[float, float]:
    """Return the prior that `perfgate calibrate` would have stored."""
    found = prior_from([run.measure for run in history])
    return found.s0, found.d0


def stored(*sizes: int) -> Prior:
    """Return a prior that `perfgate calibrate` learns from levels of these sizes, of code that was not equally fast."""

    def prior(runs: Runs, history: Runs) -> tuple[float, float]:
        measures, levels = [run.measure for run in history], []
        for number, size in enumerate(sizes):
            level, measures = measures[:size], measures[size:]
            levels.append([replace(one, value=(one.value or 0.0) * 1.2**number) for one in level])
        found = prior_of_levels(levels)
        return found.s0, found.d0

    return prior


IDEAS: dict[str, Prior] = {
    "default, 1 % worth two runs": lambda runs, history: (0.01, 2.0),
    "wander": wander(1),
    "wander, four times": wander(4),
    "wander, four times, gate .1 %": wander(4, 0.001),
    "two older levels of three runs": stored(3, 3),
    "three older levels": stored(2, 3, 5),
    f"calibrated from {CALIBRATION} runs": calibrated,
}

#: History, base runs and the new run.
Case = tuple[Runs, Runs, Wandering]


def generated(names: Sequence[str], base_runs: int, draws: int) -> Iterator[Case]:
    """Cases of noise models."""
    for name in names:
        for number in range(max(draws // 5, 1)):
            base, new = models.case(name, 6, number, base=CALIBRATION + base_runs, new=1, slower=0)
            measured = [Wandering.of(run) for run in base]
            yield measured[:CALIBRATION], measured[CALIBRATION:], Wandering.of(new[0])


def drawn(pool: Runs, base_runs: int, draws: int) -> Iterator[Case]:
    """Cases drawn from runs of the same code."""
    rng = np.random.default_rng(6)
    for _ in range(draws):
        chosen = [pool[i] for i in rng.permutation(len(pool))[: CALIBRATION + base_runs + 1]]
        yield chosen[:CALIBRATION], chosen[CALIBRATION:-1], chosen[-1]


def rates(cases: Iterator[Case]) -> dict[str, list[float]]:
    """Of each idea, in %: fails at tolerance 0, fails at 5 %, fails at 5 % when 10 % slower."""
    hits, n = {name: np.zeros(3) for name in IDEAS}, 0
    for history, base, new in cases:
        n += 1
        slower = replace(new.measure, value=1.1 * (new.measure.value or 0.0))
        for name, idea in IDEAS.items():
            prior = idea([*base, new], history)
            asked = ((new.measure, 0.0), (new.measure, 0.05), (slower, 0.05))
            before = [run.measure for run in base]
            hits[name] += [judged(before, [x], tolerance=t, prior=prior).outcome == "fail" for x, t in asked]
    return {name: [round(float(share), 1) for share in 100 * found / n] for name, found in hits.items()}


def pools(folder: Path | None, metric: str) -> Iterator[tuple[str, Runs]]:
    """Real runs of the same code: those of `workloads.py`, and those of a folder."""
    rows = json.loads(RUNS.read_text(encoding="utf-8"))["runs"]
    for workload in sorted({row["workload"] for row in rows}):
        same = [row["cpu"] for row in rows if row["workload"] == workload and row["slower"] == 0]
        yield workload, [Wandering.of(np.array(times, float)) for times in same]
    documents = sorted(folder.glob("*.json")) if folder else []
    series = [one for path in documents for one in json.loads(path.read_text(encoding="utf-8")).get("series", ())]
    same = [one["values"] for one in series if one["metric"] == metric]
    if same:
        yield metric, [Wandering.of(np.array(values)) for values in same]


def main() -> None:
    """Print the rates for one and for five base runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="a folder of unchanged runs")
    parser.add_argument("--metric", default="forward")
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    real = list(pools(options.runs, options.metric))
    for base_runs in (1, 5):
        sources = [
            ("familiar", generated(list(models.FAMILIAR), base_runs, options.draws)),
            ("held out", generated(list(models.HELD_OUT), base_runs, options.draws)),
            *((name, drawn(pool, base_runs, options.draws)) for name, pool in real),
        ]
        for source, cases in sources:
            for name, found in rates(cases).items():
                print(f"{base_runs} base  {source:12s} {name:32s} {found}", flush=True)


if __name__ == "__main__":
    main()
