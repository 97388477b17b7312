"""The steps of an export of Nsight Systems, if NVTX ranges mark them: `step 12`, `iteration_12`, `ProfilerStep#12`.

Its rows become the tables of a torch trace: `step.*`, `gpu.*`, `work.*` and the call tree are those of `torch_trace`.

| table of the export | events of a trace |
|---|---|
| `NVTX_EVENTS` | ranges, and operators of PyTorch (`aten::mm`); a step range inside another one does not count |
| `CUPTI_ACTIVITY_KIND_RUNTIME` | calls of the runtime |
| `_KERNEL`, `_MEMCPY`, `_MEMSET` | the work of devices; it belongs to the call with its `correlationId` |

Source: NVIDIA's SQLite Export Schema Reference (`CUPTI_ACTIVITY_KIND_*`, "Correlate CUDA kernel launches with
CUDA API kernel launches"), and `CUpti_ActivityMemcpyKind` of CUPTI.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import numpy as np

from perfgate.core.call_trees import CallTree
from perfgate.readers.kit import RunBuilder
from perfgate.readers.nvidia.nsys_tables import name_of_calls
from perfgate.readers.sqlite_file import Database
from perfgate.readers.step_work import Int64
from perfgate.readers.torch_trace.call_tree import call_tree
from perfgate.readers.torch_trace.event_fields import Names
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.series import SeriesMaker
from perfgate.readers.torch_trace.steps import find_steps
from perfgate.readers.torch_trace.tables import ANNOTATION, KERNEL, MEMCPY, MEMSET, NAMED, OP
from perfgate.readers.torch_trace.work import Work

#: The range of a step; the group is its number.
STEP = re.compile(
    r"(?:ProfilerStep#|(?:(?:train(?:ing)?|global)[ _]?)?(?:steps?|iter(?:ation)?s?)[ _#:=]*)(\d{1,15})", re.I
)
_OPERATOR = re.compile(r"(?:\w+::)+\w+|\w+Backward\d*")
_RUNTIME, _GRAPHS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
#: The kind of each table of devices, and the columns of its names and amounts.
_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, ("demangledName", "gridX", "gridY", "gridZ")),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (MEMCPY, ("copyKind", "bytes")),
    "CUPTI_ACTIVITY_KIND_MEMSET": (MEMSET, ("value", "bytes")),
}
_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
#: The bits of a thread's id that identify its process.
_PROCESS = 0x0000FFFFFF000000
_DEVICE_TIME = "work.device_time"
_VERSION = re.compile(r"_v\d{4,5}$")
#: The NVTX events of ranges: push/pop and start/end.
RANGE_TYPES = (59, 60, 70, 71)
_LATEST = 1 << 61
_Range = tuple[int, int, int, str]


def add_steps(run: RunBuilder, database: Database, names: Mapping[object, str]) -> tuple[CallTree, ...]:
    """Add the times and the work of each step, and return the call tree; none without steps.

    `names` are the texts of the export by their id. Raises DatabaseFault.
    """
    ranges = sorted(_ranges(database, names), key=lambda one: (one[1], -one[2]))
    processes = {process_of(thread) for thread, _, _, text in ranges if STEP.fullmatch(text)}
    if len(processes) > 1:
        run.say("warning", "several processes mark steps, so they are not counted (step.*, work.*): export one process")
    if len(processes) != 1 or _RUNTIME not in database.tables:
        return ()
    tables, process = EventTables(), processes.pop()
    if not _add_calls(tables, database, names, process):
        return ()
    _add_ranges(tables, [one for one in ranges if process_of(one[0]) == process])
    all_ended = True
    if _GRAPHS in database.others:
        message = "the kernels of graphs were not recorded, so only calls are counted: --cuda-graph-trace=node"
        run.say("warning", message)
    else:
        for table, (kind, columns) in _TABLES.items():
            all_ended &= _add_device(tables, _columns(database, table, _OF_DEVICES + columns), kind, names)
    tables.finish()
    make = SeriesMaker(tables, "corrected", {})
    if (steps := find_steps(tables, "corrected")) is None:
        return ()
    for remark in steps.remarks:
        run.say("warning", remark)
    for series in chain(make.of_steps(steps) if len(tables.device.start) else (), Work.of(make, steps).series()):
        if all_ended or series.key.metric != _DEVICE_TIME:
            run.finish(series)
    wants_tree = run.file.source.with_calls and len(tables.device.start) > 0
    return (call_tree(tables, steps, ""),) if wants_tree else ()


def process_of(thread: object) -> int:
    """Return the id of the process of a thread."""
    return (thread if isinstance(thread, int) else -1) & _PROCESS


def _ranges(database: Database, names: Mapping[object, str]) -> Iterator[_Range]:
    """Yield the thread, start, end and text of each range."""
    columns = ("eventType", "globalTid", "text", "textId", "start", "end")
    for kind, thread, text, text_id, start, end in database.rows("NVTX_EVENTS", columns):
        if kind not in RANGE_TYPES or not isinstance(start, int) or not isinstance(end, int):
            continue
        if -_LATEST < start <= end < _LATEST:
            found = names.get(text_id) if text is None else text
            yield thread if isinstance(thread, int) else -1, start, end, str(found)


_OF_DEVICES = ("start", "end", "deviceId", "correlationId")


def _columns(database: Database, table: str, names: tuple[str, ...]) -> Int64:
    """Return columns of integers, (names, rows); -1 for anything else."""
    found = array("q")
    for row in database.rows(table, names) if table in database.tables else ():
        found.extend(one if isinstance(one, int) else -1 for one in row)
    columns: Int64 = np.frombuffer(found, np.int64).reshape(-1, len(names)).T
    return columns


def _sound(columns: Int64) -> Int64:
    """Return the rows that do not end before they start, or beyond all clocks."""
    start, end = columns[:2]
    return columns[:, (start > -_LATEST) & (start <= end) & (end < _LATEST)]


def _numbered(values: Int64, text: Callable[[int], str], names: Names) -> Int64:
    """Return the number of the name of each value."""
    known, which = np.unique(values, return_inverse=True)
    found: Int64 = np.array([names[text(one)] for one in known.tolist()], np.int64)[which]
    return found


def _add_calls(tables: EventTables, database: Database, names: Mapping[object, str], process: int) -> bool:
    """Add the calls of a process; return whether the export has any."""
    columns = _columns(database, _RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
    start, end, thread, correlation, name = _sound(columns[:, columns[2] & _PROCESS == process])
    numbers = _numbered(name, lambda one: _VERSION.sub("", names.get(one, "")), tables.call_names)
    threads = _numbered(thread, str, tables.threads)
    tables.runtime_pieces.add(start=start, duration=end - start, correlation=correlation)
    tables.runtime_pieces.add(name=numbers.astype(np.int16), thread=threads.astype(np.int16))
    tables.runtime_pieces.add(kind=np.full(len(start), NAMED, np.int8))
    return bool(columns.size)


def _add_ranges(tables: EventTables, ranges: list[_Range]) -> None:
    """Add the ranges of a process, in order of start. Steps have torch's name; a step inside of another has none."""
    found, until = [], None
    for thread, start, end, text in ranges:
        step, name = STEP.fullmatch(text), name_of_calls(text)
        if step and (until is None or start >= until):
            name, until = f"ProfilerStep#{step[1]}", end
        elif step:
            continue
        kind = OP if _OPERATOR.fullmatch(name) else ANNOTATION
        found.append((start, end - start, kind, tables.host_names[name], tables.threads[str(thread)]))
    start_, duration, kind_, name_, thread_ = np.array(found, np.int64).T
    tables.host_pieces.add(start=start_, duration=duration, kind=kind_.astype(np.int8))
    tables.host_pieces.add(name=name_.astype(np.int32), thread=thread_.astype(np.int16))


def _add_device(tables: EventTables, columns: Int64, kind: int, names: Mapping[object, str]) -> bool:
    """Add the rows of a table of devices. Return whether all have an end; a row without one counts, and has no time."""
    ended = columns[1] >= columns[0]
    columns[1] = np.where(ended, columns[1], columns[0])
    start, end, device, correlation, name, *amounts = _sound(columns)
    text = {
        KERNEL: lambda one: names.get(one, ""),
        MEMCPY: lambda one: f"Memcpy {_KINDS.get(one, 'other')}",
        MEMSET: lambda _: "Memset",
    }[kind]
    is_known = np.all([one >= 0 for one in amounts], axis=0) & ((kind != KERNEL) | np.all(amounts, axis=0))
    amount = np.where(is_known, np.prod(np.array(amounts, np.float64), axis=0), np.nan)
    pieces, count = tables.device_pieces, len(start)
    pieces.add(start=start, duration=end - start, kind=np.full(count, kind, np.int8), correlation=correlation)
    pieces.add(name=_numbered(name, text, tables.kernel_names).astype(np.int32), amount=amount)
    pieces.add(device=_numbered(device, str, tables.devices).astype(np.int32))
    if kind == KERNEL:
        unknown = np.full(count, np.nan)
        pieces.add(external_id=np.full(count, -1), blocks=unknown, occupancy=unknown)
    return bool(ended.all())
