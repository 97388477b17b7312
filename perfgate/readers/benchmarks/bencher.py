"""Bencher Metric Format (BMF), the JSON of bencher.dev.

    {"my_benchmark": {"latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88},
                      "throughput": {"value": 5.55}}}

Source: bencherdev/bencher `lib/bencher_json/src/project/measure/built_in.rs` (2026-08) and its documentation of the
format. `NAME.MEASURE` is one value; `lower_value` and `upper_value` may be any bounds, and are not read. Measures that
Bencher knows have its units: `latency` ns, `throughput` 1/s, `build-time` s, `file-size` and `allocated` B. The units
of other measures are only on its server: they are 1, or the unit at the end of the name (`p99_ms`).
"""

from __future__ import annotations

from perfgate.readers.kit import Format, InputFile, JsonOutline, Key, Run, Target, load, shown, unit_of_name

NAME = "bencher"
METRICS = "`NAME.latency`, `NAME.throughput`, and every other `NAME.MEASURE`"
CHECKED = "Bencher's sources of 2026-08: generated files; the examples of its documentation and repository"
_MEASURES = ("latency", "throughput", "build-time", "file-size", "instructions", "estimated-cycles", "allocated")
_VALUES = ("value", "lower_value", "upper_value")


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: measures with a value, one of which Bencher knows or has bounds of the value."""
    measures = [path[:2] for path, token in outline.tokens.items() if len(path) == 3 and path[2] == "value"]
    known = any(measure in _MEASURES or outline.has(name, measure, "lower_value") for name, measure in measures)
    are_objects = all(token == "{" for path, token in outline.tokens.items() if len(path) < 3)
    only_values = all(path[2] in _VALUES for path in outline.tokens if len(path) == 3)  # a `unit` is of another tool
    found = known and are_objects and only_values and ("*",) not in outline.tokens  # `*`: a list
    return "a JSON document of Bencher's measures" if found else None


FORMAT = Format(NAME, __name__, keys="|".join((*_MEASURES, "lower_value")), outline=_outline)
#: Names of numbers that are not read.
BESIDE = "lower_value|upper_value"
#: By measure: the base unit, and how many printed units are one base unit.
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
            to = Target(run, Key(f"{name}.{measure}"), *(_UNITS.get(measure) or unit_of_name(measure)))
            if isinstance(metric, dict) and "value" in metric:
                to.value(metric["value"], (name, measure, "value"))
            else:
                to.refuse(f"{shown(metric)} has no 'value'; left out", (name, measure))
    return (run.run(),)
