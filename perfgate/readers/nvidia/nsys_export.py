"""Nsight Systems exports (`nsys export --type sqlite`): every activity of a profile is a sample.

| table | metric | NAME |
|---|---|---|
| `CUPTI_ACTIVITY_KIND_KERNEL` | `kernel.NAME` | the demangled name |
| `CUPTI_ACTIVITY_KIND_MEMCPY` | `memcpy.NAME`, `memcpy.NAME.size` | `[CUDA memcpy Host-to-Device]`, ... |
| `CUPTI_ACTIVITY_KIND_MEMSET` | `memcpy.NAME`, `memcpy.NAME.size` | `[CUDA memset]` |
| `CUPTI_ACTIVITY_KIND_RUNTIME` | `api.NAME` | without the version that CUPTI appends |
| `NVTX_EVENTS` | `range.NAME` | `domain:text`; in the default domain `:text` |
| `OSRT_API` | `os.NAME` | |

`nsys stats` gives the same metrics as aggregates, so a rule works for both. Times are ns in the file and s here, sizes
B, in order of start. Activities have the label device if their table has several. Tables without records are absent.

If NVTX ranges mark the steps (`step 12`, `iteration_12`, `ProfilerStep#12`), the rows become the tables of a torch
trace: `step.*` (of these ranges), `gpu.*`, `work.*` and the call tree are those of `torch_trace`. A step range inside
another one does not count. The work of a device belongs to the call of the runtime with its `correlationId`.

Source: NVIDIA's SQLite Export Schema Reference of Nsight Systems (2020 to 2025), `CUpti_ActivityMemcpyKind` of CUPTI,
and the queries of `nsys stats` for the names. Not tested on a file that the tool wrote.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np
from msgspec.structs import replace

from perfgate.core.call_trees import CallTree
from perfgate.readers.kit import InputFile, Key, Run, RunBuilder, Series, in_base, read_only
from perfgate.readers.nvidia.nsys_tables import OPERATOR, STEP, name_of_calls
from perfgate.readers.sqlite_file import Database, DatabaseFault, opened
from perfgate.readers.torch_trace.call_tree import call_tree
from perfgate.readers.torch_trace.event_fields import Int64, Names
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.series import SeriesMaker
from perfgate.readers.torch_trace.steps import find_steps
from perfgate.readers.torch_trace.tables import ANNOTATION, KERNEL, MEMCPY, MEMSET, NAMED, OP
from perfgate.readers.torch_trace.work import Work

_Texts = Mapping[object, str]
_KERNELS, _COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
_SETS, _RUNTIME = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME"
_RANGES, _STRINGS, _COPY_NAMES, _GPUS = "NVTX_EVENTS", "StringIds", "ENUM_CUDA_MEMCPY_OPER", "TARGET_INFO_GPU"
#: Tables with activities: the first part of their metrics, and the column with the id of the name (NULL: none).
_ACTIVITIES = {
    _KERNELS: ("kernel", "demangledName"),
    _RUNTIME: ("api", "nameId"),
    "OSRT_API": ("os", "nameId"),
    _COPIES: ("memcpy", "copyKind"),
    _SETS: ("memcpy", "NULL"),
    _RANGES: ("range", ""),  # see `_named_ranges`
}
#: Tables of devices: the kind in a trace, the name of unknown ids, and columns: id of the name, factors of the amount.
_DEVICES = {
    _KERNELS: (KERNEL, "", ("demangledName", "gridX", "gridY", "gridZ")),
    _COPIES: (MEMCPY, "Memcpy other", ("copyKind", "bytes")),
    _SETS: (MEMSET, "Memset", ("value", "bytes")),  # `value` only takes the place of a name: none has that id
}
_COPIED: _Texts = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 9: "Memcpy HtoH", 10: "Memcpy PtoP"}
_TABLES = re.compile("|".join((*_ACTIVITIES, _STRINGS, _COPY_NAMES, _GPUS)), re.ASCII)
#: Other tables with measurements.
_MEASURED = re.compile(r"CUPTI_ACTIVITY_KIND_|GPU_METRICS|GENERIC_EVENTS|NET_|MPI_|NVTX_COUNTER|CU(?:DNN|BLAS)_")
#: The NVTX events of ranges (push/pop and start/end), and the one that names a domain.
_RANGE_TYPES, _DOMAIN_TYPE = (59, 60, 70, 71), 75
_API_VERSION, _CALL_VERSION = re.compile(r"_v\d{4}$"), re.compile(r"_v\d{4,5}$")  # the first as in `nsys stats`
#: The bits of a thread's id that identify its process, and a time in ns that is beyond all clocks.
_PROCESS, _LATEST = 0x0000FFFFFF000000, 1 << 61
#: By name and device: three numbers of each activity, its start and length in ns, and its bytes (-1: unknown).
_Groups = dict[tuple[object, object], "array[int]"]


def read(document: InputFile) -> tuple[Run, ...]:
    """Return the one run of an export."""
    run, trees = RunBuilder(document, "nsys"), list[CallTree]()
    try:
        with opened(document.blocks(), _TABLES) as database:
            strings = _add_activities(run, database)
            with suppress(DatabaseFault):  # was reported with the activities of the table
                trees += _add_steps(run, database, strings)
            has_steps = any(key.metric == "step.time" for key in run.finished)
            for key in [*run.finished] if has_steps else ():  # the ranges that mark the steps are `step.time`
                if key.metric.startswith("range.") and STEP.fullmatch(key.metric.rpartition(":")[2]):
                    del run.finished[key]
            gpus = database.rows(_GPUS, ("name",)) if _GPUS in database.tables else ()
            names = {name for (name,) in gpus if isinstance(name, str)}
            run.facts |= {"gpu": names.pop()} if len(names) == 1 else {}
    except DatabaseFault as fault:
        run.say("error", str(fault))
    return (replace(run.run(), call_trees=tuple(trees)),)


def _add_activities(run: RunBuilder, database: Database) -> _Texts:
    """Add every activity, and return the names of the export by id. Raises DatabaseFault if one cannot be read."""
    if database.others >= {"experiments", "runs", "metrics"}:
        advice = "log with MLFLOW_TRACKING_URI=file:./mlruns, and give the folder metrics of the run"
        run.say("error", f"this is a database of MLflow, which is not read: {advice}")
    elif not database.tables.intersection(_ACTIVITIES):
        run.say("error", f"an SQLite database without the tables of Nsight Systems: {', '.join(_ACTIVITIES)}")
    found: dict[str, _Groups] = {}
    for table, (_, name) in _ACTIVITIES.items():
        if table in database.tables:
            columns = ("start", "end", name, "deviceId", "bytes")
            rows = _named_ranges(database) if table == _RANGES else database.rows(table, columns)
            found[table] = _grouped(run, table, rows)
    for table in filter(_MEASURED.match, database.others):
        run.file.coverage.leave(table)  # reported as not read
    used = {name for groups in found.values() for name, _ in groups}
    used |= {name[1] for name in used if isinstance(name, tuple)}  # the texts of ranges
    strings = _texts(database, _STRINGS, "value", used)
    kinds: _Texts = {id: f"[CUDA memcpy {text}]" for id, text in _texts(database, _COPY_NAMES, "label", used).items()}
    _add_series(run, found, {_COPIES: kinds, _SETS: {None: "[CUDA memset]"}}, strings)
    return strings


def _add_series(run: RunBuilder, found: Mapping[str, _Groups], own: Mapping[str, _Texts], strings: _Texts) -> None:
    """Add the activities of all tables. Their ids are named in `own` or in `strings`; equal names are one series."""
    series: dict[Key, array[int]] = defaultdict(lambda: array("q"))
    for table, groups in found.items():
        family, names = _ACTIVITIES[table][0], own.get(table, strings)
        several = len({device for _, device in groups}) > 1
        nameless = 0
        for (id, device), spans in groups.items():
            domain, text = id if isinstance(id, tuple) else (None, id)
            name = text if isinstance(text, str) else names.get(text)
            if name is None:
                nameless += len(spans) // 3
                continue
            name = name_of_calls(f"{domain}:{name}") if family == "range" else name
            name = _API_VERSION.sub("", name) if family == "api" else name
            series[Key.of(f"{family}.{name}", **({"device": str(device)} if several else {}))].extend(spans)
        if nameless:
            run.say("error", f"{table}: {nameless} activities without a name in the file are left out")
    for key, spans in series.items():
        rows = np.frombuffer(spans, np.int64).reshape(-1, 3)
        _, lengths, sizes = rows[np.argsort(rows[:, 0], kind="stable")].T
        times = read_only(in_base(lengths.astype(np.float64), 1e9))
        run.finished[key] = Series(key, "s", "samples", times)
        if (sizes >= 0).all():
            size = Key(f"{key.metric}.size", key.labels)
            run.finished[size] = Series(size, "B", "samples", read_only(sizes.astype(np.float64)))


def _named_ranges(database: Database) -> Iterator[tuple[object, ...]]:
    """Yield the NVTX ranges as activities, each named by a pair: its domain in its process, and its text or text id."""
    columns = ("eventType", "domainId", "globalTid", "text", "textId", "start", "end")
    domains = {
        (domain, _process_of(thread)): text
        for kind, domain, thread, text, *_ in database.rows(_RANGES, columns)
        if kind == _DOMAIN_TYPE and isinstance(text, str)
    }
    for kind, domain, thread, text, text_id, start, end in database.rows(_RANGES, columns):
        if kind in _RANGE_TYPES:
            name = text_id if text is None else text
            yield start, end, (domains.get((domain, _process_of(thread)), ""), name), None, None


def _process_of(thread: object) -> int:
    return (thread if isinstance(thread, int) else -1) & _PROCESS


def _grouped(run: RunBuilder, table: str, rows: Iterable[tuple[object, ...]]) -> _Groups:
    """Return the rows (start, end, name or id, device, bytes) as groups; report impossible rows and a damaged table."""
    groups: _Groups = defaultdict(lambda: array("q"))
    wrong = unended = 0
    try:
        for start, end, name, device, size in rows:
            if isinstance(start, int) and isinstance(end, int) and 0 <= end - start < 1 << 62:
                groups[name, device].extend((start, end - start, size if isinstance(size, int) else -1))
            else:
                unended += end is None
                wrong += end is not None
    except DatabaseFault as fault:
        run.say("error", f"{table} is not read completely: {fault}")
    if wrong:
        run.say("error", f"{table}: {wrong} activities without a start, or with an end before it, are left out")
    if unended:
        run.say("warning", f"{table}: {unended} activities without an end are left out")
    return groups


def _texts(database: Database, table: str, column: str, wanted: set[object]) -> _Texts:
    """Return the wanted names of a table by their id."""
    rows = database.rows(table, ("id", column)) if table in database.tables else ()
    return {id: text for id, text in rows if id in wanted and isinstance(text, str)}


def _add_steps(run: RunBuilder, database: Database, names: _Texts) -> Sequence[CallTree]:
    """Add times and work of all steps, and return the call tree; none if nobody asks for it. Raises DatabaseFault."""
    ranges = sorted(_ranges(database, names), key=lambda one: (one[1], -one[2]))
    processes = {_process_of(thread) for thread, _, _, text in ranges if STEP.fullmatch(text)}
    if len(processes) > 1:
        run.say("warning", "several processes mark steps, so they are not counted (step.*, work.*): export one process")
    if len(processes) != 1 or _RUNTIME not in database.tables:
        return ()
    tables, process = EventTables(), processes.pop()
    if not _add_calls(tables, database, names, process):
        return ()
    _add_ranges(tables, [one for one in ranges if _process_of(one[0]) == process])
    all_ended = True
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in database.others:
        advice = "so only calls are counted: --cuda-graph-trace=node"
        run.say("warning", f"the kernels of graphs were not recorded, {advice}")
    else:
        for table, (_, _, columns) in _DEVICES.items():
            own = _columns(database, table, ("start", "end", "deviceId", "correlationId", *columns))
            all_ended &= _add_device(tables, own, table, names)
    tables.finish()
    make = SeriesMaker(tables, mode="corrected", labels={})
    if (steps := find_steps(tables, mode="corrected")) is None:
        return ()
    for remark in steps.remarks:
        run.say("warning", remark)
    has_device = len(tables.device.start) > 0
    for series in chain(make.of_steps(steps) if has_device else (), Work(make, steps).series()):
        if all_ended or series.key.metric != "work.device_time":
            run.finish(series)
    return (call_tree(tables, steps, rank=""),) if run.file.source.with_calls and has_device else ()


def _ranges(database: Database, names: _Texts) -> Iterator[tuple[int, int, int, str]]:
    """Yield the thread, start, end and text of each range."""
    columns = ("eventType", "globalTid", "text", "textId", "start", "end")
    for kind, thread, text, text_id, start, end in database.rows(_RANGES, columns):
        found = names.get(text_id) if text is None else text
        if kind not in _RANGE_TYPES or found is None or not isinstance(start, int) or not isinstance(end, int):
            continue  # `_add_series` reports ranges without a text
        if -_LATEST < start <= end < _LATEST:
            yield thread if isinstance(thread, int) else -1, start, end, str(found)


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
    """Return the number of the name of each value in `names`, which numbers a new name; `text` gives the name."""
    known, which = np.unique(values, return_inverse=True)
    found: Int64 = np.array([names[text(one)] for one in known.tolist()], np.int64)[which]
    return found


def _add_calls(tables: EventTables, database: Database, names: _Texts, process: int) -> bool:
    """Add the calls of a process as those of today's traces (NAMED); return whether the export has any."""
    columns = _columns(database, _RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
    start, end, thread, correlation, name = _sound(columns[:, columns[2] & _PROCESS == process])
    numbers = _numbered(name, lambda one: _CALL_VERSION.sub("", names.get(one, "")), tables.call_names)
    tables.pieces["runtime"].add(name=numbers, start=start, duration=end - start, correlation=correlation)
    tables.pieces["runtime"].add(kind=np.full(len(start), NAMED), thread=_numbered(thread, str, tables.threads))
    return bool(columns.size)


def _add_ranges(tables: EventTables, ranges: list[tuple[int, int, int, str]]) -> None:
    """Add the ranges of a process, in order of start: steps with torch's name for them, without steps inside others."""
    found, until = [], None
    for thread, start, end, text in ranges:
        step, name = STEP.fullmatch(text), name_of_calls(text)
        if step and (until is None or start >= until):
            name, until = f"ProfilerStep#{step[1]}", end
        elif step:
            continue
        kind = OP if OPERATOR.fullmatch(name) else ANNOTATION
        found.append((start, end - start, kind, tables.host_names[name], tables.threads[str(thread)]))
    columns = ("start", "duration", "kind", "name", "thread")
    tables.pieces["host"].add(**dict(zip(columns, np.array(found, np.int64).T, strict=True)))


def _add_device(tables: EventTables, columns: Int64, table: str, names: _Texts) -> bool:
    """Add the rows of a table of devices. Return whether all have an end; a row without one counts, and has no time."""
    kind, usual, _ = _DEVICES[table]
    ended = columns[1] >= columns[0]
    columns[1] = np.where(ended, columns[1], columns[0])
    start, end, device, correlation, name, *amounts = _sound(columns)
    texts = names if kind == KERNEL else _COPIED if kind == MEMCPY else {}
    is_known = np.all([one >= 0 for one in amounts], axis=0) & ((kind != KERNEL) | np.all(amounts, axis=0))
    amount = np.where(is_known, np.prod(np.array(amounts, np.float64), axis=0), np.nan)  # unknown: -1, a grid of 0
    numbers = _numbered(name, lambda one: texts.get(one, usual), tables.kernel_names)
    tables.pieces["device"].add(name=numbers, start=start, duration=end - start, correlation=correlation, amount=amount)
    tables.pieces["device"].add(kind=np.full(len(start), kind), device=_numbered(device, str, tables.devices))
    if kind == KERNEL:
        nan = np.full(len(start), np.nan)  # unknown, as the id -1
        tables.pieces["kernel"].add(external_id=np.full(len(start), -1), blocks=nan, occupancy=nan)
    return bool(ended.all())
