"""Measure how often pairs alarm: generated pairs whose log ratios differ by a known spread."""

from __future__ import annotations

import gate
import numpy as np

from perfgate.core import Baseline

#: The way that pairs are made, their tolerance, the change that they have to find, their spreads and their numbers.
WAYS = (
    ("in-turn", "2%", 0.05, (0.005, 0.01, 0.02, 0.03, 0.04), (3, 6)),
    ("one-process", "1%", 0.02, (0.003, 0.005, 0.008), (1, 3, 6)),
)
#: What both sides of a pair share.
SHARED = 0.1


def score(seed: int, count: int, way: int, spread: float) -> dict[str, dict[str, float]]:
    """Return the shares of exit 0 and 1 for each `way pairs tolerance spread change`."""
    pairing, tolerance, slower, _, sizes = WAYS[way]
    found = {}
    for pairs in sizes:
        for change in (0.0, slower):
            rng = np.random.default_rng([seed, way, round(1000 * spread), pairs])
            codes = []
            for _ in range(count):
                base = np.exp(rng.normal(0, SHARED, pairs))
                new = base * (1 + change) * np.exp(rng.normal(0, spread, pairs))
                rule = f"time within {tolerance} of baseline"
                codes.append(gate.ask(rule, list(base), list(new), Baseline(pairing=pairing))[0].exit_code)
            green, red = (codes.count(code) / count for code in (0, 1))
            found[f"{pairing} {pairs} {tolerance} {spread} {change}"] = {"green": green, "red": red}
    return found
