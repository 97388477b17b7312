"""Programs whose steps take longer by a known share: `python workloads.py NAME FOLDER [SLOWER]` (.05 is 5 % slower).

A step repeats one unit of work a hundred times, and a slower one repeats it more often, so that the change is known by
construction. Some milliseconds a step, recorded in FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from perfgate import Recorder

STEPS, UNITS = 200, 100
Step = Callable[[], object]


def busy_loop(units: int) -> Step:
    """Sums of the interpreter: what is as sensitive as it gets to where a process has its memory."""

    def step() -> int:
        total = 0
        for number in range(400 * units):
            total += number
        return total

    return step


def training(units: int) -> Step:
    """A step of training with torch on one thread, through as many layers of one weight as there are units."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    batch, weight = torch.randn(32, 64), torch.nn.Parameter(torch.randn(64, 64) / 64)
    optimizer = torch.optim.SGD([weight], lr=1e-3)

    def step() -> None:
        hidden = batch
        for _ in range(units):
            hidden = hidden + torch.relu(hidden @ weight)
        hidden.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


WORKLOADS: dict[str, Callable[[int], Step]] = {"busy-loop": busy_loop, "training": training}


def slower_step(workload: str, slower: float) -> Step:
    """A step of the workload that does so much more."""
    return WORKLOADS[workload](round(UNITS * (1 + slower)))


def main() -> None:
    """Record the steps."""
    workload, folder, slower = (*sys.argv[1:], "0")[:3]
    step = slower_step(workload, float(slower))
    with Recorder(Path(folder) / "results.json") as recorder:
        for _ in range(STEPS):
            with recorder.step_span():
                step()


if __name__ == "__main__":
    main()
