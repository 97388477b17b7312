"""Small models and data for real trainings; they can be sent to another process. Needs torch."""

from __future__ import annotations

from functools import cache
from time import sleep
from typing import Any

import torch
from frameworks import SAVING, TOKENS


class Texts(torch.utils.data.Dataset):
    """Texts of 7 tokens."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": torch.arange(TOKENS), "labels": torch.tensor([float(index)])}


class Plain(torch.nn.Module):
    """A model of one weight for transformers."""

    main_input_name = "input_ids"

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.fail_at, self.batches = fail_at, 0

    def forward(self, input_ids: Any, labels: Any = None) -> dict[str, Any]:
        if self.batches == self.fail_at:
            raise KeyError("the model failed")
        self.batches += self.training
        found = self.layer(input_ids.float().mean(1, keepdim=True))
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}


def slow_saving(base: Any) -> Any:
    """A callback of transformers that makes saving slow: it comes before ours."""

    class Slow(base):  # type: ignore[misc]
        def on_save(self, *_: Any, **__: Any) -> None:
            sleep(SAVING / 1000)

    return Slow()


@cache
def lightning_model(package: Any) -> Any:
    """The class of a model of one weight for one of the Lightnings."""

    class Model(package.LightningModule):  # type: ignore[misc]
        def __init__(self, fail_at: int | None = None) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.fail_at = fail_at

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == self.fail_at:
                raise KeyError("the model failed")
            return self.layer(batch["input_ids"].float().mean(1, keepdim=True)).sum()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            pass

        def on_save_checkpoint(self, checkpoint: Any) -> None:
            sleep(SAVING / 1000)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-5)

    return Model
