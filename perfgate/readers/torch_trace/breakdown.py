"""The use of time: in each step, and on each device between the first step and the last.

Every moment of a step belongs to one class, so the parts of a step sum to its time. There are two modes: `corrected`
knows the names that NCCL, CUDA and torch have written since 2022; `tensorboard` gives the numbers of torch_tb_profiler
0.4.3 ("the plugin"), which stopped before. Events in no class here are never counted: `gpu_user_annotation` (a copy of
a range), `python_function`, `overhead`, `cuda_sync`, `Trace`, flows, counters, and the steps themselves.

Sources: torch_tb_profiler 0.4.3, `overall_parser.py` (the parts of a step), `gpu_metrics_parser.py` (utilization, SM
efficiency, occupancy) and `tensor_cores_parser.py`; HTA 0.5, `breakdown_analysis.py` (the causes of idle time, here for
a whole device, not for each stream).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perfgate.readers.text import TraceMode
from perfgate.readers.torch_trace import event_fields as fields
from perfgate.readers.torch_trace.event_fields import Float64, Int64, Mask
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.steps import Steps
from perfgate.readers.torch_trace.tables import ANNOTATION, MEMCPY, MEMSET, OP, Kernels, Spans

#: The classes of a step's time. A moment in several classes belongs to the first of them; in none, to `other`.
CLASSES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec")
#: HTA's limit in ns: the device causes a shorter gap between two kernels that were launched in time.
_KERNEL_WAIT = 30_000
_NEVER = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Sorted half-open intervals [start, end) that neither overlap nor touch; both arrays (n,)."""

    starts: Int64
    ends: Int64


NOTHING = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: Int64, ends: Int64) -> Intervals:
    """Return the union of intervals, which may overlap, touch, be empty and have any order."""
    if len(starts) == 0:
        return NOTHING
    # Each array is freed as early as possible: of a large trace they are the peak of memory.
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = ends[order]
    del order
    np.maximum.accumulate(ends, out=ends)
    begins = np.concatenate(([True], starts[1:] > ends[:-1]))
    starts = starts[begins]
    ends = ends[np.concatenate((begins[1:], [True]))]
    keep = starts < ends
    return Intervals(starts, ends) if keep.all() else Intervals(starts[keep], ends[keep])


def join(*sets: Intervals) -> Intervals:
    """Return the union of several sets."""
    return union(np.concatenate([one.starts for one in sets]), np.concatenate([one.ends for one in sets]))


def measure_within(intervals: Intervals, starts: Int64, ends: Int64) -> Int64:
    """Return the length of the part of the set inside each window; (n,) for n windows."""
    if len(intervals.starts) == 0:
        return np.zeros(len(starts), np.int64)
    total = np.concatenate(([0], np.cumsum(intervals.ends - intervals.starts)))

    def before(times: Int64) -> Int64:
        # the length of the set before each time: of all intervals that began, without what the last has after it
        index = np.searchsorted(intervals.starts, times, side="right")
        return total[index] - np.where(index > 0, np.maximum(intervals.ends[index - 1] - times, 0), 0)

    return before(ends) - before(starts)


def complement(intervals: Intervals, start: int, end: int) -> Intervals:
    """Return the part of the window [start, end) outside the set."""
    starts = np.concatenate(([start], intervals.ends)).clip(start, end)
    ends = np.concatenate((intervals.starts, [end])).clip(start, end)
    keep = starts < ends
    return Intervals(starts[keep], ends[keep])


class StepBreakdown:
    """The times at which each class of events ran, over all threads and devices. The methods return ns, (steps,)."""

    def __init__(self, steps: Steps, tables: EventTables, mode: TraceMode) -> None:
        self._steps = steps
        host, kernels, device, runtime = tables.host, tables.kernels, tables.device, tables.runtime
        is_plugin = mode == "tensorboard"
        host_comm, kernel_comm = _collective_ranges(tables, mode)[host.name], collective_kernels(tables, mode)
        loader = host.names.which(fields.is_loader)[host.name] & ~host_comm
        loader &= (host.kind == OP) if is_plugin else (host.kind == OP) | (host.kind == ANNOTATION)
        step = host.names.which(fields.is_step)[host.name]
        #: By the names in `CLASSES`.
        self.sets = {
            "kernel": _select(kernels, ~kernel_comm),
            "memcpy": _select(device, device.kind == MEMCPY),
            "memset": _select(device, device.kind == MEMSET),
            "communication": join(_select(kernels, kernel_comm), _select(host, host_comm)),
            "runtime": _select(runtime, runtime.known_to(mode)),
            "dataloader": _select(host, loader),
            "cpu_exec": _select(host, (host.kind != ANNOTATION) & ~host_comm & ~loader & ~step),
        }

    def parts(self) -> dict[str, Int64]:
        """Return the time of each class in each step, and that of `other`.

        Each class gets the time that it adds to the union of the classes before it. The plugin subtracts instead, with
        the same result.
        """
        parts: dict[str, Int64] = {}
        covered, known = NOTHING, self._within(NOTHING)
        for name in CLASSES:
            covered = join(covered, self.sets[name])
            total = self._within(covered)
            parts[name], known = total - known, total
        parts["other"] = self._steps.ends - self._steps.starts - known
        return parts

    def communication(self, *, has_kernels: bool) -> dict[str, Int64]:
        """Return the time of communication in each step, in ns: `overlap` beside other kernels, `exposed` without them.

        In a trace without kernels, host work takes their place.
        """
        compute, comm = self.sets["kernel" if has_kernels else "cpu_exec"], self.sets["communication"]
        exposed = self._within(join(compute, comm)) - self._within(compute)
        return {"overlap": self._within(comm) - exposed, "exposed": exposed}

    def _within(self, intervals: Intervals) -> Int64:
        return measure_within(intervals, self._steps.starts, self._steps.ends)


def _collective_ranges(tables: EventTables, mode: TraceMode) -> Mask:
    is_one = fields.PLUGIN_COLLECTIVES.__contains__ if mode == "tensorboard" else fields.is_collective_range
    return tables.host_names.which(is_one)


def collective_kernels(tables: EventTables, mode: TraceMode) -> Mask:
    """Return which kernels are of collectives, (kernels,): by the range that launched them, or by their name."""
    kernels, is_range = tables.kernels, _collective_ranges(tables, mode)
    ids = [external for name, external in tables.collective_ids if external != -1 and is_range[name]]
    # the plugin knows such kernels only by their range
    by_name = kernels.names.which(fields.is_collective_kernel)[kernels.name] & (mode != "tensorboard")
    return by_name | np.isin(kernels.external_id, np.array(ids, np.int64))


def _select(table: Spans, mask: Mask) -> Intervals:
    return union(table.start[mask], table.end[mask])


def device_shares(kernels: Kernels, chosen: Mask, start: int, end: int, uses: Mask) -> dict[str, float]:
    """Return `utilization` and `sm_efficiency` of the chosen kernels' device, as shares of [start, end).

    `occupancy` is its mean over the kernel time in [start, end). `tensor_core_share` is the share of the kernel time of
    the whole trace in kernels that use tensor cores; `uses` is by name, (names,). A share is absent if no kernel has
    its fields: AMD writes neither blocks nor occupancy.
    """
    found: dict[str, float] = {}
    window = end - start
    if window > 0 and chosen.any():
        starts, ends = kernels.start[chosen].clip(start, end), kernels.end[chosen].clip(start, end)
        busy = union(starts, ends)
        found["utilization"] = int((busy.ends - busy.starts).sum()) / window
        blocks, occupancy = kernels.blocks[chosen], kernels.occupancy[chosen]
        full = blocks > 0  # neither 0 nor NaN
        if full.any():
            found["sm_efficiency"] = _multiprocessor_time(starts[full], ends[full], blocks[full]) / window
        known, weight = occupancy >= 0, ends - starts
        if weight[known].sum() > 0:
            found["occupancy"] = float(np.average(occupancy[known], weights=weight[known])) / 100
    times = kernels.end[chosen] - kernels.start[chosen]
    if total := int(times.sum()):
        found["tensor_core_share"] = int(times[uses[kernels.name[chosen]]].sum()) / total
    return found


def _multiprocessor_time(starts: Int64, ends: Int64, blocks: Float64) -> float:
    """Return the integral over time of min(sum of the running kernels' blocks per multiprocessor, 1), in ns."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    running = np.concatenate((blocks, -blocks))[order].cumsum().clip(0, 1)  # rounding may give < 0
    # Not `@`: BLAS splits a dot product by its threads, so the last digits would depend on the machine's cores.
    return float((running[:-1] * np.diff(times[order])).sum())


def idle_times(tables: EventTables, number: int, steps: Steps) -> dict[str, Int64]:
    """Return the ns of each step, (steps,), in which a device ran nothing: `idle`, and by cause `idle_host_wait`, ...

    The host causes a gap if the next event was launched after the gap began, or if there is no next event. The device
    causes a short gap. The rest is `idle_other`, such as waiting for another stream. Without launches, causes are
    unknown.
    """
    device = tables.device
    rows = np.flatnonzero(device.device == number)
    # An unknown launch is `_NEVER`: of events that begin together, a known launch decides.
    launched = np.where(steps.issued[rows] == fields.ABSENT, _NEVER, steps.issued[rows])
    order = np.lexsort((launched, device.start[rows]))
    rows, launched = rows[order], launched[order]
    gaps = complement(union(device.start[rows], device.end[rows]), *steps.window)
    found = {"idle": measure_within(gaps, steps.starts, steps.ends)}
    if (launched == _NEVER).all():
        return found
    following = np.searchsorted(device.start[rows], gaps.ends)
    is_last = following == len(rows)
    launch = launched[np.minimum(following, len(rows) - 1)]
    unknown = (launch == _NEVER) & ~is_last
    host = is_last | ((launch > gaps.starts) & ~unknown)
    short = ~host & ~unknown & (gaps.ends - gaps.starts < _KERNEL_WAIT)
    for name, chosen in (("host_wait", host), ("kernel_wait", short), ("other", ~host & ~short)):
        cause = Intervals(gaps.starts[chosen], gaps.ends[chosen])
        found[f"idle_{name}"] = measure_within(cause, steps.starts, steps.ends)
    return found
