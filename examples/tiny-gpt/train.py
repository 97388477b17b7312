"""Train a tiny GPT with DeepSpeed on the CPU, and let DeepSpeed log how long each part of a step takes.

The text it learns is this file, byte by byte. With ``wall_clock_breakdown`` DeepSpeed prints, after every step, a line
of timers: those lines are what perfgate reads. ``--slowdown 0.2`` puts a real regression into the forward pass: a
second pass over a fifth of the batch, whose result nobody uses. The logs in ``runs/`` are two ranks on two CPU cores,
one thread each, made by ``make_runs.sh``::

    torchrun --standalone --nproc-per-node 2 train.py > main-1.log
    torchrun --standalone --nproc-per-node 2 train.py --slowdown 0.2 > slow.log
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 256  # bytes
CONTEXT = 64
WIDTH = 128
HEADS = 4
LAYERS = 4
BATCH = 10  # sequences per rank and step


class Block(nn.Module):
    """One transformer layer: causal attention, then a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, WIDTH) to the same shape."""
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm2(x))


class TinyGPT(nn.Module):
    """A byte-level GPT whose forward pass returns its loss, as DeepSpeed likes it."""

    def __init__(self, slowdown: float = 0.0) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))
        self.slowdown = slowdown

    def loss(self, text: Tensor) -> Tensor:
        """Return the mean cross-entropy of each next byte of ``text`` (batch, CONTEXT + 1), in nats."""
        known, wanted = text[:, :-1], text[:, 1:]
        logits = self.head(self.blocks(self.tokens(known) + self.places.weight))
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    def forward(self, text: Tensor) -> Tensor:
        """Return the loss; do useless extra work first if a slowdown was asked for."""
        if wasted := round(self.slowdown * len(text)):
            with torch.no_grad():
                self.loss(text[:wasted])
        return self.loss(text)


def draw_batch(source: Tensor) -> Tensor:
    """Cut BATCH random pieces of CONTEXT + 1 bytes out of ``source``."""
    starts = torch.randint(len(source) - CONTEXT, (BATCH,))
    return torch.stack([source[start : start + CONTEXT + 1] for start in starts])


def configuration(world_size: int) -> dict[str, object]:
    """Return the DeepSpeed configuration: data parallel AdamW in float32, every step timed."""
    return {
        "train_batch_size": BATCH * world_size,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "steps_per_print": 50,
        "wall_clock_breakdown": True,
        "log_level": "info",  # the throughput lines are wanted too
    }


def main() -> None:
    """Train for ``--steps`` steps; the log goes to stdout."""
    parser = argparse.ArgumentParser(description="Train a tiny GPT with DeepSpeed on the CPU.")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--slowdown", type=float, default=0.0, help="extra work in forward, as a share of it")
    options = parser.parse_args()
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    sys.stdout.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]  # the ranks share it: whole lines only
    import deepspeed  # here, so that time_blocks.py can do without it

    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    rank, world_size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
    torch.manual_seed(rank)
    model = TinyGPT(options.slowdown)
    config = configuration(world_size)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    engine.timers.log = functools.partial(engine.timers.log, ranks=list(range(world_size)))  # not only rank 0
    source = torch.tensor(list(Path(__file__).read_bytes()))
    for step in range(1, options.steps + 1):
        loss = engine(draw_batch(source))
        engine.backward(loss)
        engine.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
