"""Noise models of step times with known truth: a case is (base runs, new runs), each run an array of milliseconds.

Two groups. `FAMILIAR` are of the kinds that perfgate's defaults were chosen on: bell-shaped steps, correlation, runs
that differ, stalls, slow spells, a coarse clock, a bad run in the baseline. `HELD_OUT` are of other kinds, written for
this benchmark, and no choice was ever made by looking at them. Everything follows from the seed, and the noise is the
same for every detector and every slowdown.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Steps: TypeAlias = Callable[[np.random.Generator, int], FloatArray]
Case: TypeAlias = tuple[list[FloatArray], list[FloatArray]]

#: The usual time of a step.
CENTRE = 100.0


def _smooth(rng: np.random.Generator, n: int, correlation: float) -> FloatArray:
    """A stationary first-order autoregression with variance 1."""
    shocks = np.sqrt(1 - correlation**2) * rng.standard_normal(n)
    shocks[0] /= np.sqrt(1 - correlation**2)
    for i in range(1, n):
        shocks[i] += correlation * shocks[i - 1]
    return shocks


def _spells(rng: np.random.Generator, n: int, share: float, length: float) -> npt.NDArray[np.bool_]:
    """Which steps lie in a slow spell: a two-state chain with this share of slow steps and mean spell length."""
    leave, enter = 1 / length, share / (1 - share) / length
    states, slow = np.empty(n, dtype=bool), bool(rng.random() < share)
    for i in range(n):
        states[i] = slow
        slow = bool(rng.random() < (1 - leave if slow else enter))
    return states


def _noisy(cv: float, runs: float, correlation: float = 0.0) -> Steps:
    """Log-normal steps around a level that each run draws."""

    def run(rng: np.random.Generator, n: int) -> FloatArray:
        return CENTRE * np.exp(runs * rng.standard_normal() + cv * _smooth(rng, n, correlation))

    return run


def _stalls(rng: np.random.Generator, n: int) -> FloatArray:
    """Checkpoints every 40 steps, a rare heavy tail, and a warm-up that halves every two steps."""
    x = _noisy(0.015, 0.006, 0.4)(rng, n)
    x[rng.integers(40) :: 40] *= 2.5
    x *= np.where(rng.random(n) < 0.015, 1 + np.minimum(rng.pareto(2.0, n), 15), 1)
    return x * (1 + 0.8 * 0.5 ** (np.arange(n) / 2))


def _slow_spells(rng: np.random.Generator, n: int) -> FloatArray:
    return _noisy(0.015, 0.005, 0.2)(rng, n) * np.where(_spells(rng, n, 0.12, 15), 1.1, 1)


def _skewed(rng: np.random.Generator, n: int) -> FloatArray:
    """Gamma-shaped waiting on top of a fixed part: no step is much faster than usual, many are slower."""
    return CENTRE * np.exp(0.007 * rng.standard_normal()) * (0.9 + 0.05 * rng.gamma(2.0, size=n))


def _wander(rng: np.random.Generator, n: int) -> FloatArray:
    """The level walks at random during the run, by 1.5 % over all of it."""
    walk = 0.015 / np.sqrt(n) * np.cumsum(rng.standard_normal(n))
    return CENTRE * np.exp(0.005 * rng.standard_normal() + walk + 0.01 * rng.standard_normal(n))


def _heating(rng: np.random.Generator, n: int) -> FloatArray:
    """A chip that slows while it warms, by up to 3 %, in a time that differs from run to run."""
    warmth = 1 - np.exp(-np.arange(n) / (n * rng.uniform(0.1, 0.6)))
    return CENTRE * (1 + rng.uniform(0.01, 0.03) * warmth) * np.exp(0.01 * rng.standard_normal(n))


def _two_clocks(rng: np.random.Generator, n: int) -> FloatArray:
    """Three runs in ten land on a part of the machine that is 2.5 % slower."""
    level = 1.025 if rng.random() < 0.3 else 1.0
    return CENTRE * level * np.exp(0.003 * rng.standard_normal() + 0.015 * rng.standard_normal(n))


def _odd_runs(rng: np.random.Generator, n: int) -> FloatArray:
    """Most runs are alike and some are far off: Student's t with 3 degrees of freedom between runs."""
    return CENTRE * np.exp(0.005 * rng.standard_t(3) + 0.02 * _smooth(rng, n, 0.5))


def _independent(steps: Steps) -> Callable[[np.random.Generator, int, int], list[FloatArray]]:
    return lambda rng, runs, n: [steps(rng, n) for _ in range(runs)]


def _neighbours(rng: np.random.Generator, runs: int, n: int) -> list[FloatArray]:
    """Runs that follow each other in time are alike: the machine's mood is a slow autoregression of 1 %."""
    moods = 0.01 * _smooth(rng, runs, 0.7)
    return [CENTRE * np.exp(mood + 0.015 * _smooth(rng, n, 0.3)) for mood in moods]


def _bad_base(rng: np.random.Generator, runs: int, n: int) -> list[FloatArray]:
    """One run in ten had a neighbour and is 8 % slower, though never one of the last three."""
    bad = np.where(rng.random(runs) < 0.1, 1.08, 1.0)
    bad[-3:] = 1.0
    return [factor * _noisy(0.02, 0.005, 0.3)(rng, n) for factor in bad]


def _ticks(rng: np.random.Generator, runs: int, n: int) -> list[FloatArray]:
    return [_noisy(0.01, 0.005, 0.2)(rng, n) for _ in range(runs)]


#: Each gives so many runs of n steps, in order of time.
FAMILIAR: dict[str, Callable[[np.random.Generator, int, int], list[FloatArray]]] = {
    "steady": _independent(_noisy(0.02, 0.004)),
    "correlated": _independent(_noisy(0.03, 0.0, 0.8)),
    "runs differ": _independent(_noisy(0.02, 0.012, 0.3)),
    "runs differ a lot": _independent(_noisy(0.03, 0.025, 0.3)),
    "stalls": _independent(_stalls),
    "slow spells": _independent(_slow_spells),
    "coarse clock": _ticks,
    "bad base run": _bad_base,
}
HELD_OUT: dict[str, Callable[[np.random.Generator, int, int], list[FloatArray]]] = {
    "skewed": _independent(_skewed),
    "wander": _independent(_wander),
    "heating": _independent(_heating),
    "two clocks": _independent(_two_clocks),
    "odd runs": _independent(_odd_runs),
    "neighbours": _neighbours,
}
MODELS = {**FAMILIAR, **HELD_OUT}
#: The resolution of a clock, which rounds after everything else, in milliseconds.
TICKS = {"coarse clock": 2.0}


def case(model: str, seed: int, number: int, *, base: int, new: int, slower: float, steps: int = 100) -> Case:
    """One case: `base` runs, and `new` runs after them that are slower by a share that no detector is told."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{model}|{base}|{new}|{steps}".encode()), number])
    runs = MODELS[model](rng, base + new, steps)
    runs = [*runs[:base], *(run * (1 + slower) for run in runs[base:])]
    tick = TICKS.get(model)
    if tick is not None:
        runs = [np.maximum(tick, tick * np.round(run / tick)) for run in runs]
    return runs[:base], runs[base:]
