"""JSON of Bencher: the answer of `bencher perf`, or one report in the Bencher Metric Format.

    {"results": [{"branch": {"name": ...}, "testbed": {"name": ...}, "benchmark": {"name": ...},
      "measure": {"slug": "latency", "units": "nanoseconds (ns)"},
      "metrics": [{"start_time": ..., "version": {"hash": ...}, "metric": {"value": 88.0}}]}]}
    {"BENCHMARK": {"latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88}}}

Source: bencherdev/bencher `lib/bencher_json/src/project/perf.rs`, and https://bencher.dev/docs/reference. The metric is
`BENCHMARK.MEASURE`. `lower_value` and `upper_value` have no fixed meaning, so they are not read as an error. A report
has no time and no commit: give them with `--time` and `--head`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from perfgate.core import Fact, Location, Problem
from perfgate.core.remembered_runs import HistoryValue
from perfgate.documents.json import JsonDocument, load_json
from perfgate.history.imports.imported_runs import (
    AboutRun,
    Faults,
    Imported,
    ImportedRun,
    ImportFile,
    finite,
    numbered,
    objects,
    of_results,
    time_at,
    values_by_run,
)

NAME = "bencher"
TITLE = "JSON of bencher perf, or a report in the Bencher Metric Format"
#: The units of Bencher's own measures.
_UNITS = {"latency": "ns", "throughput": "/s", "file-size": "B", "build-time": "s", "instructions": "1"}


def claims(name: str, head: str) -> bool:
    """Return whether a file is of Bencher."""
    is_perf = '"results"' in head and '"testbed"' in head and '"benchmark"' in head
    return is_perf or (head.lstrip().startswith("{") and '"value"' in head and '"latency"' in head)


def read(file: ImportFile) -> Imported:
    """Return the runs of a file."""
    document = load_json(file.text, file.name, file.limits, finite=False)
    faults = Faults(file.name)
    if not isinstance(document.data, dict):
        return Imported((), document.problems or (Problem("error", "is not an object", Location(file.name)),))
    if "results" not in document.data:
        return of_results(file, NAME)
    runs = tuple(_of_perf(document, document.data, faults))
    return Imported(runs, (*document.problems, *faults.problems))


def _of_perf(document: JsonDocument, data: Mapping[str, Any], faults: Faults) -> Iterator[ImportedRun]:
    by_testbed: dict[str, list[tuple[AboutRun, HistoryValue]]] = {}
    for path, line in objects(document, data.get("results"), ("results",), faults):
        names = {part: _field(line.get(part), "name") for part in ("branch", "testbed", "benchmark")}
        measure = line.get("measure") or line.get("metric_kind")
        slug = _field(measure, "slug") or _field(measure, "name")
        if names["benchmark"] is None or slug is None:
            faults.say("a result needs a benchmark and a measure; left out", document.locate(path))
            continue
        unit = _field(measure, "units") or _UNITS.get(slug, "")
        for place, point in objects(document, line.get("metrics"), (*path, "metrics"), faults):
            number = _value(point)
            time = time_at(document, (*place, "start_time"), point.get("start_time"), faults)
            if number is None:
                faults.say("a metric has no finite value; left out", document.locate(place))
            elif time is not None:
                based = faults.in_base_unit(number, unit, partial(document.locate, place))
                value = numbered(f"{names['benchmark']}.{slug}", *based, None)
                about = AboutRun(time, _field(point.get("version"), "hash"), names["branch"])
                by_testbed.setdefault(names["testbed"] or "", []).append((about, value))
    for testbed, rows in by_testbed.items():
        place_facts: dict[str, Fact] = {"testbed": testbed} if testbed else {}
        for run in values_by_run(rows):
            yield ImportedRun(run.time, run.commit, run.values, run.ref, place=place_facts)


def _field(value: object, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _value(point: Mapping[str, Any]) -> float | None:
    """Return the value of a point: that of its metric, or in newer versions of its metrics."""
    metric, metrics = point.get("metric"), point.get("metrics")
    if isinstance(metric, dict) and "value" in metric:
        return finite(metric["value"])
    value = metrics.get("value") if isinstance(metrics, dict) else None
    return finite(value.get("value") if isinstance(value, dict) else value)
