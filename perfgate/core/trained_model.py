"""The FLOP of a training step, from the description of a model in a rule file.

Source: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (2022), appendix B. One token costs
`6 N + 12 L H Q T` FLOP, forward and backward: N parameters (of a mixture of experts, those that one token uses), L
layers, H attention heads with dimension Q, and a sequence of T tokens. The causal mask is not subtracted. To recompute
all activations adds a second forward pass, a third of that: `8 N + 16 L H Q T` are hardware FLOP.
"""

from __future__ import annotations

from msgspec import Struct

from perfgate.core.runs import Location

#: Shares of the peak: of the FLOP that the model needs, and of the FLOP that the hardware executed.
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
    """The field `model` of a rule file. `peak` is in FLOP/s of one GPU, dense; None is what the file leaves out."""

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
