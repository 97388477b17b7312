"""How well each device was used between the start of the first step and the end of the last one.

The formulas of utilization, SM efficiency and occupancy are those of torch_tb_profiler 0.4.3,
`gpu_metrics_parser.py`; that of the tensor cores is `tensor_cores_parser.py`, and the causes of idle time are those of
HTA 0.5, `breakdown_analysis.py`, applied to a device as a whole instead of to each stream.
"""

from __future__ import annotations

import numpy as np

from perfgate.readers.torch_trace.intervals import Intervals, complement, measure_within, union
from perfgate.readers.torch_trace.names import Mask
from perfgate.readers.torch_trace.numbers import Float64, Int64
from perfgate.readers.torch_trace.steps import Steps
from perfgate.readers.torch_trace.tables import Device, Kernels, Runtime

#: A gap between two kernels that were both launched in time is the device's own below 30 µs, HTA's limit.
_KERNEL_WAIT = 30_000
_NEVER = np.iinfo(np.int64).max


def shares(kernels: Kernels, chosen: Mask, start: int, end: int) -> dict[str, float]:
    """`utilization`, `sm_efficiency` and `occupancy` of the chosen kernels' device, as shares of [start, end).

    A share whose fields no kernel has is not there: AMD writes neither blocks nor occupancy.
    """
    starts, ends = kernels.start[chosen].clip(start, end), kernels.end[chosen].clip(start, end)
    blocks, occupancy = kernels.blocks[chosen], kernels.occupancy[chosen]
    window, weight = end - start, ends - starts
    if window <= 0 or not chosen.any():
        return {}
    busy = union(starts, ends)
    found = {"utilization": int((busy.ends - busy.starts).sum()) / window}
    full = blocks > 0  # neither 0 nor NaN
    if full.any():
        found["sm_efficiency"] = _filled(starts[full], ends[full], blocks[full]) / window
    known = occupancy >= 0
    if weight[known].sum() > 0:
        found["occupancy"] = float(np.average(occupancy[known], weights=weight[known])) / 100
    return found


def _filled(starts: Int64, ends: Int64, blocks: Float64) -> float:
    """The integral of min(sum of the blocks per multiprocessor of all running kernels, 1), in ns."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    running = np.concatenate((blocks, -blocks))[order].cumsum().clip(0, 1)  # the sum may drift below 0
    return float(running[:-1] @ np.diff(times[order])) if len(times) else 0.0


def tensor_core_share(kernels: Kernels, chosen: Mask, uses: Mask) -> dict[str, float]:
    """The share of the kernels' time that went to tensor cores, in the whole trace; `uses` is by name, (names,)."""
    times = kernels.end[chosen] - kernels.start[chosen]
    total = int(times.sum())
    return {"tensor_core_share": int(times[uses[kernels.name[chosen]]].sum()) / total} if total else {}


def idle(device: Device, runtime: Runtime, number: int, steps: Steps) -> dict[str, Int64]:
    """Nanoseconds of each step, (steps,), in which a device ran nothing, and why: keys `idle`, `idle_host_wait`, ...

    A gap is the host's fault if what follows it was launched after it began, or nothing follows; the device's own if
    it is short; else `idle_other`, waiting for another stream, say. Without launches no cause is known.
    """
    rows = np.flatnonzero(device.device == number)
    launched = launch_times(runtime, device.correlation[rows])
    order = np.lexsort((launched, device.start[rows]))
    rows, launched = rows[order], launched[order]
    gaps = complement(union(device.start[rows], device.end[rows]), *steps.window)
    found = {"idle": _within(gaps, steps)}
    if (launched == _NEVER).all():
        return found
    following = np.searchsorted(device.start[rows], gaps.ends)
    is_last = following == len(rows)
    launch = launched[np.minimum(following, len(rows) - 1)]
    unknown = (launch == _NEVER) & ~is_last
    host = is_last | ((launch > gaps.starts) & ~unknown)
    short = ~host & ~unknown & (gaps.ends - gaps.starts < _KERNEL_WAIT)
    for name, chosen in (("host_wait", host), ("kernel_wait", short), ("other", ~host & ~short)):
        found[f"idle_{name}"] = _within(Intervals(gaps.starts[chosen], gaps.ends[chosen]), steps)
    return found


def launch_times(runtime: Runtime, correlation: Int64) -> Int64:
    """When the host first asked for each of some device events, in ns; the largest int64 where nobody knows."""
    if len(runtime.correlation) == 0:
        return np.full(len(correlation), _NEVER)
    order = np.lexsort((runtime.start, runtime.correlation))
    known = runtime.correlation[order]
    at = np.minimum(np.searchsorted(known, correlation), len(known) - 1)
    return np.where((correlation >= 0) & (known[at] == correlation), runtime.start[order][at], _NEVER)


def _within(intervals: Intervals, steps: Steps) -> Int64:
    return measure_within(intervals, steps.starts, steps.ends)
