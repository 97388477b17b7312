"""Measure how well wall time, CPU time and instructions find a change of a pure CPU loop.

    python benchmarks/counters.py [--unchanged 500] [--slower 100] [--change 1] [--tolerance 0.5] [--cpu N]

Each run is a process of its own that records 40 steps of a loop with `Recorder(counters=True)`. Each run is compared
with the same five base runs, alone, as `perfgate check` does. Where the machine does not count instructions, the rows
of wall time and CPU time remain, and the reason is printed. The noise is the standard deviation from run to run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from perfgate.core import Baseline, Run
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.recorder.counters import ProcessCounters
from perfgate.rules.load import load_rules
from perfgate.workspace.inputs import read_runs

UNITS, STEPS, BASE_RUNS = 10_000, 40, 5
PROGRAM = """
import sys
from perfgate import Recorder
units = int(sys.argv[2])
with Recorder(sys.argv[1], counters=True) as recorder:
    for _ in range(int(sys.argv[3])):
        with recorder.step_span():
            total = 0
            for number in range(units):
                total += number
"""
STATISTICS = {"median": np.median, "min": np.min}
METRICS = ("step.time", "step.cpu_time", "step.instructions", "step.cycles")


def measured(folder: Path, slower: float, number: int) -> Run:
    """One process, and what it recorded."""
    path = folder / f"{number}-{slower}.json"
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(path), str(round(UNITS * (1 + slower))), str(STEPS)]
    subprocess.run(words, check=True)
    (run,) = read_runs([str(path)])
    path.unlink()
    return run


def exit_codes(sentence: str, base: tuple[Run, ...], runs: list[Run]) -> Counter[int]:
    """Return the number of runs that end in each exit code, each alone against the base."""
    text = f"version: 1\nsuite: loop\nrules:\n  - {sentence}\n"
    rules, problems = load_rules([("rules.yaml", text.encode())])
    assert rules is not None, problems
    baseline = Baseline("loop/cpu/level", base)
    return Counter(judge(Case(rules, (run,), baseline, date(2026, 1, 1)))[0].exit_code for run in runs)


def noise(metric: str, statistic: str, runs: list[Run]) -> float:
    """The standard deviation of the logarithm from run to run."""
    found = [STATISTICS[statistic](one.values) for run in runs for one in run.series if one.key.metric == metric]
    return float(np.log(found).std(ddof=1))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unchanged", type=int, default=500)
    parser.add_argument("--slower", type=int, default=100)
    parser.add_argument("--change", type=float, default=1.0, help="in percent")
    parser.add_argument("--tolerance", type=float, default=0.5, help="in percent")
    parser.add_argument("--cpu", type=int, help="pin everything to this CPU")
    given = parser.parse_args()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    if refusal := ProcessCounters().refusal:
        print(f"no instructions on this machine: {refusal}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        base = tuple(measured(Path(place), 0.0, number) for number in range(BASE_RUNS))
        unchanged, slower = list[Run](), list[Run]()
        for number in range(max(given.unchanged, given.slower)):  # in turns, so that both meet the same neighbours
            if number < given.unchanged:
                unchanged.append(measured(Path(place), 0.0, number))
            if number < given.slower:
                slower.append(measured(Path(place), given.change / 100, number))
    print(f"| within {given.tolerance:g}% | noise | unchanged: 0 | 1 | 3 | +{given.change:g} %: 0 | 1 | 3 |")
    print("|---|---|---|---|---|---|---|---|")
    for statistic in STATISTICS:
        for metric in METRICS:
            if any(series.key.metric == metric for series in base[0].series):
                cells = [f"{100 * noise(metric, statistic, unchanged):.2f} %"]
                for runs in (unchanged, slower):
                    codes = exit_codes(f"{metric} {statistic} within {given.tolerance:g}% of baseline", base, runs)
                    cells += [f"{100 * codes[code] / len(runs):.1f} %" for code in (0, 1, 3)]
                print(f"| {metric} {statistic} | {' | '.join(cells)} |")
    print(f"{len(unchanged)} unchanged runs, {len(slower)} slower ones, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
