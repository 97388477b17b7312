"""Results of genai-perf and aiperf: `profile_export_genai_perf.json`, `profile_export_aiperf.json`, and records.

    {"request_latency": {"unit": "ms", "avg": 297.5, "p50": 290.1, "p99": 400.2, "min": 250.0, "max": 410.0},
     "request_throughput": {"unit": "requests/sec", "avg": 4.2},
     "input_config": {"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 8}}}

    {"metadata": {...}, "metrics": {"request_latency": {"value": 297.5, "unit": "ms"}, "inter_chunk_latency": {"value":
     [4.9, 5.3], "unit": "ms"}}, "error": null}                  one line for each request: `profile_export.jsonl`

Source: ai-dynamo/aiperf `aiperf/common/models/export_models.py`, `aiperf/common/config` (2025-10);
triton-inference-server/perf_analyzer `genai-perf/genai_perf/export_data/json_exporter.py` (2025-12).

A metric with statistics is an aggregate; one with only `avg` is one value. The unit is `unit`. Records of requests are
samples in the order of the file, the members of a list one after another; requests that failed are left out and
counted in a warning. GPU telemetry is `telemetry.NAME`, labelled with `device`. The conditions of `input_config` are
labels: `model`, `concurrency`, `request_rate`, `input_len` and `output_len`. The time of a day is not a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, JsonOutline, Key, Labels, Path, Run, RunBuilder, load_json
from perfgate.readers.records import Target, load, statistic_of
from perfgate.readers.runs import labels_of
from perfgate.readers.values import items, mapping, unit_of_text

NAME = "genai-perf"
METRICS = (
    "`time_to_first_token`, `request_latency`, `output_token_throughput`, ...: aggregates, or samples of records; "
    "labelled with `model`, `concurrency`, `request_rate`, ..."
)
CHECKED = (
    "the sources of aiperf (2025-10) and genai-perf (2025-12): generated files; the example of aiperf's tutorial; a "
    "file that the models of aiperf 0.13 wrote"
)


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: metrics with `unit` and `avg` beside an `input_config`, or a request's record."""
    if outline.has("metadata", "request_start_ns") and outline.has("metrics"):
        return "a JSON document with 'request_start_ns'"
    metrics = any(outline.has(path[0], "avg") for path in outline.tokens if path[1:] == ("unit",))
    return "a JSON document with 'input_config'" if metrics and outline.has("input_config") else None


FORMAT = Format(NAME, __name__, keys="request_start_ns|input_config", outline=_outline)
#: Not read: the sum of the requests, whose mean is read.
BESIDE = r"(?:\w+\.)?sum"
_NOT_METRICS = ("min_request_timestamp", "max_response_timestamp")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    first_line = file.head().lstrip().partition(b"\n")[0]
    if b'"metadata"' in first_line and b'"input_config"' not in first_line:  # the latter: a whole document on one line
        return (_records(file),)
    data, run = load(file, NAME)
    labels = _conditions(file, mapping(data.get("input_config")))
    for name, metric in data.items():
        if name in ("input_config", "sessions"):  # settings, and numbers of single sessions
            continue
        if name == "telemetry_stats":
            _telemetry(run, mapping(metric), labels)
        elif name == "telemetry_data":
            _endpoints(run, mapping(mapping(metric).get("endpoints")), labels)
        elif isinstance(metric, dict) and "unit" in metric and name not in _NOT_METRICS:
            _metric(run, Key(name, labels), metric, metric["unit"], (name,))
    if data.get("was_cancelled") is True:
        run.say("warning", "the benchmark was cancelled before its end")
    return (run.run(),)


def _unit(text: object) -> tuple[str, float]:
    """Return the base unit of a printed unit, and how many printed units are one base unit; others are counts."""
    return unit_of_text(str(text).removesuffix("/user")) or ("1", 1.0)  # "tokens/sec/user" is a rate


def _metric(run: RunBuilder, key: Key, metric: Mapping[str, Any], unit: object, place: Path) -> None:
    base, per = _unit(unit)
    to = Target(run, key, base, per)
    statistics = [name for name in metric if statistic_of(name)]
    if statistics == ["avg"]:
        to.value(metric["avg"], (*place, "avg"))
    elif statistics:
        to.statistics(metric, place)
    else:
        to.refuse("this metric has a unit and no number", place)


def _telemetry(run: RunBuilder, stats: Mapping[str, Any], labels: Labels) -> None:
    """Add the telemetry of genai-perf: `{"gpu_power_usage": {"unit": "W", "gpu0": {"avg": 123}}}`."""
    for name, metric in stats.items():
        for device, numbers in mapping(metric).items():
            if isinstance(numbers, dict):
                key = Key.of(f"telemetry.{name}", **dict(labels), device=device.removeprefix("gpu"))
                _metric(run, key, numbers, metric.get("unit"), ("telemetry_stats", name, device))


def _endpoints(run: RunBuilder, endpoints: Mapping[str, Any], labels: Labels) -> None:
    """Add telemetry of aiperf: `{"host:9400": {"gpus": {"gpu_0": {"gpu_index": 0, "metrics": {"NAME": {...}}}}}}`."""
    for url, endpoint in endpoints.items():
        for name, gpu in mapping(mapping(endpoint).get("gpus")).items():
            # GPUs of several endpoints may have equal indices
            device = f"{url} {name}" if len(endpoints) > 1 else str(mapping(gpu).get("gpu_index"))
            for metric, numbers in mapping(mapping(gpu).get("metrics")).items():
                key = Key.of(f"telemetry.{metric}", **dict(labels), device=device)
                place = ("telemetry_data", "endpoints", url, "gpus", name, "metrics", metric)
                _metric(run, key, mapping(numbers), mapping(numbers).get("unit"), place)


def _conditions(file: InputFile, config: Mapping[str, Any]) -> Labels:
    """Return the conditions in a configuration of aiperf or genai-perf."""
    # `perf_analyzer`, `model_names` and, of the input, `synthetic_tokens` and `output_tokens` are of genai-perf; all
    # other fields are of aiperf
    endpoint, stimulus = mapping(config.get("endpoint")), mapping(mapping(config.get("perf_analyzer")).get("stimulus"))
    # aiperf 0.13 has lists of models, phases and datasets; the last phase and dataset count
    named = [mapping(item).get("name") for item in items(mapping(config.get("models")).get("items"))] or None
    models = endpoint.get("model_names") or config.get("model_names") or named
    phase, dataset = (mapping([{}, *items(config.get(name))][-1]) for name in ("phases", "datasets"))
    prompts = mapping(dataset.get("prompts"))
    inputs = mapping(config.get("input"))
    tokens = mapping(mapping(inputs.get("prompt")).get("input_tokens")) or mapping(inputs.get("synthetic_tokens"))
    outputs = mapping(mapping(inputs.get("prompt")).get("output_tokens")) or mapping(inputs.get("output_tokens"))
    record = {
        "model": ", ".join(map(str, models)) if isinstance(models, list) else models,
        "endpoint": endpoint.get("type"),
        "concurrency": (mapping(config.get("loadgen")) or phase or stimulus).get("concurrency"),
        "request_rate": (mapping(config.get("loadgen")) or stimulus).get("request_rate") or phase.get("rate"),
        "input_len": tokens.get("mean") or mapping(prompts.get("isl")).get("mean"),
        "output_len": outputs.get("mean") or mapping(prompts.get("osl")).get("mean"),
    }
    return labels_of(file, NAME, record)


def _records(file: InputFile) -> Run:
    """Return the run of a file with a record for each request."""
    run, failed, first = RunBuilder(file, NAME), 0, 0
    for number, line, _, ended in file.lines():
        if not line.strip():
            continue
        loaded = load_json(line, file.name, finite=False)
        record = loaded.data
        if loaded.problems or not isinstance(record, dict):
            if ended:
                run.say("error", "a record cannot be read", number, f": {line.strip()[:80]!r}")
            else:
                run.say("warning", "the last record is cut off; left out", number)
        elif record.get("error") or mapping(record.get("metadata")).get("was_cancelled") is True:
            failed, first = failed + 1, first or number
        else:
            _record(run, mapping(record.get("metrics")), number)
    if failed:
        run.say("warning", f"{failed} requests failed; left out", first)
    return run.run()


def _record(run: RunBuilder, metrics: Mapping[str, Any], line: int) -> None:
    """Add the metrics of one request: each a number, or a list of numbers."""
    for name, metric in metrics.items():
        if name in _NOT_METRICS or not isinstance(metric, dict) or "value" not in metric:
            continue
        unit, per = _unit(metric.get("unit"))
        values = metric["value"]
        for value in values if isinstance(values, list) else [values]:
            run.sample(Key(name), unit, value, line, per=per)
