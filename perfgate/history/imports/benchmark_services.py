"""Histories of benchmark services: Bencher's JSON, and `data.js` of github-action-benchmark.

    {"results": [{"branch": {"name": ...}, "testbed": {"name": ...}, "benchmark": {"name": ...},
      "measure": {"slug": "latency", "units": "nanoseconds (ns)"},
      "metrics": [{"start_time": ..., "version": {"hash": ...}, "metric": {"value": 88.0}}]}]}
    {"BENCHMARK": {"latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88}}}

Source: bencherdev/bencher `lib/bencher_json/src/project/perf.rs`, and https://bencher.dev/docs/reference. The metric is
`BENCHMARK.MEASURE`. `lower_value` and `upper_value` have no fixed meaning, so they are not read as an error. A
report has no time and no commit: give them with `--time` and `--head`.

    window.BENCHMARK_DATA = {"entries": {"SUITE": [{"commit": {"id": ...}, "date": 1573312140323, "tool": "cargo",
      "benches": [{"name": "bench_fib_10", "value": 254, "range": "+/- 35", "unit": "ns/iter"}]}]}}

Source: benchmark-action/github-action-benchmark `src/extract.ts` and `src/write.ts`. `date` is when it was measured, in
milliseconds. If there are several suites, each is a label of its metrics. `range` has another meaning for each tool, so
it is not read as an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from perfgate.core import Better, Fact, Location, Problem
from perfgate.core.remembered_runs import HistoryValue
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.history.imports import imported_runs

#: The units of Bencher's own measures; other numbers have none.
_UNITS = {"latency": "ns", "throughput": "/s", "file-size": "B", "build-time": "s", "allocated": "B"}


def claims_bencher(name: str, head: str) -> bool:
    """Return whether a file is JSON of Bencher."""
    is_perf = '"results"' in head and '"testbed"' in head and '"benchmark"' in head
    return is_perf or (head.lstrip().startswith("{") and '"value"' in head and '"latency"' in head)


def read_bencher(file: imported_runs.ImportFile) -> imported_runs.Imported:
    """Return the runs of a file."""
    document = load_json(file.text, file.name, file.limits, finite=False)
    faults = imported_runs.Faults(file.name)
    if not isinstance(document.data, dict):
        return imported_runs.Imported(
            (), document.problems or (Problem("error", "is not an object", Location(file.name)),)
        )
    if "results" not in document.data:  # a report
        return imported_runs.of_results(file, "bencher")
    runs = tuple(_of_perf(document, document.data, faults))
    return imported_runs.Imported(runs, (*document.problems, *faults.problems))


def _of_perf(
    document: JsonDocument, data: Mapping[str, Any], faults: imported_runs.Faults
) -> Iterator[imported_runs.ImportedRun]:
    """Yield the runs of the answer of `bencher perf`; each testbed is an environment of its own."""
    by_testbed: dict[str, list[tuple[imported_runs.AboutRun, HistoryValue]]] = {}
    for path, line in imported_runs.objects(document, data.get("results"), ("results",), faults):
        testbed = _field(line.get("testbed"), "name") or ""
        by_testbed.setdefault(testbed, []).extend(_numbers_of(document, path, line, faults))
    for testbed, rows in by_testbed.items():
        place_facts: dict[str, Fact] = {"testbed": testbed} if testbed else {}
        for run in imported_runs.values_by_run(rows):
            yield imported_runs.ImportedRun(run.time, run.commit, run.values, run.ref, place=place_facts)


def _numbers_of(
    document: JsonDocument, path: Path, line: Mapping[str, Any], faults: imported_runs.Faults
) -> Iterator[tuple[imported_runs.AboutRun, HistoryValue]]:
    """Yield each number of one benchmark and measure, with its run."""
    branch, benchmark = (_field(line.get(part), "name") for part in ("branch", "benchmark"))
    measure = line.get("measure") or line.get("metric_kind")  # its name in older versions
    slug = _field(measure, "slug") or _field(measure, "name")
    if benchmark is None or slug is None:
        faults.say("a result needs a benchmark and a measure; left out", document.locate(path))
        return
    unit = _field(measure, "units") or _UNITS.get(slug, "")
    for place, point in imported_runs.objects(document, line.get("metrics"), (*path, "metrics"), faults):
        based = faults.in_base_unit(_value(point), unit, partial(document.locate, place))
        time = imported_runs.time_at(document, (*place, "start_time"), point.get("start_time"), faults)
        if based is None:
            faults.say("a metric has no finite value; left out", document.locate(place))
        elif time is not None:
            about = imported_runs.AboutRun(time, commit=_field(point.get("version"), "hash"), ref=branch)
            yield about, imported_runs.numbered(f"{benchmark}.{slug}", *based, better=None)


def _field(value: object, name: str) -> str | None:
    """Return a text of an object; None if it has none, or an empty one."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _value(point: Mapping[str, Any]) -> float | None:
    """Return the value of a point: that of its metric, or in newer versions of its metrics."""
    metric, metrics = point.get("metric"), point.get("metrics")
    if isinstance(metric, dict) and "value" in metric:
        return imported_runs.finite(metric["value"])
    value = metrics.get("value") if isinstance(metrics, dict) else None
    return imported_runs.finite(value.get("value") if isinstance(value, dict) else value)


_PREFIX = "window.BENCHMARK_DATA ="
_BETTER: dict[str, Better] = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}


def claims_data_js(name: str, head: str) -> bool:
    """Return whether a file is data.js, or JSON with its fields."""
    return head.lstrip().startswith(_PREFIX) or ('"entries"' in head and '"benches"' in head)


def read_data_js(file: imported_runs.ImportFile) -> imported_runs.Imported:
    """Return the runs of a file."""
    text = file.text.rstrip().removesuffix(";")
    before, prefix, after = text.partition(_PREFIX)
    if prefix and "{" not in before:  # after a `{`, it is the text of a commit in JSON
        # blanks instead of the prefix, so that the places in messages are those of the file
        text = re.sub(r"[^\n]", " ", before + prefix) + after
    document = load_json(text, file.name, file.limits, finite=False)
    faults = imported_runs.Faults(file.name)
    entries = document.data.get("entries") if isinstance(document.data, dict) else None
    if not isinstance(entries, dict):
        why = () if document.problems else (Problem("error", "has no object 'entries'", Location(file.name)),)
        return imported_runs.Imported((), (*document.problems, *why))
    runs = tuple(_runs_of_suites(document, entries, faults))
    return imported_runs.Imported(runs, (*document.problems, *faults.problems))


def _runs_of_suites(
    document: JsonDocument, entries: Mapping[str, Any], faults: imported_runs.Faults
) -> Iterator[imported_runs.ImportedRun]:
    """Yield the runs of all suites that have a time and a number."""
    for suite, rows in entries.items():
        labels = {"suite": suite} if len(entries) > 1 else {}
        for path, row in imported_runs.objects(document, rows, ("entries", suite), faults):
            time = imported_runs.time_at(document, (*path, "date"), row.get("date"), faults)
            values = () if time is None else tuple(_values(document, path, row, labels, faults))
            if time is not None and values:
                yield imported_runs.ImportedRun(time, _field(row.get("commit"), "id"), values)


def _values(
    document: JsonDocument, path: Path, row: Mapping[str, Any], labels: dict[str, str], faults: imported_runs.Faults
) -> Iterator[HistoryValue]:
    """Yield the numbers of one entry of `data.js`, which is one run."""
    better = _BETTER.get(str(row.get("tool")))
    seen: set[str] = set()
    for place, bench in imported_runs.objects(document, row.get("benches"), (*path, "benches"), faults):
        name, unit = _field(bench, "name"), _field(bench, "unit") or ""
        number = imported_runs.finite(bench.get("value"))
        based = faults.in_base_unit(number, unit, partial(document.locate, (*place, "unit")))
        if name is None or based is None:
            faults.say("a benchmark needs a name and a finite value; left out", document.locate(place))
        elif name in seen:
            faults.say(f"{name} is in this run twice; the first one counts", document.locate(place))
        else:
            seen.add(name)
            yield imported_runs.numbered(name, *based, better, labels)
