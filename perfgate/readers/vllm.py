"""JSON of vLLM's benchmarks: `vllm bench serve` (once `benchmark_serving.py`), `latency` and `throughput`.

    {"duration": 51.2, "completed": 100, "request_throughput": 1.95, "mean_ttft_ms": 90.1, "p99_itl_ms": 40.2,
     "ttfts": [0.09, 0.08], "itls": [[0.02, 0.03], [0.02]], "errors": ["", ""], ...}

Source: vllm-project/vllm `vllm/benchmarks/serve.py`, `latency.py`, `throughput.py` and `lib/utils.py` (2024 to 2026);
SGLang's `bench_serving.py` writes the same names (since 2024-11). The percentiles depend on `--metric-percentiles`.

The numbers of `_FIELDS` are one value each, with `steady_state.` before those of the part at full concurrency. `ttft`,
`itl` and `latency` (s) are samples: the lists `ttfts`, `itls` (one after another) and `latencies`. A request that
failed has an error and a time to first token of 0: it is left out of `ttft` and `itl`, and counted in a warning.

The conditions of a benchmark (`core.conditions`: `model`, `request_rate`, `concurrency`, ...) are labels of its
metrics. A file may have several benchmarks, one on each line (`--append-result`) or in a list: those of unequal
conditions are one run, a load sweep, and those of equal conditions are several runs. A `.pytorch.json` file has one
metric in each object, with its benchmark and its model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.core.wording import show_labels
from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Labels, Path, Run, RunBuilder
from perfgate.readers.records import documents, field_of
from perfgate.readers.runs import RecordRuns, labels_of
from perfgate.readers.values import Field, items, mapping, number_of, shown

NAME = "vllm"
METRICS = (
    "`mean_ttft`, `p99_itl`, `request_throughput`, ...; each request's `ttft`, `itl`, `latency`;"
    " labelled with the conditions: `model`, `request_rate`, `concurrency`, ..."
)
CHECKED = "vLLM's sources of 2024 to 2026; generated files"
#: Fields that each benchmark of vLLM always writes.
_ALWAYS = (
    ("completed", "duration", "request_throughput"),
    ("completed", "duration", "median_ttft_ms"),
    ("avg_latency", "latencies"),
    ("elapsed_time", "requests_per_second", "tokens_per_second"),
    ("tput_per_gpu", "median_ttft"),  # InferenceX
)


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows that a document has results: one or a list of them, or records for PyTorch's dashboard."""
    for names in _ALWAYS:
        if any(all(outline.has(*top, name) for name in names) for top in ((), ("*",))):  # one result, or a list
            return f"a JSON document with {names[-1]!r}"
    if outline.has("*", "metric", "benchmark_values") and outline.has("*", "benchmark"):
        return "a JSON document with 'benchmark_values'"
    return None


FORMAT = Format(
    NAME, __name__, keys="completed|avg_latency|elapsed_time|tput_per_gpu|benchmark_values", outline=_outline
)
#: The size of the load, and the counts behind the acceptance rate.
BESIDE = (
    r"window|total_\w*tokens\w*|total_(?:in|out)put\w*|start_times|spec_decode_\w+_tokens|spec_decode_per_position\w+"
)
#: Times without `_ms` are in s: InferenceX writes them so.
_IN_S = r"(?:mean|median|std|min|max|p\d{1,2}(?:\.\d{1,3})?)_(?:ttft|tpot|itl|e2el)"
#: By a pattern of names: a metric "" is the printed name, or the group of the pattern.
_FIELDS = {
    r"completed|failed|max_concurrent_requests|concurrency|rtfx|accept_length": Field("", "1"),
    r"spec_decode_acceptance_length|spec_decode_num_drafts": Field("", "1"),
    r"spec_decode_acceptance_rate": Field("", "1", 100),
    r"([\w.]+)_ms": Field("", "s", 1000),
    rf"duration|avg_latency|elapsed_time|{_IN_S}": Field("", "s"),
    r"\w*(?:_throughput|_goodput|_per_second|_per_s|_per_gpu|_intvty)": Field("", "1/s"),
}
#: Lists of seconds, and the metric of their members. `latencies` is of `vllm bench latency`, without failed requests.
_LISTS = (("ttfts", "ttft"), ("itls", "itl"), ("latencies", "latency"))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a results file: benchmarks of unequal conditions are one run, equal ones are several."""
    runs = RecordRuns(file, NAME)
    for source in documents(file):
        _document(file, runs, source)
    return runs.finish()


def _document(file: InputFile, runs: RecordRuns, source: JsonSource) -> None:
    """Add the results in a document, one or a list of them, each to the run of its conditions."""
    data = source.loaded.data
    several: list[tuple[dict[str, Any], Path]] = [(data, ())] if isinstance(data, dict) else []
    several += [(member, (index,)) for index, member in enumerate(items(data)) if isinstance(member, dict)]
    if not several:
        runs.run_of(None, source).report_problems(numbers=False)
    for number, (result, path) in enumerate(several):
        is_pytorch = isinstance(result.get("metric"), dict)
        fields = _pytorch_fields(result) if is_pytorch else {**result, **_lengths(result)}
        labels = labels_of(file, NAME, fields)
        name = mapping(result.get("metric")).get("name")
        # repetitions have equal conditions, and for PyTorch, with one metric in each object, equal metrics
        record = (labels, name) if is_pytorch and isinstance(name, str) else labels
        run = runs.run_of(record, source, result if is_pytorch else fields)
        if number == 0:  # the problems of the whole document, once; those of its numbers are told as they are read
            run.report_problems(numbers=False)
        add = _add_pytorch if is_pytorch else _add
        add(run, result, labels, path)
        source.report_waiting()


def _pytorch_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a record for PyTorch: the arguments of the benchmark, and its model."""
    arguments = mapping(mapping(mapping(record.get("benchmark")).get("extra_info")).get("args"))
    return {**arguments, "model_id": mapping(record.get("model")).get("name")}


def _lengths(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the number of tokens in every prompt, and in every output, if it seems constant: results do not name it.

    It seems so if the mean of at least 32 requests is a whole number; that of fewer requests may be one by chance.
    """
    completed, found = result.get("completed"), dict[str, str]()
    for name in ("input", "output"):
        total = result.get(f"total_{name}_tokens")
        if type(total) is int and type(completed) is int and 32 <= completed <= total and total % completed == 0:
            # a text, because `unlabelled_fields` leaves out a number with such a name
            found[f"{name}_tokens_per_request"] = f"{total // completed} tokens"
    return found


def _add_pytorch(run: RunBuilder, record: Mapping[str, Any], labels: Labels, path: Path) -> None:
    """Add one record: `{"benchmark": {...}, "metric": {"name": "mean_ttft_ms", "benchmark_values": [90.1], ...}}`."""
    metric = mapping(record.get("metric"))
    values = metric.get("benchmark_values")
    name, place = str(metric.get("name")), (*path, "metric", "benchmark_values")
    if isinstance(values, list) and len(values) == 1:
        _add_number(run, name, values[0], labels, (*place, 0))
    elif isinstance(values, list) and name in ("latency", "latencies"):
        for index, value in enumerate(values):
            run.sample(Key("latency", labels), "s", value, (*place, index))
    elif isinstance(values, list):
        run.say("error", "a metric with several values cannot be read", (*place,), f": {name}")


def _add(run: RunBuilder, result: Mapping[str, Any], labels: Labels, path: Path) -> None:
    """Add the numbers and lists of one result, which is at `path` of the document."""
    duration = number_of(result.get("duration"))
    for name, value in result.items():
        if number_of(value) > duration and re.fullmatch(_IN_S, name):
            why = f"{value} has no unit, and is longer than the benchmark, which took {duration:g} s; left out"
            run.refuse(Key(name, labels), why, (*path, name))
        else:
            _add_number(run, name, value, labels, (*path, name))
    _steady(run, mapping(result.get("steady_state")), labels, (*path, "steady_state"))
    load = f" with {show_labels(labels)}" if labels else ""
    if result.get("completed") == 0:
        run.say("error", "no request was completed", detail=load)
    ttfts, completed = items(result.get("ttfts")), result.get("completed")
    if ttfts and isinstance(completed, int) and len(ttfts) < completed:
        count = f"{len(ttfts)} requests have a time to the first token, but {completed} were completed"
        run.say("warning", count, detail=load)
    _add_requests(run, result, labels, path, load)


def _add_requests(run: RunBuilder, result: Mapping[str, Any], labels: Labels, path: Path, load: str) -> None:
    """Add the lists of times, with a member for each request: its one time, or a list of its times (`itls`)."""
    # A request failed if it has an error, or no token: then its time to the first one is 0.
    failed = {index for index, error in enumerate(items(result.get("errors"))) if error}
    failed |= {index for index, time in enumerate(items(result.get("ttfts"))) if time == 0}
    if failed:
        run.say("warning", f"{len(failed)} requests failed; left out of ttft and itl", detail=load)
    for name, metric in _LISTS:
        for index, times in enumerate(items(result.get(name))):
            if index in failed and metric != "latency":
                continue
            place = (*path, name, index)
            if not isinstance(times, list):
                run.sample(Key(metric, labels), "s", times, place)
            for at, time in enumerate(items(times)):
                run.sample(Key(metric, labels), "s", time, (*place, at))


def _steady(run: RunBuilder, result: Mapping[str, Any], labels: Labels, path: Path) -> None:
    """Add the summary of the steady state, whose percentiles may be pairs: `"percentiles_ttft_ms": [[99.0, 319.4]]`."""
    for name, value in result.items():
        place = (*path, name)
        _add_number(run, name, value, labels, place, before="steady_state.")
        listed = items(value) if name.startswith("percentiles_") else []
        pairs = [(at, pair) for at, pair in enumerate(listed) if isinstance(pair, list) and len(pair) == 2]
        for at, (share, time) in pairs:
            run.file.coverage.mark(run.json, (*place, at, 0))
            own = name.replace("percentiles", f"p{shown(share).removesuffix('.0')}", 1)
            _add_number(run, own, time, labels, (*place, at, 1), before="steady_state.")


def _add_number(run: RunBuilder, name: str, value: object, labels: Labels, path: Path, before: str = "") -> None:
    """Add one number of the summary by its printed name; it is None if `--goodput`, for example, was not given."""
    if value is not None and not isinstance(value, list | dict) and (field := field_of(_FIELDS, name)):
        run.value(Key(before + field.metric, labels), field.unit, value, path, per=field.per)
