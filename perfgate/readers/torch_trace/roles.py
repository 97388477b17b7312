"""Which events are what: the classes of a step's time, in the two modes.

`corrected` knows what NCCL, CUDA and torch have been writing since 2022. `tensorboard` gives the numbers of
torch_tb_profiler 0.4.3, which stopped there. Whatever is in no class here is never counted: `gpu_user_annotation` (a
copy of a range), `python_function`, `overhead`, `cuda_sync`, `Trace`, flows and counters, and the steps themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.readers.source import TraceMode
from perfgate.readers.torch_trace import names
from perfgate.readers.torch_trace.columns import ANNOTATION, MEMCPY, MEMSET, OP, Columns
from perfgate.readers.torch_trace.intervals import Intervals, join, union
from perfgate.readers.torch_trace.names import Mask
from perfgate.readers.torch_trace.tables import Device, Host, Kernels, Tables

#: From the first on, a moment belongs to the first class that has it; what no class has is `other`.
ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec")


@dataclass(frozen=True, slots=True)
class Roles:
    """When anything of each class ran, over all threads and devices; by the names in `ROLES`."""

    sets: dict[str, Intervals]
    #: Which kernels are communication; shape (kernels,).
    collective_kernels: Mask


def find_roles(tables: Tables, columns: Columns, mode: TraceMode) -> Roles:
    """The classes of a trace as a mode defines them."""
    host, kernels = tables.host, tables.kernels
    is_range = host.names.which(names.is_plugin_collective if mode == "tensorboard" else names.is_collective_range)
    by_host = is_range[host.name]
    by_kernel = _collective_kernels(kernels, columns, is_range, mode)
    loader = host.names.which(names.is_loader)[host.name] & ~by_host
    loader &= (host.kind == OP) if mode == "tensorboard" else (host.kind == OP) | (host.kind == ANNOTATION)
    step = host.names.which(lambda name: names.step_number(name) is not None)[host.name]
    work = (host.kind != ANNOTATION) & ~by_host & ~loader & ~step
    runtime, calls = tables.runtime, tables.runtime.known_to(mode)
    sets = {
        "kernel": _select(kernels, ~by_kernel),
        "memcpy": _select(tables.device, tables.device.kind == MEMCPY),
        "memset": _select(tables.device, tables.device.kind == MEMSET),
        "communication": join(_select(kernels, by_kernel), _select(host, by_host)),
        "runtime": union(runtime.start[calls], runtime.end[calls]),
        "dataloader": _select(host, loader),
        "cpu_exec": _select(host, work),
    }
    return Roles(sets, by_kernel)


def _collective_kernels(kernels: Kernels, columns: Columns, is_range: Mask, mode: TraceMode) -> Mask:
    ids = [external for name, external in columns.collective_ids if external != -1 and is_range[name]]
    found = np.isin(kernels.external_id, np.array(ids, np.int64))
    return found if mode == "tensorboard" else found | kernels.names.which(names.is_collective_kernel)[kernels.name]


def _select(table: Host | Device | Kernels, mask: Mask) -> Intervals:
    return union(table.start[mask], table.end[mask])
