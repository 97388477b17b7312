"""Results of asv (airspeed velocity): the files `RESULTS_DIR/MACHINE/COMMIT-ENVIRONMENT.json`.

    {"version": 2, "commit_hash": ..., "params": {"cpu": ...}, "result_columns": ["result", "params", ..., "samples"],
     "results": {"bench.time_a": [[0.1, null], [["8", "16"]], ...]}}
    {"version": 1, ..., "results": {"bench.time_a": 0.1, "bench.time_b": {"result": [0.1], "params": [["8"]]}}}

Source: airspeed-velocity/asv `results.py`, 0.1 to 0.6; trailing columns of a row are left out by the tool. The metric
is the benchmark, with its parameters as asv names them: `bench.time_a(8, 'x')`; results stand in the order of
`itertools.product`. Where samples were recorded (`asv run --record-samples`) they are read, else the one number, which
is the median of times. Null is a benchmark that failed, an error; NaN one that skipped itself, a warning. Units are
those that the kind in the name has (`time_`, `mem_`, ...): `benchmarks.json`, which could say another, is another file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Reading, Target, commit_of, fact, mapping, shown
from perfgate.readers.builder import MAX_FAULTS, RunBuilder
from perfgate.readers.text import Document

NAME = "asv"

#: The kinds that asv knows by the name of a function or class.
_UNITS = (
    ("s", re.compile(r"(?:time|timeraw)_|Time(?:raw)?[A-Z_]")),
    ("B", re.compile(r"(?:mem|peakmem)_|(?:Mem|PeakMem)[A-Z_]")),
)


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document."""
    reading = Reading(document, NAME)
    run = reading.run()
    fact(run, "cpu", mapping(reading.data.get("params")).get("cpu"))
    run.commit = commit_of(reading.data.get("commit_hash"))
    columns = reading.data.get("result_columns")
    names = columns if isinstance(columns, list) else []
    for name, row in mapping(reading.data.get("results")).items():
        cells, paths = _cells(row, names, ("results", name))
        _add(reading, run, name, cells, paths)
    return reading.finish([run])


def _cells(row: object, columns: list[Any], path: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """The columns of one benchmark by name, and where they stand; in either version."""
    if isinstance(row, list):
        named = {str(column): (index, cell) for index, (column, cell) in enumerate(zip(columns, row, strict=False))}
        return {name: cell for name, (_, cell) in named.items()}, {name: (*path, at) for name, (at, _) in named.items()}
    if isinstance(row, dict):
        return row, {name: (*path, name) for name in row}
    return {"result": row}, {"result": path}


def _add(reading: Reading, run: RunBuilder, name: str, cells: Mapping[str, Any], paths: Mapping[str, Path]) -> None:
    """Every combination of parameters of one benchmark."""
    result, place = cells.get("result"), paths.get("result", ("results", name))
    params = cells.get("params")
    lists = [values for values in params if isinstance(values, list)] if isinstance(params, list) else []
    keys = _keys(name, lists)
    if result is None:
        _failed(reading, run, name, keys, place)
        return
    samples = cells.get("samples")
    several = result if isinstance(result, list) else [result]
    for index, value in enumerate(several):
        key = next(keys, None)
        if key is None:
            reading.say(run, "error", f"{name} has more results than parameters; the rest is left out", place)
            break
        to = Target(run, reading.unique(run, key, place), _unit(name))
        taken = samples[index] if isinstance(samples, list) and index < len(samples) else None
        if isinstance(taken, list) and taken:
            _samples(reading, to, taken, (*paths["samples"], index))
        else:
            _single(reading, to, value, (*place, index) if several is result else place)


def _failed(reading: Reading, run: RunBuilder, name: str, keys: Iterator[Key], path: Path) -> None:
    """A benchmark that failed with all its parameters."""
    failed = [*itertools.islice(keys, MAX_FAULTS + 1)]
    for key in failed[:MAX_FAULTS]:
        reading.refuse(run, key, "the benchmark failed: its result is null", path)
    if len(failed) > MAX_FAULTS:  # too many to name, so nothing that this run holds is to pass
        reading.say(run, "error", f"{name} failed with all its parameters: its result is null", path)


def _samples(reading: Reading, to: Target, values: list[Any], path: Path) -> None:
    reading.samples(to, values, lambda index: (*path, index))


def _single(reading: Reading, to: Target, value: object, path: Path) -> None:
    """The one number of a benchmark without samples."""
    if value is None:
        reading.refuse(to.run, to.key, "the benchmark failed: its result is null", path)
    elif isinstance(value, float) and math.isnan(value):
        reading.say(to.run, "warning", f"{to.key} was skipped: its result is NaN", path)
    else:
        reading.value(to, value, path)


def _keys(name: str, lists: list[list[Any]]) -> Iterator[Key]:
    """The names of a benchmark with each combination of its parameters, in the order of its results."""
    if not lists:
        yield Key(name)
        return
    for values in itertools.product(*lists):
        printed = ", ".join(value if isinstance(value, str) else shown(value) for value in values)
        yield Key(f"{name}({printed})")


def _unit(name: str) -> str:
    """The base unit of a benchmark, by the name of its function."""
    last = name.rpartition(".")[2]
    return next((unit for unit, pattern in _UNITS if pattern.match(last)), "1")
