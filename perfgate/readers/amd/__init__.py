"""rocprofv3 of rocprofiler-sdk: its CSV files (traces, statistics, counters), JSON and database; rocprof's CSV.

    "Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
    "hipHostMalloc",12,6096409,508034.083333,1.98,443793,548024,39236.753678
    "Kind","Agent_Id","Queue_Id",...,"Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp",...
    "KERNEL_DISPATCH",1,1,...,"void add<float>(float*, int)",1451,8819330200067564,8819330200116308,...

    {"rocprofiler-sdk-tool": [{"kernel_symbols": [{"kernel_id": 16, "formatted_kernel_name": "add"}],
      "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc"]}]},
      "buffer_records": {"kernel_dispatch": [{"start_timestamp": 1, "end_timestamp": 2, "dispatch_info": {...}}]}}]}

Source: ROCm/rocprofiler-sdk `source/lib/rocprofiler-sdk-tool/generateCSV.cpp`, `generateJSON.cpp`, `csv.hpp`,
`source/docs/data` (2024-10, ROCm 6.3); `source/lib/python/rocpd/source/csv.cpp`, `summary.py` (2025, ROCm 7);
ROCm/rocprofiler-compute `tests/workloads` (2025-01) for rocprof. All times are ns. `rocpd` reads the database.

| file | metrics |
|---|---|
| `*_stats.csv` | an aggregate of each name: `kernel.NAME`, `api.NAME` (hip, hsa, rccl), `memcpy.NAME` |
| `kernel_trace.csv` | `kernel.NAME`, one sample a launch |
| `*_api_trace.csv` | `api.NAME`, or `range.NAME` of markers, one sample a call |
| `memory_copy_trace.csv` | `memcpy.DIRECTION`, one sample a copy |
| `counter_collection.csv` | `kernel.NAME.COUNTER`, one sample a launch |
| `rocpd summary` (CSV) | as `*_stats.csv` |
| `results.csv` of rocprof, `pmc_perf.csv` | `kernel.NAME`, `kernel.NAME.COUNTER`, one sample a launch |
| JSON | `kernel.NAME`, `api.NAME`, `memcpy.DIRECTION`, `range.NAME`, counters, one sample each |

Samples are in the order of the file, of a database in order of start. They have the label `device` if several agents
ran kernels, or if other calls of the metric have no agent: the agent in CSV, the number of the GPU in JSON, which also
names it (the fact `gpu`).
Statistics do not say what their names are: those that are neither a function of HIP, HSA or RCCL nor a copy are taken
for kernels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perfgate.readers.amd.rocpd import Calls, read_database
from perfgate.readers.kit import Format, InputFile, Key, Path, Run, RunBuilder, csv_rows, load, rows
from perfgate.readers.text import SQLITE
from perfgate.readers.values import checked, items, mapping, number, number_of, shown

NAME = "rocprof"
METRICS = (
    "`kernel.NAME`, `api.NAME`, `memcpy.NAME`, `range.NAME`: aggregates of statistics, one sample a call of traces; "
    "`kernel.NAME.COUNTER`"
)
CHECKED = (
    "rocprofiler-sdk's sources of 2024-10, rocpd's of 2025 (schema 3.0): generated files, the examples of its "
    "documentation; a public JSON of eight MI350X (2025-12); public `pmc_perf.csv` of MI100 to MI300"
)
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "TotalDurationNs": r"^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs\"?,",
        "Start_Timestamp": r"^\"?(?:Guid\"?,\"?)?(?:Kind|Domain)\"?,.{0,300}\"?Start_Timestamp\"?,\"?End_Timestamp\b",
        "AVERAGE (nsec)": r"^\"?Name\"?,\"?Calls\"?,\"?DURATION \(nsec\)",
        "Dispatch_ID": r"^\"?Dispatch_ID\"?,.{0,300}\"?Kernel_Name\b",
        "KernelName": r"^(?:\"?Index\"?,)?\"?KernelName\"?,.{0,300}\"?wgr\b",
        "Counter_Name": r"^\"?(?:Pid\"?,\"?)?Correlation_Id\"?,.{0,400}\"?Counter_Name\"?,\"?Counter_Value\b",
    },
    signature=(rb"SQLite format 3\0.{0,60000}?rocpd_kernel", "as an SQLite database with 'rocpd_kernel'"),
    json=("with 'rocprofiler-sdk-tool'", "rocprofiler-sdk-tool=["),
)
#: Not read: what JSON says about the machine and the program.
BESIDE = "agents|code_objects|kernel_symbols|host_functions|operation|correlation_id|strings|thread_id"
_COPY = re.compile(r"MEMORY_COPY_|Copy(?:Device|Host)To(?:Device|Host)$")
_API = re.compile(r"(?:__)?hip[A-Z_]\w*|hsa_\w+|rccl\w+|nccl[A-Z]\w*|roctx\w+")
_STATISTICS = {
    "AverageNs": "mean",
    "MinNs": "min",
    "MaxNs": "max",
    "StdDev": "stddev",
    "TotalDurationNs": "total",
    "Calls": "count",
}
#: A header has all columns of one of these kinds of tables.
_NEEDED = (
    ("Name", "Calls", "TotalDurationNs"),  # `*_stats.csv`, `rocpd summary`
    ("Kernel_Name", "Start_Timestamp", "End_Timestamp"),  # `kernel_trace.csv`
    ("Kernel_Name", "Dispatch_ID"),  # `pmc_perf.csv`; `Dispatch_Id` is a column of rocprofv3
    ("Kernel_Name", "wgr"),  # `results.csv` of rocprof
    ("Kernel_Name", "Counter_Name", "Counter_Value"),  # `counter_collection.csv`
    ("Direction", "Start_Timestamp", "End_Timestamp"),  # `memory_copy_trace.csv`
    ("Function", "Start_Timestamp", "End_Timestamp"),  # `*_api_trace.csv`
)
#: Columns of `rocpd summary` and of rocprof (ROCm 4 to 6), as rocprofv3 names them.
_ALIASES = {
    "KernelName": "Kernel_Name",
    "BeginNs": "Start_Timestamp",
    "EndNs": "End_Timestamp",
    "GPU_ID": "Agent_Id",
    "gpu-id": "Agent_Id",
    "DURATION (nsec)": "TotalDurationNs",
    "AVERAGE (nsec)": "AverageNs",
    "MIN (nsec)": "MinNs",
    "MAX (nsec)": "MaxNs",
    "STD_DEV": "StdDev",
}
#: Columns of a launch that are not counters. rocprof-compute repeats some of each pass with a number.
_NOT_COUNTERS = re.compile(
    r"(?:Agent_Id|Kernel_Name|index|dispatch_id|queue[-_]id|queue-index|[pt]id|grd|wgr|lds|scr|(?:arch_|accum_)?vgpr|sgpr"
    r"|fbar|sig|obj|wave_size|grid_size|workgroup_size|lds_per_workgroup|scratch_per_workitem|correlation_id|xcc_index"
    r"|start_timestamp|end_timestamp|(?:Dispatch|Complete|Duration)Ns)(?:_\d{1,3})?",
    re.IGNORECASE,
)
#: By the kind of a record in the JSON: the first part of its metric. All other kinds are `api`.
_GROUPS = {"kernel_dispatch": "kernel", "memory_copy": "memcpy", "marker_api": "range"}
#: The fields with the name of a kernel; the first that is there counts.
_NAMES = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
#: The kinds of records in the JSON that are not calls.
_NOT_CALLS = ("scratch_memory", "memory_allocation", "pc_sample")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    is_json = file.is_json()
    data, run = load(file, NAME) if is_json else ({}, RunBuilder(file, NAME))
    calls = Calls(run)
    if is_json:
        for path, tool in rows(run, data, "rocprofiler-sdk-tool"):
            _Tool(calls, tool, path).read()
    elif file.head(len(SQLITE)) == SQLITE:
        read_database(calls)
    else:
        for line, row in csv_rows(run, ",", _is_header):
            _row(run, calls, {_ALIASES.get(name, name): text for name, text in row.items()}, line)
    calls.finish()
    return (run.run(),)


def _is_header(cells: list[str]) -> bool:
    names = {_ALIASES.get(name, name) for name in cells}
    return any(names.issuperset(needed) for needed in _NEEDED)


def _row(run: RunBuilder, calls: Calls, row: Mapping[str, str], line: int) -> None:
    """Add a row of CSV. Its columns show the kind of its table: see the table of files above."""
    if row.keys() >= {"Name", "Calls", "TotalDurationNs"}:
        _statistics(run, row, line)
        return
    agent = row.get("Agent_Id", "")
    if "Kernel_Name" in row and ("Dispatch_ID" in row or "wgr" in row):
        _launch(calls, row, agent, line)
        return
    if row.keys() >= {"Kernel_Name", "Counter_Name", "Counter_Value"}:
        calls.add(f"kernel.{row['Kernel_Name']}.{row['Counter_Name']}", agent, row["Counter_Value"], line, "1")
        return
    if "Kernel_Name" in row:
        metric = f"kernel.{row['Kernel_Name']}"
    elif "Direction" in row:
        metric = f"memcpy.{row['Direction']}"
    else:
        metric = f"{'range' if row.get('Domain', '').startswith('MARKER') else 'api'}.{row['Function']}"
    calls.span(metric, agent, row["Start_Timestamp"], row["End_Timestamp"], line)


def _launch(calls: Calls, row: Mapping[str, str], agent: str, line: int) -> None:
    """Add a row with all counters of a launch: `NAME[3]` is an instance of a counter, and their sum counts."""
    metric = f"kernel.{row['Kernel_Name']}"
    if row.get("Start_Timestamp") and row.get("End_Timestamp"):
        calls.span(metric, agent, row["Start_Timestamp"], row["End_Timestamp"], line)
    sums: dict[str, float] = {}
    for name, text in row.items():
        if _NOT_COUNTERS.fullmatch(name):
            continue
        counter, instance, _ = name.partition("[")
        if instance:
            value = number(text)
            sums[counter] = sums.get(counter, 0.0) + (math.nan if value is None else value)  # `add` refuses NaN
        elif text:
            calls.add(f"{metric}.{name}", agent, text, line, "1")
    for counter, total in sums.items():
        calls.add(f"{metric}.{counter}", agent, total, line, "1")


def _statistics(run: RunBuilder, row: Mapping[str, str], line: int) -> None:
    """Add the statistics of a name as an aggregate."""
    name = row["Name"]
    kind = "memcpy" if _COPY.match(name) else "api" if _API.fullmatch(name) else "kernel"
    key = run.unique(Key(f"{kind}.{name}"), line)
    statistics: dict[str, float] = {}
    for column, statistic in _STATISTICS.items():
        if not row.get(column) and column in ("MinNs", "MaxNs", "StdDev"):
            continue  # a single call has no deviation, and rocprof before ROCm 6 did not have these columns
        value, fault = checked(row.get(column, ""), "s")
        if fault:
            run.refuse(key, f"{column}: {fault}", line)
            return
        statistics[statistic] = value if statistic == "count" else value / 1e9
    run.aggregate(key, "s", statistics)


class _Tool:
    """The records of one process, which refer to agents, kernels, counters and messages by numbers."""

    def __init__(self, calls: Calls, tool: Mapping[str, Any], place: Path) -> None:
        self._calls, self._run, self._tool, self._place = calls, calls.run, tool, place
        self._agents = self._by_number(tool, (*place, "agents"), "id", "handle")
        self._kernels = self._by_number(tool, (*place, "kernel_symbols"), "kernel_id")
        self._counters = self._by_number(tool, (*place, "counters"), "id", "handle")
        self._strings = mapping(tool.get("strings"))
        self._messages = self._by_number(self._strings, (*place, "strings", "marker_api"), "key")

    def _objects(self, data: Mapping[str, Any], path: Path) -> Iterable[tuple[Path, dict[str, Any]]]:
        """Return the objects of the list at a path, which may be absent, with their paths; others are errors."""
        return () if data.get(str(path[-1])) is None else rows(self._run, data, *path)

    def _number(self, data: Mapping[str, Any], path: Path, *fields: str) -> int | None:
        """Return the integer at the path `fields`; None if it is absent or, after an error, something else."""
        found: Any = data
        for field in fields:
            found = mapping(found).get(field)
        if found is None or type(found) is int:
            return found
        self._run.say("error", f"{'.'.join(fields)!r} is not an integer", (*path, *fields), f": {shown(found)}")
        return None

    def _by_number(self, data: Mapping[str, Any], path: Path, *fields: str) -> dict[int | None, dict[str, Any]]:
        """Return the objects of a list by their numbers; those without one are left out."""
        numbered = ((self._number(one, at, *fields), one) for at, one in self._objects(data, path))
        return {number: one for number, one in numbered if number is not None}

    def read(self) -> None:
        """Add the records, and the counters of each launch."""
        records = mapping(self._tool.get("buffer_records"))
        for kind in records:
            if not kind.startswith(_NOT_CALLS):
                for path, record in self._objects(records, (*self._place, "buffer_records", kind)):
                    self._call(kind, record, path)
        collected = mapping(self._tool.get("callback_records"))
        for path, record in self._objects(collected, (*self._place, "callback_records", "counter_collection")):
            self._launch_counters(record, path)

    def _call(self, kind: str, record: Mapping[str, Any], path: Path) -> None:
        info, place = mapping(record.get("dispatch_info")), (*path, "dispatch_info")
        if kind == "kernel_dispatch":
            name = self._kernel(info, place)
        else:
            name = _operation(items(self._strings.get("buffer_records")), record)
        if kind == "marker_api":
            number = self._number(record, path, "correlation_id", "internal")
            name = str(self._messages.get(number, {}).get("value") or name)
        metric, agent = f"{_GROUPS.get(kind, 'api')}.{name}", self._agent(info, place)
        self._calls.span(metric, agent, record.get("start_timestamp"), record.get("end_timestamp"), path)

    def _launch_counters(self, record: Mapping[str, Any], path: Path) -> None:
        """Add the counters of a launch, each as the sum over its instances, as in the CSV."""
        info = mapping(mapping(record.get("dispatch_data")).get("dispatch_info"))
        sums: dict[str, float] = {}
        for place, instance in self._objects(record, (*path, "records")):
            number = self._number(instance, place, "counter_id", "handle")
            name = str(self._counters.get(number, {}).get("name") or number)
            sums[name] = sums.get(name, 0.0) + number_of(instance.get("value"))
        place = (*path, "dispatch_data", "dispatch_info")
        kernel, agent = self._kernel(info, place), self._agent(info, place)
        for name, value in sums.items():
            self._calls.add(f"kernel.{kernel}.{name}", agent, value, path, "1")

    def _kernel(self, info: Mapping[str, Any], path: Path) -> str:
        """Return the name of the kernel in a `dispatch_info`; its number if no kernel has it."""
        number = self._number(info, path, "kernel_id")
        names = map(self._kernels.get(number, {}).get, _NAMES)
        return next((one for one in names if isinstance(one, str) and one), str(number))

    def _agent(self, info: Mapping[str, Any], path: Path) -> str:
        """Return the number of the GPU in a `dispatch_info`, and keep its name; "" for a record without one."""
        handle = self._number(info, path, "agent_id", "handle")
        agent = self._agents.get(handle, {})
        if isinstance(name := agent.get("product_name") or agent.get("name"), str) and name:
            self._run.facts.setdefault("gpu", name[:200])
        number = agent.get("logical_node_type_id", handle)  # its number among the agents of one type
        return "" if number is None else str(number)


def _operation(kinds: Sequence[object], record: Mapping[str, Any]) -> str:
    """Return the name of the operation of a record, which has its number and that of its kind; else `unknown`."""
    kind, operation = record.get("kind"), record.get("operation")
    if type(kind) is not int or type(operation) is not int or not 0 <= kind < len(kinds):
        return "unknown"
    names = items(mapping(kinds[kind]).get("operations"))
    return str(names[operation]) if 0 <= operation < len(names) else "unknown"
