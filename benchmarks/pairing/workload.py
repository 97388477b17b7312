"""A busy loop of a few milliseconds a step, recorded: `python workload.py FOLDER [SLOWDOWN]` (1.05 is 5 % slower)."""

from __future__ import annotations

import sys
from pathlib import Path

from perfgate import Recorder

STEPS = 200
TURNS_OF_THE_LOOP = 40_000


def step(turns: int) -> int:
    """Work that takes as long as it has turns."""
    total = 0
    for number in range(turns):
        total += number
    return total


def main() -> None:
    """Record the steps."""
    turns = round(TURNS_OF_THE_LOOP * float(sys.argv[2] if len(sys.argv) > 2 else 1))
    with Recorder(Path(sys.argv[1]) / "results.json") as recorder:
        for _ in range(STEPS):
            with recorder.step_span():
                step(turns)


if __name__ == "__main__":
    main()
