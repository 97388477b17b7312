"""JSON of hyperfine: `hyperfine --export-json FILE COMMAND...`.

    {"results": [{"command": "sleep 1", "mean": 1.0, "stddev": null, "median": 1.0, "user": 0.1, "system": 0.1,
      "min": 1.0, "max": 1.0, "times": [1.0], "exit_codes": [0], "parameters": {"n": "1"}}]}

Source: sharkdp/hyperfine `benchmark_result.rs`, 1.0 to 1.20. The metric is the command, the parameters are labels, for
a command that does not use them stands there several times. Seconds; `COMMAND.user` and `COMMAND.system` are the means
of the processor times, `COMMAND.memory_usage` is in bytes. A run of the command that ended in another exit code than 0
(null: by a signal) makes its measurements an error: what failed did something else than what is to be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Reading, Target, mapping
from perfgate.readers.text import Document

NAME = "hyperfine"


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document."""
    reading = Reading(document, NAME)
    run = reading.run()
    for path, row in reading.rows(run, reading.data, "results"):
        command = reading.name(run, row, path, "command")
        if command is not None:
            to = Target(run, reading.unique(run, Key(command, _labels(row)), path))
            _add(reading, to, row, path)
            _failures(reading, to, row.get("exit_codes"), path)
    return reading.finish([run])


def _labels(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The parameters; 1.8 and 1.9 wrote the value of a single one, without its name."""
    parameters = {**mapping(row.get("parameters"))}
    if isinstance(row.get("parameter"), str):
        parameters["parameter"] = row["parameter"]
    return tuple(sorted((name, str(value)) for name, value in parameters.items()))


def _add(reading: Reading, to: Target, row: Mapping[str, Any], path: Path) -> None:
    times, memory = row.get("times"), row.get("memory_usage_byte")
    if isinstance(times, list) and times:
        reading.samples(to, times, lambda index: (*path, "times", index))
    else:
        statistics = {name: row.get(name) for name in ("mean", "median", "min", "max", "stddev")}
        if all(value is None for value in statistics.values()):
            reading.refuse(to.run, to.key, "no measurements", path)
        reading.aggregate(to, statistics, lambda name: (*path, name))
    for name in ("user", "system"):
        _mean(reading, to.part(name), row.get(name), (*path, name))
    if isinstance(memory, list) and memory:
        reading.samples(to.part("memory_usage", "B"), memory, lambda index: (*path, "memory_usage_byte", index))


def _mean(reading: Reading, to: Target, mean: object, path: Path) -> None:
    reading.aggregate(to, {"mean": mean}, lambda _: path)


def _failures(reading: Reading, to: Target, codes: object, path: Path) -> None:
    """The runs of the command that failed."""
    if not isinstance(codes, list):
        return
    failed = [index for index, code in enumerate(codes) if code != 0]
    if failed:
        code = codes[failed[0]]
        how = "was ended by a signal" if code is None else f"exited with {code}"
        why = f"{len(failed)} of {len(codes)} runs of the command failed; the first of them {how}"
        for key in (to.key, *(to.part(name).key for name in ("user", "system", "memory_usage"))):
            if key in to.run.finished:
                reading.refuse(to.run, key, why, (*path, "exit_codes", failed[0]))
