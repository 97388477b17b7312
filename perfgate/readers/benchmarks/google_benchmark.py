"""JSON of Google Benchmark: `--benchmark_out=FILE --benchmark_out_format=json`.

    {"context": {...}, "benchmarks": [{"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration",
     "repetition_index": 0, "iterations": 1000, "real_time": 214.9, "cpu_time": 213.6, "time_unit": "ns"}]}

Source: google/benchmark `src/json_reporter.cc`, 1.0 to 1.9. The metric is `run_name`, the real time of one iteration;
`NAME.cpu_time` and `NAME.COUNTER` are the others. Rows of one benchmark are its repetitions, and its samples; one row
alone is a mean over its iterations, so a single value. Rows of type `aggregate` (mean, median, stddev) count only if
the repetitions themselves were not written; `cv`, `BigO` and `RMS` never count. Files from before 1.5 have no
`run_type`: the end of the name shows an aggregate. User counters have no unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, RunBuilder, Target, load, name_of, rows, shown

NAME = "google-benchmark"
METRICS = "the benchmark's full name, and `NAME.cpu_time`, `NAME.COUNTER`"
CHECKED = "Google Benchmark 1.7.1: a file that it wrote; sources of 1.0 to 1.9"
#: `{"context": {...}, "benchmarks": [{"real_time": ...}]}`; before 1.5 a row that failed has no time.
FORMAT = Format(
    NAME,
    __name__,
    json=(
        "with the 'context' of Google Benchmark",
        "context={",
        "benchmarks.*.real_time|benchmarks.*.run_type|benchmarks.*.error_occurred",
    ),
)
#: Not read: the complexity that was fitted to several sizes.
BESIDE = "rms|(?:cpu|real)_coefficient"
_PER = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_AGGREGATES = ("mean", "median", "stddev", "min", "max")
_FITS = ("BigO", "RMS")
#: Numbers of a row that are not counters; all other numbers are counters.
_OTHER = {
    *("iterations", "repetitions", "repetition_index", "threads", "family_index", "per_family_instance_index"),
    *("real_time", "cpu_time", "cpu_coefficient", "real_coefficient", "rms"),
}
_UNITS = dict.fromkeys(("max_bytes_used", "total_allocated_bytes", "net_heap_growth"), "B")
_UNITS |= {"bytes_per_second": "B/s", "items_per_second": "1/s"}
Rows = list[tuple[Path, dict[str, Any]]]


class _Benchmark(Struct):
    """The rows of one benchmark: repetitions, those that failed, and aggregates by their statistic."""

    path: Path
    repetitions: Rows = field(default_factory=list)
    failed: Rows = field(default_factory=list)
    aggregates: dict[str, tuple[Path, dict[str, Any]]] = field(default_factory=dict)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    for (name, _), benchmark in _benchmarks(data, run).items():
        written = [*benchmark.repetitions, *benchmark.failed]
        counts = [row.get("repetitions") for _, row in written]
        expected = max((count for count in counts if isinstance(count, int)), default=0)
        if len(written) < expected:
            run.say("warning", f"{name} has {len(written)} of {expected} repetitions", benchmark.path)
        _add(Target(run, run.unique(Key(name), benchmark.path)), benchmark)
    return (run.run(),)


def _add(to: Target, benchmark: _Benchmark) -> None:
    """Add the time and the counters of a benchmark: its repetitions, or else its aggregates."""
    repetitions = benchmark.repetitions
    for metric, source in _metrics(to, repetitions or [*benchmark.aggregates.values()]).items():
        if repetitions:
            present = {(*path, source): row[source] for path, row in repetitions if source in row}
            metric.samples_at([*present.values()], path_of=[*present].__getitem__)
        else:
            _aggregate(metric, source, benchmark.aggregates)
        for path, row in benchmark.failed:
            metric.refuse(f"failed: {shown(row.get('error_message'))}", path)


def _benchmarks(data: Mapping[str, Any], run: RunBuilder) -> dict[tuple[str, int], _Benchmark]:
    """Return the benchmarks by name and number: a name that comes again with the same repetition is another one."""
    all_rows = list(rows(run, data, "benchmarks"))
    names = {name for _, row in all_rows if isinstance(name := row.get("name"), str)}
    seen: Counter[tuple[str, object]] = Counter()
    found: dict[tuple[str, int], _Benchmark] = {}
    for path, row in all_rows:
        if (name := name_of(run, row, path, "run_name", "name")) is None:
            continue
        if row.get("skipped") is True:
            run.say("warning", f"{name} was skipped: {shown(row.get('skip_message'))}", path)
            continue
        name, statistic = _statistic(row, name, names)
        if statistic == "":
            run.say("error", "an aggregate without a name is left out", path, f": {name}")
        if statistic not in (None, *_AGGREGATES):
            continue
        which = row.get("repetition_index") if statistic is None else statistic
        # Old files have no index, so all rows of one name are repetitions.
        occurrence = seen[name, str(which)] if which is not None else 0
        seen[name, str(which)] += 1
        benchmark = found.setdefault((name, occurrence), _Benchmark(path))
        if row.get("error_occurred"):
            benchmark.failed.append((path, row))
        elif statistic is None:
            benchmark.repetitions.append((path, row))
        else:
            benchmark.aggregates[statistic] = (path, row)
    return found


def _statistic(row: Mapping[str, Any], name: str, names: set[str]) -> tuple[str, str | None]:
    """Return the name of a row's benchmark, and its statistic; None for a repetition. `names` are those of all rows."""
    if "run_type" in row:
        return name, _aggregate_name(row, name) if row["run_type"] == "aggregate" else None
    stem, _, end = name.rpartition("_")
    if end in _FITS and "real_time" not in row:
        return stem, end
    both = {f"{stem}_mean", f"{stem}_stddev"} <= names
    return (stem, end) if both and end in (*_AGGREGATES, "cv") else (name, None)


def _aggregate_name(row: Mapping[str, Any], name: str) -> str:
    """Return the statistic of an aggregate: its name, or `mean` of the row `BM_a_mean` of `BM_a`; else nothing."""
    named, whole = row.get("aggregate_name"), row.get("name")
    if isinstance(named, str) and named:
        return named
    return whole.removeprefix(name).removeprefix("_") if isinstance(whole, str) and whole.startswith(name) else ""


def _metrics(to: Target, rows: Rows) -> dict[Target, str]:
    """Return, by series of a benchmark, the field of its rows; if the time unit is unknown, no times, and an error."""
    unit = rows[0][1].get("time_unit", "ns") if rows else "s"  # if all rows failed, any unit, to refuse the times
    per = _PER.get(unit) if isinstance(unit, str) else None
    for path, row in rows:
        if per is None or row.get("time_unit", "ns") != unit:
            why = f"the time unit {shown(row.get('time_unit'))} is unknown, or not that of the other rows; left out"
            for target in (to, to.part("cpu_time")):
                target.refuse(why, path)
            per = None  # no time is added, so the times of the next rows are refused, too
    found: dict[Target, str] = {}
    if per is not None:
        found = {Target(to.run, to.key, "s", per): "real_time", to.part("cpu_time", "s", per): "cpu_time"}
    for _, row in rows:
        for name, value in row.items():
            if name not in _OTHER and isinstance(value, int | float) and not isinstance(value, bool):
                found[to.part(name, _UNITS.get(name, "1"))] = name
    return found


def _aggregate(to: Target, source: str, aggregates: Mapping[str, tuple[Path, dict[str, Any]]]) -> None:
    """Add a field of every aggregate; `repetitions` (since 1.5) is the count."""
    present = {name: (row[source], (*path, source)) for name, (path, row) in aggregates.items() if source in row}
    if present:
        path, row = next(iter(aggregates.values()))
        to.aggregate({**present, "count": (row.get("repetitions"), (*path, "repetitions"))})
