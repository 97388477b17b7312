"""JSON of pytest-benchmark: `pytest --benchmark-json`, and the files of `--benchmark-save`.

    {"machine_info": {"cpu": {"brand_raw": ...}}, "commit_info": {"id": ...},
     "benchmarks": [{"fullname": "test_a.py::test_f[8]", "stats": {"min": ..., "rounds": 5, "data": [...]}}]}

Source: ionelmc/pytest-benchmark `stats.py`, 2.5 (2015) to 5.3. The metric is `fullname`. Times are
seconds per iteration, in `data`, too. Without `data` (saved without --benchmark-save-data) a benchmark is an aggregate.
`ops`, which is 1/mean, the quartiles and `extra_info` are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, mapping
from perfgate.readers.records import Target, commit_of, fact, keep_time_and_place, load, name_of, rows

NAME = "pytest-benchmark"
METRICS = "the benchmark's full name"
CHECKED = "pytest-benchmark 5.3.1: files that it wrote"
FORMAT = Format(
    NAME,
    __name__,
    json=("with the 'stats' of pytest-benchmark", "machine_info|benchmarks.*.fullname", "benchmarks.*.stats={"),
)
#: Names of numbers that are not read, or only in aggregates.
BESIDE = r"min|max|mean|stddev|median|total|ops|iqr|q[13]|[lh]d15iqr|\w*outliers|rounds|iterations"
#: SYSTEM-IMPLEMENTATION-VERSION-BITS, such as `Linux-CPython-3.12-64bit`.
_MACHINE = re.compile(r"[^/\-]+-[^/\-]+-[\d.]+[^/\-]*-\d+bit")
_STATISTICS = ("mean", "median", "min", "max", "stddev", "total")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    cpu, commit = mapping(mapping(data.get("machine_info")).get("cpu")), mapping(data.get("commit_info"))
    fact(run, "cpu", cpu.get("brand_raw") or cpu.get("brand"))  # `brand` before 4.0
    run.commit = None if commit.get("dirty") else commit_of(commit.get("id"))
    folder = file.name.rpartition("/")[0].rpartition("/")[2]  # the tool saves its files in one for each machine
    keep_time_and_place(run, data, "datetime", {"machine": folder} if _MACHINE.fullmatch(folder) else {})
    for path, row in rows(run, data, "benchmarks"):
        if (name := name_of(run, row, path, "fullname", "name")) is not None:
            _add(Target(run, run.unique(Key(name), path)), mapping(row.get("stats")), (*path, "stats"))
    return (run.run(),)


def _add(to: Target, stats: Mapping[str, Any], path: Path) -> None:
    rounds, data = stats.get("rounds"), stats.get("data")
    if isinstance(data, list) and data:
        to.samples(data, (*path, "data"))
        if isinstance(rounds, int) and rounds != len(data):
            message = f"{to.key}: rounds is {rounds}, but data has {len(data)} values"
            to.run.say("warning", message, (*path, "data"))
        return
    statistics = {name: (stats.get(name), (*path, name)) for name in _STATISTICS}
    if rounds == 1:
        del statistics["stddev"]  # the tool writes 0, but one round has no spread
    if all(value is None for value, _ in statistics.values()):
        to.refuse("no measurements", path)
    else:
        to.aggregate({**statistics, "count": (rounds, (*path, "rounds"))})
