"""Write pairs of traces of a small transformer on the CPU, each with one known change, for `causes.py`.

    python benchmarks/cause_programs.py FOLDER [--only NAME] [--runs 2] [--steps 6]
    python benchmarks/causes.py FOLDER

It needs torch, for the CPU. Each run is a process of its own. `VARIANTS` are the changes, with their kind and place.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: By name: the kind of the change, and the words of its place.
VARIANTS: dict[str, tuple[str, list[list[str]]]] = {
    "unchanged": ("none", []),
    "checkpoint": ("repeated", [["backward"]]),
    "zero_grad": ("zeroed", [["backward", "optimizer"]]),
    "clone": ("appeared", [["forward", "backward"]]),
    "loop_adam": ("replaced", [["optimizer"]]),
    "slow_loader": ("stall", [["loader"]]),
}
_WIDTH, _LAYERS, _BATCH, _LENGTH, _VOCAB = 128, 3, 8, 64, 512


def train(variant: str, steps: int, trace: Path) -> None:
    """Train a small transformer, and write the trace of its steps."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule
    from torch.utils.checkpoint import checkpoint

    class Tokens(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, at: int) -> Any:
            time.sleep(0.04 if variant == "slow_loader" else 0.0)
            return torch.randint(_VOCAB, (_LENGTH + 1,), generator=torch.Generator().manual_seed(at))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    blocks = nn.ModuleList(nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, 0.0) for _ in range(_LAYERS))
    model = nn.ModuleList([nn.Embedding(_VOCAB, _WIDTH), blocks, nn.Linear(_WIDTH, _VOCAB)])
    fused = {"foreach": False, "fused": False} if variant == "loop_adam" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, **fused)
    batches = iter(torch.utils.data.DataLoader(Tokens(), _BATCH, num_workers=1))

    def forward(tokens: Any) -> Any:
        x = model[0](tokens[:, :-1])
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if variant == "checkpoint" else block(x)
            x = x.clone().contiguous().clone() if variant == "clone" else x
        return nn.functional.cross_entropy(model[2](x).view(-1, _VOCAB), tokens[:, 1:].reshape(-1))

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=3, warmup=2, active=steps)) as profiler:
        for _ in range(steps + 5):
            with record_function("data"):
                tokens = next(batches)
            with record_function("forward"):
                loss = forward(tokens)
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=variant != "zero_grad")
            profiler.step()
    profiler.export_chrome_trace(str(trace))


def write(folder: Path, variant: str, runs: int, steps: int) -> None:
    """Write one pair: runs of the base and of the variant by turns."""
    kind, where = VARIANTS[variant]
    for run in range(runs):
        for side, which in (("base", "unchanged"), ("new", variant)):
            place = folder / variant / side / f"run{run}"
            place.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, __file__, str(place / "rank0.json"), "--train", which, "--steps", str(steps)]
            subprocess.run(command, check=True)
    (folder / variant / "truth.json").write_text(json.dumps({"kind": kind, "where": where}), encoding="utf-8")


def main() -> None:
    """Write the pairs, or train as one of their runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=list(VARIANTS))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--train", choices=list(VARIANTS), help="train, and write the trace to FOLDER, a file")
    options = parser.parse_args()
    if options.train:
        train(options.train, options.steps, options.folder)
        return
    for variant in [options.only] if options.only else VARIANTS:
        write(options.folder, variant, options.runs, options.steps)


if __name__ == "__main__":
    main()
