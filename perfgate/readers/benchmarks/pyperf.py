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
from typing import Any

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, RunBuilder, mapping, shown
from perfgate.readers.records import Target, fact, load, name_of, rows

NAME = "pyperf"
METRICS = "the benchmark's name"
CHECKED = "pyperf 2.10.0: a file that it wrote"
FORMAT = Format(NAME, __name__, json=("with the 'runs' of pyperf", "benchmarks.*.runs=["))
_UNITS = {"second": "s", "byte": "B", "integer": "1"}
#: One process: the list of its values (of one, if the file has no list), their printed unit, its path, and the CPU.
_Process = tuple[list[Any], object, Path, object]


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
        for run, (values, printed, at, cpu) in zip(runs, processes, strict=False):
            fact(run, "cpu", cpu)
            unit = _UNITS.get(printed) if isinstance(printed, str) else None
            if unit is None:
                run.refuse(key, f"the unit {shown(printed)} is unknown; left out", at)
            else:
                Target(run, key, unit).samples(values, at)
    return tuple(run.run(part if count > 1 else None) for part, run in enumerate(runs, 1))


def _benchmarks(run: RunBuilder, data: Mapping[str, Any]) -> list[tuple[Key, Path, list[_Process]]]:
    """Return the benchmarks with values, with their paths and processes; a benchmark without values is an error."""
    found = []
    suite = mapping(data.get("metadata"))
    for path, row in rows(run, data, "benchmarks"):
        shared = {**suite, **mapping(row.get("metadata") or row.get("common_metadata"))}
        processes, name = list[_Process](), None
        for place, process in rows(run, row, *path, "runs"):
            metadata = {**shared, **mapping(process.get("metadata"))}
            name = name or metadata.get("name")
            field = "values" if "values" in process else "samples"
            values = process.get(field)
            if values is not None and values != []:  # else a calibration run
                listed, unit = values if isinstance(values, list) else [values], metadata.get("unit", "second")
                processes.append((listed, unit, (*place, field), metadata.get("cpu_model_name")))
        if (name := name_of(run, {"name": name or shared.get("name")}, path, "name")) is None:
            continue
        key = run.unique(Key(name), path)
        if processes:
            found.append((key, path, processes))
        else:
            run.refuse(key, "no process has values", path)
    return found
