"""Measure how often `perfgate run --attribute` names what changed: the code, the environment, both or neither.

Simulated histories go through the judge and the estimate of the command, and end where the command ends. A value is
level x code x environment x noise. Repetitions differ by 2 % beside that, as a machine does from hour to hour. Runs
follow each other in the order of the command, so that a drift acts on them.

    python benchmarks/attribution.py [--histories 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from msgspec.structs import replace as with_fields

from perfgate import judge_change
from perfgate.core import Estimate, Location, NextStep, RelativeChange, Verdict
from perfgate.judge.factors import attribution
from perfgate.measuring.attributed_run import ORDERS
from perfgate.measuring.until_settled import is_open

#: The relative standard deviation of a repetition, shared by its four runs.
SHARED = 0.02
MOST = 10
SMALLEST, LARGEST = 0.05, 0.10


@dataclass(frozen=True)
class Scenario:
    """A kind of history: the noise of one run and the tolerance are relative; the drift is that of 40 runs."""

    name: str
    noise: float = 0.01
    tolerance: float = 0.05
    drift: float = 0.0
    is_heavy: bool = False
    missing: str | None = None


PLAIN = Scenario("")
SCENARIOS = (
    replace(PLAIN, name="1 % noise"),
    replace(PLAIN, name="3 % noise", noise=0.03),
    replace(PLAIN, name="1 % noise, within 2%", tolerance=0.02),
    replace(PLAIN, name="3 % noise, within 2%", tolerance=0.02, noise=0.03),
    replace(PLAIN, name="3 % noise of heavy tails", is_heavy=True, noise=0.03),
    replace(PLAIN, name="1 % noise, drift of 4 %", drift=0.04),
    replace(PLAIN, name="1 % noise, old code does not run in the new environment", missing="new-environment"),
    replace(
        PLAIN, name="3 % noise, old code does not run in the new environment", missing="new-environment", noise=0.03
    ),
)
KINDS = ("code", "environment", "both", "neither")


@dataclass(frozen=True)
class Answer:
    """The word, the repetitions, and whether the intervals include the true effects."""

    changed: str
    repetitions: int
    is_covered: bool


def history(scenario: Scenario, kind: str, rng: np.random.Generator) -> Answer:
    """Simulate a history until the command ends it."""
    code, environment = (
        math.log1p(rng.uniform(SMALLEST, LARGEST)) if kind in (name, "both") else 0.0
        for name in ("code", "environment")
    )
    both = code + environment
    levels = {"base": 0.0, "new-code": code, "new-environment": environment, "new": both}
    values: dict[str, list[float]] = {cell: [] for cell in levels if cell != scenario.missing}
    found = None
    for number in range(1, MOST + 1):
        shared = rng.normal(0, SHARED)
        for place, cell in enumerate(ORDERS[(number - 1) % len(ORDERS)]):
            noise = rng.standard_t(4) / math.sqrt(2) if scenario.is_heavy else rng.normal()
            drift = scenario.drift * (4 * number + place) / (4 * MOST)
            if cell in values:
                values[cell].append(math.exp(levels[cell] + shared + drift + scenario.noise * noise))
        verdict = judged(values, scenario.tolerance)
        found = attribution(verdict, values, MOST)
        if number > 1 and not is_open(with_fields(verdict, attribution=found)):
            break
    assert found is not None
    effects = ((found.code, code), (found.environment, environment))
    return Answer(found.changed, number, all(one.low <= math.expm1(true) <= one.high for one, true in effects))


def judged(values: dict[str, list[float]], tolerance: float) -> Verdict:
    """Return the verdict on old and new, as the command judges their pairs."""
    found = judge_change(values["base"], values["new"], pairing="whole-runs", tolerance=tolerance, looks=MOST)
    change = RelativeChange(found.estimate, found.low, found.high)
    new = Estimate(found.new_value, None, None, None, None, len(values["new"]))
    empty = Verdict(
        *("rule", "metric", {}, None, found.outcome, found.reason, "error", 0, "change", "s", ""),
        NextStep(),
        Location(""),
    )
    return with_fields(
        empty, change=change, tolerance=tolerance, new=new, suspect=found.suspect, at_worst=found.at_worst
    )


def rows(histories: int, seed: int) -> Iterator[str]:
    """Yield the table of `docs/how-to/code-or-environment.md`."""
    yield "| history | changed | right | repetitions on average | both intervals are right |"
    yield "|---|---|--:|--:|--:|"
    for at, scenario in enumerate(SCENARIOS):
        for kind in KINDS:
            rng = np.random.default_rng([seed, at, KINDS.index(kind)])
            found = [history(scenario, kind, rng) for _ in range(histories)]
            right = 100 * sum(one.changed == kind for one in found) / histories
            covered = 100 * sum(one.is_covered for one in found) / histories
            mean = sum(one.repetitions for one in found) / histories
            name = scenario.name if kind == KINDS[0] else ""
            yield f"| {name} | {kind} | {right:.1f} % | {mean:.1f} | {covered:.1f} % |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for row in rows(given.histories, given.seed):
        print(row, flush=True)


if __name__ == "__main__":
    main()
