"""A callback for Lightning; it works with both `lightning` and `pytorch_lightning`.

from perfgate.integrations.lightning import RecorderCallback

Trainer(callbacks=[RecorderCallback("run/results.json")]).fit(model)
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from perfgate.integrations.callback import (
    CHECKPOINT_TIME,
    DATA_TIME,
    EVALUATION_TIME,
    RecordingCallback,
    guarded,
    hook,
    opening,
)
from perfgate.integrations.measures import record_peak_memory, record_rates, samples_in, tokens_in
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
    | `data_time` | the end of a batch, or of what followed it (validation, saving) | the start of the next one |
    | `checkpoint_time` | the start of `Trainer.save_checkpoint` | its end |
    | `evaluation_time` | the start of a validation during the training | its end |
    | `epoch` | the start of a training epoch | its end, validation included |

    `samples_per_second` of a step is the first dimension of the batch's tensors, divided by `data_time` + `step.time`;
    there is none if the tensors differ in it. `tokens_per_second` is the same for `input_ids`, padding included. Both
    are of one rank. `memory.peak_allocated` and `memory.peak_reserved` are torch's, of the GPU of this process.

    `compile_time` of a step is what torch.compile took in it. `time.total` is the time of the whole fit, `time.start`
    that before its first epoch, with the sanity check: perfgate computes goodput from them.

    Each batch is a step, numbered from 0. On a CUDA device, `forward`, `backward` and `optimizer_step` are times on the
    GPU (`Recorder.cuda_span`), without synchronisation. With several optimizers, only the last one is recorded, because
    Lightning does not report the end of the others.

    `RecordingCallback` says what happens after an error, and in later and resumed fits. An instance is a Callback of
    the imported Lightning. Raises ModuleNotFoundError if none is installed, and ValueError for an invalid fact or
    commit.
    """

    def __new__(cls, *_: object, **__: object) -> LightningCallback:
        """Make the instance a Callback of every imported Lightning: a Trainer accepts only its own."""
        bases = tuple(module.Callback for module in _lightnings())
        return object.__new__(type(cls.__name__, (cls, *bases), {"__module__": cls.__module__}))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the class that was called: the class of the instance has no name."""
        return _restore, (type(self).__mro__[1],), self.__getstate__()

    @opening
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the recording of this rank."""
        is_cuda = trainer.strategy.root_device.type == "cuda"
        self._open(trainer.global_rank, trainer.world_size, _ON_GPU if is_cuda else ())

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin at the batch that a checkpoint ended with."""
        self._begin_at(trainer.fit_loop.epoch_loop.batch_progress.total.ready)
        trainer.__dict__.setdefault("save_checkpoint", _TimedSave(self, trainer))

    on_train_epoch_start = hook(begin=("epoch", DATA_TIME))

    @guarded
    def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Begin the step."""
        self._begin_step("forward")

    on_before_backward = hook(drop=("optimizer_step",), end=("forward",), begin=("backward",))
    on_after_backward = hook(end=("backward",))
    on_before_optimizer_step = hook(begin=("optimizer_step",))

    @guarded
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any = None, batch: Any = None, *_: Any) -> None:
        """End the step."""
        self._change(drop=("forward",), end=("optimizer_step", STEP_TIME))  # `forward` is open without a backward pass
        self._record_compilation()
        record_rates(self.recorder, self._elapsed(), samples=samples_in(batch), tokens=tokens_in(batch))
        self.recorder.step()
        self._change(begin=(DATA_TIME,))

    @guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a validation; the sanity check belongs to the start."""
        if not getattr(trainer, "sanity_checking", False):
            self._change(begin=(EVALUATION_TIME,))

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End a validation; between two batches it is not loading of data."""
        self._change(end=(EVALUATION_TIME,), restart=(DATA_TIME,))
        self._pass_over_compilation()

    @guarded
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """End the epoch."""
        self._change(drop=(DATA_TIME,), end=("epoch",))
        record_peak_memory(self.recorder)

    @guarded
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the recording."""
        self._leave(trainer)
        self._close()

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Keep the recorded values, and leave the recording unclosed."""
        self._leave(trainer)
        record_peak_memory(self.recorder)
        self._abort()

    def _leave(self, trainer: Any) -> None:
        """Give the trainer its own `save_checkpoint` back."""
        save = trainer.__dict__.get("save_checkpoint")
        if isinstance(save, _TimedSave) and save.callback is self:
            del trainer.__dict__["save_checkpoint"]

    _begin_saving = hook(begin=(CHECKPOINT_TIME,))
    _end_saving = hook(end=(CHECKPOINT_TIME,), restart=(DATA_TIME,))


#: The public name, the same for each framework.
RecorderCallback = LightningCallback


class _TimedSave:
    """Replaces `save_checkpoint` of one trainer while it fits: Lightning has no hook at the end of it."""

    def __init__(self, callback: LightningCallback, trainer: Any) -> None:
        self.callback, self._trainer = callback, trainer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.callback._begin_saving()
        result = type(self._trainer).save_checkpoint(self._trainer, *args, **kwargs)
        self.callback._end_saving()
        return result


def _restore(cls: type[LightningCallback]) -> LightningCallback:
    return cls.__new__(cls)


def _lightnings() -> list[Any]:
    """Return each imported Lightning; if there is none, import an installed one."""
    found = [sys.modules[name] for name in _LIGHTNINGS if name in sys.modules]
    if found:
        return found
    installed = next((name for name in _LIGHTNINGS if find_spec(name.split(".")[0])), _LIGHTNINGS[0])
    return [import_module(installed)]
