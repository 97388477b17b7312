"""Clock caps: `python benchmarks/machine.py [--histories N]`.

A cap of 10 % on the clock of one side is replayed for compute-bound steps: how often does unchanged code fail, and how
often is +5 % found? `benchmarks/sampler.py` measures the cost of the sampler.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfgate.core import Baseline, Key, Run, Series, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
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


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=500)
    given = parser.parse_args()
    rules, _ = load_rules([("rules.yaml", RULES)])
    assert rules is not None
    print("| code | cap of 10 % on | exit 0 | exit 1 | exit 3 |\n|---|---|---|---|---|")
    for slower in (1.0, 1.05):
        for capped in ("neither", "new", "base"):
            shares = outcomes(rules, slower, capped, given.histories)
            code = "unchanged" if slower == 1 else f"+{100 * (slower - 1):.0f} %"
            print(f"| {code} | {capped} | " + " | ".join(f"{100 * shares[exit]:.1f} %" for exit in (0, 1, 3)) + " |")


if __name__ == "__main__":
    main()
