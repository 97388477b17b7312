"""JSON of nvbench: `BENCHMARK --json FILE`.

    {"meta": {...}, "devices": [{"id": 0, "name": "Quadro GV100"}], "benchmarks": [{"name": "copy", "states": [
      {"name": "Device=0 T=I32", "device": 0, "axis_values": [{"name": "T", "type": "string", "value": "I32"}],
       "summaries": [{"tag": "nv/cold/time/gpu/mean", "hint": "duration",
                      "data": [{"name": "value", "type": "float64", "value": "0.0010034"}]}],
       "is_skipped": false}]}]}

Source: NVIDIA/nvbench `nvbench/json_printer.cu`, `detail/measure_*.cu` (files of version 1.0.0, 2021 to 2026).

The metric is the benchmark, labelled with its axes and its device. Statistics of a measurement are one aggregate:
`NAME` is the GPU time of isolated runs (`nv/cold/time/gpu/*`), `NAME.cpu_time` its CPU time, `NAME.batch_time` the time
in a batch; of benchmarks of the CPU alone (`nv/cpu_only`) `NAME.cpu_time`. `NAME.bandwidth` (B/s), `NAME.item_rate`
(1/s), `NAME.bandwidth_utilization` (a share) and other summaries (`NAME.cupti.NAME`, `NAME.TAG`) are one value each;
their hint names the unit. Times of the tool itself (`walltime`), counts and sizes are not read. A state that was
skipped is a warning. The files with all samples, which `--jsonbin` writes beside the document, are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, Key, Path, Run, RunBuilder, items, mapping, number, shown
from perfgate.readers.records import Target, load, name_of, rows

NAME = "nvbench"
METRICS = (
    "the benchmark, labelled with its axes and `device`; `NAME.cpu_time`, `.batch_time`, `.bandwidth`, `.item_rate`, "
    "`.bandwidth_utilization`"
)
CHECKED = "nvbench's sources of 2026-08: generated files; the result files in its repository"
FORMAT = Format(
    NAME, __name__, json=("with the 'states' of nvbench", "meta.version.nvbench|devices", "benchmarks.*.states")
)
#: Not read: the settings that end a measurement.
BESIDE = "min_samples|min_time|max_noise|skip_time|timeout"
#: A statistic of a time: kind of measurement, processor, statistic, and `/relative` or `/absolute` of a deviation.
_TIME = re.compile(r"nv/(cold|cpu_only|batch)/(?:time/)?(gpu|cpu)/(?:time/)?(mean|median|min|max|stdev|iqr)(/\w+)?")
#: By kind of measurement and processor: the end of the metric. All others are `cpu_time`.
_PARTS = {("cold", "gpu"): "", ("cold", "cpu"): "cpu_time", ("batch", "gpu"): "batch_time"}
#: By the statistic of nvbench: the statistic of perfgate; `iqr` has none.
_STATISTICS = {"mean": "mean", "median": "median", "min": "min", "max": "max", "stdev": "stddev"}
_NAMES = {
    "bw/global/bytes_per_second": "bandwidth",
    "bw/global/utilization": "bandwidth_utilization",
    "bw/item_rate": "item_rate",
    "sm_clock_rate/mean": "sm_clock_rate",
}
_HINTS = {"duration": "s", "byte_rate": "B/s", "item_rate": "1/s", "frequency": "1/s", "bytes": "B"}
#: The ends of tags that are not measurements.
_OTHER = ("/walltime", "/sample_size", "/sample_times", "/sample_freqs")
#: The beginnings of tags that are sizes of the input.
_INPUTS = ("nv/element_count/", "nv/gmem/")
#: By statistic: the printed value and its place.
Printed = dict[str, tuple[object, Path]]


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    data, run = load(file, NAME)
    devices = [row for _, row in rows(run, data, "devices")] if "devices" in data else []
    names = sorted({str(device.get("name"))[:99] for device in devices if device.get("name")})
    if names:
        run.facts |= {"gpu": " + ".join(names), "gpu_count": len(devices)}
    for place, benchmark in rows(run, data, "benchmarks"):
        name = name_of(run, benchmark, place, "name")
        if name is not None and "states" in benchmark:
            for at, state in rows(run, benchmark, *place, "states"):
                _state(run, name, state, at)
    return (run.run(),)


def _state(run: RunBuilder, name: str, state: Mapping[str, Any], place: Path) -> None:
    """Add the summaries of a state: a benchmark with certain values of its axes, on one device."""
    labels = {axis: str(value) for axis, value in _named(state.get("axis_values")).items()}
    if type(device := state.get("device")) is int:
        labels["device"] = str(device)
    to = Target(run, run.unique(Key.of(name, **labels), place))
    if state.get("is_skipped") is True:
        run.say("warning", f"{to.key} was skipped: {shown(state.get('skip_reason'))[:300]}", place)
        return
    times: dict[str, Printed] = {}
    for at, summary in rows(run, state, *place, "summaries"):
        tag, value = summary.get("tag"), _named(summary.get("data")).get("value")
        if not isinstance(tag, str) or value is None or tag.endswith(_OTHER):
            run.file.coverage.mark(run.json, at)  # it is not a measurement that was left out
            continue
        if found := _TIME.fullmatch(tag):
            part = _PARTS.get((found[1], found[2]), "cpu_time")
            times.setdefault(part, {})[found[3] + (found[4] or "")] = (_plain(value), at)
        elif not tag.startswith(_INPUTS):
            short = re.sub(r"^nv/(?:cold/|cpu_only/)?", "", tag)
            own = to.part(_NAMES.get(short, short.replace("/", ".")), _HINTS.get(str(summary.get("hint")), "1"))
            own.value(_plain(value), at)
    for part, statistics in times.items():
        _time(to.part(part) if part else to, statistics)


def _named(listed: object) -> dict[str, object]:
    """Return the values by name of `[{"name": ..., "type": ..., "value": ...}]`; it is null if there are none."""
    whole = [row for row in map(mapping, items(listed)) if "name" in row and "value" in row]
    return {str(row["name"]): row["value"] for row in whole}


def _plain(value: object) -> object:
    """Return a number that was written as a string as a number, and any other value as it is."""
    parsed = number(value) if isinstance(value, str) else None
    return value if parsed is None else parsed


def _time(to: Target, printed: Printed) -> None:
    """Add the statistics of one kind of time. A relative deviation is a share of the mean."""
    statistics = {name: printed[tag] for tag, name in _STATISTICS.items() if tag in printed}
    mean, _ = printed.get("mean", (None, ()))
    relative, place = printed.get("stdev/relative", (None, ()))
    if "stdev/absolute" in printed:
        statistics["stddev"] = printed["stdev/absolute"]
    elif isinstance(mean, float | int) and isinstance(relative, float | int):
        statistics["stddev"] = (mean * relative, place)
    if statistics.get("stddev", (0,))[0] == math.inf:  # nvbench writes it for fewer than five samples
        del statistics["stddev"]
    to.aggregate(statistics)
