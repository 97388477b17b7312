"""One sentence for each kind of cause: what to undo, or where to look."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfgate.core.causes import Cause, CauseKind

#: By names of calls that went, and of calls that came: what the program decided. The first that fits counts.
_DECISIONS = (
    (
        r"_fused_adam|_fused_sgd|_foreach_add",
        r"aten::(?:mul_|add_|lerp_|addcdiv_)$",
        "the optimizer runs one kernel for each parameter: pass fused=True or foreach=True",
    ),
    (
        r"",
        r"linalg_vector_norm|clamp_coef",
        "gradients are clipped, one parameter after the other: pass foreach=True, or clip less often",
    ),
    (
        r"scaled_dot_product",
        r"softmax|bmm|matmul",
        "attention is not fused any more: call scaled_dot_product_attention",
    ),
)
#: By kind, if the step needs more time or memory.
_SENTENCES: dict[CauseKind, str] = {
    "appeared": "remove these calls, or make them in fewer steps",
    "more calls": "look for a new loop, or a value that was kept before",
    "slower": "compare the shapes, layouts and types of its inputs",
    "sync": "the host waits there for the device: read the value later, or in fewer steps",
    "exposed": "communication no longer runs beside computation: compare bucket sizes, streams and the order of calls",
    "slow rank": "compare the node of this rank with the others: clocks, data, other programs",
    "stall": "the step waits for its batch: use more workers, prefetch more, or do less for each sample",
    "memory": "free it earlier, or compute it again",
    "machine": "compare clocks and power (`nvidia-smi -q -d CLOCK,POWER`), or measure again",
    "host": "compare the processors, other programs and the version of Python, or measure with `perfgate run --paired`",
    "allocator": "every step allocates device memory anew: remove torch.cuda.empty_cache(), or keep its buffers",
    "zeroed": "gradients are set to zero and added to: pass set_to_none=True to zero_grad()",
    "repeated": "the backward pass computes activations again: turn off checkpointing, or use it in fewer layers",
}


def undo(cause: Cause) -> str:
    """Return what to undo; empty if the cause is none to undo."""
    if cause.change_per_step <= 0:
        return ""
    if cause.metric == "total time" and cause.kind == "slower":
        return "compare its number of calls and shapes; a table with row_limit=-1 has all rows"
    if cause.kind == "larger" and cause.factor is not None:
        return f"{cause.factor:.3g} times as many thread blocks: compare the batch, lengths and widths of the model"
    gone, come = (" ".join(f"{name}\n" for name, _ in calls) for calls in (cause.gone, cause.come))
    for went, came, sentence in _DECISIONS:
        is_one = re.search(went, gone) and re.search(came, come, re.MULTILINE)
        if cause.kind in ("appeared", "replaced", "more calls") and is_one:
            return sentence
    if cause.types is not None:
        return _of_types(*cause.types)
    if cause.kind == "replaced":
        return _of_calls(cause)
    if cause.kind == "appeared" and cause.come:
        return f"remove {cause.come[0][0]}, or call it in fewer steps"
    return _SENTENCES.get(cause.kind, "")


def _of_types(before: str, after: str) -> str:
    reason = "autocast is off there, or an input has another type"
    if (before, after) == ("tf32", "fp32"):
        reason = "TF32 is off: call torch.set_float32_matmul_precision('high')"
    return f"{before} kernels became {after}: {reason}"


def _of_calls(cause: Cause) -> str:
    """Return the sentence about replaced calls: several calls for one, or other calls."""
    if not cause.gone or not cause.come:
        return ""
    counts = [sum(count for _, count in calls) for calls in (cause.gone, cause.come)]
    old = next((name for name, _ in cause.gone if "Backward" not in name), cause.gone[0][0]).rpartition("::")[2]
    if counts[1] >= 2 * counts[0]:
        return f"{old} was one call, and is {counts[1] / counts[0]:.0f} now: use it again"
    return "compare the calls that are gone and new: a flag, a type, a shape or a version changed"
