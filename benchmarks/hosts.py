"""Hosts of one kind that differ: `python benchmarks/hosts.py [--draws 200]`.

A history has some runs of each of two hosts, in random order, one number a run with log-normal noise. The base is five
runs of one host, the new side three runs of the other, and the rule is `within 5% of baseline`. Asked is what `check`
asks: is the difference of the hosts named, and is the verdict wrong, with and without the history of the hosts?

* Unchanged code on the slower host must not fail (exit 1).
* Code that is 20 % slower on the faster host must not pass (exit 0).
* Half of the histories have a change of the code by 5 % somewhere, which must not be taken for a host.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfgate.core import Baseline, HostDifference, Key, Run, Series, read_only
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.hosts import host_differences
from perfgate.history.noise import learned_priors
from perfgate.history.store import HistoryColumn, StoredHistory
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

SLOWER, NOISE, RUNS = (0.0, 0.05, 0.1, 0.56), (0.01, 0.03, 0.05), (3, 5, 10)
BASE_RUNS, NEW_RUNS, CODE_CHANGE, REGRESSION = 5, 3, 0.05, 0.2
METRIC = SeriesName(Key("step.time"), "mean")
RULES = b"version: 1\nsuite: hosts\nrules:\n  - step.time within 5% of baseline\n"


@dataclass
class Cell:
    """Counts of one cell: draws, named hosts, and wrong verdicts without and with the history of the hosts."""

    draws: int = 0
    named: int = 0
    red: tuple[int, int] = (0, 0)
    green: tuple[int, int] = (0, 0)
    doubted: int = 0


def history(rng: np.random.Generator, slower: float, noise: float, runs: int, *, changes: bool) -> StoredHistory:
    """A history of runs of the hosts a (fast) and b (slow)."""
    is_slow = rng.permutation(2 * runs) < runs
    logs = noise * rng.standard_normal(2 * runs) + np.log1p(slower) * is_slow
    if changes:
        logs[rng.integers(1, 2 * runs) :] += np.log1p(CODE_CHANGE)
    remembered = tuple(
        HistoryRun(f"{at:040}", f"2026-01-{at + 1:02}T00:00:00Z", f"{at:040}", "main", context={"host": "ab"[slow]})
        for at, slow in enumerate(is_slow.astype(int))
    )
    unknown = np.full(2 * runs, np.nan)
    at, values = np.arange(2 * runs), np.exp(logs)
    column = HistoryColumn(METRIC, "s", "lower", "samples", at, values, unknown, unknown, unknown)
    return StoredHistory("hosts", "cpu", {}, remembered, (column,), ("step.time",))


def measured(rng: np.random.Generator, level: float, noise: float, host: str, number: int) -> Run:
    """A run of one number on a host."""
    values = read_only(level * np.exp(noise * rng.standard_normal(1)))
    return Run(f"{number}.json", "perfgate", (Series(METRIC.key, "s", "value", values),), environment={"host": host})


def exit_codes(
    rules: Ruleset, baseline: Baseline, new: tuple[Run, ...], hosts: tuple[HostDifference, ...]
) -> list[int]:
    """The exit code without and with the history of the hosts."""
    both = (baseline, replace(baseline, hosts=hosts))
    facts = new[0].environment
    return [judge(Case(rules, new, one, date(2026, 1, 1), facts=facts))[0].exit_code for one in both]


def draw(rng: np.random.Generator, rules: Ruleset, given: tuple[float, float, int], cell: Cell) -> None:
    """Judge unchanged code on the slower host, and slower code on the faster one."""
    slower, noise, runs = given
    known = history(rng, slower, noise, runs, changes=cell.draws % 2 == 1)
    priors = learned_priors(known, [METRIC], "main")
    found = []
    for base, new, change in (("a", "b", 0.0), ("b", "a", REGRESSION)):
        levels = {"a": 0.1, "b": 0.1 * (1 + slower)}
        sides = [(base, levels[base], BASE_RUNS), (new, levels[new] * (1 + change), NEW_RUNS)]
        old, now = (tuple(measured(rng, level, noise, host, i) for i in range(n)) for host, level, n in sides)
        hosts = host_differences(known, [METRIC], "main", {base}, {new})
        found.append((hosts, exit_codes(rules, Baseline("hosts/cpu/level", old, priors=priors), now, hosts)))
    (hosts, unchanged), (_, worse) = found
    cell.draws += 1
    cell.named += bool(hosts)
    cell.red = cell.red[0] + (unchanged[0] == 1), cell.red[1] + (unchanged[1] == 1)
    cell.green = cell.green[0] + (worse[0] == 0), cell.green[1] + (worse[1] == 0)
    cell.doubted += worse[0] == 1 and worse[1] == 3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    rules, _ = load_rules([("rules.yaml", RULES)])
    assert rules is not None
    head = ("slower host", "noise", "runs a host", "named", "unchanged: exit 1 without, with")
    print(f"| {' | '.join(head)} | +20 %: exit 0 without, with | +20 %: exit 3 in place of 1 |\n|{'---|' * 7}")
    for slower in SLOWER:
        for noise in NOISE:
            for runs in RUNS:
                rng, cell = np.random.default_rng([1, round(100 * slower), round(100 * noise), runs]), Cell()
                for _ in range(given.draws):
                    draw(rng, rules, (slower, noise, runs), cell)
                named, *wrong = (
                    f"{100 * count / cell.draws:.1f} %" for count in (cell.named, *cell.red, *cell.green, cell.doubted)
                )
                name = "equal" if slower == 0 else f"{100 * slower:.0f} %"
                pairs = f"{wrong[0]}, {wrong[1]} | {wrong[2]}, {wrong[3]} | {wrong[4]}"
                print(f"| {name} | {100 * noise:.0f} % | {runs} | {named} | {pairs} |", flush=True)


if __name__ == "__main__":
    main()
