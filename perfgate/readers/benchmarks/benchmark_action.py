"""The array of github-action-benchmark: input of its tools `customSmallerIsBetter` and `customBiggerIsBetter`.

    [{"name": "Request latency", "unit": "ms", "value": 12.5, "range": "± 3%", "extra": "100 samples"}]

Source: benchmark-action/github-action-benchmark `src/extract.ts` (2026-03). The metric is the name, one value; the unit
is what `unit` says (`ms`, `ns/iter`, `ops/sec`, `MB/s`, ...), otherwise 1. Which direction is better is in the workflow
and not in the file: it follows from the unit, or the rule says it. `range` and `extra` are texts, and not read.
"""

from __future__ import annotations

from perfgate.readers.kit import Format, InputFile, Key, Run, Target, load_rows, name_of, number, unit_of_text

NAME = "benchmark-action"
METRICS = "the benchmark's name"
CHECKED = "github-action-benchmark's sources of 2026-03: generated files"
FORMAT = Format(
    NAME, __name__, json=("with the 'unit' and 'value' of github-action-benchmark", "*.name", "*.unit", "*.value")
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    run, found = load_rows(file, NAME)
    for path, row in found:
        if (name := name_of(run, row, path, "name")) is not None:
            value = row.get("value")
            parsed = number(value) if isinstance(value, str) else None  # the action takes numbers in quotes
            unit = unit_of_text(str(row.get("unit", ""))) or ("1", 1.0)
            to = Target(run, run.unique(Key(name), path), *unit)
            to.value(value if parsed is None else parsed, (*path, "value"))
    return (run.run(),)
