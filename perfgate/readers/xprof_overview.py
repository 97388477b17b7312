"""The overview page of XProf (JAX, TensorFlow, PyTorch/XLA) as JSON, and its input pipeline page.

    [{"cols": [...], "rows": [], "p": {"mxu_utilization_percent": "41.5%", "device_duty_cycle_percent": "92.0%", ...}},
     {"cols": [{"id": "stepnum"}, {"id": "deviceComputeTimeMs"}, ..., {"id": "stepTimeMs"}],
      "rows": [{"c": [{"v": "train 1"}, {"v": 10.5}, ..., {"v": 12.25}]}], "p": {"steptime_ms_average": "12.2", ...}},
     {"cols": [...], "rows": [...], "p": {"device_type": "TPU v5e", "host_count": "1"}}, ...]

It is what `xprof.convert.raw_to_tool_data.xspace_to_tool_data(FILES, "overview_page", {})` returns for the files
`*.xplane.pb` of a profile, and what the page itself loads.

Source: openxla/xprof `xprof/convert/op_stats_to_overview_page.cc`, `op_stats_to_input_pipeline_analysis.cc` (2026-08).

| metric | unit | from |
|---|---|---|
| `step.time`, one sample a step | s | `stepTimeMs`; without that column an aggregate of `steptime_ms_*` |
| `step.device_compute`, `step.infeed`, `step.host_compute`, ... | s | the other columns of times; absent if all are 0 |
| `input.preprocessing`, `input.enqueue`, ..., of the input pipeline of the host | s | `..._us` |
| `device_duty_cycle`, `mxu_utilization`, `hbm_utilization`, ..., shares | 1 | `..._percent`; absent if 0 |

The type of the device is the fact `gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.core import Key, Run
from perfgate.readers.kit import Format, InputFile, Path, RunBuilder, Target, items, load_rows, mapping, number

NAME = "xprof"
METRICS = (
    "`step.time` and its parts (`step.device_compute`, `step.infeed`, ...), `mxu_utilization`, `device_duty_cycle`, ..."
)
CHECKED = "XProf 2.24.2: a page that it made of a profile of JAX 0.10.2 on a CPU; generated files"
FORMAT = Format(NAME, __name__, json=("with the 'steptime_ms_average' of XProf", "*.p.steptime_ms_average"))
#: Numbers that follow from the rows of the steps.
BESIDE = r"\w+_ms_\w+|infeed_?percent_?\w+|cumulativeTimePercent"
_INPUT = re.compile(r"(\w{1,60})_us")
_TIME = re.compile(r"(\w{1,60}?)(?:Time)?Ms")
_STEP = re.compile(r"(?:.*\D)?(\d{1,15})")
_PERCENT = re.compile(r"(\w{1,80})_percent(?:_relative_to_\w+)?|(\w{1,60}_utilization)_relative_to_\w+")
_SUMMARY = {"average": "mean", "standard_deviation": "stddev", "minimum": "min", "maximum": "max"}
_ALL_STEPS = re.compile(rf"steptime_ms_({'|'.join(_SUMMARY)})")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a page."""
    run, tables = load_rows(file, NAME)
    for path, table in tables:
        properties = mapping(table.get("p"))
        if "steptime_ms_average" in properties:
            _steps(run, table, properties, path)
        elif "mxu_utilization_percent" in properties or "device_duty_cycle_percent" in properties:
            for metric, value, place in _matching(_PERCENT, properties, path):
                if value != 0:
                    Target(run, Key(metric), "1", per=100).value(value, place)
        elif "enqueue_us" in properties:
            for metric, value, place in _matching(_INPUT, properties, path):
                Target(run, Key(f"input.{metric}"), "s", per=1e6).value(value, place)
        elif isinstance(device := properties.get("device_type"), str) and device:
            run.facts["gpu"] = device[:200]
    return (run.run(),)


def _matching(
    pattern: re.Pattern[str], properties: Mapping[str, Any], path: Path
) -> Iterator[tuple[str, object, Path]]:
    """Yield the group of each name that a pattern matches, the number of that property, and its place."""
    for name, text in properties.items():
        if found := pattern.fullmatch(name):
            yield found[found.lastindex or 0], _number(text), (*path, "p", name)


def _steps(run: RunBuilder, table: Mapping[str, Any], properties: Mapping[str, Any], path: Path) -> None:
    """Add the times of the steps, or their statistics."""
    columns = [str(mapping(column).get("id")) for column in _list(run, table, (*path, "cols"))]
    rows = [_cells(row) for row in _list(run, table, (*path, "rows"))]
    steps = [_step(row, index) for index, row in enumerate(rows)]
    for at, column in enumerate(columns):
        found = _TIME.fullmatch(column)
        values = [row[at] if at < len(row) else None for row in rows]
        if found and any(value != 0 for value in values):
            # `stepTimeMs` is step.time, `hostComputeTimeMs` step.host_compute.
            name = "time" if found[1] == "step" else re.sub(r"(?<!^)([A-Z])", r"_\1", found[1]).lower()
            places = [(*path, "rows", index, "c", at, "v") for index in range(len(values))]
            run.samples(Key(f"step.{name}"), "s", values, places.__getitem__, per=1000, steps=steps)
    if "stepTimeMs" not in columns:
        statistics = {_SUMMARY[name]: (value, place) for name, value, place in _matching(_ALL_STEPS, properties, path)}
        Target(run, Key("step.time"), "s", per=1000).aggregate(statistics)
    elif not rows:
        run.say("error", "the table of steps has no row: the profile has no step", path)


def _step(row: list[object], index: int) -> int:
    """Return the number of the step in the first cell of a row, or else the index of the row."""
    found = _STEP.fullmatch(str(row[0])) if row else None
    return int(found[1]) if found else index


def _cells(row: object) -> list[object]:
    """Return the values in a row `{"c": [{"v": "train 1"}, {"v": 10.5}]}`; the first one names the step."""
    return [mapping(cell).get("v") for cell in items(mapping(row).get("c"))]


def _list(run: RunBuilder, table: Mapping[str, Any], path: Path) -> list[Any]:
    """Return the list at a path in a table; empty if it is absent. Anything else is reported, and empty, too."""
    found = table.get(str(path[-1]))
    if found and not isinstance(found, list):
        run.say("error", f"{path[-1]!r} is not a list", path)
    return items(found)


def _number(text: object) -> object:
    """Return the number in a text such as `41.5%`; anything else as it is."""
    parsed = number(text.removesuffix("%")) if isinstance(text, str) else None
    return text if parsed is None else parsed
