"""The nesting of timers: one table for all frameworks.

A row names timers and the timers around them, the nearest first. A timer is below the first of these that the run has;
without one it is a part of the step itself. Names are metrics as readers give them (`backward`, never `bwd`); an action
of Lightning is known by its hook: `[Strategy]DDPStrategy.backward` by `backward`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct

from perfgate.causes.merged import Floats
from perfgate.core.call_trees import NodeKind

#: Timers of a whole step. What is below them is below the step.
WHOLES = (
    "iteration_time",  # Megatron-LM, `elapsed time per iteration (ms)`
    "train_batch",  # DeepSpeed, runtime/pipe/engine.py
    "batch_time",  # open_clip, training/train.py: data_time and the rest of the loop
    "step.time",  # perfgate's Recorder and callbacks, and torch.profiler's steps
    "run_training_epoch",  # Lightning, since 1.0
    "chat.e2e_latency",  # DeepSpeed-Chat, dschat/utils/perf.py
)
#: The formats whose timer `step` is the update of the parameters.
_STEP_IS_UPDATE = ("deepspeed", "megatron", "lightning")
#: Names that a program gives to a whole step, if its parts fit into it.
PERHAPS_WHOLE = re.compile(r"(?:(?:train(?:ing)?|total|full)[_.-]?)?(?:step|iteration|iter|batch|loop)(?:[_.-]?time)?$")


#: Parts fit into a whole if they are not longer by more than this.
FITS = 1.02


class Timer(Struct, frozen=True):
    """One timer of one rank: the mean of its steady values, and its number of values with the warm-up."""

    name: str
    #: The mean in s and its standard error; `values` are in order of time, and empty for printed or stored statistics.
    mean: float
    error: float
    count: float
    values: Floats

    def per_step(self, steps: float) -> float:
        """The mean time of a step, (s)."""
        return self.mean * self.calls(steps)

    def calls(self, steps: float) -> float:
        """Return the number of its calls in a step. A step that the end of the log cuts does not change it."""
        return 1.0 if abs(self.count - steps) <= 1 else self.count / steps


class NestedTimers(Struct, frozen=True):
    """Some timers and what is around them."""

    names: tuple[str, ...]
    #: The timers around them, the nearest first; empty for parts of the step itself.
    around: tuple[str, ...]
    #: The file that starts and stops them.
    source: str


_OPTIMIZER = ("optimizer",)
_PASSES = ("forward-backward", "forward_backward")
_CLOSURE = ("training_step_and_backward", "optimizer_step_and_closure_0", "optimizer_step", "run_training_batch")
NESTING = (
    # DeepSpeed (deepspeedai/DeepSpeed, deepspeed/)
    NestedTimers(("forward", "backward", "step"), ("train_batch", "batch_time"), "runtime/engine.py, pipe/engine.py"),
    NestedTimers(("backward_inner", "backward_allreduce"), ("backward",), "runtime/engine.py"),
    NestedTimers(
        (
            *("optimizer_allgather", "optimizer_gradients", "optimizer_step", "optimizer_swap_in_state"),
            *("init_optimizer_state", "optimizer_swap_out_state", "optimizer_transmit_time", "optimizer_calc_time"),
            *("optimizer_receive_params_time", "optimizer_update_model_time", "selective_optimizer_update"),
            *("selective_optimizer_process", "selective_optimizer_step", "selective_optimizer_sync"),
        ),
        ("step",),
        "runtime/zero/stage_1_and_2.py, zero/stage3.py, zenflow/zenflow_stage_1_and_2.py",
    ),
    NestedTimers(
        ("overflow_check", "compute_norm", "unscale_and_clip", "basic_step", "update_fp16"),
        ("step",),
        "runtime/fp16/fused_optimizer.py",
    ),
    NestedTimers(
        ("swap_in_param", "swap_out_param", "swap_in_gradient", "swap_out_gradient", "swap_in_state", "swap_out_state"),
        ("step",),
        "runtime/swap_tensor/partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py",
    ),
    NestedTimers(("fwd_moe", "moe"), ("forward",), "runtime/engine.py: print_forward_breakdown"),
    NestedTimers(("1st_a2a", "2nd_a2a", "top_k", "topk_gate"), ("fwd_moe", "moe", "forward"), "moe/sharded_moe.py"),
    NestedTimers(
        ("batch_input", "pipe_send_output", "pipe_send_grad", "pipe_recv_input", "pipe_recv_grad"),
        ("train_batch",),
        "runtime/pipe/engine.py",
    ),
    NestedTimers(("data_time",), ("batch_time",), "open_clip: training/train.py"),
    NestedTimers(
        ("chat.generate_time", "chat.training_time", "chat.gather_latency", "chat.other_time"),
        ("chat.e2e_latency",),
        "DeepSpeed-Chat: dschat/utils/perf.py",
    ),
    # Megatron-LM (NVIDIA/Megatron-LM, megatron/)
    NestedTimers(
        ("forward-backward", "forward_backward", "optimizer"), ("iteration_time",), "training/training.py: train_step"
    ),
    NestedTimers(
        ("forward-compute", "backward-compute", "forward", "backward"),
        (*_PASSES, "iteration_time"),
        "core/pipeline_parallel/schedules.py",
    ),
    NestedTimers(
        (
            *("forward-recv", "forward-send", "backward-recv", "backward-send", "forward-send-backward-recv"),
            *("backward-send-forward-recv", "forward-send-forward-recv", "backward-send-backward-recv"),
            "forward-backward-send-forward-backward-recv",
        ),
        (*_PASSES, "iteration_time"),
        "core/pipeline_parallel/p2p_communication.py",
    ),
    NestedTimers(
        ("batch-generator", "batch generator"),
        ("forward-compute", "forward", "forward-backward", "iteration_time"),
        "pretrain_gpt.py: forward_step",
    ),
    NestedTimers(
        (
            *("all-grads-sync", "layernorm-grads-all-reduce", "embedding-grads-all-reduce"),
            *("conditional-embedder-grads-all-reduce", "non-tensor-parallel-grads-all-reduce"),
            *("backward-params-all-reduce", "backward-embedding-all-reduce", "grads-all-reduce"),
            *("backward-layernorm-all-reduce", "grads-reduce-scatter"),
        ),
        (*_PASSES, "iteration_time"),
        "core/distributed/finalize_model_grads.py",
    ),
    NestedTimers(
        (
            *("optimizer-copy-to-main-grad", "optimizer-unscale-and-check-inf", "optimizer-clip-main-grad"),
            *("optimizer-count-zeros", "optimizer-inner-step", "optimizer-copy-main-to-model-params"),
            "params-all-gather",
        ),
        (*_OPTIMIZER, "iteration_time"),
        "core/optimizer/optimizer.py, distrib_optimizer.py",
    ),
    # perfgate's own callbacks: data_time is outside step.time
    NestedTimers(("forward", "backward", "optimizer_step"), ("step.time",), "perfgate/integrations/callback.py"),
)
#: The same for Lightning (Lightning-AI/pytorch-lightning, src/lightning/pytorch/loops/), whose names mean other things.
LIGHTNING_NESTING = (
    NestedTimers(
        (
            *("run_training_batch", "train_dataloader_next", "get_train_batch", "on_train_batch_start"),
            *("on_train_batch_end", "on_batch_start", "on_batch_end", "batch_to_device", "transfer_batch_to_device"),
            *("on_before_batch_transfer", "on_after_batch_transfer", "on_train_epoch_start", "on_train_epoch_end"),
        ),
        ("run_training_epoch",),
        "training_epoch_loop.py",
    ),
    NestedTimers(
        ("optimizer_step", "optimizer_step_and_closure_0"),
        ("optimizer_step_and_closure_0", "run_training_batch", "step.time"),
        "optimization/automatic.py",
    ),
    NestedTimers(("training_step_and_backward",), ("optimizer_step_and_closure_0",), "1.0 to 1.5: training_loop.py"),
    NestedTimers(("model_forward", "training_step"), ("model_forward", *_CLOSURE), "optimization/automatic.py"),
    NestedTimers(("backward", "optimizer_zero_grad", "on_before_zero_grad"), _CLOSURE, "optimization/automatic.py"),
    NestedTimers(("on_before_optimizer_step", "configure_gradient_clipping"), _CLOSURE[1:], "plugins/precision/"),
    NestedTimers(
        ("model_backward", "on_before_backward", "on_after_backward"), ("backward", *_CLOSURE), "strategies/strategy.py"
    ),
)
#: Timers of the program, not of its steps.
OUTSIDE = frozenset(
    (
        *("model-and-optimizer-setup", "train/valid/test-data-iterators-setup", "load-checkpoint", "save-checkpoint"),
        *("train/valid/test data iterators", "model and optimizer", "save checkpoint", "load checkpoint", "evaluate"),
        *("interval-time", "eval-time", "checkpoint_time", "evaluation_time", "epoch"),
        "compile_time",  # in the first steps, and inside other timers
    )
)
_INPUT = re.compile(
    r"(?:\W|_)*(?:(?:get|load|next|fetch|read|prepare|wait)_?)*(?:train_)?(?:data|dataset|batch|batches|input|inputs)"
    r"(?:[_-]?(?:load|loading|time|wait|fetch|next|prep|get|input|generator))*\W*$"
    r"|.*data_?loader|load$|load_time$|batch generator$|.*(?:prefetch|fetch_batch|load_batch|next_batch|data_iter)",
    re.IGNORECASE | re.DOTALL,
)
_COMMUNICATION = re.compile(
    r".*(?:all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|grads-sync|broadcast|barrier)"
    r"|\d\w\w_a2a$|pipe_(?:send|recv)_|(?:forward|backward)-(?:send|recv)|nccl|rccl|comm(?:unication)?(?:[_.-]?time)?$",
    re.IGNORECASE | re.DOTALL,
)
_HOOK = re.compile(r"\[[^\]]+\].*\.(\w+)$", re.DOTALL)


def hook_of(name: str) -> str:
    """Return the hook of an action of Lightning, `backward` for `[Strategy]DDPStrategy.backward`; else the name."""
    found = _HOOK.match(name)
    return found[1] if found else name


def is_redundant(name: str, names: Collection[str]) -> bool:
    """True for setup, for micro steps whose sum is there, and for functions inside an action."""
    if name in OUTSIDE or (name.endswith("_microstep") and name.removesuffix("_microstep") in names):
        return True
    parts = name.split(".")
    return any(".".join(parts[:at]) in names for at in range(1, len(parts)) if parts[0].startswith("["))


def nesting_of(format: str) -> tuple[NestedTimers, ...]:
    """Return the rows for the runs of a format."""
    return LIGHTNING_NESTING if format == "lightning" else NESTING


def is_known(name: str, nesting: Sequence[NestedTimers]) -> bool:
    """Return whether the rows have the timer."""
    return any(hook_of(name) in row.names for row in nesting) or name in WHOLES


def may_be_whole(name: str, format: str) -> bool:
    """Return whether the name is one that a program gives to a whole step, and not that of the update."""
    return PERHAPS_WHOLE.match(name) is not None and not (name == "step" and format in _STEP_IS_UPDATE)


def around(name: str, present: Collection[str], nesting: Sequence[NestedTimers]) -> str | None:
    """Return the hook of the timer around a timer, of those that a run has; None if it is a part of the step itself."""
    own = hook_of(name)
    rows = (row for row in nesting if own in row.names)
    return next((outer for row in rows for outer in row.around if outer in present and outer != own), None)


def kind_of_timer(name: str) -> NodeKind:
    """Return what a timer times: the input, communication, or any other part of the program."""
    own = hook_of(name)
    if _COMMUNICATION.match(own):
        return "communication"
    return "loader" if _INPUT.match(own) else "range"


def whole_timer(timers: Mapping[str, Timer], steps: float, format: str) -> str | None:
    """The timer of a whole step, if there is one."""
    for name in WHOLES:
        found = next((one for one in timers if hook_of(one) == name), None)
        if found is not None:
            return found
    hooks = {hook_of(name) for name in timers}
    for name, timer in timers.items():
        tops = [one for one in timers if one != name and around(one, hooks, nesting_of(format)) is None]
        parts = sum(timers[one].per_step(steps) for one in tops)
        can_be = may_be_whole(name, format) and len(tops) > 1
        if can_be and parts < timer.per_step(steps) and _holds(timer, [timers[one] for one in tops]):
            return name
    return None


def _holds(whole: Timer, parts: Sequence[Timer]) -> bool:
    """True if the parts of nearly every step fit into it, and it is long when they are long."""
    size = min(len(part.values) for part in (whole, *parts))
    if any(part.count != whole.count for part in parts) or size < 8:
        return False
    inner, outer = np.sum([part.values[-size:] for part in parts], axis=0), whole.values[-size:]
    if np.mean(inner <= FITS * outer) < 0.95 or min(np.ptp(inner), np.ptp(outer)) <= 0:
        return False
    return float(np.corrcoef(inner, outer)[0, 1]) > 0.5
