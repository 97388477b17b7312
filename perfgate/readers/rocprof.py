"""rocprofv3 of rocprofiler-sdk: its CSV files (traces, statistics, counters) and its JSON.

    "Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
    "hipHostMalloc",12,6096409,508034.083333,1.98,443793,548024,39236.753678
    "Kind","Agent_Id","Queue_Id",...,"Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp",...
    "KERNEL_DISPATCH",1,1,...,"void add<float>(float*, int)",1451,8819330200067564,8819330200116308,...

    {"rocprofiler-sdk-tool": [{"kernel_symbols": [{"kernel_id": 16, "formatted_kernel_name": "add"}],
      "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc"]}]},
      "buffer_records": {"kernel_dispatch": [{"start_timestamp": 1, "end_timestamp": 2, "dispatch_info": {...}}]}}]}

Source: ROCm/rocprofiler-sdk `source/lib/rocprofiler-sdk-tool/generateCSV.cpp`, `generateJSON.cpp`, `csv.hpp`,
`source/docs/data` (2024-10, ROCm 6.3). All times are ns.

| file | metrics |
|---|---|
| `*_stats.csv` | an aggregate of each name: `kernel.NAME`, `api.NAME` (hip, hsa, rccl), `memcpy.NAME` |
| `kernel_trace.csv` | `kernel.NAME`, one sample a launch |
| `*_api_trace.csv` | `api.NAME`, or `range.NAME` of markers, one sample a call |
| `memory_copy_trace.csv` | `memcpy.DIRECTION`, one sample a copy |
| `counter_collection.csv` | `kernel.NAME.COUNTER`, one sample a launch |
| JSON | `kernel.NAME`, `api.NAME`, `memcpy.DIRECTION`, `range.NAME`, counters, one sample each |

Samples are in the order of the file. They have the label `device` if several agents ran kernels: the agent in CSV, the
number of the GPU in JSON, which also names it (the fact `gpu`). Statistics do not say what their names are: those that
are no function of HIP, HSA or RCCL and no copy are taken for kernels.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfgate.core import Key, Run, Series, read_only
from perfgate.documents.json import Path
from perfgate.readers.builder import RunBuilder
from perfgate.readers.formats import Format
from perfgate.readers.json_files import load
from perfgate.readers.text import InputFile
from perfgate.readers.values import cells_of, checked, in_base, mapping, number_of

NAME = "rocprof"
TITLE = "rocprofv3 (rocprofiler-sdk): statistics, traces and counters as CSV, or JSON"
METRICS = (
    "`kernel.NAME`, `api.NAME`, `memcpy.NAME`, `range.NAME`: aggregates of statistics, one sample a call of traces; "
    "`kernel.NAME.COUNTER`"
)
CHECKED = (
    "rocprofiler-sdk's sources of 2024-10: generated files, the examples of its documentation; a public JSON of eight "
    "MI350X (2025-12)"
)
#: `{"rocprofiler-sdk-tool": [...]}`.
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "TotalDurationNs": r"^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs\"?,",
        "Start_Timestamp": r"^\"?(?:Kind|Domain)\"?,.{0,300}\"?Start_Timestamp\"?,\"?End_Timestamp\b",
        "Counter_Name": r"^\"?Correlation_Id\"?,.{0,400}\"?Counter_Name\"?,\"?Counter_Value\b",
    },
    json=("with 'rocprofiler-sdk-tool'", "rocprofiler-sdk-tool=["),
)
#: What JSON says about the machine and the program.
BESIDE = "agents|code_objects|kernel_symbols|host_functions|operation|correlation_id|strings|thread_id"

_API = re.compile(r"hip[A-Z_]\w*|hsa_\w+|rccl\w+|nccl[A-Z]\w*|roctx\w+")
_STATISTICS = (
    ("AverageNs", "mean"),
    ("MinNs", "min"),
    ("MaxNs", "max"),
    ("StdDev", "stddev"),
    ("TotalDurationNs", "total"),
)
_NEEDED = (
    ("Name", "Calls", "TotalDurationNs"),
    ("Kernel_Name", "Start_Timestamp", "End_Timestamp"),
    ("Kernel_Name", "Counter_Name", "Counter_Value"),
    ("Direction", "Start_Timestamp", "End_Timestamp"),
    ("Function", "Start_Timestamp", "End_Timestamp"),
)
_NS = 1e9
#: Records of the JSON that are not calls: no time, or memory and samples of other kinds.
_NOT_CALLS = ("scratch_memory", "memory_allocation", "pc_sample")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    if file.is_json():
        return (_json(file),)
    run = RunBuilder(file, NAME)
    header: list[str] = []
    #: The samples of each metric and agent; labels are only known at the end.
    table = _Samples(run)
    rows = 0
    for number, line, _, ended in file.lines():
        cells = cells_of(line.strip()) or []
        if any(set(needed) <= {*cells} for needed in _NEEDED):
            header = cells
        elif header and cells:
            rows += 1
            if len(cells) == len(header) and ended:
                _row(run, table, dict(zip(header, cells, strict=True)), number)
            elif not ended:
                run.say("warning", "the last record is cut off; left out", number)
            else:
                run.say("error", f"a row has {len(cells)} cells, and its header has {len(header)}; left out", number)
    table.finish()
    if header and not rows:
        run.say("error", "this table has a header and no row")
    return (run.run(),)


class _Samples:
    """Times of calls, and counters, of each agent."""

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        self._found: dict[tuple[str, str, str], array[float]] = {}

    def add(self, metric: str, agent: str, value: object, at: int | Path, unit: str = "s") -> None:
        """Add a value in ns, or a counter, or a problem."""
        parsed, fault = checked(value, unit)
        if fault:
            self.run.refuse(Key(metric), fault, at)
            return
        if (metric, agent, unit) not in self._found:
            self.run.file.count("series")
        self._found.setdefault((metric, agent, unit), array("d")).append(parsed)

    def finish(self) -> None:
        """Add all series to the run, with the label `device` if there are several agents."""
        several = len({agent for _, agent, _ in self._found} - {""}) > 1
        for (metric, agent, unit), values in self._found.items():
            labels = {"device": agent.removeprefix("Agent ")} if several and agent else {}
            numbers = in_base(np.frombuffer(values, np.float64), _NS if unit == "s" else 1.0)
            self.run.finished[Key.of(metric, **labels)] = Series(
                Key.of(metric, **labels), unit, "samples", read_only(numbers)
            )


def _row(run: RunBuilder, table: _Samples, row: Mapping[str, str], line: int) -> None:
    if "TotalDurationNs" in row:
        _statistics(run, row, line)
        return
    agent = row.get("Agent_Id", "")
    if "Counter_Name" in row:
        table.add(f"kernel.{row['Kernel_Name']}.{row['Counter_Name']}", agent, row["Counter_Value"], line, "1")
        return
    if "Kernel_Name" in row:
        metric = f"kernel.{row['Kernel_Name']}"
    elif "Direction" in row:
        metric = f"memcpy.{row['Direction']}"
    else:
        metric = f"{'range' if row.get('Domain', '').startswith('MARKER') else 'api'}.{row['Function']}"
    _span(table, metric, agent, row["Start_Timestamp"], row["End_Timestamp"], line)


def _span(table: _Samples, metric: str, agent: str, start: object, end: object, at: int | Path) -> None:
    """Add the time between two timestamps, which are integers beyond the precision of floats."""
    times = [one for one in (_integer(start), _integer(end)) if one is not None]
    if len(times) < 2:
        table.run.refuse(Key(metric), f"{start!r} to {end!r} is not a time in ns; left out"[:200], at)
    else:
        table.add(metric, agent, times[1] - times[0], at)


def _integer(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\d{1,20}", value, re.ASCII) else None
    return value if type(value) is int else None


def _statistics(run: RunBuilder, row: Mapping[str, str], line: int) -> None:
    name = row["Name"]
    kind = "memcpy" if name.startswith("MEMORY_COPY_") else "api" if _API.fullmatch(name) else "kernel"
    key = run.unique(Key(f"{kind}.{name}"), line)
    statistics: dict[str, float] = {}
    for column, statistic in (*_STATISTICS, ("Calls", "count")):
        value, fault = checked(row.get(column, ""), "s")
        if fault:
            run.refuse(key, f"{column}: {fault}", line)
            return
        statistics[statistic] = value if statistic == "count" else value / _NS
    run.aggregate(key, "s", statistics)


def _json(file: InputFile) -> Run:
    data, run = load(file, NAME)
    table = _Samples(run)
    tools = data.get("rocprofiler-sdk-tool")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        _tool(table, mapping(tool), ("rocprofiler-sdk-tool", index))
    table.finish()
    return run.run()


def _tool(table: _Samples, tool: Mapping[str, Any], place: Path) -> None:
    """Add the records of one process."""
    agents = {mapping(one.get("id")).get("handle"): one for one in _objects(tool.get("agents"))}
    kernels = {symbol.get("kernel_id"): _kernel_name(symbol) for symbol in _objects(tool.get("kernel_symbols"))}
    strings = mapping(tool.get("strings"))
    kinds = _objects(strings.get("buffer_records"))
    messages = {one.get("key"): one.get("value") for one in _objects(strings.get("marker_api"))}
    for kind, listed in mapping(tool.get("buffer_records")).items():
        for at, record in enumerate(_objects(listed) if not kind.startswith(_NOT_CALLS) else ()):
            info = mapping(record.get("dispatch_info"))
            if kind == "kernel_dispatch":
                name = kernels.get(info.get("kernel_id")) or str(info.get("kernel_id"))
            else:
                name = _operation(kinds, record) or "unknown"
            if kind == "marker_api":
                name = str(messages.get(mapping(record.get("correlation_id")).get("internal")) or name)
            agent = _agent(table.run, agents, info)
            start, end = record.get("start_timestamp"), record.get("end_timestamp")
            _span(table, f"{_GROUPS.get(kind, 'api')}.{name}", agent, start, end, (*place, "buffer_records", kind, at))
    counters = {mapping(one.get("id")).get("handle"): one.get("name") for one in _objects(tool.get("counters"))}
    for at, record in enumerate(_objects(mapping(tool.get("callback_records")).get("counter_collection"))):
        agent = _agent(table.run, agents, mapping(mapping(record.get("dispatch_data")).get("dispatch_info")))
        _counters(table, record, kernels, counters, agent, (*place, "callback_records", "counter_collection", at))


def _agent(run: RunBuilder, agents: Mapping[Any, Mapping[str, Any]], info: Mapping[str, Any]) -> str:
    """Return the number of the GPU that ran a kernel, and keep its name."""
    handle = mapping(info.get("agent_id")).get("handle")
    agent = agents.get(handle, {})
    if isinstance(name := agent.get("product_name") or agent.get("name"), str) and name:
        run.facts.setdefault("gpu", name[:200])
    number = agent.get("logical_node_type_id", handle)
    return "" if number is None else str(number)


def _counters(
    table: _Samples,
    record: Mapping[str, Any],
    kernels: Mapping[Any, str],
    counters: Mapping[Any, Any],
    agent: str,
    place: Path,
) -> None:
    """Add the counters of one launch: the sum over the instances of each counter, as in the CSV."""
    info = mapping(mapping(record.get("dispatch_data")).get("dispatch_info"))
    sums: dict[str, float] = {}
    for one in _objects(record.get("records")):
        name = str(counters.get(mapping(one.get("counter_id")).get("handle")))
        sums[name] = sums.get(name, 0.0) + number_of(one.get("value"))
    kernel = kernels.get(info.get("kernel_id")) or str(info.get("kernel_id"))
    for name, value in sums.items():
        table.add(f"kernel.{kernel}.{name}", agent, value, place, "1")


_GROUPS = {"kernel_dispatch": "kernel", "memory_copy": "memcpy", "marker_api": "range"}


def _kernel_name(symbol: Mapping[str, Any]) -> str:
    names = (symbol.get(name) for name in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _operation(kinds: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> str | None:
    """Return the name of the operation of a record: both are numbered."""
    kind, operation = record.get("kind"), record.get("operation")
    if type(kind) is not int or type(operation) is not int or not 0 <= kind < len(kinds):
        return None
    names = kinds[kind].get("operations")
    return str(names[operation]) if isinstance(names, list) and 0 <= operation < len(names) else None
