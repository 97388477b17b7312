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
If ranges mark the steps, there are `step.*`, `gpu.*`, `work.*` and a call tree, too, and the ranges of the steps are
`step.time`: see `nsys_work`.

Source: NVIDIA's SQLite Export Schema Reference of Nsight Systems (2020 to 2025), and the queries of
`nsys stats` for the names. Not tested on a file that the tool wrote.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.call_trees import CallTree
from perfgate.readers.kit import InputFile, Key, Run, RunBuilder, Series, in_base, read_only
from perfgate.readers.nvidia.nsys_tables import name_of_calls
from perfgate.readers.nvidia.nsys_work import RANGE_TYPES, STEP, add_steps, process_of
from perfgate.readers.sqlite_file import Database, DatabaseFault, opened

_COPIES, _SETS, _RANGES = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS"
_STRINGS, _COPY_NAMES, _GPUS = "StringIds", "ENUM_CUDA_MEMCPY_OPER", "TARGET_INFO_GPU"
#: Tables with ids for names: the first part of their metrics, and the column of the id.
_NAMED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("kernel", "demangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("api", "nameId"),
    "OSRT_API": ("os", "nameId"),
    _COPIES: ("memcpy", "copyKind"),
}
_ACTIVITIES = (*_NAMED, _SETS, _RANGES)
_TABLES = re.compile("|".join((*_ACTIVITIES, _STRINGS, _COPY_NAMES, _GPUS)), re.ASCII)
#: The NVTX event that names a domain.
_DOMAIN_TYPE = 75
_VERSION = re.compile(r"_v\d{4}$")
#: (start, end, name, device, bytes) of an activity; the name is a text or its id.
Row = tuple[object, ...]


class _Spans(Struct):
    """All activities of one name and device: starts and lengths in ns, and bytes if the table has them."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def extend(self, other: _Spans) -> None:
        self.starts.extend(other.starts)
        self.lengths.extend(other.lengths)
        self.sizes.extend(other.sizes)

    def ordered(self, numbers: array[int]) -> npt.NDArray[np.float64]:
        """The lengths or the sizes in order of start."""
        order = np.argsort(np.frombuffer(self.starts, np.int64), kind="stable")
        return np.frombuffer(numbers, np.int64)[order].astype(np.float64)


#: By the name, or its id, and the device.
Groups = dict[tuple[object, object], _Spans]
#: Tables of a tracking database of MLflow, which is an SQLite database, too.
_MLFLOW = frozenset({"experiments", "runs", "metrics"})
_FILE_STORE = "log with MLFLOW_TRACKING_URI=file:./mlruns, and give the folder metrics of the run"
#: Other tables with measurements.
_MEASURED = re.compile(r"CUPTI_ACTIVITY_KIND_|GPU_METRICS|GENERIC_EVENTS|NET_|MPI_|NVTX_COUNTER|CU(?:DNN|BLAS)_")


class _Export(RunBuilder):
    def __init__(self, document: InputFile) -> None:
        super().__init__(document, "nsys")
        self._found: list[tuple[str, str, Groups]] = []
        self.trees: tuple[CallTree, ...] = ()

    def read(self, database: Database) -> None:
        """Read every activity, then the names in use. Raises DatabaseFault if a name cannot be read."""
        if database.others >= _MLFLOW:
            self.say("error", f"this is a database of MLflow, which is not read: {_FILE_STORE}")
        elif not database.tables.intersection(_ACTIVITIES):
            self.say("error", f"an SQLite database without the tables of Nsight Systems: {', '.join(_ACTIVITIES)}")
        for table, (kind, name) in _NAMED.items():
            if table in database.tables:
                self._collect(table, kind, database.rows(table, ("start", "end", name, "deviceId", "bytes")))
        if _SETS in database.tables:
            rows = database.rows(_SETS, ("start", "end", "deviceId", "bytes"))
            self._collect(_SETS, "memcpy", ((start, end, "[CUDA memset]", *rest) for start, end, *rest in rows))
        if _RANGES in database.tables:
            self._collect(_RANGES, "range", _ranges(database))
        for table in database.others:
            if _MEASURED.match(table):
                self.file.coverage.leave(table)
        strings = _labels(database, _STRINGS, "value", self._used())
        self._keep(database, strings)
        with suppress(DatabaseFault):  # it was said of the table
            self.trees = add_steps(self, database, strings)
        if any(key.metric == "step.time" for key in self.finished):
            self._leave_steps()
        if _GPUS in database.tables:
            names = {name for (name,) in database.rows(_GPUS, ("name",)) if isinstance(name, str)}
            self.facts |= {"gpu": names.pop()} if len(names) == 1 else {}

    def _leave_steps(self) -> None:
        """Leave out the range of each step: they are `step.time`."""
        ranges = (key for key in self.finished if key.metric.startswith("range."))
        for key in [key for key in ranges if STEP.fullmatch(key.metric.rpartition(":")[2])]:
            del self.finished[key]

    def _collect(self, table: str, kind: str, rows: Iterable[Row]) -> None:
        """Read the activities of a table by name, and report impossible rows and a damaged table."""
        groups: Groups = defaultdict(_Spans)
        wrong = unended = 0
        try:
            for start, end, name, device, size in rows:
                if not (isinstance(start, int) and isinstance(end, int) and 0 <= end - start < 1 << 62):
                    unended += end is None
                    wrong += end is not None
                    continue
                spans = groups[name, device]
                spans.starts.append(start)
                spans.lengths.append(end - start)
                if isinstance(size, int) and size >= 0:
                    spans.sizes.append(size)
        except DatabaseFault as fault:
            self.say("error", f"{table} is not read completely: {fault}")
        if wrong:
            self.say("error", f"{table}: {wrong} activities without a start, or with an end before it, are left out")
        if unended:
            self.say("warning", f"{table}: {unended} activities without an end are left out")
        self._found.append((table, kind, groups))

    def _used(self) -> set[object]:
        """The names in use, or their ids."""
        return {name for _, _, groups in self._found for name, _ in groups}

    def _keep(self, database: Database, strings: Mapping[object, str]) -> None:
        """Turn the groups into series; groups with the same name become one."""
        copies = _labels(database, _COPY_NAMES, "label", self._used())
        kinds = {id: f"[CUDA memcpy {label}]" for id, label in copies.items()}
        series: dict[Key, _Spans] = defaultdict(_Spans)
        for table, kind, groups in self._found:
            several = len({device for _, device in groups}) > 1
            nameless = 0
            for (id, device), spans in groups.items():
                name = _text(id, kinds if table == _COPIES else strings)
                if name is None:
                    nameless += len(spans.starts)
                    continue
                name = _VERSION.sub("", name) if kind == "api" else name_of_calls(name) if kind == "range" else name
                metric = f"{kind}.{name}"
                series[Key.of(metric, **({"device": str(device)} if several else {}))].extend(spans)
            if nameless:
                self.say("error", f"{table}: {nameless} activities without a name in the file are left out")
        for key, spans in series.items():
            times = in_base(spans.ordered(spans.lengths), 1e9)
            self.finished[key] = Series(key, "s", "samples", read_only(times))
            if len(spans.sizes) == len(spans.starts):  # every activity has a size
                size = Key(f"{key.metric}.size", key.labels)
                self.finished[size] = Series(size, "B", "samples", read_only(spans.ordered(spans.sizes)))


def _text(id: object, names: Mapping[object, str]) -> str | None:
    """The text of a name; the text of a range follows its domain."""
    if isinstance(id, tuple):
        domain, own = id
        text = _text(own, names)
        return None if text is None else f"{domain}:{text}"
    return id if isinstance(id, str) else names.get(id)


def _labels(database: Database, table: str, column: str, wanted: set[object]) -> dict[object, str]:
    if table not in database.tables:
        return {}
    wanted = wanted | {id[1] for id in wanted if isinstance(id, tuple)}
    rows = database.rows(table, ("id", column))
    return {id: text for id, text in rows if id in wanted and isinstance(text, str)}


def _ranges(database: Database) -> Iterator[Row]:
    """Yield the NVTX ranges, each with the name that its process gave to the domain, and its text or text id."""
    columns = ("eventType", "domainId", "globalTid", "text", "textId", "start", "end")
    domains = {
        (domain, process_of(thread)): text
        for kind, domain, thread, text, *_ in database.rows(_RANGES, columns)
        if kind == _DOMAIN_TYPE and isinstance(text, str)
    }
    for kind, domain, thread, text, text_id, start, end in database.rows(_RANGES, columns):
        if kind in RANGE_TYPES:
            name = text_id if text is None else text
            yield start, end, (domains.get((domain, process_of(thread)), ""), name), None, None


def read(document: InputFile) -> tuple[Run, ...]:
    """The one run of an export."""
    export = _Export(document)
    try:
        with opened(document.blocks(), _TABLES) as database:
            export.read(database)
    except DatabaseFault as fault:
        export.say("error", str(fault))
    return (replace(export.run(), call_trees=export.trees),)
