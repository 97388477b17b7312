"""The error rates of green and red answers, cell by cell, of perfgate and of other tools.

A run is one number, log-normal around its level with the noise of the cell, so that nothing inside a run helps. The
rule is `within 5% of baseline`, and exit 0 promises that +10 % is excluded. perfgate is asked after each of at most
three new runs, and stops at exit 0 or 1; other tools are asked once, about one new run.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import gate
import numpy as np
import numpy.typing as npt
import peers

from perfgate.core import Baseline
from perfgate.core.results import LOOKS
from perfgate.history.noise import noise_between_runs

FloatArray: TypeAlias = npt.NDArray[np.float64]
#: The shares of exit 0 and 1, and the mean number of new runs.
Cell: TypeAlias = dict[str, float]

#: The statistic is named, because known noise is that of one statistic.
RULE = "time median within 5% of baseline"
NOISE = (0.01, 0.03, 0.05, 0.1)
CHANGES = (0.0, 0.1, 0.2)
BASE_RUNS = (1, 3, 5, 10)
#: The peers that compare one number a run.
PEERS = ("5% on medians", "pytest-benchmark mean:5%", "Bencher t .99", "Conbench z 5", "Otava p .001")
#: The remembered runs that show the noise.
REMEMBERED = 30


def draws(seed: int, count: int, base_runs: int, noise: float, change: float) -> tuple[FloatArray, FloatArray]:
    """Base runs and new runs of `count` cases, in rows. Noise is the same for every change and every tool."""
    rng = np.random.default_rng([seed, base_runs, round(1000 * noise)])
    base = np.exp(rng.normal(0, noise, (count, base_runs)))
    return 100 * base, 100 * (1 + change) * np.exp(rng.normal(0, noise, (count, LOOKS)))


def ends(base: FloatArray, new: FloatArray, remembered: FloatArray | None = None) -> list[tuple[int, int]]:
    """Return the exit code of each case and the new runs that it took; rows of remembered runs show the noise."""
    known = [None] * len(base) if remembered is None else [learned(row) for row in remembered]
    return [gate.until_settled(RULE, list(b), list(x), noise) for b, x, noise in zip(base, new, known, strict=True)]


def learned(remembered: FloatArray) -> Baseline | None:
    """Return the noise that a history shows; the judge believes it unless the runs contradict it."""
    found = noise_between_runs(remembered)
    return None if found is None else gate.calibrated(found.prior.s0, found.prior.d0, learned_from="main")


def cells(seed: int, count: int, base_runs: int, noise: float, quieter: float | None = None) -> dict[str, Cell]:
    """Return the cells `K noise change` of every change.

    With `quieter`, a history of the noise of the cell divided by it is known.
    """
    found = {}
    for change in CHANGES:
        given = list(draws(seed, count, base_runs, noise, change))
        if quieter:
            rng = np.random.default_rng([seed + 1, base_runs, round(1000 * noise)])
            given.append(100 * np.exp(rng.normal(0, noise / quieter, (count, REMEMBERED))))
        codes, runs = zip(*ends(*given), strict=True)
        green, red = (codes.count(code) / count for code in (0, 1))
        found[f"{base_runs} {noise} {change}"] = {"green": green, "red": red, "runs": sum(runs) / count}
    return found


def peer_cells(seed: int, count: int, noise: float) -> dict[str, dict[str, float]]:
    """For each peer and `noise change`: the share of alarms about one new run, over 3, 5 and 10 base runs."""
    found: dict[str, dict[str, float]] = {name: {} for name in PEERS}
    for change in CHANGES[:2]:
        alarms = dict.fromkeys(PEERS, 0)
        for base_runs in BASE_RUNS[1:]:
            for b, x in zip(*draws(seed, count, base_runs, noise, change), strict=True):
                runs = [np.array([value]) for value in b]
                for name in PEERS:
                    alarms[name] += peers.PEERS[name](runs, [np.array([x[0]])])
        for name in PEERS:
            found[name][f"{noise} {change}"] = alarms[name] / (count * len(BASE_RUNS[1:]))
    return found


def kit_cells(seed: int, count: int, kit: Path, change: float) -> dict[str, dict[str, Cell]]:
    """Return the shares of exit 0 and 1 on real histories, by noise and change, without and with a history.

    Of each history in which nothing changed, `count` places are judged, with three and ten base runs; the hundred runs
    before the base are the history.
    """
    rng, codes = np.random.default_rng(seed), dict[tuple[str, str], list[int]]()
    for case in runpy.run_path(str(kit / "score.py"))["cases"]():
        values = np.array(case["values"])
        band = "below 3 %" if case["noise"] < 0.03 else "3 % and more"
        for base_runs in (3, 10) if case["at"] is None else ():
            for at in rng.integers(60 + base_runs, len(values) - LOOKS, count):
                begin = at - base_runs
                sides = values[begin:at][None], values[at : at + LOOKS][None] * (1 + change)
                history = values[max(begin - 100, 0) : begin][None]
                for name, known in (("without", None), ("with history", history)):
                    codes.setdefault((band, name), []).extend(code for code, _ in ends(*sides, known))
    found: dict[str, dict[str, Cell]] = {}
    for (band, name), answers in sorted(codes.items()):
        green, red = (answers.count(code) / len(answers) for code in (0, 1))
        found.setdefault(f"{band} {change}", {})[name] = {"green": green, "red": red}
    return found


def together(found: Mapping[str, Mapping[str, Any]], noise: float, change: float, what: str) -> float:
    """The mean of a share over 3, 5 and 10 base runs."""
    shares = [float(found[f"{base_runs} {noise} {change}"][what]) for base_runs in BASE_RUNS[1:]]
    return sum(shares) / len(shares)
