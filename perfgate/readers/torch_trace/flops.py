"""The FLOP of matrix products, convolutions and attention, from the shapes that a trace has (`record_shapes=True`).

The formulas are those of `torch.utils.flop_counter`: a product of (m, k) and (k, n) is 2 m k n, and causal masks are
not subtracted. The gradients of a grouped convolution cost what its forward pass costs, each; torch counts them
once for every group. Only the operators that do the work are counted, and not those around them (`aten::linear`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from perfgate.readers.torch_trace.event_fields import Event, Float64

_Shape = list[int]
_NUMBERS = msgspec.json.Decoder(list[int])
#: Returns the FLOP of a call from the shapes of its arguments, and from all its arguments as text.
_Count = Callable[[Sequence[_Shape], Sequence[str]], float]


def _product(a: _Shape, b: _Shape) -> float:
    """Return the FLOP of (..., m, k) times (..., k, n), or times (k, n) for every member of a batch."""
    if a[-1] != b[-2]:
        raise ValueError
    return 2.0 * math.prod(a) * b[-1]


def _matrices(first: int) -> _Count:
    """Return a function that counts the product of two arguments: this one and the next."""
    return lambda dims, _: _product(dims[first], dims[first + 1])


def _attention(dims: Sequence[_Shape], _: Sequence[str]) -> float:
    """Count scores and weighted values of q (b, h, s, d), k (b, h', t, d) and v (b, h', t, e): 2 b h s t (d + e)."""
    (b, h, s, d), t, e = dims[0], dims[1][-2], dims[2][-1]
    return 2.0 * b * h * s * t * (d + e)


def _attention_backward(dims: Sequence[_Shape], _: Sequence[str]) -> float:
    """Count the scores again, and four gradients: three products with d and two with e. dims[0] is a gradient."""
    (b, h, s, d), t, e = dims[1], dims[2][-2], dims[3][-1]
    return 2.0 * b * h * s * t * (3 * d + 2 * e)


def _convolution(dims: Sequence[_Shape], concrete: Sequence[str]) -> float:
    """Count a product with the weights for each place of the output; of the input if transposed (argument 6)."""
    data, weight = dims[0], dims[1]
    each = (_NUMBERS.decode(concrete[at]) for at in (3, 4, 5))
    stride, padding, dilation = (found * (len(data) - 2) if len(found) == 1 else found for found in each)
    if _flag(concrete[6]):
        places = data[2:]
    else:
        sizes = zip(data[2:], weight[2:], stride, padding, dilation, strict=True)
        places = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes]
    return 2.0 * data[0] * math.prod(places) * math.prod(weight)


def _convolution_backward(dims: Sequence[_Shape], concrete: Sequence[str]) -> float:
    """Count the forward pass once for each gradient that the call asks for: that of the input, that of the weight.

    The arguments are the gradient of the output, input, weight, ...; 7 is `transposed`, 10 is `output_mask`.
    """
    places = dims[1] if _flag(concrete[7]) else dims[0]
    asked = [_flag(word) for word in concrete[10].strip("[] ").split(",")]
    return 2.0 * dims[0][0] * math.prod(places[2:]) * math.prod(dims[2]) * sum(asked[:2])


def _flag(text: str) -> bool:
    return text.strip().lower() == "true"


_SDPA = (
    "flash_attention",
    "flash_attention_for_cpu",
    "efficient_attention",
    "cudnn_attention",
    "fused_attention_overrideable",
)
#: The function that counts each operator.
COUNTED: dict[str, _Count] = {
    **{f"aten::{name}": _matrices(0) for name in ("mm", "bmm", "_scaled_mm")},
    **{f"aten::{name}": _matrices(1) for name in ("addmm", "baddbmm", "_addmm_activation")},
    # (m, k) times (g, k, n): each row belongs to one group, so it meets one of the g matrices.
    **{f"aten::{name}": _matrices(0) for name in ("_grouped_mm", "_scaled_grouped_mm")},
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{f"aten::_scaled_dot_product_{name}": _attention for name in _SDPA},
    **{f"aten::_scaled_dot_product_{name}_backward": _attention_backward for name in _SDPA},
}


def flop_of(events: Iterable[Event]) -> Float64:
    """Return the FLOP of events whose names are in `COUNTED`, (n,); NaN where the shapes do not say it."""
    return np.array([_flop(event) for event in events], np.float64)


def _flop(event: Event) -> float:
    try:
        dims = msgspec.convert(event.args.dims, list[_Shape])
        concrete = msgspec.convert(event.args.concrete, list[str]) if event.args.concrete else ()
        return COUNTED[str(event.name)](dims, concrete)
    except (msgspec.DecodeError, ValueError, IndexError, TypeError, ArithmeticError):
        return math.nan
