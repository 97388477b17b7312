"""Names of events as small numbers, and what a name says of an event."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

#: A trace with more names than these was made to fill the memory; further ones are one.
MOST_NAMES = 200_000
LONGEST_NAME = 8192
OTHERS = "(other names)"

_STEP = re.compile(r"ProfilerStep#(\d{1,18})$")
_COLLECTIVE_RANGE = re.compile(r"(?:nccl|gloo|rccl):")
_LOADER = re.compile(r"enumerate\(Data(?:Loader\)#.*\.__next__|Pipe\)#.*)$", re.DOTALL)
_COLLECTIVE_KERNEL = re.compile(r"(?:nccl|rccl)|.*nccl(?:Dev)?Kernel", re.IGNORECASE | re.DOTALL)

#: The collectives that torch_tb_profiler 0.4.3 knows.
_PLUGIN_COLLECTIVES = frozenset(
    f"{backend}:{name}"
    for backend in ("nccl", "gloo")
    for name in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)

#: Parts of the names of kernels that use tensor cores: torch_tb_profiler's, which end at Ampere, and later ones of
#: NVIDIA and AMD. Names of Triton kernels cannot tell.
# fmt: off
_PLUGIN_TENSOR_CORES = (
    "h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
    "conv1x1", "conv2d_c1_k1", "direct_group", "xmma_implicit_gemm", "xmma_sparse_conv",
    "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm", "c1688",
)
_LATER_TENSOR_CORES = (
    "wgmma", "gmma", "imma", "bmma", "tensorop", "sm90_xmma", "cutlass3x_sm90", "sm100_", "cutlass3x_sm100", "tcgen05",
    "nvjet_", "flash_fwd", "flash_bwd", "fmha", "Cijk_", "mfma",
)
# fmt: on


class Names(dict[object, int]):
    """From name to number, in order of appearance: `names[name]` makes one up for a new name."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._most = most

    def __missing__(self, name: object) -> int:
        text = _text(name)
        if len(text) > LONGEST_NAME or (len(self.texts) >= self._most and not _is_special(text)):
            text = OTHERS
        number = self.get(text)
        if number is None:
            number = self[text] = len(self.texts)
            self.texts.append(text)
        if name != text and len(self) < 2 * self._most:
            self[name] = number
        return number

    def which(self, says: Callable[[str], object]) -> Mask:
        """For each number, whether its name says so; shape (names,)."""
        return np.fromiter((bool(says(text)) for text in self.texts), bool, len(self.texts))


def _text(name: object) -> str:
    """A name as text that can be stored: bytes that were no UTF-8, and half pairs of surrogates, become U+FFFD."""
    text = name if isinstance(name, str) else "" if name is None else str(name)
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def step_number(name: str) -> int | None:
    """7 of `ProfilerStep#7`."""
    found = _STEP.match(name)
    return int(found[1]) if found else None


def is_loader(name: str) -> bool:
    """Whether a range is the wait for the next batch of a DataLoader or DataPipe."""
    return _LOADER.match(name) is not None


def is_collective_range(name: str) -> bool:
    """Whether a range of the host is a collective of NCCL, Gloo or RCCL."""
    return _COLLECTIVE_RANGE.match(name) is not None


def is_collective_kernel(name: str) -> bool:
    """Whether a kernel is one of NCCL or RCCL."""
    return _COLLECTIVE_KERNEL.match(name) is not None


def is_plugin_collective(name: str) -> bool:
    """Whether torch_tb_profiler takes a range for a collective."""
    return name in _PLUGIN_COLLECTIVES


def uses_tensor_cores(name: str) -> bool:
    """Whether the name of a kernel says that it uses tensor cores, or what AMD has in their place."""
    return uses_plugin_tensor_cores(name) or any(part in name for part in _LATER_TENSOR_CORES)


def uses_plugin_tensor_cores(name: str) -> bool:
    """Whether torch_tb_profiler says so; its list ends at Ampere."""
    return any(part in name for part in _PLUGIN_TENSOR_CORES)


def _is_special(text: str) -> bool:
    """Whether a name says more than itself, so that it must not be lost among many."""
    is_range = step_number(text) is not None or is_loader(text) or is_collective_range(text)
    return is_range or is_collective_kernel(text)
