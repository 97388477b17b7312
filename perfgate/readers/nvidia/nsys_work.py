"""`work.*` of an export of Nsight Systems, if NVTX ranges mark the steps: `step 12`, `iteration_12`, `ProfilerStep#12`.

`work.launches`, `.graph_launches`, `.syncs` and `.allocations` are calls of the table RUNTIME; `.kernels`, `.blocks`,
`.copies`, `.copied_bytes`, `.memsets` and `.device_time` are rows of KERNEL, MEMCPY and MEMSET.

As in traces of torch, work belongs to the step of the call that issued it, by `correlationId`, and the time until the
next step belongs to a step. Of ranges inside each other the outer ones are the steps. The numbers are those of the
ranges. Source: NVIDIA's SQLite Export Schema Reference (`CUPTI_ACTIVITY_KIND_*`, "Correlate CUDA kernel launches with
CUDA API kernel launches"), and `CUpti_ActivityMemcpyKind` of CUPTI.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping

import numpy as np

from perfgate.readers.kit import Key, RunBuilder, Series
from perfgate.readers.sqlite_file import Database
from perfgate.readers.step_work import CALLS, DeviceEvents, Int64, StepSums, kind_of_call

_STEP = re.compile(
    r"(?:ProfilerStep#|(?:(?:train(?:ing)?|global)[ _]?)?(?:steps?|iter(?:ation)?s?)[ _#:=]*)(\d{1,15})", re.I
)
_RUNTIME, _GRAPHS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_TABLES = tuple(f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET"))
_KERNEL, _COPY, _SET = range(3)
_NO_COPY = -2
_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
#: The bits of a thread's id that identify its process.
_PROCESS = 0x0000FFFFFF000000
_VERSION = re.compile(r"_v\d{4}$")
#: The NVTX events of ranges: push/pop and start/end.
RANGE_TYPES = (59, 60, 70, 71)


def add_work(run: RunBuilder, database: Database, names: Mapping[object, str]) -> None:
    """Add the work of each step. `names` are the texts of the export by their id. Raises DatabaseFault."""
    marked = sorted(_marked(database, names))
    processes = {process for process, *_ in marked}
    if len(processes) > 1:
        run.say("warning", "several processes mark steps, so their work is not counted (work.*): export one process")
    if len(processes) != 1 or _RUNTIME not in database.tables:
        return
    steps: list[tuple[int, int, int]] = []
    for _, begin, until, number in marked:
        if not steps or begin >= steps[-1][1]:
            steps.append((begin, until, number))
    starts, ends, numbers = np.array(steps, np.int64).T
    sums = StepSums(numbers, lambda metric, labels: Key.of(metric, **labels))
    start, correlation, name, thread = _columns(database, _RUNTIME, "start", "correlationId", "nameId", "globalTid")
    if not len(start):
        return
    step = np.searchsorted(starts, start, side="right") - 1
    is_inside = ((step < len(starts) - 1) | (start < ends[-1])) & (thread & _PROCESS == processes.pop())
    step = np.where(is_inside, step, -1)
    for series in _of_calls(sums, name, step, names):
        run.finish(series)
    if _GRAPHS in database.others:
        run.say(
            "warning", "the kernels of graphs were not recorded, so only calls are counted: --cuda-graph-trace=node"
        )
        return
    for series in _of_devices(database, sums, correlation, step):
        run.finish(series)


def _marked(database: Database, names: Mapping[object, str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the process, start, end and number of each range that marks a step."""
    columns = ("eventType", "globalTid", "text", "textId", "start", "end")
    for kind, thread, text, text_id, start, end in database.rows("NVTX_EVENTS", columns):
        found = _STEP.fullmatch(str(names.get(text_id) if text is None else text))
        if found and kind in RANGE_TYPES and isinstance(start, int) and isinstance(end, int):
            yield process_of(thread), start, end, int(found[1])


def process_of(thread: object) -> int:
    """Return the id of the process of a thread."""
    return (thread if isinstance(thread, int) else -1) & _PROCESS


def _columns(database: Database, table: str, *names: str) -> Int64:
    """Return columns of integers, (names, rows); -1 for anything else."""
    found = array("q")
    for row in database.rows(table, names) if table in database.tables else ():
        found.extend(one if isinstance(one, int) else -1 for one in row)
    columns: Int64 = np.frombuffer(found, np.int64).reshape(-1, len(names)).T
    return columns


def _of_calls(sums: StepSums, name: Int64, step: Int64, names: Mapping[object, str]) -> Iterator[Series]:
    known, which = np.unique(name, return_inverse=True)
    texts = (_VERSION.sub("", names.get(one, "")) for one in known.tolist())
    kinds = np.array([kind_of_call(text) for text in texts], np.int64)[which]
    for at, metric in enumerate(CALLS):
        yield sums.count(metric, step[kinds == at], {})


def _of_devices(database: Database, sums: StepSums, correlation: Int64, step: Int64) -> Iterator[Series]:
    order = np.argsort(correlation, kind="stable")
    tables = [
        _columns(database, table, "start", "end", "deviceId", "correlationId", *more)
        for table, more in zip(_TABLES, (("gridX", "gridY", "gridZ"), ("bytes", "copyKind"), ("bytes",)), strict=True)
    ]
    start, end, device, issued = np.concatenate([one[:4] for one in tables], axis=1)
    kind = np.repeat([_KERNEL, _COPY, _SET], [one.shape[1] for one in tables])
    grids, (sizes, copied), (filled,) = (one[4:] for one in tables)
    blocks = np.where((grids > 0).all(axis=0), grids.astype(np.float64).prod(axis=0), np.nan)
    amount = np.concatenate([blocks, sizes, filled])
    amount[amount < 0] = np.nan
    copy_kind = np.repeat(_NO_COPY, len(kind))
    copy_kind[kind == _COPY] = copied
    at = order[np.minimum(np.searchsorted(correlation[order], issued), len(order) - 1)]
    step = np.where((issued >= 0) & (correlation[at] == issued), step[at], -1)
    for number in np.unique(device[step >= 0]).tolist():
        rows = np.flatnonzero((device == number) & (step >= 0))
        own, copied = kind[rows], copy_kind[rows]
        names = {one: _KINDS.get(one, "other") for one in np.unique(copied[own == _COPY]).tolist()}
        copies = {name: np.isin(copied, [one for one in names if names[one] == name]) for name in names.values()}
        duration = (end - start)[rows].astype(np.float64)
        events = DeviceEvents(step[rows], duration, amount[rows], own == _KERNEL, own == _SET, copies)
        yield from sums.of_device(events, {"device": str(number)})
