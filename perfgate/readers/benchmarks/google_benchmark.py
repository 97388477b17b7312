"""JSON of Google Benchmark: `--benchmark_out=FILE --benchmark_out_format=json`.

    {"context": {...}, "benchmarks": [{"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration",
     "repetition_index": 0, "iterations": 1000, "real_time": 214.9, "cpu_time": 213.6, "time_unit": "ns"}]}

Source: google/benchmark `src/json_reporter.cc`, 1.0 to 1.9. The metric is `run_name` and holds the real time of one
iteration; `NAME.cpu_time` and `NAME.COUNTER` are the others. Rows of one benchmark are its repetitions, and its
samples; one row alone is a mean over its iterations, so a single value. Rows of type `aggregate` (mean, median,
stddev) count only where the repetitions themselves were not written; `cv`, `BigO` and `RMS` never. Files of before
1.5 have no `run_type`: an aggregate is known by its name's end. User counters have no unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Reading, Target, shown
from perfgate.readers.builder import RunBuilder
from perfgate.readers.text import Document

NAME = "google-benchmark"

_PER = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_AGGREGATES = ("mean", "median", "stddev", "min", "max")
_FITS = ("BigO", "RMS")
#: Numbers of a row that are no measurements; the rest are counters.
_OTHER = {
    *("iterations", "repetitions", "repetition_index", "threads", "family_index", "per_family_instance_index"),
    *("real_time", "cpu_time", "cpu_coefficient", "real_coefficient", "rms"),
}
_UNITS = {
    "bytes_per_second": "B/s",
    "items_per_second": "1/s",
    "max_bytes_used": "B",
    "total_allocated_bytes": "B",
    "net_heap_growth": "B",
}

Rows = list[tuple[Path, dict[str, Any]]]


@dataclass(slots=True)
class _Benchmark:
    """The rows of one benchmark."""

    path: Path
    repetitions: Rows = field(default_factory=list)
    failed: Rows = field(default_factory=list)
    aggregates: dict[str, tuple[Path, dict[str, Any]]] = field(default_factory=dict)


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document."""
    reading = Reading(document, NAME)
    run = reading.run()
    for (name, _), benchmark in _benchmarks(reading, run).items():
        to = Target(run, reading.unique(run, Key(name), benchmark.path))
        rows = benchmark.repetitions or [*benchmark.aggregates.values()]
        per = _per(reading, to, rows)
        for metric, source in _metrics(to, rows, per).items():
            if benchmark.repetitions:
                _repetitions(reading, metric, source, benchmark.repetitions)
            else:
                _aggregate(reading, metric, source, benchmark.aggregates)
            for path, row in benchmark.failed:
                reading.refuse(run, metric.key, f"failed: {shown(row.get('error_message'))}", path)
    return reading.finish([run])


def _benchmarks(reading: Reading, run: RunBuilder) -> dict[tuple[str, int], _Benchmark]:
    """The benchmarks by name, and by how often the name stood before with the same repetition or statistic."""
    rows = list(reading.rows(run, reading.data, "benchmarks"))
    names = {name for _, row in rows if isinstance(name := row.get("name"), str)}
    seen: Counter[tuple[str, object]] = Counter()
    found: dict[tuple[str, int], _Benchmark] = {}
    for path, row in rows:
        name = reading.name(run, row, path, "run_name", "name")
        if name is None:
            continue
        if row.get("skipped") is True:
            reading.say(run, "warning", f"{name} was skipped: {shown(row.get('skip_message'))}", path)
            continue
        name, statistic = _statistic(row, name, names)
        if statistic not in (None, *_AGGREGATES):
            continue
        index = row.get("repetition_index") if statistic is None else statistic
        occurrence = seen[name, str(index)] if index is not None else 0
        seen[name, str(index)] += 1
        benchmark = found.setdefault((name, occurrence), _Benchmark(path))
        if row.get("error_occurred"):
            benchmark.failed.append((path, row))
        elif statistic is None:
            benchmark.repetitions.append((path, row))
        else:
            benchmark.aggregates[statistic] = (path, row)
    return found


def _statistic(row: Mapping[str, Any], name: str, names: set[str]) -> tuple[str, str | None]:
    """The name of the benchmark, and which of its aggregates a row is; None for a repetition."""
    if "run_type" in row:
        return name, str(row.get("aggregate_name")) if row["run_type"] == "aggregate" else None
    stem, _, end = name.rpartition("_")
    if end in _FITS and "real_time" not in row:
        return stem, end
    both = {f"{stem}_mean", f"{stem}_stddev"} <= names
    return (stem, end) if both and end in (*_AGGREGATES, "cv") else (name, None)


def _per(reading: Reading, to: Target, rows: Rows) -> float | None:
    """How many of the first row's time unit are a second; None, and an error, if that is not known."""
    if not rows:
        return 1.0
    unit = rows[0][1].get("time_unit", "ns")
    per = _PER.get(unit) if isinstance(unit, str) else None
    for other_path, other in rows:
        if per is None or other.get("time_unit", "ns") != unit:
            why = f"the time unit {shown(other.get('time_unit'))} is not known, or not that of its other rows; left out"
            for target in (to, to.part("cpu_time")):
                reading.refuse(to.run, target.key, why, other_path)
            per = None
    return per


def _metrics(to: Target, rows: Rows, per: float | None) -> dict[Target, str]:
    """The series of a benchmark and the fields that they come from; without a time unit no times."""
    found: dict[Target, str] = {}
    if per is not None:
        found = {Target(to.run, to.key, "s", per): "real_time", to.part("cpu_time", "s", per): "cpu_time"}
    for _, row in rows:
        for name, value in row.items():
            if name not in _OTHER and isinstance(value, int | float) and not isinstance(value, bool):
                found[to.part(name, _UNITS.get(name, "1"))] = name
    return found


def _repetitions(reading: Reading, to: Target, source: str, rows: Rows) -> None:
    """A field of every repetition that holds it."""
    held = [(path, row) for path, row in rows if source in row]
    if held:
        reading.samples(to, [row[source] for _, row in held], lambda index: (*held[index][0], source))


def _aggregate(
    reading: Reading, to: Target, source: str, aggregates: Mapping[str, tuple[Path, dict[str, Any]]]
) -> None:
    """A field of every aggregate; `repetitions` (since 1.5) is the count."""
    held = {name: (path, row[source]) for name, (path, row) in aggregates.items() if source in row}
    if not held:
        return
    statistics = {name: value for name, (_, value) in held.items()}
    path, row = next(iter(aggregates.values()))
    places = {name: (*place, source) for name, (place, _) in held.items()}
    reading.aggregate(
        to, {**statistics, "count": row.get("repetitions")}, lambda name: places.get(name, (*path, "repetitions"))
    )
