"""Bencher Metric Format (BMF), the JSON of bencher.dev.

    {"my_benchmark": {"latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88},
                      "throughput": {"value": 5.55}}}

Source: bencherdev/bencher `lib/bencher_json/src/project/measure/built_in.rs` (2026-08) and its documentation of the
format. `NAME.MEASURE` is one value; `lower_value` and `upper_value` may be any bounds, and are not read. Measures that
Bencher knows have its units: `latency` ns, `throughput` 1/s, `build-time` s, `file-size` and `allocated` B. The units
of other measures are only on its server: they are 1, or what the end of the name tells (`p99_ms`).
"""

from __future__ import annotations

from perfgate.core import Key, Run
from perfgate.readers.benchmarks.benchmark_json import Target, load
from perfgate.readers.printed_units import unit_of_name
from perfgate.readers.text import InputFile
from perfgate.readers.values import shown

NAME = "bencher"
TITLE = "Bencher Metric Format (BMF), the JSON of bencher.dev"
METRICS = "`NAME.latency`, `NAME.throughput`, and every other `NAME.MEASURE`"
CHECKED = "Bencher's sources of 2026-08: generated files; the example of its documentation"

_UNITS = {
    "latency": ("s", 1e9),
    "throughput": ("1/s", 1.0),
    "build-time": ("s", 1.0),
    "file-size": ("B", 1.0),
    "allocated": ("B", 1.0),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    for name, measures in data.items():
        if not isinstance(measures, dict) or not measures:
            run.say("error", f"{name!r} has no measures"[:300], (name,))
            continue
        for measure, metric in measures.items():
            unit, per = _UNITS.get(measure) or unit_of_name(measure)
            to = Target(run, Key(f"{name}.{measure}"), unit, per)
            if isinstance(metric, dict) and "value" in metric:
                to.value(metric["value"], (name, measure, "value"))
            else:
                to.refuse(f"{shown(metric)} has no 'value'; left out", (name, measure))
    return (run.run(),)
