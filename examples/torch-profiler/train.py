"""Train a small network under torch.profiler, and keep what the profiler says of it.

Perfgate's handler records how long each profiled step took and writes the traces; torch's own table of operators is
stored beside it, and both together are one run. `--slowdown 1` puts a real regression into the forward pass: it is made
twice, and nobody uses the first result::

    python train.py runs/main-1
    python train.py runs/slow --slowdown 1 --traces traces
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

from perfgate import Recorder
from perfgate.integrations.torch_profiler import trace_handler

INPUTS, WIDTH, BATCH = 32, 256, 128
#: The profiler looks at the last steps of every cycle, three cycles long.
WAIT, WARMUP, ACTIVE, CYCLES = 2, 2, 16, 3


def train(rec: Recorder, traces: str, slowdown: float) -> str:
    """Train for as long as the profiler looks, and return the operators of the last cycle, as torch prints them."""
    model = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tables = []
    handle = trace_handler(rec, traces)

    def ready(profiler: torch.profiler.profile) -> None:
        handle(profiler)
        tables.append(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=12))

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=CYCLES),
        on_trace_ready=ready,
    ) as profiler:
        for _ in range(CYCLES * (WAIT + WARMUP + ACTIVE)):
            x = torch.randn(BATCH, INPUTS)
            if repeated := round(slowdown * BATCH):
                model(x[:repeated])
            loss = nn.functional.mse_loss(model(x).squeeze(1), x[:, :2].prod(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    return tables[-1]


def main() -> None:
    """Train into a folder: `results.json` and `operators.txt` are one run."""
    parser = argparse.ArgumentParser(description="Train a small network under torch.profiler.")
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--traces", help="a folder for the traces (default: they are thrown away)")
    parser.add_argument("--slowdown", type=float, default=0.0, help="extra work in forward, as a share of it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    recorder = Recorder(options.run / "results.json", environment={"example": "torch-profiler"})
    with recorder as rec, tempfile.TemporaryDirectory() as scratch:
        table = train(rec, options.traces or scratch, options.slowdown)
    (options.run / "operators.txt").write_text(table + "\n")


if __name__ == "__main__":
    main()
