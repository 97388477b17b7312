"""Trials of six pairs through the command, beside a load: what a user sees.

    python benchmarks/pairing/six_pairs.py [--trials 20] [--cpus 0,1] [--loads 1] [--tolerance 2] [--seconds S]

A trial is `perfgate run --paired --runs 6 --every` of a busy loop of Python against itself, or against one that is 5 %
longer. The two processes of a pair share the processors of `--cpus` with the load, a loop of Python. Unchanged and
slower trials take turns. An alarm is exit 1 or a suspicion; exit 3 that only needs more pairs is none.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from perfgate.measuring.programs import parse_cpus

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).with_name("workloads.py")
SLOWER, PAIRS = 0.05, 6


def trial(slower: float, tolerance: float) -> tuple[str, int]:
    """Return the outcome, `suspect` for a suspicion, and the exit code of one trial."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "rules").mkdir()
        rule = f"step.time within {tolerance:g}% of baseline"
        (top / "rules" / "loop.yaml").write_text(f"version: 1\nsuite: loop\nrules:\n  - {rule}\n")
        sides = [shlex.join([sys.executable, str(PROGRAM), "busy-loop", "{results}", str(one)]) for one in (0, slower)]
        words = ["run", "--paired", "--base", sides[0], "--new", sides[1], "--runs", str(PAIRS), "--every"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "perfgate", *words, "--json", "report.json"],
            cwd=top,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        (verdict,) = json.loads((top / "report.json").read_text())["verdicts"]
        return "suspect" if verdict["suspect"] else verdict["outcome"], done.returncode


def main() -> None:
    """Make the trials by turns, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--loads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=2.0, help="in percent")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no trial after this time")
    given = parser.parse_args()
    os.sched_setaffinity(0, parse_cpus(given.cpus))
    loads = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]) for _ in range(given.loads)]
    found: dict[float, Counter[tuple[str, int]]] = {0.0: Counter(), SLOWER: Counter()}
    began = time.monotonic()
    try:
        for number in range(given.trials):
            for slower, ends in found.items():
                if time.monotonic() - began < given.seconds:
                    ends[trial(slower, given.tolerance)] += 1
                    print(f"trial {number + 1} of {slower:+.0%}: {dict(ends)}", file=sys.stderr, flush=True)
    finally:
        for load in loads:
            load.kill()
    for slower, ends in found.items():
        alarms = sum(count for (outcome, _), count in ends.items() if outcome in ("fail", "suspect"))
        codes = ", ".join(f"{outcome} (exit {code}) {count}" for (outcome, code), count in sorted(ends.items()))
        print(f"{slower:+.0%}: alarms in {alarms} of {ends.total()} trials of six pairs: {codes}")
    seconds, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"{seconds:.0f} s, loads {given.loads}, cpus {given.cpus}, load average {load:.1f} at the end")


if __name__ == "__main__":
    main()
