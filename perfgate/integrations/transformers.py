"""A callback for the Trainer of Hugging Face transformers.

from perfgate.integrations.transformers import RecorderCallback

Trainer(model, args, callbacks=[RecorderCallback("run/results.json")]).train()
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from perfgate.integrations.callback import RecordingCallback
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

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin an epoch, and the loading of its first batches."""
        self._phases.begin("epoch")
        self._phases.begin("data_load")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin a step: its batches are loaded."""
        self._phases.end("data_load")
        self._phases.begin(STEP_TIME)
        self._phases.begin("forward_backward")

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End one batch of the step; the next one follows."""
        self._phases.end("forward_backward")
        self._phases.begin("forward_backward")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin the optimizer's step: the gradients are ready."""
        self._phases.end("forward_backward")
        self._phases.begin("optimizer_step")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the optimizer's step."""
        self._phases.end("optimizer_step")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the step, which the Trainer has counted."""
        self._phases.end(STEP_TIME)
        self.recorder.step(state.global_step)
        self._phases.begin("data_load")

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Restart the loading of data after logging, evaluation and saving."""
        self._phases.begin_again("data_load")

    on_evaluate = on_save = on_log

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the epoch; its last batches are already loaded."""
        self._phases.drop("data_load")
        self._phases.end("epoch")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the recording."""
        self.recorder.close()


#: The public name, the same for each framework.
RecorderCallback = TransformersCallback
