"""Collectives of NCCL by their own arguments (torch 2.3 and later): how long, how many bytes, how fast.

Bandwidths are those of nccl-tests (`doc/PERFORMANCE.md`): what the links carried, whatever the number of ranks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfgate.readers.torch_trace.columns import Collective
from perfgate.readers.torch_trace.numbers import Float64, Int64, whole_numbers
from perfgate.readers.torch_trace.tables import Kernels

#: Bytes of an element, by torch's name of its type (c10/core/ScalarType.h).
_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16"), 2),
    **dict.fromkeys(("Int", "Float", "QInt32", "ComplexHalf", "UInt32"), 4),
    **dict.fromkeys(("Long", "Double", "ComplexFloat", "UInt64"), 8),
    "ComplexDouble": 16,
}
_ALL_REDUCE = re.compile(r"_?all_?reduce", re.IGNORECASE)
_ONCE_AROUND = re.compile(r"_?(?:all_?gather|reduce_?scatter|all_?to_?all)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Calls:
    """Collectives in order of time; all arrays (n,). Bytes and bandwidth are NaN where the arguments do not say."""

    names: list[str]
    groups: list[str]
    device: list[int]
    start: Int64
    duration: Int64
    bytes: Float64
    #: Of the bus, in bytes per second.
    bandwidth: Float64


def find_calls(collectives: list[Collective], kernels: Kernels) -> Calls:
    """The collectives of a trace."""
    rows = np.array([one.row for one in collectives], np.int64)
    order = np.argsort(kernels.start[rows], kind="stable") if len(rows) else rows
    ordered, rows = [collectives[at] for at in order], rows[order]
    duration = kernels.end[rows] - kernels.start[rows]
    size = np.array([_size(one) for one in ordered], np.float64)
    factor = np.array([_bus_factor(one) for one in ordered], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        bandwidth = np.where(duration > 0, size * factor / duration * 1e9, np.nan)
    return Calls(
        [one.name for one in ordered],
        [one.group for one in ordered],
        kernels.device[rows].tolist(),
        kernels.start[rows],
        duration,
        size,
        bandwidth,
    )


def _size(one: Collective) -> float:
    """Bytes of the whole message: of what a rank sends or receives, the larger one."""
    args = one.event.args
    elements = whole_numbers([args.elements_in, args.elements_out]).max()
    return float(elements) * _BYTES.get(str(args.dtype), np.nan) if elements >= 0 else np.nan


def _bus_factor(one: Collective) -> float:
    """How many times the message crosses each link, for a group of n ranks."""
    n = int(whole_numbers([one.event.args.group_size])[0])
    if n < 2:
        return np.nan
    if _ALL_REDUCE.match(one.name):
        return 2 * (n - 1) / n
    return (n - 1) / n if _ONCE_AROUND.match(one.name) else 1.0
