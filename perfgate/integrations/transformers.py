"""A callback for the Trainer of Hugging Face transformers.

from perfgate.integrations.transformers import RecorderCallback

Trainer(model, args, callbacks=[RecorderCallback("run/results.json")]).train()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from perfgate.core.runs import Fact
from perfgate.integrations.phases import Phases
from perfgate.recorder.recorder import STEP_TIME, Recorder

_ON_GPU = ("forward_backward", "optimizer_step")


class RecorderCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not there when types are checked
    """Records the steps of `Trainer.train`: every rank into a file of its own, made when training begins.

    | metric | from | to |
    |---|---|---|
    | `step.time` | the start of an optimizer's step, its batches loaded | its end |
    | `forward_backward` | the start of a batch | its gradients are ready, clipped if they are the last |
    | `optimizer_step` | the gradients are ready | the optimizer has stepped |
    | `data_load` | the end of a step, or of what followed it (logging, evaluation, saving) | the next one's start |
    | `epoch` | the start of an epoch | its end |

    Each step of the optimizer is a step, with the Trainer's own number; with gradient accumulation it has several
    values of `forward_backward`. On a CUDA device, `forward_backward` and `optimizer_step` are times on the GPU
    (`Recorder.cuda_span`); nothing is synchronised. A training that ends in an exception leaves the recording unclosed,
    and reading warns. One callback records one training. `path`, `environment` and `commit` are those of
    `perfgate.Recorder`; `recorder` is open while training, for spans and values of your own.

    Raises RecorderError if the file cannot be had when training begins.
    """

    recorder: Recorder

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

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the recording of this rank."""
        self.recorder = Recorder(
            self._path,
            rank=args.process_index,
            world_size=args.world_size,
            environment=self._environment,
            commit=self._commit,
        )
        self._phases = Phases(self.recorder, _ON_GPU if args.device.type == "cuda" else ())
        self.recorder.step(state.global_step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin an epoch, and to load its first batches."""
        self._phases.begin("epoch")
        self._phases.begin("data_load")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The batches of a step are loaded; it begins."""
        self._phases.end("data_load")
        self._phases.begin(STEP_TIME)
        self._phases.begin("forward_backward")

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A batch of the step has gradients, and the next one follows."""
        self._phases.end("forward_backward")
        self._phases.begin("forward_backward")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The gradients are ready."""
        self._phases.end("forward_backward")
        self._phases.begin("optimizer_step")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimizer has stepped."""
        self._phases.end("optimizer_step")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The step ends, which the Trainer has counted."""
        self._phases.end(STEP_TIME)
        self.recorder.step(state.global_step)
        self._phases.begin("data_load")

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Logging has ended."""
        self._phases.begin_again("data_load")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation has ended."""
        self._phases.begin_again("data_load")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A checkpoint is saved."""
        self._phases.begin_again("data_load")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The epoch ends; its last batches were loaded before."""
        self._phases.drop("data_load")
        self._phases.end("epoch")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the recording."""
        self.recorder.close()
