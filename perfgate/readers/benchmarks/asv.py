"""Results of asv (airspeed velocity): the files `RESULTS_DIR/MACHINE/COMMIT-ENVIRONMENT.json`.

    {"version": 2, "commit_hash": ..., "params": {"cpu": ...}, "result_columns": ["result", "params", ..., "samples"],
     "results": {"bench.time_a": [[0.1, null], [["8", "16"]], ...]}}
    {"version": 1, ..., "results": {"bench.time_a": 0.1, "bench.time_b": {"result": [0.1], "params": [["8"]]}}}

Source: airspeed-velocity/asv `results.py`, 0.1 to 0.6; the tool leaves out trailing columns of a row. The metric is the
benchmark, with its parameters as asv names them: `bench.time_a(8, 'x')`; results are in the order of
`itertools.product`. If samples were recorded (`asv run --record-samples`) they are read, else the one number, which is
the median of times. Null is a benchmark that failed, an error; NaN is a benchmark that skipped itself, a warning. The
kind in the name (`time_`, `mem_`, ...) gives the unit: `benchmarks.json`, which may have another unit, is another file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Target, commit_of, fact, load
from perfgate.readers.builder import MAX_FAULTS, RunBuilder
from perfgate.readers.text import InputFile
from perfgate.readers.values import mapping, shown

NAME = "asv"
TITLE = "a results file of asv, version 1 or 2"
METRICS = "the benchmark with its parameters: `bench.time_a(8, 'x')`"

#: The units of asv's kinds of benchmarks, which are in the name of a function or class.
_UNITS = (
    ("s", re.compile(r"(?:time|timeraw)_|Time(?:raw)?[A-Z_]")),
    ("B", re.compile(r"(?:mem|peakmem)_|(?:Mem|PeakMem)[A-Z_]")),
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    fact(run, "cpu", mapping(data.get("params")).get("cpu"))
    run.commit = commit_of(data.get("commit_hash"))
    columns = data.get("result_columns")
    names = columns if isinstance(columns, list) else []
    for name, row in mapping(data.get("results")).items():
        cells, paths = _cells(row, names, ("results", name))
        _add(run, name, cells, paths)
    return (run.run(),)


def _cells(row: object, columns: list[Any], path: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the columns of one benchmark by name, and their paths, for either version."""
    if isinstance(row, list):
        named = {str(column): (index, cell) for index, (column, cell) in enumerate(zip(columns, row, strict=False))}
        return {name: cell for name, (_, cell) in named.items()}, {name: (*path, at) for name, (at, _) in named.items()}
    if isinstance(row, dict):
        return row, {name: (*path, name) for name in row}
    return {"result": row}, {"result": path}


def _add(run: RunBuilder, name: str, cells: Mapping[str, Any], paths: Mapping[str, Path]) -> None:
    """Add every combination of parameters of one benchmark."""
    result, place = cells.get("result"), paths.get("result", ("results", name))
    params = cells.get("params")
    lists = [values for values in params if isinstance(values, list)] if isinstance(params, list) else []
    keys = _keys(name, lists)
    if result is None:
        _failed(run, name, keys, place)
        return
    samples = cells.get("samples")
    several = result if isinstance(result, list) else [result]
    for index, value in enumerate(several):
        key = next(keys, None)
        if key is None:
            run.say("error", f"{name} has more results than parameters; the rest is left out", place)
            break
        to = Target(run, run.unique(key, place), _unit(name))
        taken = samples[index] if isinstance(samples, list) and index < len(samples) else None
        if isinstance(taken, list) and taken:
            _samples(to, taken, (*paths["samples"], index))
        else:
            _single(to, value, (*place, index) if several is result else place)


def _failed(run: RunBuilder, name: str, keys: Iterator[Key], path: Path) -> None:
    """Report a benchmark that failed with all its parameters."""
    failed = [*itertools.islice(keys, MAX_FAULTS + 1)]
    for key in failed[:MAX_FAULTS]:
        run.refuse(key, "the benchmark failed: its result is null", path)
    if len(failed) > MAX_FAULTS:  # too many to name, so an error of the whole run
        run.say("error", f"{name} failed with all its parameters: its result is null", path)


def _samples(to: Target, values: list[Any], path: Path) -> None:
    to.samples(values, lambda index: (*path, index))


def _single(to: Target, value: object, path: Path) -> None:
    """Add the one number of a benchmark without samples."""
    if value is None:
        to.refuse("the benchmark failed: its result is null", path)
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


def _unit(name: str) -> str:
    """Return the base unit of a benchmark, by the name of its function."""
    last = name.rpartition(".")[2]
    return next((unit for unit, pattern in _UNITS if pattern.match(last)), "1")
