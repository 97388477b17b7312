"""A callback for the Trainer of Hugging Face transformers.

from perfgate.integrations.transformers import RecorderCallback

Trainer(model, args, callbacks=[RecorderCallback("run/results.json")]).train()
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from perfgate.integrations.callback import RecordingCallback, hook
from perfgate.recorder.recorder import STEP_TIME

_ON_GPU = ("forward_backward", "optimizer_step")


class TransformersCallback(RecordingCallback, TrainerCallback):  # type: ignore[misc]  # mypy runs without transformers
    """Records the steps of `Trainer.train`. Each rank writes its own file, which is created when training begins.

    | metric | from | to |
    |---|---|---|
    | `step.time` | the start of an optimizer's step, its batches loaded | its end |
    | `forward_backward` | the start of a batch | its gradients are ready, clipped if they are the last |
    | `optimizer_step` | the gradients are ready | the optimizer has stepped |
    | `data_load` | the end of a step, or of what followed it (logging, evaluation, saving) | the next one's start |
    | `epoch` | the start of an epoch | its end |

    Each step of the optimizer is a step, with the Trainer's own number. With gradient accumulation, a step has several
    values of `forward_backward`. On a CUDA device, `forward_backward` and `optimizer_step` are times on the GPU
    (`Recorder.cuda_span`), without synchronisation. After an exception the recording stays unclosed, and reading warns.
    One callback records one training. `path`, `environment` and `commit` are those of `perfgate.Recorder`; `recorder`
    is open while training, for your own spans and values.

    Raises RecorderError if the file cannot be written when training begins.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the recording of this rank."""
        self._open(args.process_index, args.world_size, _ON_GPU if args.device.type == "cuda" else ())
        self.recorder.step(state.global_step)

    on_epoch_begin = hook(begin=("epoch", "data_load"))
    on_step_begin = hook(end=("data_load",), begin=(STEP_TIME, "forward_backward"))
    on_substep_end = hook(end=("forward_backward",), begin=("forward_backward",))
    on_pre_optimizer_step = hook(end=("forward_backward",), begin=("optimizer_step",))
    on_optimizer_step = hook(end=("optimizer_step",))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the step, which the Trainer has counted."""
        self._change(end=(STEP_TIME,))
        self.recorder.step(state.global_step)
        self._change(begin=("data_load",))

    # Logging, evaluation and saving are not loading of data. At the end of an epoch, its last batches are loaded.
    on_log = on_evaluate = on_save = hook(restart=("data_load",))
    on_epoch_end = hook(drop=("data_load",), end=("epoch",))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the recording."""
        self.recorder.close()


#: The public name, the same for each framework.
RecorderCallback = TransformersCallback
