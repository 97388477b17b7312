"""Measure how often `perfgate bisect` and `git bisect` name the right commit, and how many runs they need.

Simulated histories go through the search of the command, with a measurer that draws values instead of running a
program. The same seeds give the same histories to every method. `git bisect` measures each commit 1, 3 or 5 times and
compares the mean with the middle between the two true levels, which is more than a user would know.

    python benchmarks/bisection.py [--histories 200] [--only NAME] [--markdown]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from perfgate.bisect.measurements import STORED, Measurement, Model
from perfgate.bisect.search import Measurements, SearchResult, Terms, search
from perfgate.stats.distributions import FloatArray

COMMITS = 64
#: One build and run takes three minutes, in hours.
HOURS_A_RUN = 0.05


@dataclass(frozen=True)
class Scenario:
    """A simulated case: relative changes, the relative standard deviation of one run, and the drift per hour."""

    name: str
    change: float = 0.05
    noise: float = 0.02
    second: float = 0.0
    drift: float = 0.0
    commits: int = COMMITS
    #: Heavy tails: Student's t with four degrees of freedom, of the same standard deviation.
    is_heavy: bool = False
    #: The noise is known from 31 runs (a stored prior).
    is_known: bool = False
    #: So many stored runs of the good end give noise and level.
    stored: int = 0
    #: The level of the machine now against the time of the stored runs.
    machine: float = 0.0


SCENARIOS = (
    Scenario("level, change and noise unknown"),
    Scenario("noise known", is_known=True),
    Scenario("noise and level known from 30 stored runs", stored=30),
    Scenario("noise and level known from 10 stored runs", stored=10),
    Scenario("30 stored runs of a machine that is 1 % slower now", stored=30, machine=0.01),
    Scenario("30 stored runs of a machine that is 5 % slower now", stored=30, machine=0.05),
    Scenario("a second change of +2 %", second=0.02),
    Scenario("a second change of +2.5 %", second=0.025),
    Scenario("a second change of -2 %", second=-0.02),
    Scenario("drift of 2 % an hour", drift=0.02),
    Scenario("an improvement of 5 %", change=-0.05),
    Scenario("noise of heavy tails", is_heavy=True),
    Scenario("noise of 1 %", noise=0.01),
    Scenario("noise of 4 %", noise=0.04),
    Scenario("10,000 commits", commits=10_000),
    Scenario("unchanged", change=0.0),
    Scenario("unchanged, noise known", change=0.0, is_known=True),
    Scenario("unchanged, 30 stored runs", change=0.0, stored=30),
)


class FakeProgram:
    """A history of commits and a program that writes its result at once."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.scenario = scenario
        gaps = self.random.choice(np.arange(1, scenario.commits), 2, replace=False)
        self.gap = int(gaps[0])
        self.level = np.zeros(scenario.commits)
        self.level[self.gap :] += math.log1p(scenario.change)
        self.level[gaps[1] :] += math.log1p(scenario.second)
        self.runs = 0

    def measure(self, position: int) -> Measurement:
        """Draw a value."""
        hours = self.runs * HOURS_A_RUN
        self.runs += 1
        error = self.random.standard_t(4) / math.sqrt(2) if self.scenario.is_heavy else self.random.normal()
        value = self.level[position] + self.scenario.drift * hours + self.scenario.noise * error
        return Measurement(position, float(value), hours)

    def model(self) -> Model:
        """Return the prior knowledge; stored runs are drawn, and their noise is the prior, as calibration does."""
        scenario, commits = self.scenario, self.scenario.commits
        if scenario.is_known:
            return Model(commits, s0=scenario.noise, d0=30.0)
        if not scenario.stored:
            return Model(commits)
        random = np.random.default_rng((self.seed, 1))
        values = random.normal(-math.log1p(scenario.machine), scenario.noise, scenario.stored)
        level = Measurement(0, float(values.mean()), session=STORED, runs=scenario.stored)
        return Model(commits, s0=float(values.std(ddof=1)), d0=scenario.stored - 1.0, stored=(level,))

    def cost(self, position: int) -> float:
        """Return 1: the program writes its result at once."""
        return 1.0

    def may_go_on(self) -> bool:
        """Return True: only the runs are counted."""
        return True


def git_bisect(program: FakeProgram, runs: int) -> tuple[bool, int]:
    """Return whether `git bisect` names the right commit, and its number of runs; `runs` is for each commit."""
    good, bad = 0, program.scenario.commits - 1
    middle = math.log1p(program.scenario.change) / 2
    while bad - good > 1:
        at = (good + bad) // 2
        value = float(np.mean([program.measure(at).log_value for _ in range(runs)]))
        good, bad = (good, at) if (value > middle) == (middle > 0) else (at, bad)
    return bad == program.gap, program.runs


def ideal(program: FakeProgram) -> tuple[bool, int]:
    """Return whether an exact search names the right commit, and its runs: what no search without levels can do better.

    It knows the noise, the size of the change, and that there is one change and no drift; only the level and the place
    are unknown. Each measurement is the one that tells most about the place, until one place has 95 %.
    """
    gaps, size = np.arange(1, program.scenario.commits), math.log1p(program.scenario.change) / program.scenario.noise
    places, values = [0, gaps[-1]], [program.measure(place).log_value for place in (0, int(gaps[-1]))]
    while True:
        shift = size * (np.array(places)[:, None] >= gaps)
        rest = np.array(values)[:, None] / program.scenario.noise - shift
        log_weight = -((rest - rest.mean(axis=0)) ** 2).sum(axis=0) / 2
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        if weight.max() >= Terms().confidence:
            return bool(gaps[weight.argmax()] == program.gap), len(values)
        means = rest.mean(axis=0) + size * (np.arange(program.scenario.commits)[:, None] >= gaps)
        variance = 1 + 1 / len(values)
        grid = np.linspace(means.min() - 4, means.max() + 4, 48)
        density = np.exp(-((grid - means[:, :, None]) ** 2) / (2 * variance))
        density /= density.sum(axis=2, keepdims=True)
        mixed = np.einsum("g,pgv->pv", weight, density)
        bits = _entropy(mixed) - _entropy(density) @ weight
        places.append(int(bits.argmax()))
        values.append(program.measure(places[-1]).log_value)


def _entropy(density: FloatArray) -> FloatArray:
    return np.asarray(-(density * np.log2(np.maximum(density, 1e-300))).sum(axis=-1))


#: Returns whether a search names the right commit, and its number of runs.
Method: TypeAlias = Callable[[FakeProgram], tuple[bool, int]]


@dataclass(frozen=True)
class Row:
    """One method on one scenario."""

    scenario: str
    method: str
    right: float
    runs: float
    most: int
    outcomes: str
    #: The part of histories that are answered wrongly with more than 99 % probability.
    surely_wrong: float


def measure_search(scenario: Scenario, histories: int, first: int) -> Row:
    """Measure the search of `perfgate bisect` on the histories `first`, `first` + 1, ..."""
    found: list[tuple[bool, SearchResult]] = []
    for seed in range(first, first + histories):
        program = FakeProgram(scenario, seed)
        result = search(program.model(), Terms(), program, Measurements())
        wanted = "found" if scenario.change else "not-reproduced"
        is_right = result.outcome == wanted and (result.blamed == (program.gap,) or not scenario.change)
        found.append((is_right, result))
    runs = [result.runs for _, result in found]
    outcomes = [result.outcome for _, result in found]
    sure = [not ok and r.outcome == "found" and r.suspects[0].probability > 0.99 for ok, r in found]
    counts = ", ".join(f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes))
    right = float(np.mean([ok for ok, _ in found]))
    return Row(scenario.name, "perfgate bisect", right, float(np.mean(runs)), max(runs), counts, float(np.mean(sure)))


def measure_other(scenario: Scenario, histories: int, first: int, method: str, search: Method) -> Row:
    """Measure another search, which returns whether it is right, and its runs."""
    found = [search(FakeProgram(scenario, seed)) for seed in range(first, first + histories)]
    right, mean = (float(np.mean([one[i] for one in found])) for i in (0, 1))
    return Row(scenario.name, method, right, mean, max(r for _, r in found), "", 1 - right)


def show(rows: Sequence[Row], *, markdown: bool) -> None:
    """Print rows, as a table of Markdown or as text."""
    for row in rows:
        cells = [row.scenario, row.method, f"{row.right:.1%}", f"{row.runs:.1f}", str(row.most)]
        cells += [f"{row.surely_wrong:.1%}", row.outcomes]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells), flush=True)


def main() -> None:
    """Print one row for each scenario and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the first history; the priors were tuned on 0 to 89999")
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    began = time.monotonic()
    for scenario in SCENARIOS:
        if asked.only in scenario.name:
            show([measure_search(scenario, asked.histories, asked.seed)], markdown=asked.markdown)
            if scenario.change and scenario.commits == COMMITS and not (scenario.is_known or scenario.stored):
                others: dict[str, Method] = {
                    f"git bisect, {runs} a commit": partial(git_bisect, runs=runs) for runs in (1, 3, 5)
                }
                others |= {} if scenario != SCENARIOS[0] else {"exact, all known but level and place": ideal}
                rows = [measure_other(scenario, asked.histories, asked.seed, *one) for one in others.items()]
                show(rows, markdown=asked.markdown)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
