"""Random Chrome traces as text, in the layouts and with the clocks that torch has written over the years."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

HOST = ("cpu_op", "Operator", "user_annotation", "python")
LAUNCHES = ("cuda_runtime", "Runtime", "cuda_driver", "xpu_runtime", "privateuse1_driver")
COPIES = ("gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
#: What belongs to no part of a step.
ASIDE = ("gpu_user_annotation", "python_function", "overhead", "cuda_sync", "Trace", "mtia_ccp_events")
NAMES = (
    "aten::mm",
    'a "quoted" name, with }, ] and \\ in it',
    "nccl:all_reduce",
    "nccl:_all_gather_base",
    "gloo:broadcast",
    "rccl:reduce",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "enumerate(DataLoader)#no_loader",
    "enumerate(DataPipe)#Mapper",
    "µs × 2",
)
KERNELS = (
    "void gemm<float>(float*, {lambda(int)#1})",
    "volta_h884gemm",
    "sm90_xmma_gemm_bf16",
    "ncclDevKernel_AllReduce_Sum",
    "ncclKernel_AllReduce",
    "RCCL_kernel",
    "a_ncclkernel",
    "flash_fwd_kernel",
)


@dataclass(frozen=True)
class Clock:
    """The times that a version of torch writes: their origin and their resolution, in ns."""

    origin: int
    resolution: int

    def written(self, ticks: int, origin: int = 0) -> str:
        """A time in microseconds, with all its digits."""
        ns = origin + ticks * self.resolution
        whole, rest = divmod(abs(ns), 1000)
        sign = "-" if ns < 0 else ""
        return f"{sign}{whole}" if self.resolution == 1000 else f"{sign}{whole}.{rest:03d}"


CLOCKS = (
    Clock(0, 1000),
    Clock(1_623_143_089_861_000_000, 1000),  # absolute, torch <= 2.2
    Clock(-40_000, 1000),  # some events began before the profiler did
    Clock(0, 1),
    Clock(4_432_372_784_892_795, 1),  # since the beginning of a quarter of a year, torch >= 2.4
    Clock(1_711_929_600_123_456_789, 1),  # absolute with a fraction, spring of 2024
)


@st.composite
def traces(draw: st.DrawFn) -> str:
    """A trace: steps that may overlap, host events of several threads, devices, and things that are never counted."""
    clock = draw(st.sampled_from(CLOCKS))
    groups = [draw(_steps()), *draw(st.lists(st.one_of(_launch(), _other()), min_size=draw(st.integers(0, 12))))]
    events = [event for group in groups for event in group]
    lines = [_text(clock, event) for event in draw(st.permutations(events))]
    return draw(_layouts(lines))


@st.composite
def _steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Host spans whose starts and whose ends both rise; some are written twice, or on the rows of a device too."""
    starts = sorted(draw(st.sets(_TICKS, max_size=5)))
    first = draw(st.integers(0, 9))
    end = 0
    events = []
    for number, start in enumerate(starts, first):
        end = max(end + 1, start + draw(_LENGTHS))
        cat = draw(st.sampled_from(("user_annotation", "cpu_op", "Operator")))
        span = _event(cat, f"ProfilerStep#{number}", start, end - start)
        copies = draw(st.sampled_from(([], [], [span], [{**span, "cat": "gpu_user_annotation", "ts": start + 2}])))
        events += [span, *copies]
    return events


_TICKS = st.integers(0, 120)
_SHORT = st.integers(0, 5)
_LENGTHS = st.one_of(st.integers(0, 30), st.integers(0, 90))
#: -1 joins nothing, and so does what is not there.
_IDS = st.sampled_from((1, 2, 3, 4, 5, 6, 0, None, -1))
_SHARES = st.sampled_from((None, None, 0, 0.03, 0.5, 7.5, -1))
_OCCUPANCIES = st.sampled_from((None, None, 0, 30, 104, -3))


@st.composite
def _launch(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A call of the runtime and what it began: nothing, a kernel, or all of a graph; on time or much later."""
    correlation = draw(_IDS)
    start = draw(_TICKS)
    name = draw(st.sampled_from(("cudaLaunchKernel", "cudaGraphLaunch")))
    launch = _event(draw(st.sampled_from(LAUNCHES)), name, start, draw(_SHORT), correlation=correlation)
    return [launch, *(draw(_device(correlation, start)) for _ in range(draw(st.integers(0, 3))))]


@st.composite
def _device(draw: st.DrawFn, correlation: int | None, launched: int) -> dict[str, Any]:
    start = draw(st.one_of(st.just(launched), st.integers(launched, launched + 60), _TICKS))
    ids = {"External id": draw(_IDS), "correlation": correlation}
    row = {**ids, "device": draw(st.integers(0, 1)), "stream": draw(st.sampled_from((7, 20)))}
    if draw(st.integers(0, 3)) == 3:
        return _event(draw(st.sampled_from(COPIES)), "Memcpy HtoD", start, draw(_LENGTHS), **row)
    usage = {"blocks per SM": draw(_SHARES), "est. achieved occupancy %": draw(_OCCUPANCIES)}
    collective = {"Collective name": draw(st.sampled_from((None, None, None, "allreduce", "_allgather_base")))}
    cat, name = draw(st.sampled_from(("kernel", "Kernel"))), draw(st.sampled_from(KERNELS))
    return _event(cat, name, start, draw(_LENGTHS), **row, **usage, **collective)


@st.composite
def _other(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A host event, device work whose launch is not there, a size of memory, or what is never counted."""
    kind = draw(st.sampled_from(("host", "host", "host", "device", "memory", "aside", "other phase")))
    span = (draw(_TICKS), draw(_LENGTHS))
    if kind == "host":
        ids = {"External id": draw(_IDS)}
        return [_event(draw(st.sampled_from(HOST)), draw(st.sampled_from(NAMES)), *span, **ids)]
    if kind == "device":
        return [draw(_device(draw(_IDS), draw(_TICKS)))]
    if kind == "memory":
        return [draw(_memory())]
    if kind == "aside":
        return [_event(draw(st.sampled_from(ASIDE)), draw(st.sampled_from((*NAMES, "ProfilerStep#3"))), *span)]
    name = draw(st.sampled_from(("ProfilerStep#1", "aten::mm")))
    return [{**_event("cpu_op", name, *span), "ph": draw(st.sampled_from("BEsfCM"))}]


@st.composite
def _memory(draw: st.DrawFn) -> dict[str, Any]:
    totals = {name: draw(st.sampled_from((None, 0, 512, 2**53 - 1))) for name in ("Total Allocated", "Total Reserved")}
    kind, device = draw(st.sampled_from(((0, -1), (1, 0), (1, 1))))
    args = {"Device Type": kind, "Device Id": device, "Bytes": -8, **totals}
    return {**_event("cpu_instant_event", "[memory]", draw(_TICKS), None, **args), "ph": "i", "s": "t"}


def _event(cat: str, name: str, ts: int, dur: int | None, **args: Any) -> dict[str, Any]:
    row = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": "stream 7", "ts": ts, "dur": dur}
    return {**row, "args": {key: value for key, value in args.items() if value is not None}}


def _text(clock: Clock, event: dict[str, Any]) -> str:
    fields = {key: json.dumps(value) for key, value in event.items() if value is not None}
    fields["ts"] = clock.written(event["ts"], clock.origin)
    if event["dur"] is not None:
        fields["dur"] = clock.written(event["dur"])
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"


@st.composite
def _layouts(draw: st.DrawFn, lines: list[str]) -> str:
    """The events first or last in the document, or alone; one a line, or all on one; with what else may stand there."""
    between = draw(st.sampled_from((",\n", ",", "\n  ,\n  ", " ,\n\n")))
    events = "[" + draw(st.sampled_from(("", "\n", "\n    \n  "))) + between.join(lines) + "]"
    if draw(st.integers(0, 5)) == 5:
        return events
    info = {"backend": "nccl", "rank": draw(st.integers(0, 3)), "world_size": 4}
    fields = {
        "schemaVersion": "1",
        "trap": json.dumps('"traceEvents": [{"ph": "X"}]'),
        **({"distributedInfo": json.dumps(info)} if draw(st.booleans()) else {}),
        "deviceProperties": json.dumps([{"id": 0, "name": "Tesla V100", "numSms": 80}]),
    }
    named = [f'"{key}": {value}' for key, value in fields.items()]
    named.insert(draw(st.integers(0, len(named))), f'"traceEvents": {events}')
    return "{" + ", ".join(named) + "}"
