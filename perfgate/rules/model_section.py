"""The model of a rule file, from which `mfu` and `hfu` are computed, and the FLOP of its training step.

Source: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (2022), appendix B. One token costs
`6 N + 12 L H Q T` FLOP, forward and backward: N parameters (of a mixture of experts, those that one token uses), L
layers, H attention heads with dimension Q, and a sequence of T tokens. The causal mask is not subtracted. If all
activations are recomputed, a second forward pass adds a third: `8 N + 16 L H Q T` hardware FLOP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from perfgate.core.peaks import DTYPES, canonical_dtype
from perfgate.core.runs import Location
from perfgate.core.units import NUMBER, UNITS, format_value
from perfgate.documents.yaml import Path, YamlDocument

#: The FLOP that the model needs, and the FLOP that the hardware executed, as shares of the peak.
MFU, HFU = "mfu", "hfu"


class Attention(Struct, frozen=True):
    """The sizes of the attention of a model: layers L, heads H, head dimension Q, sequence length T (tokens)."""

    layers: int
    heads: int
    head_dim: int
    sequence_length: int

    @property
    def flop_per_token(self) -> float:
        """The FLOP of the attention scores of one token, forward and backward: 12 L H Q T."""
        return 12.0 * self.layers * self.heads * self.head_dim * self.sequence_length


class TrainedModel(Struct, frozen=True):
    """The field `model` of a rule file. `peak` is in FLOP/s of one GPU, dense. What the file lacks is None."""

    at: Location
    dtype: str | None = None
    peak: float | None = None
    parameters: float | None = None
    attention: Attention | None = None
    tokens_per_step: float | None = None
    recomputes: bool = False
    gpus: int | None = None
    #: The metric with the time of a step, if it has an unusual name.
    step_time: str | None = None

    @property
    def flop_per_token(self) -> float | None:
        """The model FLOP of one token, forward and backward; None without parameters."""
        if self.parameters is None:
            return None
        return 6.0 * self.parameters + (self.attention.flop_per_token if self.attention else 0.0)

    @property
    def recomputation(self) -> float:
        """The hardware FLOP as a multiple of the model FLOP: 4/3 if all activations are recomputed, else 1."""
        return 4.0 / 3.0 if self.recomputes else 1.0


_SIZES = ("layers", "heads", "head_dim", "sequence_length")
#: Reports a mistake at a path of the file.
Fail = Callable[[str, Path], None]


def load_model(document: YamlDocument, data: Mapping[str, Any], fail: Fail) -> TrainedModel | None:
    """Return the field `model`; None if it cannot be used. Mistakes go to `fail`; the schema reports wrong types."""
    text = data.get("peak")
    peak = _peak(text) if isinstance(text, str) else None
    if isinstance(text, str) and peak is None:
        fail(f"peak {text!r} is not a rate of one GPU: write `989 TFLOP/s`", ("model", "peak"))
    text = data.get("dtype")
    dtype = canonical_dtype(text) if isinstance(text, str) else None
    if isinstance(text, str) and dtype is None:
        fail(f"unknown dtype {text!r}: write one of {', '.join(DTYPES)}", ("model", "dtype"))
    if "dtype" not in data and "peak" not in data:
        fail("`model` needs `dtype: bf16` (or fp16, ...), or `peak`: the dense FLOP/s of one GPU", ("model",))
    absent = [name for name in _SIZES if name not in data]
    if 0 < len(absent) < len(_SIZES):
        fail(f"`model` lacks {', '.join(absent)}: give {', '.join(_SIZES)}, or none of them", ("model",))
    if "tokens_per_step" in data and "parameters" not in data:
        fail("`model` lacks parameters, which `tokens_per_step` needs", ("model",))
    sizes = [data[name] for name in _SIZES if name in data]
    amounts = {name: data[name] for name in ("parameters", "tokens_per_step") if data.get(name) is not None}
    are_numbers = all(isinstance(amount, (int, float)) for amount in amounts.values())
    if not are_numbers or not all(isinstance(size, int) for size in sizes) or (dtype is None and peak is None):
        return None
    return TrainedModel(
        document.location(("model",), key=True),
        dtype,
        peak,
        attention=None if absent else Attention(*sizes),
        recomputes=data.get("activation_recomputation") == "full",
        gpus=data.get("gpus"),
        step_time=data.get("step_time"),
        **{name: float(amount) for name, amount in amounts.items()},
    )


def _peak(text: str) -> float | None:
    """Return a finite rate above 0 in FLOP/s; None for another text."""
    number = NUMBER.match(text.strip())
    unit = UNITS.get(text.strip()[number.end() :].strip()) if number else None
    if number is None or unit is None or unit.base != "FLOP/s":
        return None
    rate = float(number[0]) * unit.factor
    return rate if 0 < rate < math.inf else None


def in_words(model: TrainedModel, names: Collection[str]) -> list[str]:
    """Return the formulas of those of `mfu` and `hfu` that are in `names`, with the numbers of the model."""
    peak = f"{model.peak / 1e12:g} TFLOP/s" if model.peak is not None else f"the {model.dtype} peak of the GPU"
    if model.flop_per_token is None:
        return [f"mfu = throughput_per_gpu / {peak}"] if MFU in names else []
    flop = f"{format_value(model.flop_per_token, 'FLOP')} of each token"
    tokens = model.tokens_per_step
    rate = "tokens per second" if tokens is None else f"{tokens:,.0f} tokens per step / the time of a step"
    found = [f"mfu = {flop} × {rate} / ({peak} × the GPUs)"] if MFU in names else []
    times = "4/3 × mfu, because all activations are recomputed" if model.recomputes else "mfu, as nothing is recomputed"
    return [*found, *([f"hfu = {times}"] if HFU in names else [])]
