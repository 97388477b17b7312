"""A callback for Lightning; it works with both `lightning` and `pytorch_lightning`.

from perfgate.integrations.lightning import RecorderCallback

Trainer(callbacks=[RecorderCallback("run/results.json")]).fit(model)
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from perfgate.integrations.callback import RecordingCallback, hook
from perfgate.recorder.recorder import STEP_TIME

_ON_GPU = ("forward", "backward", "optimizer_step")
_LIGHTNINGS = ("lightning.pytorch", "pytorch_lightning")


class LightningCallback(RecordingCallback):
    """Records the steps of `Trainer.fit`. Each rank writes its own file, which is created when fitting begins.

    | metric | from | to |
    |---|---|---|
    | `step.time` | the start of a training batch | its end |
    | `forward` | the start of the batch | the first backward pass in it |
    | `backward` | its beginning | its end, communication included |
    | `optimizer_step` | the gradients are ready | the end of the batch |
    | `data_load` | the end of a batch, or of the validation after it | the start of the next one |
    | `epoch` | the start of a training epoch | its end, validation included |

    Each batch is a step, numbered from 0. On a CUDA device, `forward`, `backward` and `optimizer_step` are times on the
    GPU (`Recorder.cuda_span`), without synchronisation. With several optimizers, only the last one is recorded, because
    Lightning does not report the end of the others. After an exception the recording stays unclosed, and reading warns.
    One callback records one fit. `path`, `environment` and `commit` are those of `perfgate.Recorder`; `recorder` is
    open while fitting, for your own spans and values.

    An instance is a Callback of the imported Lightning. Raises ModuleNotFoundError if none is installed, and
    RecorderError if the file cannot be written when fitting begins.
    """

    def __new__(cls, *_: object, **__: object) -> LightningCallback:
        """Make the instance a Callback of every imported Lightning: a Trainer accepts only its own."""
        bases = tuple(module.Callback for module in _lightnings())
        return object.__new__(type(cls.__name__, (cls, *bases), {"__module__": cls.__module__}))

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the recording of this rank."""
        is_cuda = trainer.strategy.root_device.type == "cuda"
        self._open(trainer.global_rank, trainer.world_size, _ON_GPU if is_cuda else ())

    on_train_epoch_start = hook(begin=("epoch", "data_load"))
    on_train_batch_start = hook(end=("data_load",), begin=(STEP_TIME, "forward"))
    on_before_backward = hook(drop=("optimizer_step",), end=("forward",), begin=("backward",))
    on_after_backward = hook(end=("backward",))
    on_before_optimizer_step = hook(begin=("optimizer_step",))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """End the step."""
        self._change(drop=("forward",), end=("optimizer_step", STEP_TIME))
        self.recorder.step()
        self._change(begin=("data_load",))

    # Validation between two batches is not loading of data.
    on_validation_end = hook(restart=("data_load",))
    on_train_epoch_end = hook(drop=("data_load",), end=("epoch",))

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the recording."""
        self.recorder.close()

    def on_exception(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Keep the recorded values, and leave the recording unclosed."""
        if hasattr(self, "recorder"):
            self.recorder.abort()


#: The public name, the same for each framework.
RecorderCallback = LightningCallback


def _lightnings() -> list[Any]:
    found = [sys.modules[name] for name in _LIGHTNINGS if name in sys.modules]
    if found:
        return found
    installed = next((name for name in _LIGHTNINGS if find_spec(name.split(".")[0])), _LIGHTNINGS[0])
    return [import_module(installed)]
