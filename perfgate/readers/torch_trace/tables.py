"""The columns of a trace as a whole, when all of it has been read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfgate.readers.source import TraceMode
from perfgate.readers.torch_trace.columns import KERNEL, PLAIN, Columns, Table
from perfgate.readers.torch_trace.names import Mask, Names
from perfgate.readers.torch_trace.numbers import Float64, Int64

Ids = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Host:
    """Ranges of the host; all arrays (n,), times in ns. `kind` is OP, ANNOTATION or PYTHON."""

    names: Names
    name: Ids
    kind: Kinds
    start: Int64
    end: Int64


@dataclass(frozen=True, slots=True)
class Runtime:
    """Calls of the runtime and the driver; all arrays (n,), times in ns. `kind` is PLAIN or NAMED."""

    kind: Kinds
    correlation: Int64
    start: Int64
    end: Int64

    def known_to(self, mode: TraceMode) -> Mask:
        """Which calls a mode knows: torch_tb_profiler only those of the category that torch wrote until 2021."""
        return self.kind == PLAIN if mode == "tensorboard" else np.ones(len(self.kind), bool)


@dataclass(frozen=True, slots=True)
class Device:
    """Kernels and copies; all arrays (n,), times in ns. `kind` is KERNEL, MEMCPY or MEMSET."""

    devices: Names
    kind: Kinds
    correlation: Int64
    device: Ids
    start: Int64
    end: Int64


@dataclass(frozen=True, slots=True)
class Kernels:
    """The rows of `Device` that are kernels, and what only they have; all arrays (n,)."""

    names: Names
    name: Ids
    device: Ids
    start: Int64
    end: Int64
    external_id: Int64
    #: Blocks per multiprocessor, and percent of occupancy; NaN where absent.
    blocks: Float64
    occupancy: Float64

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True)
class Tables:
    """All columns."""

    host: Host
    runtime: Runtime
    device: Device
    kernels: Kernels

    @classmethod
    def of(cls, columns: Columns) -> Tables:
        """The columns that were kept; they are taken from there."""
        device_kind = columns.device.take("kind", np.int8)
        device_id = columns.device.take("device", np.int32)
        start, end = _span(columns.device)
        correlation = columns.device.take("correlation")
        host_start, host_end = _span(columns.host)
        runtime_start, runtime_end = _span(columns.runtime)
        rows = np.flatnonzero(device_kind == KERNEL)
        return cls(
            Host(
                columns.host_names,
                columns.host.take("name", np.int32),
                columns.host.take("kind", np.int8),
                host_start,
                host_end,
            ),
            Runtime(
                columns.runtime.take("kind", np.int8), columns.runtime.take("correlation"), runtime_start, runtime_end
            ),
            Device(columns.devices, device_kind, correlation, device_id, start, end),
            Kernels(
                columns.kernel_names,
                columns.device.take("name", np.int32),
                device_id[rows],
                start[rows],
                end[rows],
                columns.device.take("external_id"),
                columns.device.take("blocks", np.float64),
                columns.device.take("occupancy", np.float64),
            ),
        )


def _span(table: Table) -> tuple[Int64, Int64]:
    start = table.take("start")
    return start, start + table.take("duration")
