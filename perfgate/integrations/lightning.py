"""A callback for Lightning, `lightning` and `pytorch_lightning` alike.

from perfgate.integrations.lightning import RecorderCallback

Trainer(callbacks=[RecorderCallback("run/results.json")]).fit(model)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from perfgate.core.runs import Fact
from perfgate.integrations.phases import Phases
from perfgate.recorder.recorder import STEP_TIME, Recorder

_ON_GPU = ("forward", "backward", "optimizer_step")
_LIGHTNINGS = ("lightning.pytorch", "pytorch_lightning")


class RecorderCallback:
    """Records the steps of `Trainer.fit`: every rank into a file of its own, made when fitting begins.

    | metric | from | to |
    |---|---|---|
    | `step.time` | the start of a training batch | its end |
    | `forward` | the start of the batch | the first backward pass in it |
    | `backward` | its beginning | its end, communication included |
    | `optimizer_step` | the gradients are ready | the end of the batch |
    | `data_load` | the end of a batch, or of the validation after it | the start of the next one |
    | `epoch` | the start of a training epoch | its end, validation included |

    Each batch is a step, numbered from 0. On a CUDA device, `forward`, `backward` and `optimizer_step` are times on the
    GPU (`Recorder.cuda_span`); nothing is synchronised. Of several optimizers, only the last one's step has an end that
    Lightning tells of, so the others are not recorded. A fit that ends in an exception leaves the recording unclosed,
    and reading warns. One callback records one fit. `path`, `environment` and `commit` are those of
    `perfgate.Recorder`; `recorder` is open while fitting, for spans and values of your own.

    An instance is a Callback of the Lightning that the program has imported. Raises ModuleNotFoundError if none is
    installed, RecorderError if the file cannot be had when fitting begins.
    """

    recorder: Recorder

    def __new__(cls, *_: object, **__: object) -> RecorderCallback:
        """An instance that is a Callback, too, of every Lightning in use: a Trainer takes no other one's."""
        bases = tuple(module.Callback for module in _lightnings())
        return object.__new__(type(cls.__name__, (cls, *bases), {"__module__": cls.__module__}))

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        environment: Mapping[str, Fact] | None = None,
        commit: str | None = None,
    ) -> None:
        self._path = path
        self._environment = environment
        self._commit = commit

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the recording of this rank."""
        self.recorder = Recorder(
            self._path,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
            environment=self._environment,
            commit=self._commit,
        )
        self._phases = Phases(self.recorder, _ON_GPU if trainer.strategy.root_device.type == "cuda" else ())

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin an epoch, and to load its first batch."""
        self._phases.begin("epoch")
        self._phases.begin("data_load")

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """The batch is loaded; the step begins."""
        self._phases.end("data_load")
        self._phases.begin(STEP_TIME)
        self._phases.begin("forward")

    def on_before_backward(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """The forward pass has ended."""
        self._phases.drop("optimizer_step")
        self._phases.end("forward")
        self._phases.begin("backward")

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """The backward pass has ended."""
        self._phases.end("backward")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """The optimizer is about to step."""
        self._phases.begin("optimizer_step")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """The step ends."""
        self._phases.drop("forward")
        self._phases.end("optimizer_step")
        self._phases.end(STEP_TIME)
        self.recorder.step()
        self._phases.begin("data_load")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Validation between two batches is no loading of data."""
        self._phases.begin_again("data_load")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """The epoch ends."""
        self._phases.drop("data_load")
        self._phases.end("epoch")

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the recording."""
        self.recorder.close()

    def on_exception(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Keep what was recorded, and leave it unclosed: the fit has not come to its end."""
        if hasattr(self, "recorder"):
            self.recorder.abort()


def _lightnings() -> list[Any]:
    """The Lightnings that the program has imported; else the one that is installed."""
    found = [sys.modules[name] for name in _LIGHTNINGS if name in sys.modules]
    if found:
        return found
    installed = next((name for name in _LIGHTNINGS if find_spec(name.split(".")[0])), _LIGHTNINGS[0])
    return [import_module(installed)]
