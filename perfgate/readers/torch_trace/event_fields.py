"""The typed fields of an event, columns of printed numbers as exact numpy arrays, and names as small integers.

No other field of an event becomes a Python object: stacks are large, and the metadata of real traces has environment
variables with credentials. Source of the fields: Kineto, `libkineto/src/output_json.cpp`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from perfgate.readers.values import number as number_of

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: A number that some version of the profiler wrote as a string, or left out.
Loose = int | float | str | None

#: The integer that marks an absent or unreadable time.
ABSENT = np.iinfo(np.int64).min
#: float64 microseconds below this are exact to the nanosecond.
_EXACT_BELOW = float(1 << 43)
#: float64 represents every whole number below this.
_EXACT_WHOLE = float(1 << 53)
#: 73 years in nanoseconds: no real time is further from 1970. The end of an event still fits in int64.
_LIMIT = 1 << 61


class Args(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an event that metrics need, in the order of common events: so each is found sooner."""

    external_id: Loose = msgspec.field(default=None, name="External id")
    dims: Any = msgspec.field(default=None, name="Input Dims")
    concrete: Any = msgspec.field(default=None, name="Concrete Inputs")
    device: Loose = None
    correlation: Loose = None
    blocks_per_sm: Loose = msgspec.field(default=None, name="blocks per SM")
    grid: Loose | tuple[int | float | None, ...] = None
    occupancy: Loose = msgspec.field(default=None, name="est. achieved occupancy %")
    copied: Loose = msgspec.field(default=None, name="bytes")
    external_id_before_2022: Loose = msgspec.field(default=None, name="external id")
    collective: Loose = msgspec.field(default=None, name="Collective name")
    group: Loose = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Loose = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Loose = msgspec.field(default=None, name="Group size")
    elements_in: Loose = msgspec.field(default=None, name="In msg nelems")
    elements_out: Loose = msgspec.field(default=None, name="Out msg nelems")
    dtype: Loose = None
    device_type: Loose = msgspec.field(default=None, name="Device Type")
    device_id: Loose = msgspec.field(default=None, name="Device Id")
    size: Loose = msgspec.field(default=None, name="Bytes")
    address: Loose = msgspec.field(default=None, name="Addr")
    allocated: Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: Loose = msgspec.field(default=None, name="Total Reserved")


NO_ARGS = Args()


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event; `ts` and `dur` are microseconds as printed."""

    ph: Loose = None
    cat: Loose = None
    name: Loose = None
    tid: Loose = None
    ts: Loose | Decimal = None
    dur: Loose | Decimal = None
    args: Args = NO_ARGS


class _Fast(Event, frozen=True, gc=False):
    ts: Loose = None
    dur: Loose = None


class _Exact(Event, frozen=True, gc=False):
    ts: Decimal | None = None
    dur: Decimal | None = None


Decoder = msgspec.json.Decoder[Sequence[Event]]
#: Decodes times as float64, which is exact to the nanosecond below 2^43 microseconds.
FAST = cast("Decoder", msgspec.json.Decoder(list[_Fast]))
#: Decodes times as decimals, which are always exact.
EXACT = cast("Decoder", msgspec.json.Decoder(list[_Exact]))


class Inexact(Exception):
    """float64 cannot represent these times to the nanosecond: decode them as decimals."""


def nanoseconds(micros: Sequence[Any]) -> Int64:
    """Convert printed microseconds to nanoseconds, rounded half to even; `ABSENT` for a value that is not a time.

    Raises Inexact for floats beyond 2^43 microseconds (100 days).
    """
    try:
        column = np.array(micros)
    except (ValueError, OverflowError):
        column = np.array([None])  # so that they are converted one by one
    if column.dtype == np.int64:
        return np.asarray(np.where(np.abs(column) < _LIMIT // 1000, column * 1000, ABSENT), np.int64)
    is_usual = column.dtype == np.float64 and np.isfinite(column).all()
    is_large = is_usual and (np.abs(column) >= _EXACT_BELOW).any()
    # integers among floats became floats in the column, but are exact in the list
    if is_large and any(isinstance(value, float) and abs(value) >= _EXACT_BELOW for value in micros):
        raise Inexact
    if is_large or not is_usual:
        return np.array([_nanoseconds(value) for value in micros], np.int64)
    whole = np.floor(column)
    exact: Int64 = whole.astype(np.int64) * 1000 + np.rint((column - whole) * 1000).astype(np.int64)
    return exact


def _nanoseconds(value: Any) -> int:
    value = number_of(value) if isinstance(value, str) else value
    if isinstance(value, float):
        value = Decimal(repr(value))
    if value is None or (isinstance(value, Decimal) and value.is_nan()) or not -_LIMIT < value < _LIMIT:
        return ABSENT
    nanos = round(value * 1000)
    return nanos if -_LIMIT < nanos < _LIMIT else ABSENT


def whole_numbers(values: Sequence[Any], absent: int = -1) -> Int64:
    """Convert identifiers or counts to integers; `absent` for a value that is not a number."""
    try:
        column = np.array(values)
        if column.dtype == np.int64:
            return column
        found = np.array(values, np.float64)  # None becomes NaN
    except (ValueError, OverflowError, TypeError):
        found = np.array([math.inf])  # so that they are converted one by one
    if (np.abs(found) >= _EXACT_WHOLE).any():
        numbers = (number_of(value) if isinstance(value, str) else value for value in values)
        # the comparison is False for NaN
        return np.array([int(one) if one is not None and abs(one) < 1 << 62 else absent for one in numbers], np.int64)
    return np.where(np.isnan(found), absent, found).astype(np.int64)


def decimals(values: Sequence[Any]) -> Float64:
    """Convert measured numbers to floats; NaN for a value that is not a finite number."""
    try:
        found = np.array(values, np.float64)  # None becomes NaN
    except (ValueError, OverflowError, TypeError):
        found = np.array([_decimal(value) for value in values], np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def blocks(grids: Sequence[Any]) -> Float64:
    """Return the thread blocks of grids (x, y, z), (n,); NaN for a value that is not a grid."""
    try:
        return decimals([x * y * z for x, y, z in grids])
    except (TypeError, ValueError):
        are_grids = (isinstance(grid, tuple) and len(grid) == 3 and None not in grid for grid in grids)
        return decimals([math.prod(grid) if is_grid else None for grid, is_grid in zip(grids, are_grids, strict=True)])


def _decimal(value: Any) -> float:
    value = number_of(value) if isinstance(value, str) else value
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.nan


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
        # a name that decides the class of an event is kept, even if there are too many names
        full = len(self.texts) >= self._most and not any(matches(text) for matches in _CLASSES)
        if full or len(text) > LONGEST_NAME:
            text = OTHERS
        if (number := self.get(text)) is None:
            number = self[text] = len(self.texts)
            self.texts.append(text)
        if name != text and len(self) < 2 * self._most:  # so that it is found at once when it occurs again
            self[name] = number
        return number

    def which(self, predicate: Callable[[str], object]) -> Mask:
        """Return the result of a predicate for each name; shape (names,)."""
        return np.fromiter((bool(predicate(text)) for text in self.texts), bool, len(self.texts))


def uses_tensor_cores(name: str) -> bool:
    """Return whether a kernel's name shows that it uses tensor cores, or AMD's matrix cores."""
    return uses_plugin_tensor_cores(name) or any(part in name for part in _LATER_TENSOR_CORES)


def uses_plugin_tensor_cores(name: str) -> bool:
    """Return whether torch_tb_profiler counts a kernel as one that uses tensor cores."""
    return any(part in name for part in _PLUGIN_TENSOR_CORES)


#: Libraries. If one of their functions is slow, the line of the program that calls it is of more use.
_LIBRARIES = frozenset(("torch", "torchvision", "torchaudio", "numpy", "triton", "site-packages"))
_FUNCTION = re.compile(r"(.{1,500})\((\d+)\): .+", re.DOTALL)
#: The folder of Python's library in a whole path, of Linux or Windows.
_OF_PYTHON = re.compile(r"/lib(?:64)?/python3\.|/python\d*/lib/", re.IGNORECASE)


@cache
def _is_standard(first: str) -> bool:
    return first.removesuffix(".py") in sys.stdlib_module_names


def is_own_function(name: object) -> bool:
    """Return whether a name is that of a function of the program itself: not of C, Python's library or torch.

    Kineto writes `train.py(31): loop` for a function of Python, with the path below the entry of `sys.path`, `<built-in
    method ...>` for one of C, and `nn.Module: Linear_0` for a module (torch/csrc/autograd/profiler_python.cpp).
    """
    if not isinstance(name, str) or name[:1] == "<" or (match := _FUNCTION.match(name)) is None:
        return False
    path = re.sub(r"\\+", "/", match[1]).strip("/")
    parts = path.split("/")
    # a folder further down may have the name of a module of Python: `train/profile/run.py`
    is_standard = _is_standard(parts[0]) or _OF_PYTHON.search(f"/{path}")
    return not is_standard and _LIBRARIES.isdisjoint(parts[:-1]) and parts[0][:1] != "<"
