"""JSON of pyperf: a suite of benchmarks, each with the runs of several processes.

    {"version": "1.0", "metadata": {...}, "benchmarks": [{"metadata": {"name": "sum", "unit": "second"},
     "runs": [{"warmups": [[loops, value], ...]}, {"metadata": {...}, "values": [...]}, ...]}]}

Source: psf/pyperf `_bench.py` (0.8 to 2.10). Values are already per loop. Metadata is inherited: suite, benchmark, run.
`unit` is second (the default), byte or integer. Warm-ups and calibration runs, which have no values, are not read.
Before 0.9.6 `values` was `samples`, and `metadata` of a benchmark was `common_metadata`.

**Runs.** pyperf replicates processes, so each process is a run: run 3 of a file has the values of the third process of
every benchmark. Those are different processes, but no statistic joins two benchmarks of a run. If the numbers of
processes differ, all benchmarks have as many runs as the one with the fewest, with a warning, because a run without a
metric would be an error. By default pyperf takes three values in a process, without its own warm-up: rules on them need
`min_samples: 3` and `warmup: 0`. A process with one value is a single number, and needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, RunBuilder, mapping, shown
from perfgate.readers.records import Target, fact, load, name_of, rows

NAME = "pyperf"
METRICS = "the benchmark's name"
CHECKED = "pyperf 2.10.0: a file that it wrote"
FORMAT = Format(NAME, __name__, json=("with the 'runs' of pyperf", "benchmarks.*.runs=["))
_UNITS = {"second": "s", "byte": "B", "integer": "1"}


class _Process(NamedTuple):
    """The values of one process, their path, and the metadata of the process with those of the whole file."""

    values: list[Any]
    path: Path
    metadata: Mapping[str, Any]


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a suite: one for each process of a benchmark."""
    data, first = load(file, NAME)
    benchmarks = _benchmarks(first, data)
    count = min((len(processes) for _, _, processes in benchmarks), default=1)
    runs = [first]
    for _ in range(count - 1):
        file.count("runs")
        runs.append(RunBuilder(file, NAME, first.json))
    for key, path, processes in benchmarks:
        if len(processes) > count:
            message = f"{key} has {len(processes)} processes, but another benchmark has {count}"
            first.say("warning", f"{message}; the first {count} are read", path)
        for run, process in zip(runs, processes, strict=False):
            _add(run, key, process)
    return tuple(run.run(part if count > 1 else None) for part, run in enumerate(runs, 1))


def _add(run: RunBuilder, key: Key, process: _Process) -> None:
    fact(run, "cpu", process.metadata.get("cpu_model_name"))
    printed = process.metadata.get("unit", "second")
    unit = _UNITS.get(printed) if isinstance(printed, str) else None
    if unit is None:
        run.refuse(key, f"the unit {shown(printed)} is unknown; left out", process.path)
    else:
        Target(run, key, unit).samples(process.values, process.path)


def _benchmarks(run: RunBuilder, data: Mapping[str, Any]) -> list[tuple[Key, Path, list[_Process]]]:
    """Return the benchmarks with values, with their paths and processes; a benchmark without values is an error."""
    found = []
    suite = mapping(data.get("metadata"))
    for path, row in rows(run, data, "benchmarks"):
        shared = {**suite, **mapping(row.get("metadata") or row.get("common_metadata"))}
        every = [_process(process, place, shared) for place, process in rows(run, row, *path, "runs")]
        names = (process.metadata.get("name") for process in every)
        name = name_of(run, {"name": next(filter(None, names), shared.get("name"))}, path, "name")
        if name is None:
            continue
        key = run.unique(Key(name), path)
        if processes := [process for process in every if process.values]:
            found.append((key, path, processes))
        else:
            run.refuse(key, "no process has values", path)
    return found


def _process(data: Mapping[str, Any], path: Path, shared: Mapping[str, Any]) -> _Process:
    """Return a process; a calibration run has no values."""
    field = "values" if "values" in data else "samples"
    values = data.get(field)
    if not isinstance(values, list):
        values = [] if values is None else [values]
    return _Process(values, (*path, field), {**shared, **mapping(data.get("metadata"))})
