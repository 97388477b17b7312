"""Clock caps, and the cost of the sampler: `python benchmarks/machine.py [--histories N]`.

A cap of 10 % on the clock of one side is replayed for compute-bound steps: how often does unchanged code fail, and how
often is +5 % found? The sampler is compared with a program that it watches: its CPU time over the wall time.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfgate.core import Baseline, Key, Run, Series, read_only
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge
from perfgate.machine.sidecar import sampled
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

FULL, CAPPED = 1980e6, 1782e6
BASE_RUNS, NEW_RUNS, BETWEEN, WITHIN, STEPS = 5, 3, 0.005, 0.01, 60
RULES = b"version: 1\nsuite: cap\nrules:\n  - step.time within 2% of baseline\n"


def measured(rng: np.random.Generator, slower: float, clock: float, number: int) -> Run:
    """A run of compute-bound steps, and what its clock was."""
    centre = 0.1 * slower * FULL / clock * np.exp(rng.normal(0, BETWEEN))
    times = centre * np.exp(rng.normal(0, WITHIN, STEPS))
    clocks = clock * (1 + rng.normal(0, 0.002, STEPS))
    rows = (
        Series(Key("step.time"), "s", "samples", read_only(times)),
        Series(Key.of("clock.sm", device="0"), "1/s", "samples", read_only(clocks)),
    )
    return Run(f"{number}.json", "perfgate", rows)


def outcomes(rules: Ruleset, slower: float, capped: str, histories: int) -> dict[int, float]:
    """The share of each exit code."""
    rng = np.random.default_rng(1)
    found = {0: 0, 1: 0, 3: 0}
    for _ in range(histories):
        clocks = {side: CAPPED if side == capped else FULL for side in ("base", "new")}
        base = tuple(measured(rng, 1.0, clocks["base"], number) for number in range(BASE_RUNS))
        new = tuple(measured(rng, slower, clocks["new"], 100 + number) for number in range(NEW_RUNS))
        (verdict,) = judge(Case(rules, new, Baseline("cap/gpu/level", base), date(2026, 1, 1)))
        found[verdict.exit_code] += 1
    return {code: count / histories for code, count in found.items()}


def sampler_cost(seconds: float) -> tuple[float, float]:
    """The CPU time of a sampler: of its start in s, and as a share of one processor while it samples."""
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        for number, wait in enumerate((0.0, seconds)):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with sampled(Path(folder, f"{number}.json")):
                time.sleep(wait)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent[0], (spent[1] - spent[0]) / seconds


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    rules, _ = load_rules([("rules.yaml", RULES)])
    assert rules is not None
    print("| code | cap of 10 % on | exit 0 | exit 1 | exit 3 |\n|---|---|---|---|---|")
    for slower in (1.0, 1.05):
        for capped in ("neither", "new", "base"):
            shares = outcomes(rules, slower, capped, given.histories)
            code = "unchanged" if slower == 1 else f"+{100 * (slower - 1):.0f} %"
            print(f"| {code} | {capped} | " + " | ".join(f"{100 * shares[exit]:.1f} %" for exit in (0, 1, 3)) + " |")
    start, share = sampler_cost(given.seconds)
    of_all = share / (os.cpu_count() or 1)
    print(f"\nsampler: {start * 1000:.0f} ms of CPU to start, then {100 * share:.2f} % of one processor,", end=" ")
    print(f"{100 * of_all:.2f} % of {os.cpu_count()}")


if __name__ == "__main__":
    main()
