"""The advice below a cause: what the author of the change should undo, or look at."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.core.call_trees import LAUNCHES
from perfgate.core.causes import Cause, CauseKind
from perfgate.core.wording import listed, shortened

#: The longest name of a call, in characters; and the most names of calls that came, and of those that went.
LONGEST_NAME, NAMES_SHOWN = 80, 3
#: By names of calls that went, and of calls that came: what the program decided. The first that fits counts.
_DECISIONS = (
    (
        r"_fused_adam|_fused_sgd|_foreach_add",
        r"aten::(?:mul_|add_|lerp_|addcdiv_)$",
        "the optimizer runs one kernel for each parameter: pass fused=True or foreach=True",
    ),
    (
        r"",
        r"(?=[\s\S]*vector_norm)(?=[\s\S]*aten::clamp)(?=[\s\S]*aten::mul_$)",
        "gradients are clipped now, one by one: clip all at once, with foreach=True, or not at all",
    ),
    (r"scaled_dot_product", r"softmax|bmm|matmul", "attention is no longer fused: call scaled_dot_product_attention"),
)
#: The place of work that only the weights decide.
_is_optimizer = re.compile(r"optimizer|aten::_(?:fused|foreach)_", re.IGNORECASE).search
_is_backward, _OF_CALLS = re.compile("backward", re.IGNORECASE).search, ("appeared", "replaced", "more calls")
#: By kind, if the step needs more time or memory.
_SENTENCES: dict[CauseKind, str] = {
    "more calls": "look for a new loop, or a value that was kept before",
    "slower": "compare the shapes, layouts and types of its inputs",
    "sync": "the host waits there for the device: read the value after the step, or only in some steps",
    "exposed": "communication no longer runs beside computation: compare bucket sizes, streams and the order of calls",
    "slow rank": "compare the node of this rank with the others: clocks, data, other programs",
    "stall": "the step waits for its batch: use more workers, prefetch more, or do less for each sample",
    "memory": "free it earlier, or compute it again",
    "machine": "compare clocks and power (`nvidia-smi -q -d CLOCK,POWER`), or measure again",
    "host": "compare the processors, other programs and the version of Python, or measure with `perfgate run --paired`",
    "allocator": "every step allocates device memory anew: look for torch.cuda.empty_cache(), and remove it",
    "zeroed": "gradients are set to zero and added to: pass set_to_none=True to zero_grad()",
    "repeated": "the backward pass computes activations again: turn off checkpointing, or use it in fewer layers",
}


def undo(cause: Cause) -> str:
    """Return the advice; empty for a cause that makes nothing worse."""
    if cause.change_per_step <= 0:
        return ""
    if cause.kind == "slower" and cause.come:
        return "look for what calls them; the base's table ends above their rows (row_limit=-1 prints all)"
    if cause.metric == "total time" and cause.kind == "slower":
        return "compare its number of calls, and the shapes of its inputs"
    if cause.kind == "larger" and cause.factor is not None:
        blocks = f"{cause.factor:.3g} times as many thread blocks"
        if any(_is_optimizer("/".join(path)) for path in cause.places):
            return f"{blocks}, and more parameters: compare the widths of layers and the vocabulary"
        return f"{blocks}: compare the batch, lengths and widths of the model"
    gone, come = (" ".join(f"{name}\n" for name, _ in calls) for calls in (cause.gone, cause.come))
    for went, came, sentence in _DECISIONS:
        if cause.kind in _OF_CALLS and re.search(went, gone) and re.search(came, come, re.MULTILINE):
            return sentence
    if cause.types is not None:
        return _of_types(*cause.types)
    if cause.kind == "replaced" or (cause.kind == "appeared" and cause.gone):
        return _of_calls(cause)
    if cause.kind == "appeared" and cause.come:
        return f"look for the new calls of {listed(_told(cause.come), NAMES_SHOWN)}, and remove them"
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
    old = _told(cause.gone)[0].rpartition("::")[2]
    if counts[1] < 2 * counts[0]:
        return "compare the calls that are gone and new: a flag, a type, a shape or a version changed"
    more = f"{counts[1] / counts[0]:.0f}"
    if not old.isidentifier():  # a kernel
        return f"{more} calls do now what one did: look for a fused call that is no longer used"
    return f"{old} was one call, and is {more} now: call {old} again"


def _told(calls: Sequence[tuple[str, float]]) -> list[str]:
    """Return the names of calls that say what the program does: not its backward pass, and not only launches."""
    names = [name for name, _ in calls]
    told = [name for name in names if not _is_backward(name) and not LAUNCHES.fullmatch(name)] or names[:1]
    return [shortened(name, LONGEST_NAME) for name in told]
