"""Measure the first hour of a new user on this machine: how often the first gate is red, and how long it takes.

    python benchmarks/first_hour.py [--unchanged 10] [--slower 3] [--way advised|stored|paired] [--threads]

It sets up a repository with a training on the CPU, follows the advice of `perfgate init`, and judges pull requests as
the action does: some that change a comment, and some that make a step 20 % slower. It prints the exit codes, and how
long everything took. docs/how-to/noisy-runner.md shows the figures.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: A small network in plain Python: one thread, and no package but perfgate.
PLAIN = """\
import random, sys

import perfgate

UNITS = {units}
source = random.Random(0)
batch = [[source.gauss(0, 1) for _ in range(24)] for _ in range(8)]
weights = [[source.gauss(0, 0.2) for _ in range(24)] for _ in range(UNITS)]


def forward():
    return [[sum(map(float.__mul__, row, unit)) for unit in weights] for row in batch]


def backward(outputs):
    for number, unit in enumerate(weights):
        error = sum(output[number] for output in outputs) * 1e-6
        for i in range(len(unit)):
            unit[i] -= error


with perfgate.Recorder(sys.argv[1]) as rec:
    for step in range(60):
        with rec.step_span():
            with rec.span("forward"):
                outputs = forward()
            with rec.span("backward"):
                backward(outputs)
"""

#: The same with NumPy, which uses all processors.
THREADS = """\
import sys

import numpy as np

import perfgate

UNITS = {units}
source = np.random.default_rng(0)
batch, target = source.standard_normal((256, 128)), source.standard_normal((256, 10))
first, second = source.standard_normal((128, 2 * UNITS)) / 11, source.standard_normal((2 * UNITS, 10)) / 16

with perfgate.Recorder(sys.argv[1]) as rec:
    for step in range(60):
        with rec.step_span():
            with rec.span("forward"):
                hidden = np.maximum(batch @ first, 0)
                output = hidden @ second
            with rec.span("backward"):
                error = (output - target) / len(batch)
                second -= 0.01 * hidden.T @ error
                first -= 0.01 * batch.T @ ((error @ second.T) * (hidden > 0))
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One pull request: its exit code, how many runs or pairs were made, and how long it took, in seconds."""

    code: int
    runs: int
    seconds: float


class Trial:
    """A repository in a folder, in which commands run as a user types them."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder, self.program = folder, program
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self.run("git", "init", "-q", "-b", "main")
        self.run("git", "config", "user.name", "ada")
        self.run("git", "config", "user.email", "ada@example.org")
        (folder / ".gitignore").write_text("*.json\nperfgate-runs/\n!baselines/**\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the repository."""
        return subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)

    def perfgate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run perfgate in the repository."""
        return self.run(sys.executable, "-m", "perfgate", *words)

    def commit(self, units: int, note: str, branch: str = "") -> None:
        """Write the program, and commit everything but the measurements."""
        if branch:
            self.run("git", "switch", "-q", "-C", branch, "main")
        (self.folder / "train.py").write_text(f"# {note}\n" + self.program.format(units=units))
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "-m", note)

    def set_up(self, way: str) -> str:
        """Measure three runs and follow the advice of init; returns the way of the gate."""
        (self.folder / "train.py").write_text(self.program.format(units=UNITS))
        runs = [f"main-{number}.json" for number in (1, 2, 3)]
        for run in runs:
            self.run(sys.executable, "train.py", run)
        if way != "paired":
            done = self.perfgate("init", *runs)
            print(f"perfgate init: exit {done.returncode}\n{done.stdout}{done.stderr}")
            if done.returncode == 0:
                return "stored"
            if way == "stored":
                sys.exit("init wrote no gate with stored runs")
        done = self.perfgate("init", "--paired", *runs)
        print(f"perfgate init --paired: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return "paired" if done.returncode == 0 else sys.exit("init wrote no gate")

    def judged(self, way: str) -> Judged:
        """Judge the working tree as the action does."""
        began = time.monotonic()
        command = [sys.executable, "train.py"]
        if way == "paired":
            done = self.perfgate("run", "--paired", "--base-ref", "main", "--", *command, "{results}/run.json")
        else:
            done = self.perfgate("run", "--reruns", "2", "--results", "new.json", "--", *command, "new.json")
        made = len(list((self.folder / "perfgate-runs").glob("pair-*.json" if way == "paired" else "run-*")))
        seconds = time.monotonic() - began
        shown = next((line for line in done.stdout.splitlines() if "step.time median" in line), "")
        print(f"  exit {done.returncode}  {made} made  {seconds:4.0f} s  {shown.strip()}", flush=True)
        if not made:
            print(done.stdout + done.stderr)
        return Judged(done.returncode, made, seconds)


#: The size of the network, and of the slower one.
UNITS, SLOWER_UNITS = 200, 240


def main() -> None:
    """Print how often unchanged and slower pull requests end with each exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unchanged", type=int, default=10, metavar="N")
    parser.add_argument("--slower", type=int, default=3, metavar="N")
    parser.add_argument("--way", choices=["advised", "stored", "paired"], default="advised")
    parser.add_argument("--threads", action="store_true", help="a program that uses all processors")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), THREADS if asked.threads else PLAIN)
        way = trial.set_up(asked.way)
        trial.commit(UNITS, "the program and its gate")
        print(f"the gate was ready after {(time.monotonic() - began) / 60:.1f} minutes; load {os.getloadavg()[0]:.1f}")
        for name, count, units in (("unchanged", asked.unchanged, UNITS), ("+20%", asked.slower, SLOWER_UNITS)):
            print(f"{name}:")
            found = []
            for number in range(count):
                trial.commit(units, f"{name} {number}", branch=f"change-{number}")
                found.append(trial.judged(way))
            codes = collections.Counter(one.code for one in found)
            shown = ", ".join(f"exit {code}: {times}" for code, times in sorted(codes.items()))
            seconds = sum(one.seconds for one in found) / max(len(found), 1)
            runs = sum(one.runs for one in found) / max(len(found), 1)
            print(f"{name}, {way}: {shown}; {runs:.1f} runs or pairs and {seconds:.0f} s each")
        print(f"{(time.monotonic() - began) / 60:.1f} minutes in all; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
