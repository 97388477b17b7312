"""Fit a small classifier with Lightning, and record its steps with perfgate's callback.

The data are random numbers whose signs are to be multiplied. `--wasted 2` puts a real regression into the training
step: two more forward passes, whose results nobody uses::

    python train.py runs/main-1.json
    python train.py runs/slow.json --wasted 2
"""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from perfgate.integrations.lightning import RecorderCallback

INPUTS, WIDTH, BATCH = 32, 256, 128


class Classifier(lightning.LightningModule):
    """Three layers, and forward passes that are wasted."""

    def __init__(self, wasted: int) -> None:
        super().__init__()
        self.wasted = wasted
        self.layers = nn.Sequential(
            nn.Linear(INPUTS, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1)
        )

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Return the mean cross-entropy of a batch, in nats."""
        x, sign = batch
        for _ in range(self.wasted):
            self.layers(x)
        return nn.functional.binary_cross_entropy_with_logits(self.layers(x).squeeze(1), sign)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters())


def main() -> None:
    """Fit for `--steps` steps into a file of results."""
    parser = argparse.ArgumentParser(description="Fit a small classifier with Lightning, and record its steps.")
    parser.add_argument("results", help="the file to record into")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--wasted", type=int, default=0, help="forward passes whose results nobody uses")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(0)
    x = torch.randn(64 * BATCH, INPUTS)
    loader = DataLoader(TensorDataset(x, (x[:, :2].prod(1) > 0).float()), batch_size=BATCH)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=options.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[RecorderCallback(options.results, environment={"example": "lightning"})],
    )
    trainer.fit(Classifier(options.wasted), loader)


if __name__ == "__main__":
    main()
