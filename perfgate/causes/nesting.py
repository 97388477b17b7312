"""The nesting of timers: one table for all frameworks.

The row `train_batch, batch_time: forward` says that `forward` runs inside `train_batch`, or inside `batch_time` if a
run has no `train_batch`. If it has neither, `forward` is a part of the step itself. Names are metrics as readers give
them (`backward`, never `bwd`). An action of Lightning is known by its hook, the last part of its name: `backward` for
`[Strategy]DDPStrategy.backward`.
"""

from __future__ import annotations

import re
from collections import defaultdict
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
_STEP_IS_UPDATE = frozenset(("deepspeed", "megatron", "lightning"))
#: Names of timers that may be a whole step; they are one if the other timers fit into it.
PERHAPS_WHOLE = re.compile(r"(?:(?:train(?:ing)?|total|full)[_.-]?)?(?:step|iteration|iter|batch|loop)(?:[_.-]?time)?$")
#: The name of the node for the part of a step that no timer measures.
NOT_TIMED = "not timed"
#: Parts fit into a whole if their sum is at most this multiple of it.
FITS = 1.02


class Timer(Struct, frozen=True):
    """One timer of one rank. `count` includes the warm-up; the other fields do not."""

    name: str
    #: The mean in s, and its standard error.
    mean: float
    error: float
    count: float
    #: The values in s, in order of time; empty if only their statistics are known.
    values: Floats

    def per_step(self, steps: float) -> float:
        """The mean time in a step, in s."""
        return self.mean * self.calls(steps)

    def calls(self, steps: float) -> float:
        """Return the number of calls in a step. It is 1 if one call is missing or too many: a log may end in a step."""
        return 1.0 if abs(self.count - steps) <= 1 else self.count / steps


#: By the hook of a timer: the hooks of the timers that may be around it, the nearest first.
Nesting = Mapping[str, Sequence[str]]


def _table(text: str) -> Nesting:
    """Return the nesting that a table says. Its comments name the files of the framework that start the timers."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        outer, _, names = line.partition(": ")
        for name in names.split(", ") if not line.startswith("#") else ():
            found[name] += outer.split(", ")
    return dict(found)


NESTING = _table("""\
# DeepSpeed (deepspeedai/DeepSpeed, deepspeed/): runtime/engine.py, pipe/engine.py
train_batch, batch_time: forward, backward, step
backward: backward_inner, backward_allreduce
train_batch: batch_input, pipe_send_output, pipe_send_grad, pipe_recv_input, pipe_recv_grad
# runtime/zero/stage_1_and_2.py, zero/stage3.py
step: optimizer_allgather, optimizer_gradients, optimizer_step, optimizer_swap_in_state, init_optimizer_state
step: optimizer_swap_out_state, optimizer_transmit_time, optimizer_calc_time
step: optimizer_receive_params_time, optimizer_update_model_time
# zenflow/zenflow_stage_1_and_2.py
step: selective_optimizer_update, selective_optimizer_process, selective_optimizer_step, selective_optimizer_sync
# runtime/fp16/fused_optimizer.py
step: overflow_check, compute_norm, unscale_and_clip, basic_step, update_fp16
# runtime/swap_tensor/partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py
step: swap_in_param, swap_out_param, swap_in_gradient, swap_out_gradient, swap_in_state, swap_out_state
# runtime/engine.py: print_forward_breakdown; moe/sharded_moe.py
forward: fwd_moe, moe
fwd_moe, moe, forward: 1st_a2a, 2nd_a2a, top_k, topk_gate
# open_clip: training/train.py
batch_time: data_time
# DeepSpeed-Chat: dschat/utils/perf.py
chat.e2e_latency: chat.generate_time, chat.training_time, chat.gather_latency, chat.other_time
# Megatron-LM (NVIDIA/Megatron-LM, megatron/): training/training.py: train_step
iteration_time: forward-backward, forward_backward, optimizer
# core/pipeline_parallel/schedules.py
forward-backward, forward_backward, iteration_time: forward-compute, backward-compute, forward, backward
# core/pipeline_parallel/p2p_communication.py
forward-backward, forward_backward, iteration_time: forward-recv, forward-send, backward-recv, backward-send
forward-backward, forward_backward, iteration_time: forward-send-backward-recv, backward-send-forward-recv
forward-backward, forward_backward, iteration_time: forward-send-forward-recv, backward-send-backward-recv
forward-backward, forward_backward, iteration_time: forward-backward-send-forward-backward-recv
# pretrain_gpt.py: forward_step
forward-compute, forward, forward-backward, iteration_time: batch-generator, batch generator
# core/distributed/finalize_model_grads.py
forward-backward, forward_backward, iteration_time: all-grads-sync, grads-all-reduce, grads-reduce-scatter
forward-backward, forward_backward, iteration_time: layernorm-grads-all-reduce, embedding-grads-all-reduce
forward-backward, forward_backward, iteration_time: conditional-embedder-grads-all-reduce
forward-backward, forward_backward, iteration_time: non-tensor-parallel-grads-all-reduce, backward-params-all-reduce
forward-backward, forward_backward, iteration_time: backward-embedding-all-reduce, backward-layernorm-all-reduce
# core/optimizer/optimizer.py, distrib_optimizer.py
optimizer, iteration_time: optimizer-copy-to-main-grad, optimizer-unscale-and-check-inf, optimizer-clip-main-grad
optimizer, iteration_time: optimizer-count-zeros, optimizer-inner-step, optimizer-copy-main-to-model-params
optimizer, iteration_time: params-all-gather
# perfgate's own callbacks, perfgate/integrations/callback.py: data_time is outside step.time
step.time: forward, backward, optimizer_step""")
#: The same for Lightning (Lightning-AI/pytorch-lightning, src/lightning/pytorch/loops/), whose names mean other things.
#: `CLOSURE` stands for the four timers in which a training step may run.
LIGHTNING_NESTING = _table(
    """\
# training_epoch_loop.py
run_training_epoch: run_training_batch, train_dataloader_next, get_train_batch, batch_to_device
run_training_epoch: on_train_batch_start, on_train_batch_end, on_batch_start, on_batch_end, transfer_batch_to_device
run_training_epoch: on_before_batch_transfer, on_after_batch_transfer, on_train_epoch_start, on_train_epoch_end
# optimization/automatic.py
optimizer_step_and_closure_0, run_training_batch, step.time: optimizer_step, optimizer_step_and_closure_0
model_forward, CLOSURE: model_forward, training_step
CLOSURE: backward, optimizer_zero_grad, on_before_zero_grad
# 1.0 to 1.5: training_loop.py
optimizer_step_and_closure_0: training_step_and_backward
# plugins/precision/
optimizer_step_and_closure_0, optimizer_step, run_training_batch: on_before_optimizer_step, configure_gradient_clipping
# strategies/strategy.py
backward, CLOSURE: model_backward, on_before_backward, on_after_backward""".replace(
        "CLOSURE", "training_step_and_backward, optimizer_step_and_closure_0, optimizer_step, run_training_batch"
    )
)
#: Timers of the program, not of its steps. `compile_time` is in the first steps, and inside other timers.
OUTSIDE = frozenset(
    (
        *("model-and-optimizer-setup", "train/valid/test-data-iterators-setup", "load-checkpoint", "save-checkpoint"),
        *("train/valid/test data iterators", "model and optimizer", "save checkpoint", "load checkpoint", "evaluate"),
        *("interval-time", "eval-time", "checkpoint_time", "evaluation_time", "epoch", "compile_time"),
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
#: The domain of an NVTX range, which old versions of Nsight Systems do not print; the name may be `aten::mm`.
_DOMAIN = re.compile(r"[^:]*:(?!:)")
_HOOK = re.compile(r"\[[^\]]+\].*\.(\w+)$", re.DOTALL)


def hook_of(name: str) -> str:
    """Return the hook of an action of Lightning, `backward` for `[Strategy]DDPStrategy.backward`; else the name."""
    found = _HOOK.match(name)
    return found[1] if found else name


def without_domain(name: str) -> str:
    """Return the name of an NVTX range, `forward` for `domain:forward` or `:forward`."""
    found = _DOMAIN.match(name)
    return name[found.end() :] if found else name


def is_redundant(name: str, names: Collection[str]) -> bool:
    """True for `OUTSIDE`, for micro steps if `names` has the timer of their sum, and for functions inside an action."""
    if name in OUTSIDE or (name.endswith("_microstep") and name.removesuffix("_microstep") in names):
        return True
    parts = name.split(".")  # a function inside of the action `[Strategy]DDPStrategy.backward` has one part more
    return any(".".join(parts[:at]) in names for at in range(1, len(parts)) if parts[0].startswith("["))


def nesting_of(format: str) -> Nesting:
    """Return the nesting in the runs of a format; a run of several files has several, joined by `+`."""
    return LIGHTNING_NESTING if "lightning" in format.split("+") else NESTING


def is_known(name: str, nesting: Nesting) -> bool:
    """Return whether the place of a timer is known: it is in the nesting, or is a whole step."""
    return hook_of(name) in nesting or name in WHOLES


def may_be_whole(name: str, format: str) -> bool:
    """Return whether a timer of this name may be a whole step; in some formats, `step` is the update instead."""
    is_update = name == "step" and not _STEP_IS_UPDATE.isdisjoint(format.split("+"))
    return PERHAPS_WHOLE.match(name) is not None and not is_update


def around(name: str, present: Collection[str], nesting: Nesting) -> str | None:
    """Return the hook of the timer around a timer, one of the hooks `present`; None for a part of the step itself.

    Some rows of the table name one hook on both sides of the colon; no timer is around itself.
    """
    own = hook_of(name)
    return next((outer for outer in nesting.get(own, ()) if outer in present and outer != own), None)


def kind_of_timer(name: str) -> NodeKind:
    """Return the kind of a timer: input, communication, or any other part of the program."""
    own = hook_of(name)
    if _COMMUNICATION.match(own):
        return "communication"
    return "loader" if _INPUT.match(own) else "range"


def whole_timer(timers: Mapping[str, Timer], steps: float, format: str) -> str | None:
    """The timer of a whole step: one of `WHOLES`, or one with a likely name if its parts fit into it; else None."""
    by_hook = {hook_of(name): name for name in reversed(list(timers))}  # the first timer of each hook
    whole = next((by_hook[hook] for hook in WHOLES if hook in by_hook), None)
    if whole is not None:
        return whole
    tops = [name for name in timers if around(name, by_hook, nesting_of(format)) is None]
    for name, timer in timers.items():
        parts = [timers[top] for top in tops if top != name]
        are_less = sum(part.per_step(steps) for part in parts) < timer.per_step(steps)
        if may_be_whole(name, format) and len(parts) > 1 and are_less and _fit_into(timer, parts):
            return name
    return None


def _fit_into(whole: Timer, parts: Sequence[Timer]) -> bool:
    """True if the parts fit into the whole in nearly every step, and the whole is long in steps with long parts."""
    size = min(len(part.values) for part in (whole, *parts))
    if any(part.count != whole.count for part in parts) or size < 8:
        return False
    inner, outer = np.sum([part.values[-size:] for part in parts], axis=0), whole.values[-size:]
    if np.mean(inner <= FITS * outer) < 0.95 or min(np.ptp(inner), np.ptp(outer)) <= 0:
        return False
    return float(np.corrcoef(inner, outer)[0, 1]) > 0.5
