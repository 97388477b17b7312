"""Results of asv (airspeed velocity): the files `RESULTS_DIR/MACHINE/COMMIT-ENVIRONMENT.json`.

    {"version": 2, "commit_hash": ..., "params": {"cpu": ...}, "result_columns": ["result", "params", ..., "samples"],
     "results": {"bench.time_a": [[0.1, null], [["8", "16"]], ...]}}
    {"version": 1, ..., "results": {"bench.time_a": 0.1, "bench.time_b": {"result": [0.1], "params": [["8"]]}}}

Source: airspeed-velocity/asv `results.py`, 0.1 to 0.6; the tool leaves out trailing columns of a row. The metric is the
benchmark, with its parameters as asv names them: `bench.time_a(8, 'x')`; results are in the order of
`itertools.product`. Samples (`asv run --record-samples`) are read if there are any, else the one number, which is
the median of times. Null is a benchmark that failed, an error; NaN is a benchmark that skipped itself, a warning. The
kind in the name (`time_`, `mem_`, ...) gives the unit: `benchmarks.json`, which may have another unit, is another file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.readers.kit import MAX_FAULTS, Format, InputFile, Key, Path, Run, RunBuilder, items, mapping, shown
from perfgate.readers.records import Target, commit_of, fact, keep_time_and_place, load

NAME = "asv"
METRICS = "the benchmark with its parameters: `bench.time_a(8, 'x')`"
CHECKED = "asv's sources, versions 1 and 2 of its files; public files"
FORMAT = Format(NAME, __name__, json=("with the 'commit_hash' and 'results' of asv", "commit_hash", "results={"))
#: Names of numbers that are not read.
BESIDE = "python|requirements|durations"
#: Columns of a result: when asv measured, and how long that took.
_NOT_MEASURED = frozenset(("started_at", "duration"))
_FAILED = "the benchmark failed: its result is null"
#: The units of asv's kinds of benchmarks, by the last part of their names, such as `time_a` in `bench.time_a`.
_UNITS = (
    ("s", re.compile(r"(?:time|timeraw)_|Time(?:raw)?[A-Z_]")),
    ("B", re.compile(r"(?:mem|peakmem)_|(?:Mem|PeakMem)[A-Z_]")),
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    fact(run, "cpu", mapping(data.get("params")).get("cpu"))
    run.commit = commit_of(data.get("commit_hash"))
    # asv never compares across machines and environments; `date`, of the commit, is in ms
    names = {"machine": mapping(data.get("params")).get("machine"), "asv_environment": data.get("env_name")}
    place = {name: value for name, value in names.items() if isinstance(value, str) and value}
    keep_time_and_place(run, data, "date", place)
    columns = items(data.get("result_columns"))
    for name, row in mapping(data.get("results")).items():
        _add(run, name, _cells(run, row, columns, ("results", name)))
    return (run.run(),)


def _cells(run: RunBuilder, row: object, columns: list[Any], path: Path) -> dict[str, tuple[Any, Path]]:
    """Return the columns of one benchmark by name, with their paths, for either version."""
    if isinstance(row, list):
        names = [str(column) for column in columns[: len(row)]]
        for name in _NOT_MEASURED.intersection(names):
            run.file.coverage.mark(run.json, (*path, names.index(name)))
        return {name: (row[index], (*path, index)) for index, name in enumerate(names)}
    if isinstance(row, dict):
        run.file.coverage.mark(run.json, (*path, "stats"))  # not read: statistics of the samples
        return {name: (cell, (*path, name)) for name, cell in row.items()}
    return {"result": (row, path)}


def _add(run: RunBuilder, name: str, cells: Mapping[str, tuple[Any, Path]]) -> None:
    """Add the results of a benchmark with each combination of its parameters, from its cells and their paths."""
    result, of_result = cells.get("result", (None, ("results", name)))
    parameters, _ = cells.get("params", (None, ()))
    samples, of_samples = cells.get("samples", (None, ()))
    keys = _keys(name, [values for values in items(parameters) if isinstance(values, list)])
    if result is None:
        _refuse(run, name, keys, of_result)
        return
    unit = next((unit for unit, pattern in _UNITS if pattern.match(name.rpartition(".")[2])), "1")
    is_list = isinstance(result, list)
    every_sample = itertools.chain(items(samples), itertools.repeat(None))
    for index, (value, taken) in enumerate(zip(result if is_list else [result], every_sample, strict=False)):
        if (key := next(keys, None)) is None:
            run.say("error", f"{name} has more results than parameters; the rest is left out", of_result)
            return
        to = Target(run, run.unique(key, of_result), unit)
        if isinstance(taken, list) and taken:
            to.samples(taken, (*of_samples, index))
        else:
            _add_median(to, value, (*of_result, index) if is_list else of_result)


def _refuse(run: RunBuilder, name: str, keys: Iterator[Key], path: Path) -> None:
    """Report that a benchmark failed with all its parameters: as an error of the whole run if they are too many."""
    for key in itertools.islice(keys, MAX_FAULTS):
        run.refuse(key, _FAILED, path)
    if next(keys, None):
        run.say("error", f"{name} failed with all its parameters: its result is null", path)


def _add_median(to: Target, value: object, path: Path) -> None:
    """Add the one number of a result without samples."""
    if value is None:
        to.refuse(_FAILED, path)
    elif isinstance(value, float) and math.isnan(value):
        to.run.say("warning", f"{to.key} was skipped: its result is NaN", path)
    else:
        to.value(value, path)


def _keys(name: str, lists: list[list[Any]]) -> Iterator[Key]:
    """Yield the names of a benchmark with each combination of its parameters, in the order of its results."""
    if not lists:
        yield Key(name)
        return
    for values in itertools.product(*lists):
        printed = ", ".join(value if isinstance(value, str) else shown(value) for value in values)
        yield Key(f"{name}({printed})")
