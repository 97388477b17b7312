"""The metrics of a Chrome trace of torch.profiler, computed slowly and plainly: the measure of the streaming reader.

Every formula is written with lists of intervals as its definition says, in whole nanoseconds:
`cost[r] = role[r] ∩ slots; slots = slots - cost[r]`. Nothing is shared with `perfgate.readers`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from trace_events import CPU, DEVICE, HOST, OPS, Event, events_of, load
from trace_intervals import Interval, Intervals, difference, intersection, measure, union

Mode = Literal["corrected", "tensorboard"]
MODES: tuple[Mode, ...] = ("corrected", "tensorboard")
ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec")

_LOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__|enumerate\(DataPipe\)#.*", re.DOTALL)
_COLLECTIVE_KERNEL = re.compile(r"^(nccl|rccl)|ncclKernel|ncclDevKernel", re.IGNORECASE)
_COLLECTIVE_RANGE = re.compile(r"(nccl|gloo|rccl):")
_PLUGIN_RANGE = re.compile(r"(nccl|gloo):(broadcast|reduce|all_reduce|all_gather|reduce_scatter)")
_TENSOR_CORE = re.compile(
    "h884|s884|h1688|s1688|hmma|i8816|16816|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1"
    "|direct_group|xmma_implicit_gemm|xmma_sparse_conv|xmma_warp_specialized_implicit_gemm|xmma_gemm|xmma_sparse_gemm"
    "|c1688"
)
_TENSOR_CORE_SINCE_HOPPER = re.compile(
    "wgmma|gmma|imma|bmma|tensorop|sm90_xmma|cutlass3x_sm90|sm100_|cutlass3x_sm100|tcgen05|nvjet_|flash_fwd|flash_bwd"
    "|fmha|Cijk_|mfma"
)


@dataclass(frozen=True)
class Step:
    """One step, grown to the end of its device work."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """Everything that rules can name: times in ns, sizes in bytes, shares as shares."""

    steps: list[Step]
    #: `time`, the seven roles and `other`: one value a step.
    parts: dict[str, list[int]]
    #: `exposed` and `overlap`: one value a step.
    comm: dict[str, list[int]]
    #: Metric -> device -> value.
    gpu: dict[str, dict[str, float]]
    #: Metric (`kernel.NAME`, `op.NAME`, ...) -> one duration an event, in order of time.
    series: dict[str, list[int]]
    #: Metric -> device -> bytes.
    memory: dict[str, dict[str, int]]
    rank: int | None
    world_size: int | None


# --- roles and steps ---------------------------------------------------------------------------------------------


def roles_of(events: list[Event], mode: Mode) -> dict[str, list[Event]]:
    """The events of each role of the breakdown."""
    comm_ops = {event.external_id for event in events if _is_collective(event, mode)} - {None}
    roles: dict[str, list[Event]] = {role: [] for role in ROLES}
    for event in events:
        role = _role(event, mode, comm_ops)
        if event.ph == "X" and role and event.step is None:
            roles[role].append(event)
    return roles


def _role(event: Event, mode: Mode, comm_ops: set[int | None]) -> str | None:
    corrected = mode == "corrected"
    if event.cat == "kernel":
        named = corrected and _COLLECTIVE_KERNEL.search(event.name)
        return "communication" if named or event.external_id in comm_ops else "kernel"
    if event.cat in DEVICE:
        return DEVICE[event.cat]
    if _is_launch(event, mode):
        return "runtime"
    if _is_collective(event, mode):
        return "communication"
    if event.cat in ({*OPS, "user_annotation"} if corrected else OPS) and _LOADER.fullmatch(event.name):
        return "dataloader"
    return "cpu_exec" if event.cat in CPU else None


def _is_collective(event: Event, mode: Mode) -> bool:
    """Return whether this is the host range of a collective."""
    named = _COLLECTIVE_RANGE.match if mode == "corrected" else _PLUGIN_RANGE.fullmatch
    return event.ph == "X" and event.cat in HOST and named(event.name) is not None


def _is_launch(event: Event, mode: Mode) -> bool:
    """Return whether this is a call of a device's runtime or driver; the plugin knows only the category of its time."""
    return event.is_launch and (mode == "corrected" or event.cat == "runtime")


def steps_of(events: list[Event], mode: Mode) -> list[Step]:
    """The steps: host spans, grown to the end of the device work that was launched inside them."""
    spans = sorted({(event.start, event.end, event.step) for event in events if event.step is not None})
    steps = [Step(number, start, end) for start, end, number in spans if number is not None]
    cpu = [event for event in events if event.cat in CPU and event.ph == "X"]
    if not steps and cpu:
        steps = [Step(0, min(event.start for event in cpu), max(event.end for event in cpu))]
    device = [event for event in events if event.is_device]
    launches = [event for event in events if _is_launch(event, mode)]
    work = [_launched_in(step, launches, device) for step in steps]
    return _without_cut_ones(_grown(steps, work, device), [*map(len, work)]) if any(work) else steps


def _launched_in(step: Step, launches: list[Event], device: list[Event]) -> list[Event]:
    """The device events whose launch lies wholly inside the host span of a step."""
    inside = {e.correlation for e in launches if step.start <= e.start and e.end <= step.end} - {None}
    return [event for event in device if event.correlation in inside]


def _grown(steps: list[Step], work: list[list[Event]], device: list[Event]) -> list[Step]:
    """The steps one after the other, each until its device work has ended."""
    matched = {id(event) for found in work for event in found}
    previous = steps[0].start
    if work[0]:
        first = min(event.start for event in work[0])
        previous = max([previous, *(e.end for e in device if id(e) not in matched and e.end < first)])
    grown = []
    for step, found in zip(steps, work, strict=True):
        start = max(previous, step.start)
        previous = max([step.end, start, *(event.end for event in found)])
        grown.append(Step(step.number, start, previous))
    return grown


def _without_cut_ones(steps: list[Step], counts: list[int]) -> list[Step]:
    """The steps but the last ones that the profiler was stopped in; `counts` are their device events."""
    while len(counts) > 1 and counts[-1] == 0:
        counts.pop()
    if len(counts) > 1 and 5 * counts[-1] < 4 * counts[-2]:
        counts.pop()
    return steps[: len(counts)]


# --- what rules can name -----------------------------------------------------------------------------------------


def answers(data: bytes) -> dict[Mode, Answer]:
    """Everything that a trace holds, in each of the two modes."""
    document = load(data)
    events = events_of(document)
    return {mode: _answer(document, events, mode) for mode in MODES}


def _answer(document: Any, events: list[Event], mode: Mode) -> Answer:
    roles = roles_of(events, mode)
    steps = steps_of(events, mode)
    kernels = [event for event in events if event.cat == "kernel" and event.ph == "X"]
    info = document.get("distributedInfo") if isinstance(document, dict) else None
    info = info if isinstance(info, dict) else {}
    return Answer(
        steps,
        _parts(roles, steps, _occurring(roles, events, mode)),
        _communication(roles, steps, bool(kernels)),
        _gpu(kernels, steps, mode),
        _series(events),
        _memory(events),
        info.get("rank"),
        info.get("world_size"),
    )


def _spans(events: Iterable[Event]) -> Intervals:
    return union((event.start, event.end) for event in events)


def _in_steps(intervals: Intervals, steps: list[Step]) -> list[int]:
    return [measure(intersection(intervals, union([(step.start, step.end)]))) for step in steps]


def _occurring(roles: dict[str, list[Event]], events: list[Event], mode: Mode) -> list[str]:
    """The roles that a trace can tell of; the plugin shows two kinds even if there are none."""
    absent = set() if any(event.is_device for event in events) else set(ROLES[:3])
    absent |= set() if any(event.is_launch for event in events) else {"runtime"}
    has_calls = mode == "tensorboard" or any(event.cat in CPU and event.ph == "X" for event in events)
    absent |= set() if has_calls else {"cpu_exec"}
    absent |= {"communication"} if mode == "corrected" and not measure(_spans(roles["communication"])) else set()
    return [role for role in ROLES if role not in absent]


def _parts(roles: dict[str, list[Event]], steps: list[Step], occurring: list[str]) -> dict[str, list[int]]:
    """Each instant of a step goes to the first role that covers it; a role that does not occur has no part."""
    slots = union((step.start, step.end) for step in steps)
    parts = {"time": [step.end - step.start for step in steps]}
    for role in occurring:
        covered = _spans(roles[role])
        parts[role] = _in_steps(intersection(covered, slots), steps)
        slots = difference(slots, covered)
    return {**parts, "other": _in_steps(slots, steps)}


def _communication(roles: dict[str, list[Event]], steps: list[Step], has_kernels: bool) -> dict[str, list[int]]:
    communication = _spans(roles["communication"])
    compute = _spans(roles["kernel" if has_kernels else "cpu_exec"])
    total, overlap = _in_steps(communication, steps), _in_steps(intersection(communication, compute), steps)
    return {"overlap": overlap, "exposed": [whole - part for whole, part in zip(total, overlap, strict=True)]}


def _gpu(kernels: list[Event], steps: list[Step], mode: Mode) -> dict[str, dict[str, float]]:
    """Metric -> device -> share; what no kernel of a device tells is absent, and all is where nothing says when."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    if steps:
        window = (steps[0].start, max(step.end for step in steps))
        for device in {kernel.device for kernel in kernels}:
            own = [kernel for kernel in kernels if kernel.device == device]
            shares = _in_window(own, window) if window[0] < window[1] else {}
            for name, value in {**shares, "tensor_core_share": _tensor_core_share(own, mode)}.items():
                if value is not None:
                    found[name][device] = float(value)
    return dict(found)


def _in_window(kernels: list[Event], window: Interval) -> dict[str, Decimal | Fraction | None]:
    busy = measure(intersection(_spans(kernels), [window]))
    return {
        "utilization": Fraction(busy, window[1] - window[0]),
        "sm_efficiency": _sm_efficiency(kernels, window),
        "occupancy": _occupancy(kernels, window),
    }


def _tensor_core_share(kernels: list[Event], mode: Mode) -> Fraction | None:
    patterns = [_TENSOR_CORE, *([_TENSOR_CORE_SINCE_HOPPER] if mode == "corrected" else [])]
    total = sum(kernel.end - kernel.start for kernel in kernels)
    with_cores = sum(k.end - k.start for k in kernels if any(pattern.search(k.name) for pattern in patterns))
    return Fraction(with_cores, total) if total else None


def _sm_efficiency(kernels: list[Event], window: Interval) -> Decimal | None:
    """Blocks per SM, summed over the kernels that run at a time and then capped at 1, over the window."""
    changes: dict[int, Decimal] = defaultdict(Decimal)
    known = [(kernel, blocks) for kernel in kernels if (blocks := kernel.number("blocks per SM") or 0) > 0]
    for kernel, blocks in known:
        for start, end in intersection(_spans([kernel]), [window]):
            changes[start] += blocks
            changes[end] -= blocks
    running = area = Decimal(0)
    times = sorted(changes)
    for now, after in pairwise(times):
        running += changes[now]
        area += min(running, Decimal(1)) * (after - now)
    return area / (window[1] - window[0]) if known else None


def _occupancy(kernels: list[Event], window: Interval) -> Decimal | None:
    """The occupancy of the kernels, weighted by their time in the window; the file holds percent."""
    weights = total = Decimal(0)
    for kernel in kernels:
        percent = kernel.number("est. achieved occupancy %")
        if percent is not None and percent >= 0:
            inside = measure(intersection(_spans([kernel]), [window]))
            weights += inside
            total += percent * inside
    return total / weights / 100 if weights else None


def _series(events: list[Event]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.ph != "X" or event.step is not None:
            continue
        prefix = {"kernel": "kernel", "user_annotation": "range"}.get(event.cat, "op" if event.cat in OPS else None)
        if prefix:
            found[f"{prefix}.{event.name}"].append(event.end - event.start)
        collective = event.args.get("Collective name")
        if event.cat == "kernel" and isinstance(collective, str):
            found[f"collective.{collective}"].append(event.end - event.start)
    return dict(found)


def _memory(events: list[Event]) -> dict[str, dict[str, int]]:
    """Metric -> device -> the largest total that any allocation or release left behind."""
    peaks: dict[str, dict[str, int]] = defaultdict(dict)
    for event in events:
        if event.ph != "i" or event.name != "[memory]":
            continue
        device = "cpu" if event.args.get("Device Type") == 0 else str(event.args.get("Device Id", ""))
        for metric, field_name in (("peak_allocated", "Total Allocated"), ("peak_reserved", "Total Reserved")):
            size = event.number(field_name)
            if size is not None:
                peaks[metric][device] = max(peaks[metric].get(device, 0), int(size))
    return dict(peaks)
