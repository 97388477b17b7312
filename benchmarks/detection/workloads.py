"""Real runs with a known change: short CPU workloads, each run a fresh process.

    python benchmarks/detection/workloads.py FILE

A step repeats one unit of work, and a slower step repeats it more often, so that the change is known by construction: a
step of 105 units is 5 % slower than one of 100. Runs of all kinds are made in random order, one at a time, so that what
the machine does meanwhile hits all of them alike. FILE (JSON) holds the steps in microseconds by two clocks: what
passed on the wall, and what the process had of the CPU, which is all that a crowded machine lets one see.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

STEPS = 60
#: Units of work in an unchanged step; one unit takes some 30 to 60 microseconds.
UNITS = 100
#: How many runs of each workload, by how much slower they are.
RUNS = {0.0: 24, 0.05: 10, 0.10: 10}
SEED = 5


def _products() -> Callable[[], object]:
    a = np.random.default_rng(1).standard_normal((64, 64))
    return lambda: a @ a


def _copies() -> Callable[[], object]:
    a = np.ones(100_000)
    return a.copy


def _dictionary() -> Callable[[], object]:
    return lambda: {i: str(i) for i in range(250)}


#: What one unit does: arithmetic, memory, and the interpreter.
WORKLOADS: dict[str, Callable[[], Callable[[], object]]] = {
    "products": _products,
    "copies": _copies,
    "dictionary": _dictionary,
}


CLOCKS: dict[str, Callable[[], int]] = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}


def run(workload: str, units: int) -> dict[str, list[int]]:
    """The times of the steps of one run in this process by both clocks, in microseconds, warm-up included."""
    unit = WORKLOADS[workload]()
    times: dict[str, list[int]] = {name: [] for name in CLOCKS}
    for _ in range(STEPS):
        begin = {name: clock() for name, clock in CLOCKS.items()}
        for _ in range(units):
            unit()
        for name, clock in CLOCKS.items():
            times[name].append((clock() - begin[name]) // 1000)
    return times


def measure() -> dict[str, object]:
    """All runs of all workloads, each in a process of its own, in random order."""
    plan = [(name, slower) for name in WORKLOADS for slower, count in RUNS.items() for _ in range(count)]
    random.Random(SEED).shuffle(plan)
    rows = []
    for name, slower in plan:
        words = [sys.executable, __file__, "--run", name, str(round(UNITS * (1 + slower)))]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env={"OMP_NUM_THREADS": "1"})
        rows.append({"workload": name, "slower": slower, **json.loads(done.stdout)})
    return {"unit": "us", "order": "as measured", "runs": rows}


def write(path: Path) -> None:
    """Measure into a file, one run a line."""
    text = json.dumps(measure(), separators=(",", ":")).replace('{"workload"', '\n{"workload"')
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Measure into a file, or be one of the runs."""
    if sys.argv[1] == "--run":
        print(json.dumps(run(sys.argv[2], int(sys.argv[3]))))
    else:
        write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
