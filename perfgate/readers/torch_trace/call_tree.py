"""The call tree of a trace: ranges and operators as they call each other, and below them runtime calls and kernels.

A kernel is below the operator that launched it. Each moment of a step belongs to one node: to the kernel that runs, or
the copy, or the collective; if the device does nothing, to the innermost call on the thread of the steps; if that
thread is in no operator, to the innermost call on another thread; or else to the range, or to the step itself. So the
times of the nodes sum to the time of the step exactly.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from perfgate.core import read_only
from perfgate.core.call_trees import CallNode, CallTree, NodeKind, stable_name
from perfgate.readers.torch_trace.breakdown import NOTHING, collective_kernels, complement, join, union
from perfgate.readers.torch_trace.call_nodes import CallNodes, nest
from perfgate.readers.torch_trace.event_fields import Float64, Int64
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.host_calls import HostCalls
from perfgate.readers.torch_trace.steps import Steps, index_at, step_of
from perfgate.readers.torch_trace.tables import KERNEL, MEMCPY, Allocations, Frames, Ids

_SECOND = 1e9


def call_tree(tables: EventTables, steps: Steps, rank: str) -> CallTree:
    """Return the call tree of one rank."""
    nodes, device = CallNodes(steps), tables.device
    live = _live_at_peak(tables.allocations)
    made = tables.allocations
    calls = HostCalls(tables, nodes, union(device.start, device.end), (made.time[live], made.thread[live]))
    blocks = _add_device(tables, nodes, calls.launchers)
    count = len(nodes.nodes)
    first = np.where(nodes.has_calls, nodes.first_offset[:count] / _SECOND, np.inf)
    live_bytes = np.bincount(calls.answers, made.size[live].astype(np.float64), count).astype(np.float64)
    return CallTree(
        rank,
        _with_sources(nodes, tables.frames),
        read_only(nodes.table("counts")),
        read_only(nodes.table("busy") / _SECOND),
        read_only(nodes.table("wall") / _SECOND),
        memory=read_only(live_bytes) if len(made.time) else None,
        peak=_peak(tables.memory),
        blocks=blocks,
        first=read_only(first),
        has_steps=steps.are_marked,
    )


def _add_device(tables: EventTables, nodes: CallNodes, launchers: Ids) -> Float64 | None:
    """Put kernels and copies below the calls that launched them, and return the thread blocks of each node.

    Time in which the device works counts for its kernels and copies, not for the host.
    """
    device, steps = tables.device, nodes.steps
    parents, step = _launches(tables, nodes.steps, launchers)
    kind = np.full(len(device.start), 2)
    kind[device.kind == KERNEL] = collective_kernels(tables, "corrected")
    names: tuple[NodeKind, ...] = ("kernel", "communication", "copy")
    texts = [stable_name(text) for text in device.names.texts]
    width = max(len(texts), 1)
    pairs, inverse = np.unique(kind * width + device.name, return_inverse=True)
    numbers = [nodes.name(texts[pair % width], names[pair // width]) for pair in pairs.tolist()]
    if not numbers:
        return None
    found = nodes.children(parents, np.array(numbers, np.int64)[inverse])
    nodes.add_calls(found, step, device.start, device.end - device.start, -1)
    covered = NOTHING
    for chosen in (kind == 0, (kind == 2) & (device.kind == MEMCPY), (kind == 2) & (device.kind != MEMCPY), kind == 1):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(device.start[rows], kind="stable")]
        start, end = device.start[rows], device.end[rows]
        before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        low = np.maximum(start, before)
        own = low < end
        free = complement(covered, *steps.window)
        nodes.add_wall(found[rows[own]], np.full(own.sum(), -1), low[own], end[own], free)
        covered = join(covered, union(start, end))
    rows = np.flatnonzero((device.kind == KERNEL) & (step >= 0))
    blocks = np.bincount(found[rows], device.amount[rows], len(nodes.nodes)) / len(steps)
    return None if np.isnan(blocks).any() else read_only(blocks)


def _launches(tables: EventTables, steps: Steps, launchers: Ids) -> tuple[Int64, Int64]:
    """Return the node that launched each device event, and the index of the step in which it did: (n,) each.

    An event without a launch is below the step, and belongs to the step in which it ran.
    """
    runtime, device = tables.runtime, tables.device
    step = index_at(device.start, steps.starts, steps.ends)
    parents = np.zeros(len(device.start), np.int64)
    if not len(runtime.start) or not len(device.start):
        return parents, step
    order = np.lexsort((runtime.start, runtime.correlation))
    known = runtime.correlation[order]
    place = np.minimum(np.searchsorted(known, device.correlation), len(known) - 1)
    launched = (device.correlation >= 0) & (known[place] == device.correlation)
    call = order[place[launched]]
    parents[launched], step[launched] = launchers[call], step_of(runtime.start[call], steps)
    return parents, step


def _live_at_peak(made: Allocations) -> Int64:
    """Return the rows of the allocations in use at the peak of the devices, or else of the host, (n,)."""
    if not len(made.time):
        return np.empty(0, np.int64)
    on_host = np.array([text == "cpu" for text in made.devices.texts], bool)[made.device]
    rows = np.flatnonzero(~on_host if not on_host.all() else on_host)
    rows = rows[np.argsort(made.time[rows], kind="stable")]
    rows = rows[: int(np.argmax(np.cumsum(made.size[rows]))) + 1]
    by_address = rows[np.lexsort((np.arange(len(rows)), made.address[rows], made.device[rows]))]
    address, device = made.address[by_address], made.device[by_address]
    is_last = np.append((address[1:] != address[:-1]) | (device[1:] != device[:-1]), True)
    live: Int64 = by_address[is_last & (made.size[by_address] > 0)]
    return live


def _peak(peaks: dict[tuple[str, str], int]) -> float | None:
    """Return the peak of allocated bytes: of all devices together, or of the host if no device has one."""
    allocated = {place: size for (which, place), size in peaks.items() if which == "allocated"}
    devices = [size for place, size in allocated.items() if place != "cpu"]
    return float(sum(devices)) if devices else allocated.get("cpu")


def _with_sources(nodes: CallNodes, frames: Frames) -> tuple[CallNode, ...]:
    """Return the nodes with the line of the program's own function that first called each, if the trace has stacks."""
    found = list(nodes.nodes)
    for thread in np.unique(frames.thread).tolist():
        rows = np.flatnonzero(frames.thread == thread)
        spans = nest(frames.start[rows], frames.end[rows], frames.name[rows].astype(np.int64))
        called = np.flatnonzero(nodes.has_calls & (nodes.first_thread[: len(found)] == thread))
        at = spans.running_at(nodes.first_time[called])
        for node, position in zip(called.tolist(), at.tolist(), strict=True):
            if position >= 0:
                name = int(frames.name[rows[spans.rows[position]]])
                found[node] = replace(found[node], source=frames.names.texts[name])
    return tuple(found)
