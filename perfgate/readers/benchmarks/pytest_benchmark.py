"""JSON of pytest-benchmark: `pytest --benchmark-json`, and what `--benchmark-save` stores.

    {"machine_info": {"cpu": {"brand_raw": ...}}, "commit_info": {"id": ...},
     "benchmarks": [{"fullname": "test_a.py::test_f[8]", "stats": {"min": ..., "rounds": 5, "data": [...]}}]}

Source: ionelmc/pytest-benchmark `stats.py`, 2.5 (2015) to 5.3. The metric is `fullname`. Seconds per iteration, in
`data` too. Without `data` (saved without --benchmark-save-data) a benchmark is an aggregate. `ops`, which is 1/mean,
and the quartiles are not read, nor is `extra_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Reading, Target, commit_of, fact, mapping
from perfgate.readers.builder import RunBuilder
from perfgate.readers.text import Document

NAME = "pytest-benchmark"

_STATISTICS = ("mean", "median", "min", "max", "stddev", "total")


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document."""
    reading = Reading(document, NAME)
    run = reading.run()
    _facts(run, reading.data)
    for path, row in reading.rows(run, reading.data, "benchmarks"):
        name = reading.name(run, row, path, "fullname", "name")
        if name is not None:
            to = Target(run, reading.unique(run, Key(name), path))
            _add(reading, to, mapping(row.get("stats")), (*path, "stats"))
    return reading.finish([run])


def _facts(run: RunBuilder, data: Mapping[str, Any]) -> None:
    """The processor's name (`brand` before 4.0), and the commit unless the tree was changed."""
    cpu = mapping(mapping(data.get("machine_info")).get("cpu"))
    fact(run, "cpu", cpu.get("brand_raw") or cpu.get("brand"))
    commit = mapping(data.get("commit_info"))
    run.commit = None if commit.get("dirty") else commit_of(commit.get("id"))


def _add(reading: Reading, to: Target, stats: Mapping[str, Any], path: Path) -> None:
    rounds, data = stats.get("rounds"), stats.get("data")
    if isinstance(data, list) and data:
        reading.samples(to, data, lambda index: (*path, "data", index))
        if isinstance(rounds, int) and rounds != len(data):
            message = f"{to.key}: rounds is {rounds}, but data has {len(data)} values"
            reading.say(to.run, "warning", message, (*path, "data"))
        return
    statistics = {name: stats.get(name) for name in _STATISTICS}
    if rounds == 1:
        statistics["stddev"] = None  # the tool writes 0, which one round cannot show
    if all(value is None for value in statistics.values()):
        reading.refuse(to.run, to.key, "no measurements", path)
        return
    reading.aggregate(to, {**statistics, "count": rounds}, lambda name: (*path, "rounds" if name == "count" else name))
