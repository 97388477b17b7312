"""JSON of hyperfine: `hyperfine --export-json FILE COMMAND...`.

    {"results": [{"command": "sleep 1", "mean": 1.0, "stddev": null, "median": 1.0, "user": 0.1, "system": 0.1,
      "min": 1.0, "max": 1.0, "times": [1.0], "exit_codes": [0], "parameters": {"n": "1"}}]}

Source: sharkdp/hyperfine `benchmark_result.rs`, 1.0 to 1.20. The metric is the command, and the parameters are labels,
because a command that does not use them occurs several times. Seconds; `COMMAND.user` and `COMMAND.system` are the
means of the processor times, `COMMAND.memory_usage` is in bytes. If a run of the command ended with another exit code
than 0 (null: by a signal), its measurements are an error, because a command that failed did not do the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, Target, items, load, mapping, name_of, rows

NAME = "hyperfine"
METRICS = "the command, and `COMMAND.user`, `.system` and `.memory_usage`, labelled with its parameters"
CHECKED = "hyperfine 1.15.0: a file that it wrote"
FORMAT = Format(
    NAME, __name__, json=("with the 'command' of hyperfine", 'results.*.command="', "results.*.mean|results.*.times")
)
#: Names of numbers that are not read if there are times.
BESIDE = "mean|stddev|median|min|max"


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    for path, row in rows(run, data, "results"):
        if (command := name_of(run, row, path, "command")) is None:
            continue
        parameters = {**mapping(row.get("parameters"))}
        if isinstance(row.get("parameter"), str):  # 1.8 and 1.9: the value of a single parameter, without its name
            parameters["parameter"] = row["parameter"]
        labels = tuple(sorted((name, str(value)) for name, value in parameters.items()))
        to = Target(run, run.unique(Key(command, labels), path))
        _add(to, row, path)
        _check_exits(to, items(row.get("exit_codes")), (*path, "exit_codes"))
    return (run.run(),)


def _check_exits(to: Target, codes: list[Any], path: Path) -> None:
    """Refuse what was measured of a command if one of its runs failed."""
    failed = [index for index, code in enumerate(codes) if code != 0]
    if not failed:
        return
    code = codes[failed[0]]
    how = "was ended by a signal" if code is None else f"exited with {code}"
    why = f"{len(failed)} of {len(codes)} runs of the command failed; the first {how}"
    for key in (to.key, *(to.part(name).key for name in ("user", "system", "memory_usage"))):
        if key in to.run.finished:
            to.run.refuse(key, why, (*path, failed[0]))


def _add(to: Target, row: Mapping[str, Any], path: Path) -> None:
    times, memory = row.get("times"), row.get("memory_usage_byte")
    if isinstance(times, list) and times:
        to.samples(times, (*path, "times"))
    else:
        statistics = {name: (row.get(name), (*path, name)) for name in ("mean", "median", "min", "max", "stddev")}
        if all(value is None for value, _ in statistics.values()):
            to.refuse("no measurements", path)
        else:
            to.aggregate(statistics)
    for name in ("user", "system"):
        to.part(name).aggregate({"mean": (row.get(name), (*path, name))})
    if isinstance(memory, list) and memory:
        to.part("memory_usage", "B").samples(memory, (*path, "memory_usage_byte"))
