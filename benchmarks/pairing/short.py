"""Pairs of several short processes a side beside pairs of two long ones, on busy processors that they share.

    python benchmarks/pairing/short.py [--pairs 30] [--processes 8] [--cpus 0,1] [--loads 1] [--json FILE]

Busy loops of Python in two processes that take steps by turns, unchanged and 5 % longer; further processes are the load
(`--loads`). A trial has six pairs: one of two long processes and five of short ones, as `perfgate run --paired` makes
them, or six of long ones. Rates are over 1000 draws (fixed seed) of the pairs that were made; a failure and a suspicion
are alarms. Everything runs on the processors of `--cpus`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from workloads import STEPS

from perfgate import judge_change
from perfgate.measuring.kept_runs import ProgramSide
from perfgate.measuring.lockstep import SIDES, listening
from perfgate.measuring.paired_run import steps_by_turns
from perfgate.measuring.programs import parse_cpus
from perfgate.measuring.short_processes import Split, short_processes

PROGRAM = Path(__file__).with_name("workloads.py")
SLOWER, DRAWS, PAIRS = 0.05, 1000, 6
#: The most time for the first step and for any step, in s.
TIMES = 120.0, 600.0
Steps = tuple[list[float], list[float]]


def made(split: Split | None, slower: float, number: int) -> Steps:
    """The step times of base and new in one pair, in s."""
    sides = {
        side: ProgramSide((sys.executable, str(PROGRAM), "busy-loop", "{results}", str(change)))
        for side, change in zip(SIDES, (0.0, slower), strict=True)
    }
    with tempfile.TemporaryDirectory() as folder, listening() as listener:
        top = Path(folder) / "pair"

        def make(place: int, base_first: bool, steps: int) -> dict[str, Path]:
            return steps_by_turns(listener, top / str(place), sides, number, (), TIMES, steps, base_first)

        if split is None:
            found = steps_by_turns(listener, top, sides, number, (), TIMES)
        else:
            found = short_processes(top, split, number, make)
        return _times(found["base"]), _times(found["new"])


def _times(path: Path) -> list[float]:
    (series,) = json.loads(path.read_text())["series"]
    return [value * (1e-9 if series["unit"] == "ns" else 1.0) for value in series["values"]]


def alarm_rate(first: Sequence[Steps], others: Sequence[Steps], tolerance: float) -> float:
    """The share of trials with an alarm: one of the first pairs, and five of the others."""
    draw, alarms = random.Random(1), 0
    for _ in range(DRAWS):
        pairs = [draw.choice(first), *draw.sample(others, PAIRS - 1)]
        base, new = zip(*pairs, strict=True)
        found = judge_change(base, new, pairing="in-turn", tolerance=tolerance)
        alarms += found.outcome == "fail" or found.suspect
    return alarms / DRAWS


def main() -> None:
    """Make the pairs by turns, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--loads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no pair after this time")
    given = parser.parse_args()
    os.sched_setaffinity(0, parse_cpus(given.cpus))
    split = Split(given.processes, STEPS // given.processes // 2 * 2, 2)
    loads = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]) for _ in range(given.loads)]
    found: dict[str, list[Steps]] = {}
    took: dict[str, float] = {}
    began = time.monotonic()
    try:
        for number in range(1, given.pairs + 1):
            for name, how in (("long", None), ("short", split)):
                for slower in (0.0, SLOWER):
                    if time.monotonic() - began < given.seconds:
                        start = time.monotonic()
                        found.setdefault(f"{name} {100 * slower:+g} %", []).append(made(how, slower, number))
                        took[name] = took.get(name, 0.0) + time.monotonic() - start
    finally:
        for load in loads:
            load.kill()
    for name, pairs in found.items():
        judged = (judge_change([b], [n], pairing="in-turn", tolerance=0.01) for b, n in pairs)
        logs = [float(one.log_change or 0.0) for one in judged]
        first = found[name.replace("short", "long")]
        rates = ", ".join(f"{100 * alarm_rate(first, pairs, tolerance):.1f} %" for tolerance in (0.01, 0.02))
        spread = f"{100 * np.mean(logs):+.2f} % ± {100 * np.std(logs, ddof=1):.2f}"
        print(f"{name:12} {len(pairs)} pairs, log ratio {spread}; alarms in six pairs at tolerance 1 and 2 %: {rates}")
    means = ", ".join(f"{name} {seconds / given.pairs / 2:.1f} s" for name, seconds in took.items())
    print(f"a pair takes: {means}; all in {time.monotonic() - began:.0f} s; loads: {given.loads}, cpus {given.cpus}")
    if given.json:
        given.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
