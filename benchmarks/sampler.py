"""The cost of the sampler: `python benchmarks/sampler.py [--rounds 3] [--seconds 60]`.

The CPU time of a sampler of an idle machine is measured beside that of a Python program that only sleeps ten times a
second: nothing in Python that wakes as often can cost less. Both run at the same time. Linux only: the time is that of
the scheduler, in /proc/PID/schedstat, because the other clocks of a process count in steps of 10 ms.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLEEP = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a program, and wait until it is ready."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """The CPU time of a process so far, in s."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def measure(processes: Mapping[str, subprocess.Popen[bytes]], seconds: float) -> dict[str, float]:
    """The CPU time of each process in some seconds, as a share of one processor."""
    before, began = {name: cpu_seconds(process) for name, process in processes.items()}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: (cpu_seconds(process) - before[name]) / took for name, process in processes.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json.machine")
        sampler = ["-m", "perfgate.machine.sampler"]
        start([*sampler, str(Path(folder, "first"))]).communicate()  # compiles the modules
        processes = {"sampler": start([*sampler, str(path)]), "only sleeps": start(["-c", SLEEP])}
        count = os.cpu_count() or 1
        began = {name: f"{1000 * cpu_seconds(process):.0f} ms" for name, process in processes.items()}
        print(f"| of {count} processors | load | {' | '.join(processes)} |\n|---|---|{'---|' * len(processes)}")
        print(f"| CPU time to start | {os.getloadavg()[0]:.1f} | {' | '.join(began.values())} |")
        for number in range(given.rounds):
            found = measure(processes, given.seconds)
            shares = (f"{100 * share / count:.3f} %" for share in found.values())
            print(
                f"| {given.seconds:g} s, round {number + 1} | {os.getloadavg()[0]:.1f} | {' | '.join(shares)} |",
                flush=True,
            )
        processes["only sleeps"].kill()
        for process in processes.values():
            process.communicate()
        took = given.rounds * given.seconds
        print(f"\n{path.stat().st_size / took:.0f} bytes of results a second, in {took:g} s")


if __name__ == "__main__":
    main()
