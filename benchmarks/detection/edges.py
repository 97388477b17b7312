"""Measure the answers about edge cases: the same design as `promise`, for other rules, few base runs and odd values."""

from __future__ import annotations

import gate
import numpy as np
import promise
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.results import LOOKS

#: Worse by nothing, by `at_worst`, and by twice as much.
CHANGES = (0.0, 0.1, 0.2)


class Edge(Struct, frozen=True):
    """A rule, the level of the base in seconds, the number of base runs, and the direction that gets worse."""

    rule: str = promise.RULE
    level: float = 0.1
    base_runs: int = 3
    worse: int = 1
    knows_history: bool = False
    #: None: the values do not vary.
    noise: float | None = 0.01


_EDGES: dict[str, Edge] = {
    "three base runs, for comparison": Edge(),
    "a single base run": Edge(base_runs=1),
    "a prior from the history": Edge(knows_history=True),
    "a single base run and a prior from the history": Edge(base_runs=1, knows_history=True),
    "higher is better": Edge("{assert: time median within 5% of baseline, better: higher}", worse=-1),
    "two-sided, becomes slower": Edge("time median within ±5% of baseline"),
    "two-sided, becomes faster": Edge("time median within ±5% of baseline", worse=-1),
    "an absolute tolerance: 5 ms of 100 ms": Edge("time median within 5 ms of baseline"),
}
#: The cases by name and noise.
CASES: dict[tuple[str, float], Edge] = {
    **{(name, noise): replace(edge, noise=noise) for name, edge in _EDGES.items() for noise in (0.01, 0.03)},
    ("values of a constant", 0.0): Edge(noise=None),
    ("values of a constant, one base run", 0.0): Edge(base_runs=1, noise=None),
    ("a zero base", 0.0): Edge(level=0.0, noise=None),
    ("a zero base, an absolute tolerance of 5 ms", 0.0): Edge(
        "time median within 5 ms of baseline", level=0.0, noise=None
    ),
    **{
        ("a base that is often zero, an absolute tolerance of 5 ms", noise): Edge(
            "time median within 5 ms of baseline", level=0.0, noise=noise
        )
        for noise in (0.01, 0.03)
    },
}


def score(seed: int, count: int, name: str, noise: float) -> dict[str, dict[str, float]]:
    """Return the cell `name noise change` of every change. Noise and changes of a zero base are shares of 100 ms.

    Without noise, a zero base is zero in each run; with noise, in half of the runs.
    """
    edge, found = CASES[name, noise], {}
    for change in CHANGES:
        rng = np.random.default_rng([seed, edge.base_runs, round(1000 * noise)])
        drawn = rng.normal(0, noise, (count, edge.base_runs + LOOKS))
        runs = edge.level * np.exp(drawn) if edge.level else np.maximum(drawn, 0) / 10
        remembered = np.exp(rng.normal(0, noise, (count, promise.REMEMBERED)))
        runs[:, edge.base_runs :] = (
            runs[:, edge.base_runs :] * (1 + edge.worse * change) + (not edge.level) * change / 10
        )
        answers = [
            gate.until_settled(
                edge.rule,
                list(row[: edge.base_runs]),
                list(row[edge.base_runs :]),
                promise.learned(past) if edge.knows_history else None,
            )
            for row, past in zip(runs, remembered, strict=True)
        ]
        codes, looks = zip(*answers, strict=True)
        green, red = (codes.count(code) / count for code in (0, 1))
        found[f"{name} {noise} {change}"] = {"green": green, "red": red, "runs": sum(looks) / count}
    return found
