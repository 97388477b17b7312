"""Time the forward and the backward pass of the tiny GPT by hand, and write the times as JSON.

There is no DeepSpeed and no optimizer here, only ``time.perf_counter`` around the model of ``train.py``: the kind of
script that most projects have somewhere. The file maps the name of each configuration to what was timed, the raw times
in seconds and their summary; perfgate needs ``computation`` and ``times`` and computes the rest itself::

    python time_blocks.py --warmup 5 > timing.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor
from train import BATCH, CONTEXT, VOCABULARY, TinyGPT

COMPUTATIONS = ("forward", "backward", "forward_backward")


def time_once(model: TinyGPT, text: Tensor, computation: str) -> float:
    """Return the seconds that one ``computation`` takes; a forward pass before a timed backward is not counted."""
    model.zero_grad()
    start = perf_counter()
    loss = model(text)
    if computation == "backward":
        start = perf_counter()
    if computation != "forward":
        loss.backward()
    return perf_counter() - start


def repeat(measure: Callable[[], float], warmup: int, steps: int) -> list[float]:
    """Call ``measure`` ``warmup + steps`` times and keep the last ``steps`` results."""
    return [measure() for _ in range(warmup + steps)][warmup:]


def summary(computation: str, times: list[float]) -> dict[str, object]:
    """Return what is written for one configuration, in seconds."""
    return {
        "computation": computation,
        "times": times,
        "mean_time": statistics.fmean(times),
        "median_time": statistics.median(times),
        "std_dev": statistics.pstdev(times),
        "min_time": min(times),
        "max_time": max(times),
        "total_time": sum(times),
        "profile_steps": len(times),
    }


def main() -> None:
    """Time every computation and print one JSON document."""
    parser = argparse.ArgumentParser(description="Time the passes of the tiny GPT by hand.")
    parser.add_argument("--steps", type=int, default=40, help="timed repetitions (default: 40)")
    parser.add_argument("--warmup", type=int, default=5, help="repetitions before them that are dropped (default: 5)")
    parser.add_argument("--slowdown", type=float, default=0.0, help="as in train.py")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = TinyGPT(options.slowdown)
    text = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    results = {}
    for computation in COMPUTATIONS:
        times = repeat(lambda kind=computation: time_once(model, text, kind), options.warmup, options.steps)
        results[f"tiny_{computation}"] = summary(computation, times)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
