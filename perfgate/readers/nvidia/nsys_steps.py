"""The steps of an Nsight Systems export, if NVTX ranges mark them: `step 12`, `iteration_12`, `ProfilerStep#12`.

The rows of an export become the tables of a torch trace, so `step.*` (of these ranges), `gpu.*`, `work.*` and the call
tree are those of `torch_trace` (in the mode `corrected`, see `breakdown` there). A step range that begins inside
another one does not count. The work of a device belongs to the call of its process with its `correlationId`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perfgate.core.call_trees import CallTree
from perfgate.readers.kit import RunBuilder
from perfgate.readers.nvidia.nsys_tables import OPERATOR, STEP, name_of_calls
from perfgate.readers.sqlite_file import Database
from perfgate.readers.torch_trace.call_tree import call_tree
from perfgate.readers.torch_trace.event_fields import Int64, Names
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.series import SeriesMaker
from perfgate.readers.torch_trace.steps import find_steps
from perfgate.readers.torch_trace.tables import ANNOTATION, KERNEL, MEMCPY, MEMSET, NAMED, OP
from perfgate.readers.torch_trace.work import Work

Texts = Mapping[object, str]  # by their ids
KERNELS, COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS, RUNTIME, RANGES = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
#: The NVTX events of ranges (push/pop and start/end).
RANGE_TYPES = (59, 60, 70, 71)
#: Tables of devices: the kind in a trace, the name of unknown ids, and columns: the id of the name, then those whose
#: product is the amount (the thread blocks of a kernel, the bytes of a copy).
_DEVICES = {
    KERNELS: (KERNEL, "", ("demangledName", "gridX", "gridY", "gridZ")),
    COPIES: (MEMCPY, "Memcpy other", ("copyKind", "bytes")),
    SETS: (MEMSET, "Memset", ("value", "bytes")),  # `value` only takes the place of a name: none has that id
}
_COPIED: Texts = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 9: "Memcpy HtoH", 10: "Memcpy PtoP"}
_CALL_VERSION = re.compile(r"_v\d{4,5}$")
#: The bits of a thread's id that identify its process, and a time in ns that is beyond all clocks.
_PROCESS, _LATEST = 0x0000FFFFFF000000, 1 << 61


class _Range(NamedTuple):
    """An NVTX range: its thread, its start and end in ns, and its text."""

    thread: int
    start: int
    end: int
    text: str


def add_steps(run: RunBuilder, database: Database, names: Texts) -> Sequence[CallTree]:
    """Add times and work of all steps, if one process marks steps, and return the call tree. Raises DatabaseFault.

    It needs steps and work of a device. There is no tree if one of them is missing, if some of the work has no end, or
    if the caller does not want trees.
    """
    ranges = sorted(_ranges(database, names), key=lambda range: (range.start, -range.end))
    processes = {process_of(range.thread) for range in ranges if STEP.fullmatch(range.text)}
    if len(processes) > 1:
        run.say("warning", "several processes mark steps, so they are not counted (step.*, work.*): export one process")
    if len(processes) != 1 or RUNTIME not in database.tables:
        return ()
    tables, process = EventTables(), processes.pop()
    if not _add_calls(tables, database, names, process):
        return ()
    _add_ranges(tables, [range for range in ranges if process_of(range.thread) == process])
    all_ended = True
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in database.others:
        advice = "so only calls are counted: --cuda-graph-trace=node"
        run.say("warning", f"the kernels of graphs were not recorded, {advice}")
    else:
        for table in _DEVICES:
            all_ended &= _add_device(tables, database, table, names, process)
    tables.finish()
    return _add_counted(run, tables, all_ended)


def _add_counted(run: RunBuilder, tables: EventTables, all_ended: bool) -> Sequence[CallTree]:
    """Add the series of all steps in these tables, and return the call tree, as `add_steps` does."""
    make = SeriesMaker(tables, mode="corrected", labels={})
    if (steps := find_steps(tables, mode="corrected")) is None:
        return ()
    for remark in steps.remarks:
        run.say("warning", remark)
    has_device = len(tables.device.start) > 0
    times = [*make.of_steps(steps)] if has_device else []  # else only calls are counted
    counts = [*Work(make, steps).series()]
    if not all_ended:  # the device worked for an unknown time, so its idle time is unknown, too
        times = [series for series in times if series.key.metric == "step.time"]
        counts = [series for series in counts if series.key.metric != "work.device_time"]
    for series in (*times, *counts):
        run.finish(series)
    has_tree = run.file.source.with_calls and has_device and all_ended
    return (call_tree(tables, steps, rank=""),) if has_tree else ()


def process_of(thread: object) -> int:
    """Return the process that a thread belongs to."""
    return (thread if isinstance(thread, int) else -1) & _PROCESS


def rows_of(database: Database, table: str, *columns: str) -> Iterable[tuple[object, ...]]:
    """Return the rows of a table; none if it is absent."""
    return database.rows(table, columns) if table in database.tables else ()


def _ranges(database: Database, names: Texts) -> Iterator[_Range]:
    """Yield each range that has a text; `nsys_export` reports the others."""
    columns = ("eventType", "globalTid", "text", "textId", "start", "end")
    for kind, thread, text, text_id, start, end in rows_of(database, RANGES, *columns):
        found = names.get(text_id) if text is None else text
        if kind not in RANGE_TYPES or found is None or not isinstance(start, int) or not isinstance(end, int):
            continue
        if -_LATEST < start <= end < _LATEST:
            yield _Range(thread if isinstance(thread, int) else -1, start, end, str(found))


def _columns(database: Database, table: str, names: tuple[str, ...]) -> Int64:
    """Return columns of integers, (names, rows); -1 for anything else."""
    found = array("q")
    for row in rows_of(database, table, *names):
        found.extend(one if isinstance(one, int) else -1 for one in row)
    columns: Int64 = np.frombuffer(found, np.int64).reshape(-1, len(names)).T
    return columns


def _sound(columns: Int64) -> Int64:
    """Return the rows that do not end before they start, or beyond all clocks."""
    start, end = columns[:2]
    return columns[:, (start > -_LATEST) & (start <= end) & (end < _LATEST)]


def _numbered(values: Int64, text: Callable[[int], str], names: Names) -> Int64:
    """Return the number of the name of each value in `names`, which numbers a new name; `text` gives the name."""
    known, which = np.unique(values, return_inverse=True)
    found: Int64 = np.array([names[text(one)] for one in known.tolist()], np.int64)[which]
    return found


def _add_calls(tables: EventTables, database: Database, names: Texts, process: int) -> bool:
    """Add the calls of a process as those of traces since 2021 (NAMED); return whether the export has any."""
    columns = _columns(database, RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
    start, end, thread, correlation, name = _sound(columns[:, columns[2] & _PROCESS == process])
    numbers = _numbered(name, lambda one: _CALL_VERSION.sub("", names.get(one, "")), tables.call_names)
    tables.pieces["runtime"].add(name=numbers, start=start, duration=end - start, correlation=correlation)
    tables.pieces["runtime"].add(kind=np.full(len(start), NAMED), thread=_numbered(thread, str, tables.threads))
    return bool(columns.size)


def _add_ranges(tables: EventTables, ranges: Sequence[_Range]) -> None:
    """Add the ranges of a process, in order of start, without steps inside others; steps get torch's names."""
    found, end_of_step = [], -_LATEST
    for thread, start, end, text in ranges:
        name = name_of_calls(text)
        if step := STEP.fullmatch(text):
            if start < end_of_step:
                continue
            name, end_of_step = f"ProfilerStep#{step[1]}", end
        kind = OP if OPERATOR.fullmatch(name) else ANNOTATION
        found.append((start, end - start, kind, tables.host_names[name], tables.threads[str(thread)]))
    columns = ("start", "duration", "kind", "name", "thread")
    tables.pieces["host"].add(**dict(zip(columns, np.array(found, np.int64).T, strict=True)))


def _add_device(tables: EventTables, database: Database, table: str, names: Texts, process: int) -> bool:
    """Add the rows of a table of devices: those of a process, and those of an unknown one.

    Return whether all of them have an end; a row without one counts, and has no time.
    """
    kind, usual, own = _DEVICES[table]
    owner, *found = _columns(database, table, ("globalPid", "start", "end", "deviceId", "correlationId", *own))
    columns = np.array(found)[:, (owner == -1) | (owner & _PROCESS == process)]
    ended = columns[1] >= columns[0]
    columns[1] = np.where(ended, columns[1], columns[0])
    start, end, device, correlation, name, *amounts = _sound(columns)
    is_known = np.all([factor >= 0 for factor in amounts], axis=0)
    if kind == KERNEL:
        is_known &= np.all(amounts, axis=0)  # not a grid of 0
    amount = np.where(is_known, np.prod(np.array(amounts, np.float64), axis=0), np.nan)
    texts = {KERNEL: names, MEMCPY: _COPIED}.get(kind, {})
    numbers = _numbered(name, lambda one: texts.get(one, usual), tables.kernel_names)
    tables.pieces["device"].add(name=numbers, start=start, duration=end - start, correlation=correlation, amount=amount)
    tables.pieces["device"].add(kind=np.full(len(start), kind), device=_numbered(device, str, tables.devices))
    if kind == KERNEL:
        nan = np.full(len(start), np.nan)  # unknown, as the id -1
        tables.pieces["kernel"].add(external_id=np.full(len(start), -1), blocks=nan, occupancy=nan)
    return bool(ended.all())
