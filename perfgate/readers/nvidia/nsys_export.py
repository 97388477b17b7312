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
If NVTX ranges mark steps, `nsys_steps` adds their times and their work.

Source: NVIDIA's SQLite Export Schema Reference of Nsight Systems (2020 to 2025), `CUpti_ActivityMemcpyKind` of CUPTI,
and the queries of `nsys stats` for the names. Not tested on a file that the tool wrote.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from perfgate.core.call_trees import CallTree
from perfgate.readers.kit import InputFile, Key, Run, RunBuilder, Series, in_base, read_only
from perfgate.readers.nvidia import nsys_steps
from perfgate.readers.nvidia.nsys_steps import COPIES, KERNELS, RANGES, RUNTIME, SETS, Texts, process_of, rows_of
from perfgate.readers.nvidia.nsys_tables import STEP, name_of_calls
from perfgate.readers.sqlite_file import Database, DatabaseFault, opened

_STRINGS, _COPY_NAMES, _GPUS = "StringIds", "ENUM_CUDA_MEMCPY_OPER", "TARGET_INFO_GPU"
#: Tables with activities: the first part of their metrics, and the column with the id of the name (NULL: none).
_ACTIVITIES = {
    KERNELS: ("kernel", "demangledName"),
    RUNTIME: ("api", "nameId"),
    "OSRT_API": ("os", "nameId"),
    COPIES: ("memcpy", "copyKind"),
    SETS: ("memcpy", "NULL"),
    RANGES: ("range", ""),  # see `_named_ranges`
}
_TABLES = re.compile("|".join((*_ACTIVITIES, _STRINGS, _COPY_NAMES, _GPUS)), re.ASCII)
#: Other tables with measurements.
_MEASURED = re.compile(r"CUPTI_ACTIVITY_KIND_|GPU_METRICS|GENERIC_EVENTS|NET_|MPI_|NVTX_COUNTER|CU(?:DNN|BLAS)_")
#: The NVTX event that names a domain.
_DOMAIN_TYPE = 75
_API_VERSION = re.compile(r"_v\d{4}$")  # as in `nsys stats`
#: By name and device: three numbers of each activity, its start and length in ns, and its bytes (-1: unknown).
_Groups = dict[tuple[object, object], "array[int]"]


def read(document: InputFile) -> tuple[Run, ...]:
    """Return the one run of an export."""
    run, trees = RunBuilder(document, "nsys"), list[CallTree]()
    try:
        with opened(document.blocks(), _TABLES) as database:
            strings = _add_activities(run, database)
            with suppress(DatabaseFault):  # was reported with the activities of the table
                trees += nsys_steps.add_steps(run, database, strings)
            if Key("step.time") in run.finished:  # it has the times of the ranges of steps
                for key in [*run.finished]:
                    if key.metric.startswith("range.") and STEP.fullmatch(key.metric.rpartition(":")[2]):
                        del run.finished[key]
            names = {name for (name,) in rows_of(database, _GPUS, "name") if isinstance(name, str)}
            if len(names) == 1:
                run.facts["gpu"] = names.pop()
    except DatabaseFault as fault:
        run.say("error", str(fault))
    return (replace(run.run(), call_trees=tuple(trees)),)


def _add_activities(run: RunBuilder, database: Database) -> Texts:
    """Add every activity, and return the names of the export by id. Raises DatabaseFault if these cannot be read."""
    if database.others >= {"experiments", "runs", "metrics"}:
        advice = "log with MLFLOW_TRACKING_URI=file:./mlruns, and give the folder metrics of the run"
        run.say("error", f"this is a database of MLflow, which is not read: {advice}")
    elif not database.tables.intersection(_ACTIVITIES):
        run.say("error", f"an SQLite database without the tables of Nsight Systems: {', '.join(_ACTIVITIES)}")
    found: dict[str, _Groups] = {}
    for table, (_, name) in _ACTIVITIES.items():
        rows = rows_of(database, table, "start", "end", name, "deviceId", "bytes")
        found[table] = _grouped(run, table, _named_ranges(database) if table == RANGES else rows)
    for table in filter(_MEASURED.match, database.others):
        run.file.coverage.leave(table)  # reported as not read
    used = {name for groups in found.values() for name, _ in groups}
    used |= {name[1] for name in used if isinstance(name, tuple)}  # the texts of ranges
    strings = _texts(database, _STRINGS, "value", used)
    kinds: Texts = {id: f"[CUDA memcpy {text}]" for id, text in _texts(database, _COPY_NAMES, "label", used).items()}
    _add_series(run, found, {COPIES: kinds, SETS: {None: "[CUDA memset]"}}, strings)
    return strings


def _add_series(run: RunBuilder, found: Mapping[str, _Groups], own: Mapping[str, Texts], strings: Texts) -> None:
    """Add the activities of all tables. Their ids are named in `own` or in `strings`; equal names are one series."""
    series: dict[Key, array[int]] = defaultdict(lambda: array("q"))
    for table, groups in found.items():
        family, names = _ACTIVITIES[table][0], own.get(table, strings)
        several = len({device for _, device in groups}) > 1
        nameless = 0
        for (id, device), spans in groups.items():
            if (name := _name(family, id, names)) is None:
                nameless += len(spans) // 3
            else:
                labels = {"device": str(device)} if several else {}
                series[Key.of(f"{family}.{name}", **labels)].extend(spans)
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


def _name(family: str, id: object, names: Texts) -> str | None:
    """Return the name of an activity, None without one. The `id` of a range is its domain, and its text or text id."""
    domain, text = id if isinstance(id, tuple) else ("", id)
    name = text if isinstance(text, str) else names.get(text)
    if name and family == "api":
        return _API_VERSION.sub("", name)
    return name_of_calls(f"{domain}:{name}") if name is not None and family == "range" else name


def _named_ranges(database: Database) -> Iterator[tuple[object, ...]]:
    """Yield the NVTX ranges as activities, each named by a pair: its domain in its process, and its text or text id."""
    columns = ("eventType", "domainId", "globalTid", "text", "textId", "start", "end")
    domains = {
        (domain, process_of(thread)): text
        for kind, domain, thread, text, *_ in rows_of(database, RANGES, *columns)
        if kind == _DOMAIN_TYPE and isinstance(text, str)
    }
    for kind, domain, thread, text, text_id, start, end in rows_of(database, RANGES, *columns):
        if kind in nsys_steps.RANGE_TYPES:
            name = text_id if text is None else text
            yield start, end, (domains.get((domain, process_of(thread)), ""), name), None, None


def _grouped(run: RunBuilder, table: str, rows: Iterable[tuple[object, ...]]) -> _Groups:
    """Return the rows (start, end, name or id, device, bytes) as groups.

    Report rows that are impossible or have no end, and a damaged table.
    """
    groups: _Groups = defaultdict(lambda: array("q"))
    wrong = unended = 0
    try:
        for start, end, name, device, size in rows:
            if isinstance(start, int) and isinstance(end, int) and 0 <= end - start < 1 << 62:
                groups[name, device].extend((start, end - start, size if isinstance(size, int) else -1))
            elif end is None:
                unended += 1
            else:
                wrong += 1
    except DatabaseFault as fault:
        run.say("error", f"{table} is not read completely: {fault}")
    if wrong:
        run.say("error", f"{table}: {wrong} activities without a start, or with an end before it, are left out")
    if unended:
        run.say("warning", f"{table}: {unended} activities without an end are left out")
    return groups


def _texts(database: Database, table: str, column: str, wanted: set[object]) -> Texts:
    """Return the wanted names of a table by their id."""
    return {id: text for id, text in rows_of(database, table, "id", column) if id in wanted and isinstance(text, str)}
