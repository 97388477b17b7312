"""A callback for the Trainer of Hugging Face transformers.

from perfgate.integrations.transformers import RecorderCallback

Trainer(model, args, callbacks=[RecorderCallback("run/results.json")]).train()
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from perfgate.integrations.callback import (
    CHECKPOINT_TIME,
    DATA_TIME,
    EVALUATION_TIME,
    RecordingCallback,
    guarded,
    hook,
    opening,
)
from perfgate.integrations.measures import SAMPLES_PER_SECOND, record_peak_memory, record_rates
from perfgate.recorder.recorder import STEP_TIME

_ON_GPU = ("forward_backward", "optimizer_step")


class TransformersCallback(RecordingCallback, TrainerCallback):  # type: ignore[misc]  # mypy runs without transformers
    """Records the steps of `Trainer.train`. Each rank writes its own file, which is created when training begins.

    | metric | from | to |
    |---|---|---|
    | `step.time` | the start of an optimizer's step, its batches loaded | its end |
    | `forward_backward` | the start of a batch | its gradients are ready, clipped if they are the last |
    | `optimizer_step` | the gradients are ready | the optimizer has stepped |
    | `data_time` | the end of a step, or of what followed it (logging, evaluation, saving) | the next one's start |
    | `checkpoint_time` | the end of a step and of its logging and evaluation | the checkpoint is saved |
    | `evaluation_time` | the start of an evaluation during the training | its end, as the Trainer measures it |
    | `epoch` | the start of an epoch | its end |

    `samples_per_second` of a step is the batch size of the arguments, with gradient accumulation, divided by
    `data_time` + `step.time`. The last step of an epoch has none, because its batch may be smaller.
    `tokens_per_second` needs `include_num_input_tokens_seen=True`; it is the even share of one rank. Both are of one
    rank. `memory.peak_allocated` and `memory.peak_reserved` are torch's, of the GPU of this process.

    `compile_time` of a step is what torch.compile took in it. `time.total` is the time of the whole training; perfgate
    computes goodput from it.

    Each step of the optimizer is a step, with the Trainer's own number. With gradient accumulation, a step has several
    values of `forward_backward`. On a CUDA device, `forward_backward` and `optimizer_step` are times on the GPU
    (`Recorder.cuda_span`), without synchronisation.

    `RecordingCallback` says what happens after an error, and in later and resumed trainings. Raises ValueError for an
    invalid fact or commit.
    """

    @opening
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the recording of this rank."""
        self._open(args.process_index, args.world_size, _ON_GPU if args.device.type == "cuda" else ())
        self._tokens = int(getattr(state, "num_input_tokens_seen", 0))
        self._batches = 1
        #: The number and the samples per second of the step before, until it is known that its batches were full.
        self._rate: tuple[int, float] | None = None
        self._begin_at(state.global_step)

    on_epoch_begin = hook(begin=("epoch", DATA_TIME))

    @guarded
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin a step; the step before was not the last of its epoch, so its batches were full."""
        if self._rate:
            step, samples_per_second = self._rate
            self.recorder.record(SAMPLES_PER_SECOND, samples_per_second, unit="samples/s", step=step)
        self._begin_step("forward_backward")
        self._rate, self._batches = None, 1

    @guarded
    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a batch of several in one step."""
        self._change(end=("forward_backward",), begin=("forward_backward",))
        self._batches += 1

    on_pre_optimizer_step = hook(end=("forward_backward",), begin=("optimizer_step",))
    on_optimizer_step = hook(end=("optimizer_step",))

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the step, which the Trainer has counted."""
        self._change(end=(STEP_TIME,))
        self._record_compilation()
        nanoseconds = self._elapsed()
        tokens = int(getattr(state, "num_input_tokens_seen", 0))
        record_rates(self.recorder, nanoseconds, tokens=(tokens - self._tokens) // max(1, args.world_size))
        samples = (getattr(state, "train_batch_size", None) or args.train_batch_size) * self._batches
        self._rate = (self.recorder.current_step, samples * 1e9 / nanoseconds) if nanoseconds else None
        self._tokens = tokens
        self.recorder.step(state.global_step)
        self._change(begin=(DATA_TIME, CHECKPOINT_TIME))

    # Logging, evaluation and saving are not loading of data, so its span begins again after each of them.
    on_log = hook(restart=(DATA_TIME, CHECKPOINT_TIME))

    @guarded
    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        """Record the time of an evaluation."""
        names = [name for name in metrics or {} if name.startswith("eval_") and name.endswith("runtime")]
        if names:
            seconds = sum(float(metrics[name]) for name in names)
            self.recorder.record(EVALUATION_TIME, seconds, unit="s")
        self._pass_over_compilation()
        self._change(restart=(DATA_TIME, CHECKPOINT_TIME))

    on_save = hook(end=(CHECKPOINT_TIME,), restart=(DATA_TIME,))

    @guarded
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the epoch; a checkpoint may follow."""
        self._rate = None  # its last batch may be smaller
        self._change(drop=(DATA_TIME,), end=("epoch",), begin=(CHECKPOINT_TIME,))
        record_peak_memory(self.recorder)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the recording."""
        self._close()


#: The public name, the same for each framework.
RecorderCallback = TransformersCallback
