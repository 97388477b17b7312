"""Train a small GPT on one GPU under torch.profiler, and keep the trace of five steps.

`--attention plain` is a real regression: attention as three calls instead of one fused kernel::

    python train.py runs/main-1
    python train.py runs/slow --attention plain
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule

LAYERS, WIDTH, HEADS, VOCABULARY = 1, 768, 12, 8192
BATCH, LENGTH = 48, 1024
#: The profiler skips the first steps, and keeps five.
WAIT, WARMUP, ACTIVE = 20, 4, 5


class Block(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.attention = attention
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inputs, self.outputs = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output for a batch, (batch, length, width)."""
        parts = self.inputs(self.norm_1(x)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        x = x + self.outputs(self.attend(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.feed_forward(self.norm_2(x))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return the attention of each head, (batch, heads, length, width of a head)."""
        if self.attention == "fused":
            return functional.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, -1) @ v


class Gpt(nn.Module):
    """The model: it predicts the next token."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block(attention) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next tokens, (batch, length, vocabulary)."""
        return self.head(self.blocks(self.embedding(tokens)))


def main() -> None:
    """Train, and write `trace.json.gz` into a folder."""
    parser = argparse.ArgumentParser(description="Train a small GPT on one GPU under torch.profiler.")
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--attention", choices=["fused", "plain"], default="fused")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Gpt(options.attention).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    options.run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(options.run / "trace.json.gz")),
        with_stack=True,
    ) as profiler:
        for _ in range(WAIT + WARMUP + ACTIVE):
            with record_function("data"):
                tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
            with record_function("forward"):
                scores = model(tokens[:, :-1])
                loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()


if __name__ == "__main__":
    main()
