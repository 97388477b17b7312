"""Measure the error rates at small noise, and under noise with heavy tails, two levels or drift."""

from __future__ import annotations

from collections.abc import Callable

import gate
import numpy as np
import numpy.typing as npt

from perfgate.core.results import LOOKS
from perfgate.history.noise import noise_between_runs

FloatArray = npt.NDArray[np.float64]
#: The tolerance, the noise, and the changes of each row.
ROWS: tuple[tuple[str, float, tuple[float, ...]], ...] = (
    ("5%", 0.001, (0.0, 0.07, 0.1)),
    ("5%", 0.003, (0.0, 0.07, 0.1)),
    ("5%", 0.005, (0.0, 0.07, 0.1)),
    ("5%", 0.01, (0.0, 0.07, 0.1)),
    ("2%", 0.003, (0.0, 0.03, 0.045)),
    ("2%", 0.005, (0.0, 0.03, 0.045)),
)
BASE_RUNS = (3, 5)
#: The standard deviations of unchanged runs under noise that is not normal.
SPREADS = (0.01, 0.03, 0.05, 0.1)
RULE = "time median within 5% of baseline"
#: The standard deviation of a history that wanders, and the share that each run keeps of the one before it.
WANDERING, KEPT = 0.03, (0.0, 0.8, 0.9, 0.95)
#: The remembered runs, and how many of them are newer than the base.
REMEMBERED, BASE_AGE = 100, 60


def _tails(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.standard_t(3, shape) / np.sqrt(3)


def _two_levels(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.choice([-1.0, 1.0], shape) + rng.normal(0, 0.1, shape)


def _drift(rng: np.random.Generator, shape: tuple[int, int], kept: float = 0.7) -> FloatArray:
    """Autocorrelated runs: each keeps a share of what the run before it had."""
    found = rng.normal(0, 1, shape)
    for at in range(1, shape[1]):
        found[:, at] = kept * found[:, at - 1] + np.sqrt(1 - kept**2) * found[:, at]
    return found


#: Other noise, each with a standard deviation of 1.
KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "t with 3 degrees of freedom": _tails,
    "two levels": _two_levels,
    "drift": _drift,
}


def score(seed: int, count: int, tolerance: str, noise: float, change: float) -> dict[str, dict[str, float]]:
    """Return the cell `tolerance noise change K` for each number K of base runs."""
    rule = f"time median within {tolerance} of baseline"
    found = {}
    for base_runs in BASE_RUNS:
        rng = np.random.default_rng([seed, base_runs, round(10_000 * noise)])
        runs = np.exp(rng.normal(0, noise, (count, base_runs + LOOKS)))
        runs[:, base_runs:] *= 1 + change
        found[f"{tolerance} {noise} {change} {base_runs}"] = _shares(rule, runs, base_runs)
    return found


def score_kind(seed: int, count: int, kind: str, spread: float) -> dict[str, dict[str, float]]:
    """Return the cell `kind spread` of unchanged code, over 3, 5 and 10 base runs."""
    cells = []
    for base_runs in (3, 5, 10):
        rng = np.random.default_rng([seed, base_runs, round(10_000 * spread), len(kind)])
        runs = np.exp(spread * KINDS[kind](rng, (count, base_runs + LOOKS)))
        cells.append(_shares(RULE, runs, base_runs))
    return {f"{kind} {spread}": {name: sum(cell[name] for cell in cells) / len(cells) for name in cells[0]}}


def score_wander(seed: int, count: int, kept: float) -> dict[str, dict[str, float]]:
    """Return the cells `kept with|without change` of a wandering history, over 3 and 10 base runs.

    The base is 60 runs old; the hundred runs before the new ones are the history. "without" does not know how the level
    wanders, only the noise between runs.
    """
    found: dict[str, list[int]] = {}
    for base_runs in (3, 10):
        rng = np.random.default_rng([seed, base_runs, round(100 * kept)])
        for row in np.exp(WANDERING * _drift(rng, (count, REMEMBERED + LOOKS), kept)):
            history, new = row[:REMEMBERED], row[REMEMBERED:]
            base = history[-BASE_AGE:][:base_runs]
            noise = noise_between_runs(history)
            assert noise is not None
            for name, wander in (("without", 0.0), ("with", noise.wander)):
                prior = gate.calibrated(noise.prior.s0, noise.prior.d0, learned_from="main", wander=wander)
                for change in (0.0, 0.1):
                    code, _ = gate.until_settled(RULE, list(base), list((1 + change) * new), prior)
                    found.setdefault(f"{kept} {name} {change}", []).append(code)
    return {
        cell: {"green": codes.count(0) / len(codes), "red": codes.count(1) / len(codes)}
        for cell, codes in found.items()
    }


def _shares(rule: str, runs: FloatArray, base_runs: int) -> dict[str, float]:
    answers = [gate.until_settled(rule, list(row[:base_runs]), list(row[base_runs:])) for row in runs]
    codes, looks = zip(*answers, strict=True)
    return {"green": codes.count(0) / len(codes), "red": codes.count(1) / len(codes), "runs": sum(looks) / len(looks)}
