"""Names of events as small integers, and the kind of event that a name shows."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Real traces have fewer names; a trace with more is an attack on memory, so all further names become one.
MOST_NAMES = 200_000
LONGEST_NAME = 8192
OTHERS = "(other names)"

#: Matches the names of steps of the profiler, with their number.
is_step = re.compile(r"ProfilerStep#(\d{1,18})$").match
#: Matches the ranges that wait for the next batch of a DataLoader or DataPipe.
is_loader = re.compile(r"enumerate\(Data(?:Loader\)#.*\.__next__|Pipe\)#.*)$", re.DOTALL).match
#: Matches the host ranges that are collectives of NCCL, Gloo or RCCL.
is_collective_range = re.compile(r"(?:nccl|gloo|rccl):").match
#: Matches the kernels of NCCL and RCCL.
is_collective_kernel = re.compile(r"(?:nccl|rccl)|.*nccl(?:Dev)?Kernel", re.IGNORECASE | re.DOTALL).match
_CLASSES = (is_step, is_loader, is_collective_range, is_collective_kernel)

#: The ranges that torch_tb_profiler 0.4.3 counts as collectives.
PLUGIN_COLLECTIVES = frozenset(
    f"{backend}:{name}"
    for backend in ("nccl", "gloo")
    for name in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)

#: Parts of the names of kernels that use tensor cores. The list of torch_tb_profiler ends at Ampere; the second list
#: has later kernels of NVIDIA and AMD. The names of Triton kernels do not show it.
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
    """Maps a name to its number, in order of appearance: `names[name]` adds a new name."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._most = most

    def __missing__(self, name: object) -> int:
        text = name if isinstance(name, str) else "" if name is None else str(name)
        if not text.isascii():  # invalid UTF-8 and half surrogate pairs become U+FFFD
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        # A name that decides the class of an event is kept among any number of names.
        full = len(self.texts) >= self._most and not any(matches(text) for matches in _CLASSES)
        if full or len(text) > LONGEST_NAME:
            text = OTHERS
        number = self.get(text)
        if number is None:
            number = self[text] = len(self.texts)
            self.texts.append(text)
        if name != text and len(self) < 2 * self._most:
            self[name] = number
        return number

    def which(self, predicate: Callable[[str], object]) -> Mask:
        """The result of a predicate for each name; shape (names,)."""
        return np.fromiter((bool(predicate(text)) for text in self.texts), bool, len(self.texts))


def uses_tensor_cores(name: str) -> bool:
    """True if a kernel's name shows that it uses tensor cores, or AMD's matrix cores."""
    return uses_plugin_tensor_cores(name) or any(part in name for part in _LATER_TENSOR_CORES)


def uses_plugin_tensor_cores(name: str) -> bool:
    """True if torch_tb_profiler counts a kernel as one that uses tensor cores."""
    return any(part in name for part in _PLUGIN_TENSOR_CORES)
