"""Changes that one decision makes at many places: each is one finding. And the number types of matrix products.

They are looked for before single edits, in the order of `_RECOGNISERS`. A node belongs to the first that claims it.

| kind | how it is recognised |
|---|---|
| allocator | on average, a step makes at least one more call that allocates or frees memory of the device |
| zeroed | gradients are set to zero and then added to; in the base they are set to None |
| repeated | the backward pass calls operators of the forward pass, which did not change: checkpointing |
| larger, smaller | the same operators; kernels have other numbers of thread blocks, and times that follow them |

Thread blocks show the shapes of inputs, even if a trace does not record shapes. But an operator may choose another
kernel for other shapes, and some matrix products have as many blocks for every shape. So the finding also includes
kernels whose operators are called as before, if their times changed clearly, but not more than the blocks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.kinds import Edit, find_edits
from perfgate.causes.merged import Floats, Masks
from perfgate.causes.noise import Noise
from perfgate.causes.paired import PairNoise
from perfgate.core.call_trees import ALLOCATIONS, DEVICE_KINDS
from perfgate.core.causes import CauseKind

is_backward = re.compile(r"(?:autograd::engine::evaluate_function: )?(?:torch::)?(?:autograd::|\w+Backward\d*$)").match
_is_zeroing = re.compile(r"aten::(?:_foreach_)?zero_$|aten::fill_$").match
_is_adding = re.compile(r"aten::(?:_foreach_)?add_?$").match
#: Checkpointing: repeated calls of the forward pass make at least this part of the new work of the backward pass, and
#: are at least this many.
_MOST, _FEWEST = 0.8, 3
#: Checkpointing: the work that went is at most this part of the work that came.
_PART = 0.05
#: The blocks of a kernel changed if their logarithm differs by more than this.
_BLOCKS = 0.02
#: The change of time of these kernels, as a multiple of what their blocks predict, is between these.
_LEAST, _AT_MOST = 0.5, 2.0
#: The logarithm of the time of another kernel changed by at most this multiple of the largest change of blocks.
_OTHERS = 1.3
#: The time of a kernel with as many blocks as before changed clearly if by more than this many standard errors.
_CLEAR = 3.0


class _Change(Struct, frozen=True, dict=True):
    """The changes in an alignment, without claimed nodes, which other findings have."""

    alignment: Alignment
    claimed: Collection[int]
    noise: Noise | PairNoise

    @cached_property
    def edits(self) -> list[Edit]:
        return find_edits(self.alignment, self.claimed)

    @cached_property
    def gained(self) -> Floats:
        """The difference of the calls per step of each node, (n,), 0 if only rounding made it."""
        return np.where(np.abs(self.alignment.more_calls) < 1e-9, 0.0, self.alignment.more_calls)

    @cached_property
    def is_device(self) -> Masks:
        """True for the work of a device; in programs without one, for all calls, (n,)."""
        found = self.alignment.of_kind(*DEVICE_KINDS)
        return found if found.any() else ~found

    @cached_property
    def growth(self) -> Floats:
        """The change of the time of `is_device` in each node and below it, (n,), in s per step."""
        return self.alignment.with_below(np.where(self.is_device, self.alignment.longer, 0.0))

    @cached_property
    def in_backward(self) -> Masks:
        """True for calls of the backward pass, (n,)."""
        found = np.zeros(len(self.alignment.nodes), bool)
        for index, node in enumerate(self.alignment.nodes[1:], 1):
            found[index] = found[node.parent] or is_backward(node.name)
        return found

    def finding(self, kind: CauseKind, gone: list[int], come: list[int], more: Collection[int] = ()) -> Finding:
        """Return the finding that calls came and went, without its cost. It explains the time of `more`, too."""
        nodes = frozenset(self.alignment.subtree((*gone, *come))) | frozenset(more)
        lead = max((*come, *more), key=lambda node: (abs(float(self.growth[node])), -node))
        parents = dict.fromkeys(self.alignment.nodes[node].parent for node in (*come, *gone, *sorted(more)))
        return Finding(kind, nodes, lead, tuple(parents), gone=tuple(gone), come=tuple(come))


def recognised(alignment: Alignment, claimed: Collection[int], noise: Noise | PairNoise) -> list[Finding]:
    """Return the recognised findings, without their costs; no node is claimed, or in two of them."""
    found: list[Finding] = []
    taken = frozenset(claimed)
    for recognise in _RECOGNISERS:
        one = recognise(_Change(alignment, taken, noise))
        if one is not None:
            found.append(one)
            taken |= one.nodes
    return found


def _allocator(change: _Change) -> Finding | None:
    """The finding that a step allocates or frees memory of the device more often, on average at least once more."""
    nodes = change.alignment.nodes
    changed = change.alignment.subtree(node for edit in change.edits for node in edit.nodes)
    is_call = {node: nodes[node].kind == "runtime" and ALLOCATIONS.fullmatch(nodes[node].name) for node in changed}
    calls = sorted(node for node in changed if is_call[node])
    if change.gained[calls].sum() < 1:
        return None
    come = [node for node in calls if change.gained[node] > 0]
    longest = max(come, key=lambda node: float(change.alignment.new.durations[node]))
    return replace(change.finding("allocator", gone=[], come=come), lead=longest)


def _zeroed(change: _Change) -> Finding | None:
    """The finding that gradients are set to zero, and AccumulateGrad adds to them."""
    nodes = change.alignment.nodes
    _, came = _gone_and_come(change.edits)
    zeroing = [node for node in came if _is_zeroing(nodes[node].name) and not change.in_backward[node]]
    gone, come = _gone_and_come(edit for edit in change.edits if nodes[edit.parent].name.endswith("AccumulateGrad"))
    adding = [node for node in come if _is_adding(nodes[node].name)]
    return change.finding("zeroed", gone, [*adding, *zeroing]) if zeroing and adding else None


def _gone_and_come(edits: Iterable[Edit]) -> tuple[list[int], list[int]]:
    """The nodes of all edits that are called less often, and more often."""
    pairs = [(edit.gone, edit.come) for edit in edits]
    return [node for gone, _ in pairs for node in gone], [node for _, come in pairs for node in come]


def _repeated(change: _Change) -> Finding | None:
    """The finding that the backward pass makes calls of the forward pass again."""
    names = [node.name for node in change.alignment.nodes]
    # by name, over all places of the forward pass: the calls in the base, and how many more the new side makes
    forward, more = defaultdict[str, float](float), defaultdict[str, float](float)
    for index in np.flatnonzero(~change.in_backward).tolist():
        forward[names[index]] += change.alignment.base.calls[index]
        more[names[index]] += change.gained[index]
    gone, come = _gone_and_come(edit for edit in change.edits if change.in_backward[list(edit.nodes)].all())
    # calls of the backward pass that the forward pass makes as before, and at least as often
    as_before = {name for name, gained in more.items() if abs(gained) < 1e-6}
    again = [node for node in come if names[node] in as_before and change.gained[node] <= forward[names[node]]]
    whole, same, lost = (float(change.growth[nodes].sum()) for nodes in (come, again, gone))
    if len(again) < _FEWEST or whole <= 0 or same < _MOST * whole or -lost > _PART * whole:
        return None
    return change.finding("repeated", gone, come)


def _larger(change: _Change) -> Finding | None:
    """The finding that inputs are larger or smaller, unless another edit has a larger cost.

    It has three kinds of nodes: kernels with other numbers of blocks (`shown`), kernels with as many blocks whose times
    changed alike (`alike`), and operators that run other kernels (`swaps`).
    """
    base, new, longer = change.alignment.base, change.alignment.new, change.alignment.longer
    if base.blocks is None or new.blocks is None:
        return None
    before, after = base.times, new.times
    # kernels that are called as often on both sides
    kept = change.alignment.of_kind("kernel") & (change.gained == 0) & (np.minimum(before, after) > 0)
    kept[sorted(change.claimed)] = False
    times = _log_ratio(before, after, kept)
    blocks = _log_ratio(base.blocks, new.blocks, kept & (np.minimum(base.blocks, new.blocks) > 0))
    expected = before * np.expm1(blocks)  # the change of time that the blocks predict
    sign = float(np.sign(expected.sum()))
    shown = np.flatnonzero(sign * blocks > _BLOCKS)
    if not len(shown) or not _LEAST < longer[shown].sum() / expected[shown].sum() < _AT_MOST:
        return None
    most = _OTHERS * float((sign * blocks).max())
    grown = np.flatnonzero((sign * times > 0) & (sign * times < most)).tolist()
    changes = {node: change.noise.change([node]) for node in grown}
    alike = [node for node, (size, error) in changes.items() if abs(size) > _CLEAR * error]
    swaps = [edit for edit in change.edits if _has_other_kernels(edit, change, sign, most)]
    others = [abs(float(change.growth[list(edit.nodes)].sum())) for edit in change.edits if edit not in swaps]
    found = change.finding("larger" if sign > 0 else "smaller", *_gone_and_come(swaps), {*shown.tolist(), *alike})
    lead = max(shown.tolist(), key=lambda node: abs(float(longer[node])))
    if abs(float(longer[sorted(found.nodes)].sum())) < max(others, default=0):
        return None
    # the operator that runs the kernel is shown
    return replace(found, lead=change.alignment.nodes[lead].parent or lead, factor=float(np.exp(blocks[lead])))


def _log_ratio(before: Floats, after: Floats, chosen: Masks) -> Floats:
    """The logarithm of the change of the chosen values, as a ratio; 0 for the others."""
    ratio: Floats = np.divide(after, before, out=np.ones_like(before), where=chosen)
    return np.log(ratio)


def _has_other_kernels(edit: Edit, change: _Change, sign: float, most: float) -> bool:
    """True if a call that is made as before runs other kernels, and its time changed as larger inputs explain."""
    nodes = change.alignment.nodes
    is_own = all(nodes[node].kind in (*DEVICE_KINDS, "runtime") for node in edit.nodes)
    if nodes[edit.parent].kind not in ("operator", "range") or not is_own:
        return False
    below = [node for node in sorted(change.alignment.subtree([edit.parent])) if change.is_device[node]]
    before, after = (float(side.times[below].sum()) for side in change.alignment.sides)
    return before > 0 and 0 < sign * np.log(max(after, 1e-12) / before) < most


_RECOGNISERS = (_allocator, _zeroed, _repeated, _larger)
#: By number type: names of matrix products of its inputs. The first match counts: products of tf32 name f32, too, and
#: those that only name the instruction `s1688` are of tf32, but `turing_fp16_s1688gemm_fp16` is of fp16. In names of
#: nvjet (cuBLAS), the first letters are the types of the inputs; names of Triton and others do not show types.
_TYPES = (
    ("fp8", re.compile(r"e4m3|e5m2|nvjet_(?:sm\d+_)?qq", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32|nvjet_(?:sm\d+_)?ss", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16|nvjet_(?:sm\d+_)?ts", re.IGNORECASE)),
    ("fp16", re.compile(r"(?<!b)f16|fp16|h16816|h884|h1688|nvjet_(?:sm\d+_)?hs", re.IGNORECASE)),
    ("tf32", re.compile(r"s1688gemm", re.IGNORECASE)),
    ("fp32", re.compile(r"f32f32|sgemm|simt|ffma", re.IGNORECASE)),
)
_is_product = re.compile(r"gemm|nvjet|cutlass|cublas|matmul", re.IGNORECASE).search
#: By type: the slower, wider types. Names confuse fp16 and bf16, which are equally fast.
_WIDER = {
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "bf16": ("tf32", "fp32"),
    "fp16": ("tf32", "fp32"),
    "tf32": ("fp32",),
}
#: A type has at least this part of the time that went, or came.
_MOST_OF_TIME = 0.6


def types_of(nodes: Collection[int], alignment: Alignment) -> tuple[str, str] | None:
    """Return the types of the matrix products of some nodes in the base and now, if the new type is wider."""
    before, after = (_type(nodes, alignment, time) for time in (-alignment.busier, alignment.busier))
    return (before, after) if before in _WIDER and after in _WIDER[before] else None


def _type(nodes: Collection[int], alignment: Alignment, gained: Floats) -> str | None:
    """The type of the matrix products with most of the time that the products gained, in s; None if unknown."""
    times: dict[str, float] = defaultdict(float)
    for node in nodes:
        name, time = alignment.nodes[node].name, float(gained[node])
        if alignment.nodes[node].kind == "kernel" and _is_product(name) and time > 0:
            times[next((kind for kind, is_one in _TYPES if is_one.search(name)), "")] += time
    kind = max(times, key=lambda one: times[one], default="")
    return kind if kind and times[kind] >= _MOST_OF_TIME * sum(times.values()) else None
