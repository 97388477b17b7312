"""Measure the error rates of green and red answers, cell by cell, and compare them with other tools.

A run is one number, log-normal around its level with the noise of the cell, so that nothing inside a run helps. The
rule is `within 5% of baseline`, and exit 0 promises that +10 % is excluded. perfgate is asked after each of at most
three new runs, and stops at exit 0 or 1; other tools are asked once, about one new run.

    python benchmarks/detection/promise.py                  through the function, 2,000 draws a cell: some minutes
    python benchmarks/detection/promise.py --command        through `perfgate check`, 1,000 draws a cell
    python benchmarks/detection/promise.py --history 30     with the noise that 30 remembered runs show
    python benchmarks/detection/promise.py --history 30 --quieter 2     the history was half as noisy as today
    python benchmarks/detection/promise.py --kit FOLDER     real histories (see benchmarks/history.py), with and without
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import peers

from perfgate.history.noise import LearnedNoise, noise_between_runs
from perfgate.judge.decide_change!! import measure_runs
from perfgate.judge.question import ChangeTerms
from perfgate.judge.decide_promise!! import judge_promise
from perfgate.core.results import LOOKS
from perfgate.stats.moderated import runs_contradict

FloatArray: TypeAlias = npt.NDArray[np.float64]
#: For each draw: the exit code, and the number of new runs that it took.
Ends: TypeAlias = tuple[list[int], list[int]]

NOISE = (0.01, 0.03, 0.05, 0.1)
CHANGES = (0.0, 0.1, 0.2)
BASE_RUNS = (1, 3, 5, 10)
TOLERANCE = 0.05
#: The peers that compare one number a run.
PEERS = ("5% on medians", "pytest-benchmark mean:5%", "Bencher t .99", "Conbench z 5", "Otava p .001")
_SHOWN = ("red", "green", "runs")


def draws(seed: int, count: int, base_runs: int, noise: float, change: float) -> tuple[FloatArray, FloatArray]:
    """Base runs and new runs of `count` cases, in rows. Noise is the same for every change and every tool."""
    rng = np.random.default_rng([seed, base_runs, round(1000 * noise)])
    base = np.exp(rng.normal(0, noise, (count, base_runs)))
    return 100 * base, 100 * (1 + change) * np.exp(rng.normal(0, noise, (count, LOOKS)))


def by_function(base: FloatArray, new: FloatArray, remembered: FloatArray | None = None) -> Ends:
    """Ask `judge_promise` after each run, with the noise of the remembered runs of each case, if there are any."""
    codes, runs = [], []
    for i, (b, x) in enumerate(zip(base, new, strict=True)):
        learned = None if remembered is None else noise_between_runs(remembered[i])
        code, look = 3, LOOKS
        for look in range(1, LOOKS + 1):
            prior = None if learned is None else _believed(learned, b, x[:look])
            found = judge_promise(list(b), list(x[:look]), tolerance=TOLERANCE, prior=prior)
            if found.outcome == "fail" or found.excluded:
                code = 1 if found.outcome == "fail" else 0
                break
        codes.append(code)
        runs.append(look)
    return codes, runs


def _believed(learned: LearnedNoise, *sides: FloatArray) -> tuple[float, float] | None:
    """The noise of the history, unless the runs contradict it."""
    prior = learned.prior.s0, learned.prior.d0
    measured = [measure_runs(list(side), ChangeTerms(tolerance=TOLERANCE)) for side in sides]
    return None if runs_contradict(measured, prior) else prior


def by_command(base: FloatArray, new: FloatArray) -> Ends:
    """Ask `perfgate check` after each run: every case is a metric with a rule of its own."""
    count = len(base)
    codes, runs = [3] * count, [LOOKS] * count
    with tempfile.TemporaryDirectory() as folder:
        home = Path.cwd()
        os.chdir(folder)
        try:
            _write_rules(count)
            for i, column in enumerate(base.T):
                _write_run(f"base{i}.json", column)
            _command("baseline", "approve", *(f"base{i}.json" for i in range(base.shape[1])), "--reason", "r")
            waiting = set(range(count))
            for look in range(1, LOOKS + 1):
                _write_run(f"new{look}.json", new[:, look - 1])
                _command("check", *(f"new{i}.json" for i in range(1, look + 1)), "--json", "report.json")
                verdicts = json.loads(Path("report.json").read_text(encoding="utf-8"))["verdicts"]
                for verdict in verdicts:
                    number = int(verdict["metric"][1:])
                    if number in waiting and verdict["exit_code"] != 3:
                        waiting.discard(number)
                        codes[number], runs[number] = verdict["exit_code"], look
        finally:
            os.chdir(home)
    return codes, runs


def _write_rules(count: int) -> None:
    Path("rules").mkdir()
    lines = "".join(f"  - m{i} within {100 * TOLERANCE:g}% of baseline\n" for i in range(count))
    Path("rules/r.yaml").write_text(f"version: 1\nrules:\n{lines}", encoding="utf-8")


def _write_run(name: str, values: Sequence[float] | FloatArray) -> None:
    series = [{"metric": f"m{i}", "unit": "s", "value": float(value)} for i, value in enumerate(values)]
    document = {"schema": "perfgate.results/1", "series": series}
    Path(name).write_text(json.dumps(document), encoding="utf-8")


def _command(*words: str) -> None:
    from perfgate.cli.entry import run

    with redirect_stdout(StringIO()) as said:
        code = run(list(words))
    if code not in (0, 1, 3):
        sys.exit(f"perfgate {' '.join(words[:2])} ended with {code}: {said.getvalue()[-500:]}")


def cells(
    seed: int, count: int, asked: Callable[..., Ends] = by_function, history: int = 0, quieter: float = 1.0
) -> dict[str, dict[str, float]]:
    """For each cell `K noise change`: the shares of exit 0 and 1, and the mean number of new runs.

    With `history` remembered runs, whose noise is that of the cell divided by `quieter`.
    """
    found = {}
    for base_runs in BASE_RUNS:
        for noise in NOISE:
            for change in CHANGES:
                given = list(draws(seed, count, base_runs, noise, change))
                if history:
                    rng = np.random.default_rng([seed + 1, base_runs, round(1000 * noise)])
                    given.append(100 * np.exp(rng.normal(0, noise / quieter, (count, history))))
                codes, runs = asked(*given)
                green, red = (codes.count(code) / count for code in (0, 1))
                found[f"{base_runs} {noise} {change}"] = {"green": green, "red": red, "runs": sum(runs) / count}
                print(f"K={base_runs} noise {noise:g} change {change:g}: {found[f'{base_runs} {noise} {change}']}")
    return found


def peer_cells(seed: int, count: int) -> dict[str, dict[str, float]]:
    """For each peer and `noise change`: the share of alarms about one new run, over 3, 5 and 10 base runs."""
    found: dict[str, dict[str, float]] = {name: {} for name in PEERS}
    for noise in NOISE:
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


def real(kit: dict[str, Any]) -> Iterator[str]:
    """Yield a line for real noise, for each change: how verdicts end if the hundred runs before the base show it."""
    rng = np.random.default_rng(1)
    ends: dict[tuple[str, float, bool], list[int]] = {}
    for case in kit["cases"]():
        values = np.array(case["values"])
        for base_runs in (3, 10) if case["at"] is None else ():
            for at in rng.integers(60 + base_runs, len(values) - LOOKS, 12):
                begin = at - base_runs
                for change in CHANGES:
                    sides = values[begin:at][None], values[at : at + LOOKS][None] * (1 + change)
                    for remembered in (None, values[max(begin - 100, 0) : begin][None]):
                        row = "noise < 3 %" if case["noise"] < 0.03 else "noise >= 3 %", change, remembered is not None
                        ends.setdefault(row, []).extend(by_function(*sides, remembered)[0])
    for (band, change, known), codes in sorted(ends.items()):
        shares = ", ".join(f"exit {code} {100 * codes.count(code) / len(codes):.1f} %" for code in (0, 1, 3))
        yield f"{band}, change {100 * change:g} %, {'with' if known else 'without'} history: {shares} of {len(codes)}"


def score(seed: int, count: int) -> dict[str, dict[str, dict[str, float]]]:
    """The cells of perfgate and of the peers."""
    return {"cells": cells(seed, count, by_function), "peers": peer_cells(seed, count)}


def together(found: Mapping[str, Mapping[str, float]], noise: float, change: float, what: str) -> float:
    """The mean of a share over 3, 5 and 10 base runs."""
    shares = [found[f"{base_runs} {noise} {change}"][what] for base_runs in BASE_RUNS[1:]]
    return sum(shares) / len(shares)


def main() -> None:
    """Print the cells; with --command, through the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", action="store_true", help="ask `perfgate check`, not the function")
    parser.add_argument("--draws", type=int, help="draws a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--history", type=int, default=0, help="how many remembered runs show the noise")
    parser.add_argument("--quieter", type=float, default=1.0, help="the noise of today, divided by that of the history")
    parser.add_argument("--kit", type=Path, help="the folder with score.py and real histories")
    options = parser.parse_args()
    if options.kit:
        print(*real(runpy.run_path(str(options.kit / "score.py"))), sep="\n")
        return
    if options.command and options.history:
        parser.error("--history is not for --command")
    asked, count = (by_command, 1000) if options.command else (by_function, 2000)
    found = cells(options.seed, options.draws or count, asked, options.history, options.quieter)
    for noise in NOISE:
        row = [f"{change:g} {what} {together(found, noise, change, what):.4f}" for change in CHANGES for what in _SHOWN]
        print(f"noise {noise:g}, K = 3, 5, 10 together: {', '.join(row)}")


if __name__ == "__main__":
    main()
