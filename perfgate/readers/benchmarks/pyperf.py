"""JSON of pyperf: a suite of benchmarks, each with the runs of several processes.

    {"version": "1.0", "metadata": {...}, "benchmarks": [{"metadata": {"name": "sum", "unit": "second"},
     "runs": [{"warmups": [[loops, value], ...]}, {"metadata": {...}, "values": [...]}, ...]}]}

Source: psf/pyperf `_bench.py` (0.8 to 2.10). Values are per loop already. Metadata is inherited: suite, benchmark, run.
`unit` is second (the default), byte or integer. Warm-ups and calibration runs, which hold no values, are not read.
Before 0.9.6 `values` was `samples` and `metadata` of a benchmark `common_metadata`.

**Runs.** A process is what pyperf replicates, so each is a run: run 3 of a file holds the values of the third process
of every benchmark. Those are not one process, but no statistic joins two benchmarks of a run. Where benchmarks have
different numbers of processes, all have as many runs as the one with fewest, and a warning says so: a run that lacks
a metric would be an error. Unless it is told otherwise, pyperf takes three values in a process, its own warm-up gone:
rules on them need `min_samples: 3` and `warmup: 0`. A process with one value is a single number, and needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Reading, Target, fact, mapping, shown
from perfgate.readers.builder import RunBuilder
from perfgate.readers.text import Document

NAME = "pyperf"

_UNITS = {"second": "s", "byte": "B", "integer": "1"}


@dataclass(frozen=True, slots=True)
class _Process:
    """The values of one process and where they stand."""

    values: list[Any]
    unit: object
    path: Path
    cpu: object


@dataclass(frozen=True, slots=True)
class _Benchmark:
    key: Key
    path: Path
    processes: list[_Process]


def read(document: Document) -> tuple[Run, ...]:
    """The runs of a suite: one for each process of a benchmark."""
    reading = Reading(document, NAME)
    first = reading.run()
    benchmarks = _benchmarks(reading, first)
    count = min((len(benchmark.processes) for benchmark in benchmarks), default=1)
    runs = [first, *(reading.run() for _ in range(count - 1))]
    for benchmark in benchmarks:
        if len(benchmark.processes) > count:
            message = f"{benchmark.key} has {len(benchmark.processes)} processes and another benchmark {count}"
            reading.say(first, "warning", f"{message}; the first {count} are read", benchmark.path)
        for run, process in zip(runs, benchmark.processes, strict=False):
            _add(reading, run, benchmark.key, process)
    return reading.finish(runs)


def _benchmarks(reading: Reading, run: RunBuilder) -> list[_Benchmark]:
    """The benchmarks that have values; one without is an error."""
    found = []
    suite = mapping(reading.data.get("metadata"))
    for path, row in reading.rows(run, reading.data, "benchmarks"):
        shared = {**suite, **mapping(row.get("metadata") or row.get("common_metadata"))}
        processes, name = [], None
        for place, process in reading.rows(run, row, *path, "runs"):
            metadata = {**shared, **mapping(process.get("metadata"))}
            name = name or metadata.get("name")
            if taken := _process(metadata, process, place):
                processes.append(taken)
        name = reading.name(run, {"name": name or shared.get("name")}, path, "name")
        if name is None:
            continue
        key = reading.unique(run, Key(name), path)
        if processes:
            found.append(_Benchmark(key, path, processes))
        else:
            reading.refuse(run, key, "no process has values", path)
    return found


def _process(metadata: Mapping[str, Any], process: Mapping[str, Any], path: Path) -> _Process | None:
    """The values of a process; None for a calibration run."""
    field = "values" if "values" in process else "samples"
    values = process.get(field)
    if values is None or values == []:
        return None
    listed = values if isinstance(values, list) else [values]
    return _Process(listed, metadata.get("unit", "second"), (*path, field), metadata.get("cpu_model_name"))


def _add(reading: Reading, run: RunBuilder, key: Key, process: _Process) -> None:
    fact(run, "cpu", process.cpu)
    unit = _UNITS.get(process.unit) if isinstance(process.unit, str) else None
    if unit is None:
        reading.refuse(run, key, f"the unit {shown(process.unit)} is not known; left out", process.path)
    else:
        reading.samples(Target(run, key, unit), process.values, lambda index: (*process.path, index))
