"""The types of numbers in which matrix products are computed, by the names of their kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

from perfgate.causes.align import Alignment

#: In this order, because `tf32` products name `f32`, too. Of nvjet (cuBLAS), the first letters are the types of the
#: inputs; of Triton and others, names do not tell.
_TYPES = (
    ("fp8", re.compile(r"e4m3|e5m2|nvjet_(?:sm\d+_)?qq", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32|s1688gemm|nvjet_(?:sm\d+_)?ss", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16|nvjet_(?:sm\d+_)?ts", re.IGNORECASE)),
    ("fp16", re.compile(r"(?<!b)f16|h16816|h884|h1688|nvjet_(?:sm\d+_)?hs", re.IGNORECASE)),
    ("fp32", re.compile(r"f32f32|sgemm|simt|ffma", re.IGNORECASE)),
)
_is_product = re.compile(r"gemm|nvjet|cutlass|cublas|matmul", re.IGNORECASE).search
#: The types that are slower than each one. Names mix up fp16 and bf16, which are as fast.
_WIDER = {
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "bf16": ("tf32", "fp32"),
    "fp16": ("tf32", "fp32"),
    "tf32": ("fp32",),
}
#: The part of the time on each side that one type has.
_MOST = 0.6


def types_of(nodes: Collection[int], alignment: Alignment) -> tuple[str, str] | None:
    """Return the type of the matrix products of some nodes on both sides, if the new one is wider."""
    before, after = (_type(nodes, alignment, side) for side in (1, -1))
    is_wider = before in _WIDER and after in _WIDER[before]
    return (before, after) if before and after and is_wider else None


def _type(nodes: Collection[int], alignment: Alignment, sign: int) -> str | None:
    """The type of most of the time that went (1), or came (-1)."""
    times: dict[str, float] = defaultdict(float)
    for node in nodes:
        name = alignment.nodes[node].name
        lost = float(alignment.base.busy[node].mean() - alignment.new.busy[node].mean()) * sign
        if alignment.nodes[node].kind == "kernel" and _is_product(name) and lost > 0:
            times[next((kind for kind, is_one in _TYPES if is_one.search(name)), "")] += lost
    kind = max(times, key=lambda one: times[one], default="")
    return kind if kind and times[kind] >= _MOST * sum(times.values()) else None
