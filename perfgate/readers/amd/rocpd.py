"""The database of rocprofv3 (ROCm 7: `*_results.db`): every call is a sample, in order of start in its process.

| table | metric |
|---|---|
| `rocpd_kernel_dispatch` | `kernel.NAME` |
| `rocpd_pmc_event` | `kernel.NAME.COUNTER`, the sum over the instances of the counter |
| `rocpd_memory_copy` | `memcpy.NAME` |
| `rocpd_region` | `api.NAME`, or `range.MESSAGE` of markers |

Times are ns. The name of a table ends in the id of a process; the database of several processes has a set of tables for
each. Source: ROCm/rocm-systems `projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql` and
`data_views.sql` (schema 3.0).
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable

import numpy as np

from perfgate.readers.kit import Key, Place, RunBuilder, Series, checked, in_base, mapping, number_of, read_only
from perfgate.readers.sqlite_file import Database, DatabaseFault, opened

_NS = 1e9
_TABLES = re.compile(r"rocpd_[a-z_]{1,40}?(?:_[0-9a-f]{8}_[0-9a-f_]{27})?", re.ASCII)
_DISPATCH = re.compile(r"rocpd_kernel_dispatch(\w*)")
_TIME = re.compile(r"\d{1,20}(\.\d{1,20})?", re.ASCII)
_Rows = Iterable[tuple[object, ...]]


class Calls:
    """The values of each metric and agent of one run, in the order in which they are added."""

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        #: By metric, agent and unit.
        self._found: dict[tuple[str, str, str], array[float]] = {}

    def add(self, metric: str, agent: str, value: object, at: Place, unit: str = "s") -> None:
        """Add a time in ns, or with the unit "1" a counter; a problem if it is not a measurement."""
        parsed, fault = checked(value, unit)
        if fault:
            self.run.refuse(Key(metric), fault, at)
            return
        if (metric, agent, unit) not in self._found:
            self.run.file.count("series")
        self._found.setdefault((metric, agent, unit), array("d")).append(parsed)

    def span(self, metric: str, agent: str, start: object, end: object, at: Place) -> None:
        """Add the time between two timestamps in ns. Integers stay exact: they may be too large for a float."""
        times = []
        for value in (start, end):
            if isinstance(value, str) and (found := _TIME.fullmatch(value)):
                times.append(float(value) if found[1] else int(value))
            elif type(value) is int:
                times.append(value)
        if len(times) < 2:
            self.run.refuse(Key(metric), f"{start!r} to {end!r} is not a time in ns; left out"[:200], at)
        else:
            self.add(metric, agent, times[1] - times[0], at)

    def finish(self) -> None:
        """Add all series to the run.

        They have the label `device` if there are several agents, or if other calls of the metric have no agent.
        """
        several = len({agent for _, agent, _ in self._found} - {""}) > 1
        for (metric, agent, unit), values in self._found.items():
            is_one_of = agent and (several or (metric, "", unit) in self._found)
            labels = {"device": agent.removeprefix("Agent ")} if is_one_of else {}  # CSV of ROCm 7: `Agent 4`
            numbers = in_base(np.frombuffer(values, np.float64), _NS if unit == "s" else 1.0)
            key = self.run.unique(Key.of(metric, **labels), None)
            self.run.finished[key] = Series(key, unit, "samples", read_only(numbers))


def read_database(calls: Calls) -> None:
    """Add every call in the database that the file is."""
    try:
        with opened(calls.run.file.blocks(), _TABLES) as database:
            found = [match[1] for table in sorted(database.tables) if (match := _DISPATCH.fullmatch(table))]
            if not found:
                calls.run.say("error", "an SQLite database without the tables of rocpd")
            for process in found:
                _Process(calls, database, process).read()
    except DatabaseFault as fault:
        calls.run.say("error", str(fault))


class _Process:
    """The tables of one process, whose names end in `id`."""

    def __init__(self, calls: Calls, database: Database, id: str) -> None:
        self._calls, self._database, self._id = calls, database, id
        self._strings = self._names("rocpd_string", "string")

    def _rows(self, table: str, *columns: str) -> _Rows:
        name = table + self._id
        return self._database.rows(name, columns) if name in self._database.tables else ()

    def _names(self, table: str, column: str) -> dict[object, object]:
        return {row[0]: row[1] for row in self._rows(table, "id", column)}

    def _by_start(self, table: str, *columns: str) -> _Rows:
        return sorted(self._rows(table, "start", "end", *columns), key=lambda row: checked(row[0], "s")[0])

    def _text(self, id: object) -> str:
        return str(self._strings.get(id, id))

    def read(self) -> None:
        """Add the calls. Raises DatabaseFault."""
        calls, agents = self._calls, dict[object, str]()
        rows = self._rows("rocpd_info_agent", "id", "type", "type_index", "product_name", "name")
        for id, kind, index, *names in rows:
            if kind == "GPU":
                agents[id] = str(index)
                if gpu := next((name for name in names if isinstance(name, str) and name), ""):
                    calls.run.facts.setdefault("gpu", gpu[:200])
        kernels = self._names("rocpd_info_kernel_symbol", "display_name")
        launched: dict[object, tuple[str, str]] = {}  # by event: the metric of the kernel, and its agent
        columns = ("kernel_id", "agent_id", "event_id")
        for start, end, kernel, agent, event in self._by_start("rocpd_kernel_dispatch", *columns):
            metric, number = f"kernel.{kernels.get(kernel) or kernel}", agents.get(agent, "")
            launched[event] = metric, number
            calls.span(metric, number, start, end, None)
        for start, end, name in self._by_start("rocpd_memory_copy", "name_id"):
            calls.span(f"memcpy.{self._text(name)}", "", start, end, None)
        counters = self._names("rocpd_info_pmc", "name")
        sums: dict[tuple[object, object], float] = {}
        for event, counter, value in self._rows("rocpd_pmc_event", "event_id", "pmc_id", "value"):
            if event in launched:
                which = event, counters.get(counter, counter)
                sums[which] = sums.get(which, 0.0) + number_of(value)
        for (event, counter), total in sums.items():
            metric, agent = launched[event]
            calls.add(f"{metric}.{counter}", agent, total, None, "1")
        self._regions()

    def _regions(self) -> None:
        """Add the calls of the host: of an API, or ranges that the program marks with a message."""
        rows = self._rows("rocpd_event", "id", "category_id", "extdata")
        events = {id: data for id, category, data in rows if self._text(category).startswith("MARKER")}
        for start, end, name, event in self._by_start("rocpd_region", "name_id", "event_id"):
            message = _message(events[event]) if event in events else ""
            metric = f"{'range' if event in events else 'api'}.{message or self._text(name)}"
            self._calls.span(metric, "", start, end, None)


def _message(data: object) -> str:
    """Return the message in the JSON text of an event; "" without one."""
    try:
        return str(mapping(json.loads(data) if isinstance(data, str) else None).get("message") or "")
    except (ValueError, RecursionError):
        return ""
