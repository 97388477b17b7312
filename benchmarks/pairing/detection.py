"""Measure the slowdowns that pairs find: real processes with an injected slowdown, on the machine that this runs on.

    python benchmarks/pairing/detection.py [--workload training] [--pairs 40] [--json FILE]

Pairs of unchanged code and of steps made 5 % longer, in two processes that take steps by turns, and 2 % longer in one
process: a busy loop of Python, or a training step of torch (`workloads.py`). Rates are over 1000 draws of six pairs
(fixed seed) of those that were made; a single pair of one process is judged as it is. The goals: six pairs see +5 % in
95 % of draws and are silent in 95 % on unchanged code; one process sees +2 % in 80 %; the hook costs under 50 us a
step. `--json` keeps every pair's log ratio. Everything runs on one CPU (`--cpu`), for neighbours that disturb one CPU
more than another do not cancel.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from workloads import WORKLOADS, slower_step

from perfgate import judge_change, pair
from perfgate.judge.pairs import Pairing
from perfgate.measuring.lockstep import listening, play
from perfgate.measuring.programs import Program, end_all

PROGRAM = Path(__file__).with_name("workloads.py")
#: Both are asked of six pairs of processes; of a single pair in one process, only the smallest that there is.
TOLERANCES, DRAWS, PAIRS_A_DRAW = (0.01, 0.02), 1000, 6
Steps = tuple[list[float], list[float]]


def pair_of_processes(workload: str, slower: float, number: int) -> Steps:
    """The step times of base and new, in two processes that take turns."""
    with tempfile.TemporaryDirectory() as folder, listening() as listener:
        programs = {}
        try:
            for side, change in (("base", 0.0), ("new", slower)):
                place = Path(folder) / side
                place.mkdir()
                words = (sys.executable, str(PROGRAM), workload, str(place), str(change))
                told = {"PERFGATE_TURN": listener.getsockname(), "PERFGATE_SIDE": side}
                programs[side] = Program(words, Path.cwd(), told, place.with_suffix(".log"))
            by_turns, fault = play(listener, programs, number % 2 == 1)
        finally:
            end_all(programs.values())
        if fault or not by_turns:
            raise SystemExit(f"no pair: {fault}")
        return _times(Path(folder) / "base"), _times(Path(folder) / "new")


def _times(place: Path) -> list[float]:
    document = json.loads((place / "results.json").read_text())
    return [float(value) for value in document["series"][0]["values"]]


def pair_in_one_process(workload: str, slower: float, number: int) -> Steps:
    """The same within this process."""
    base, new = (slower_step(workload, change) for change in (0.0, slower))
    found = pair(base, new, steps=400, number=number)
    return list(found.base), list(found.new)


def alarms(pairs: Sequence[Steps], pairing: Pairing, tolerance: float) -> bool:
    """Return whether `perfgate check` finds the pairs to be slower: a failure, or a suspicion."""
    base, new = zip(*pairs, strict=True)
    found = judge_change(base, new, pairing=pairing, tolerance=tolerance)
    return found.outcome == "fail" or found.suspect


def rate(pairs: Sequence[Steps], pairing: Pairing, size: int, tolerance: float) -> float:
    """The share of alarms, over single pairs or over draws of several."""
    if size == 1:
        return float(np.mean([alarms([one], pairing, tolerance) for one in pairs]))
    draw = random.Random(1)
    return float(np.mean([alarms(draw.sample(pairs, size), pairing, tolerance) for _ in range(DRAWS)]))


def log_ratios(pairs: Sequence[Steps], pairing: Pairing) -> list[float]:
    """ln(new / base) of each pair."""
    found = (judge_change([b], [n], pairing=pairing, tolerance=TOLERANCES[0]) for b, n in pairs)
    return [float(one.log_change or 0.0) for one in found]


_STEPS = """
import sys, time
from perfgate import Recorder
recorder, steps = Recorder(sys.argv[1]), int(sys.argv[2])
for _ in range(20):
    recorder.step()
fastest = 1e9
for _ in range(20):
    began = time.perf_counter()
    for _ in range(steps):
        recorder.step()
    fastest = min(fastest, (time.perf_counter() - began) / steps * 1e6)
print(fastest)
recorder.close()
"""


def hook_cost() -> float:
    """Microseconds that a boundary takes when nobody has to be waited for: new goes on after base has left.

    The fastest of 20 repetitions counts, for what is slower had other work beside it.
    """
    costs = []
    with tempfile.TemporaryDirectory() as folder, listening() as listener:
        for told in ({}, {"PERFGATE_TURN": listener.getsockname()}):
            programs = {}
            try:
                for side, steps in (("base", 1), ("new", 200)):
                    place = Path(folder) / f"{side}{len(told)}"
                    words = (sys.executable, "-W", "ignore", "-c", _STEPS, f"{place}.json", str(steps))
                    told_side = {**told, "PERFGATE_SIDE": side}
                    programs[side] = Program(words, Path.cwd(), told_side, place.with_suffix(".log"))
                if told:
                    play(listener, programs, True)
                for program in programs.values():
                    program.process.wait(60)
            finally:
                end_all(programs.values())
            costs.append(float((Path(folder) / f"new{len(told)}.log").read_text()))
    return costs[1] - costs[0]


def main() -> None:
    """Make the pairs and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, default="busy-loop")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.cpu})
    began = perf_counter_ns()
    makers: dict[Pairing, tuple[Callable[[str, float, int], Steps], float]] = {
        "in-turn": (pair_of_processes, 0.05),
        "one-process": (pair_in_one_process, 0.02),
    }
    made: dict[tuple[Pairing, float], list[Steps]] = {}
    for number in range(1, arguments.pairs + 1):  # in turns, so that the machine's moods meet all of them
        for pairing, (maker, slower) in makers.items():
            for change in (0.0, slower):
                made.setdefault((pairing, change), []).append(maker(arguments.workload, change, number))
    logs_of = {way: log_ratios(pairs, way[0]) for way, pairs in made.items()}
    for (pairing, change), pairs in made.items():
        size, tolerances = (PAIRS_A_DRAW, TOLERANCES) if pairing == "in-turn" else (1, TOLERANCES[:1])
        name, logs = f"{pairing} {100 * change:+g} %", np.array(logs_of[pairing, change])
        print(f"{name:18} {len(pairs)} pairs, log ratio {100 * logs.mean():+.2f} % ± {100 * logs.std(ddof=1):.2f}")
        for tolerance in tolerances:
            alarm = f"{100 * rate(pairs, pairing, size, tolerance):.1f} % alarms"
            print(f"{'':18} {size} at tolerance {100 * tolerance:g} %: {alarm}")
    print(f"hook: {hook_cost():.1f} us a step; all in {(perf_counter_ns() - began) / 1e9:.0f} s")
    if arguments.json:
        kept = {f"{pairing} {100 * change:+g} %": logs for (pairing, change), logs in logs_of.items()}
        arguments.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
