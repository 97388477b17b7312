"""The upper levels of a JSON document, and which format they belong to.

Each rule returns why a document with this outline is of its format, or None. The registry names one rule a format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from perfgate.documents.json_tokens import walk

_DEPTH, _LONGEST = 3, 1 << 20
_EVENTS = ("traceEvents",)


class JsonOutline(Struct, frozen=True):
    """The upper levels of a JSON document, as far as its beginning shows them.

    `tokens` maps paths, at most three keys long and with `*` for indices, to the first token of the value there:
    `("schema",)` to `'"perfgate.results/1"'`, `("benchmarks", "*", "stats")` to `"{"`.
    """

    tokens: Mapping[tuple[str, ...], str]

    @classmethod
    def of(cls, text: str) -> JsonOutline:
        """Return the outline of a JSON document from its first 1 MiB.

        It ends at the events of a trace, which are long and make its format certain.
        """
        tokens: dict[tuple[str, ...], str] = {}
        for path, _, token in walk(text[:_LONGEST], _DEPTH):
            tokens.setdefault(tuple(key if isinstance(key, str) else "*" for key in path), token)
            if path == _EVENTS and token == "[":
                break
        return cls(tokens)

    def has(self, *path: str) -> bool:
        """Return whether there is a value at this path."""
        return path in self.tokens

    def text(self, *path: str) -> str | None:
        """Return the string at this path, without its quotes; None if there is none."""
        token = self.tokens.get(path, "")
        return token[1:-1] if token.startswith('"') else None

    def is_list(self, *path: str) -> bool:
        """Return whether the value at this path is a list."""
        return self.tokens.get(path) == "["


def _schema(outline: JsonOutline, prefix: str) -> str | None:
    schema = outline.text("schema")
    return f"a JSON document of schema {schema}" if schema and schema.startswith(prefix) else None


#: `{"schema": "perfgate.results/1", ...}`; also a later version, so that it can be refused by name.
results = partial(_schema, prefix="perfgate.results/")
#: `{"schema": "perfgate.recording/1", ...}`, and more documents on the lines after it.
recording = partial(_schema, prefix="perfgate.recording/")

#: Names of SuperBench: a benchmark and a metric, with the rank.
_SUPERBENCH = re.compile(r"[\w.-]{1,99}(?:/[^/\s]{1,200}){1,3}$")

#: What Kineto writes at the top of a trace, before or after the events, which may come last.
_KINETO = ("schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds", "trace_id")


def trace(outline: JsonOutline) -> str | None:
    """`{"traceEvents": [...]}`, the header of such a document before its events, or a bare list of events."""
    if outline.is_list("traceEvents"):
        return "a JSON document with 'traceEvents'"
    if outline.text("*", "ph") is not None and (outline.has("*", "ts") or outline.has("*", "name")):
        return "a JSON list of events with 'ph'"
    found = [name for name in _KINETO if outline.has(name)]
    return f"a JSON document with {found[0]!r} and {found[1]!r}" if len(found) > 1 else None


def timing(outline: JsonOutline) -> str | None:
    """An object with `times`, or objects with `times` under names or in a list."""
    found = any(path[-1:] == ("times",) and len(path) <= 2 and token == "[" for path, token in outline.tokens.items())
    return "a JSON document with 'times'" if found else None


def _has_values(what: str, values: Sequence[str], outline: JsonOutline) -> str | None:
    """Recognise documents with all of these values: `PATH`, or `PATH=TOKEN` (its first token); `|` is or."""
    for value in values:
        choices = (one.partition("=") for one in value.split("|"))
        found = ((outline.tokens.get(tuple(path.split("."))), wanted) for path, _, wanted in choices)
        if not any(token is not None and token.startswith(wanted) for token, wanted in found):
            return None
    return f"a JSON document {what}"


#: `{"machine_info": {...}, "benchmarks": [{"fullname": ..., "stats": {...}}]}`, in any order.
pytest_benchmark = partial(
    _has_values, "with the 'stats' of pytest-benchmark", ("machine_info|benchmarks.*.fullname", "benchmarks.*.stats={")
)
#: `{"benchmarks": [{"runs": [...]}], "version": "1.0"}`.
pyperf = partial(_has_values, "with the 'runs' of pyperf", ("benchmarks.*.runs=[",))
#: `{"context": {...}, "benchmarks": [{"real_time": ...}]}`; before 1.5 a row that failed has no time.
google_benchmark = partial(
    _has_values,
    "with the 'context' of Google Benchmark",
    ("context={", "benchmarks.*.real_time|benchmarks.*.run_type|benchmarks.*.error_occurred"),
)
#: `{"results": [{"command": ..., "mean": ...}]}`.
hyperfine = partial(
    _has_values, "with the 'command' of hyperfine", ('results.*.command="', "results.*.mean|results.*.times")
)
#: `{"commit_hash": ..., "params": {...}, "results": {...}}`; `result_columns` since version 2.
asv = partial(_has_values, "with the 'commit_hash' and 'results' of asv", ("commit_hash", "results={"))
#: `results` of nccl-tests: sizes, measured out of place and in place.
nccl_tests = partial(
    _has_values, "of nccl-tests results", ("results.*.size", "results.*.out_of_place|results.*.in_place")
)

#: One record of a log of Levanter, or the first of them.
levanter = partial(_has_values, "of Levanter's JSON tracker", ('tracker="json_logger"',))

#: `{"nvbandwidth": {"testcases": [...]}}`.
nvbandwidth = partial(_has_values, "of nvbandwidth", ("nvbandwidth.testcases|nvbandwidth.version|nvbandwidth.error",))
#: `{"meta": {"version": {"nvbench": ...}}, "benchmarks": [{"states": [...]}]}`.
nvbench = partial(_has_values, "with the 'states' of nvbench", ("meta.version.nvbench|devices", "benchmarks.*.states"))
#: `{"rocprofiler-sdk-tool": [...]}`.
rocprof = partial(_has_values, "with 'rocprofiler-sdk-tool'", ("rocprofiler-sdk-tool=[",))
#: One record of `perf stat -j`, or the first of them.
perf_stat = partial(_has_values, "with the 'counter-value' of perf stat", ("counter-value", "event"))

#: `[{"name": ..., "unit": ..., "value": ...}]`.
benchmark_action = partial(
    _has_values, "with the 'unit' and 'value' of github-action-benchmark", ("*.name", "*.unit", "*.value")
)
#: `{"name": ..., "environ": {...}, "metrics": {...}}`.
torchbench = partial(_has_values, "with the 'metrics' of TorchBench", ("environ.pytorch_git_version", "metrics={"))

#: Measures that Bencher knows.
_BENCHER_VALUES = ("value", "lower_value", "upper_value")
_BENCHER = ("latency", "throughput", "build-time", "file-size", "instructions", "estimated-cycles", "allocated")


def bencher(outline: JsonOutline) -> str | None:
    """Benchmarks with measures, each with a value: `latency`, `throughput`, ..., or bounds of the value."""
    measures = [path[:2] for path, token in outline.tokens.items() if len(path) == 3 and path[2] == "value"]
    known = any(measure in _BENCHER or outline.has(name, measure, "lower_value") for name, measure in measures)
    whole = all(token == "{" for path, token in outline.tokens.items() if len(path) < 3)
    only = all(path[2] in _BENCHER_VALUES for path in outline.tokens if len(path) == 3)  # a `unit` is of another tool
    found = known and whole and only and ("*",) not in outline.tokens
    return "a JSON document of Bencher's measures" if found else None


#: The metrics of vLLM's serving benchmark.
_VLLM_METRIC = re.compile(r"(?:mean|median|std|p[\d.]+)_(?:ttft|tpot|itl|e2el)_ms")


def pytorch_hud(outline: JsonOutline) -> str | None:
    """Records for PyTorch's dashboard, except those of vLLM."""
    for top in ((), ("*",)):
        name, metric = (outline.text(*top, part, "name") or "" for part in ("benchmark", "metric"))
        if outline.has(*top, "metric", "benchmark_values") and outline.has(*top, "benchmark"):
            is_vllm = name.lower().startswith("vllm") or _VLLM_METRIC.fullmatch(metric)
            return None if is_vllm else "a JSON document with 'benchmark_values'"
    return None


#: `{"benchmarks": [{"type_": "generative_benchmark", "metrics": {...}}]}`.
guidellm = partial(_has_values, "with the 'metrics' of guidellm", ("benchmarks.*.metrics={", "benchmarks.*.type_"))
#: Results of SGLang before its times had their unit in their names.
sglang = partial(
    _has_values, "with the 'median_ttft' of SGLang", ("median_ttft", "median_itl", "completed", "mean_e2e_latency")
)
#: The overview page of XProf.
xprof = partial(_has_values, "with the 'steptime_ms_average' of XProf", ("*.p.steptime_ms_average",))
#: Exported times: `[{"startEnqMs": ..., "latencyMs": ...}]`.
trtexec = partial(_has_values, "with the 'latencyMs' of trtexec", ("*.latencyMs", "*.computeMs"))
#: `{"engine": {...}, "world_info": {...}, "performance": {...}}`.
trtllm_bench = partial(
    _has_values, "with the 'performance' of trtllm-bench", ("engine={", "world_info={", "performance={")
)


def genai_perf(outline: JsonOutline) -> str | None:
    """Metrics with `unit` and `avg` beside an `input_config`, or the record of one request."""
    if outline.has("metadata", "request_start_ns") and outline.has("metrics"):
        return "a JSON document with 'request_start_ns'"
    metrics = any(outline.has(path[0], "avg") for path in outline.tokens if path[1:] == ("unit",))
    return "a JSON document with 'input_config'" if metrics and outline.has("input_config") else None


def superbench(outline: JsonOutline) -> str | None:
    """Results of one rank, or a summary: names with `/` and `return_code`."""
    if all(outline.has("*", name) for name in ("name", "return_code", "result", "reduce_op")):
        return "a JSON list with the 'reduce_op' of SuperBench"
    codes = (path[0] for path in outline.tokens if len(path) == 1 and "/return_code" in path[0])
    found = next(codes, None)
    if found is None and outline.text("node") is not None:
        names = (path[0] for path in outline.tokens if len(path) == 1 and _SUPERBENCH.match(path[0]))
        found = next(names, None)
    return f"a JSON document of SuperBench with {found!r}" if found else None


def nsys(outline: JsonOutline) -> str | None:
    """A list of rows as `nsys stats --format json` writes them: objects with a total and a name."""
    keys = {path[1] for path in outline.tokens if len(path) == 2 and path[0] == "*"}
    total = next((key for key in sorted(keys) if key.startswith(("Total Time", "Total ("))), None)
    return f"a JSON list of rows with {total!r}" if total and keys & {"Name", "Operation", "Range"} else None


def golden(outline: JsonOutline) -> str | None:
    """Megatron-LM: objects with `start_step`, `step_interval` and `values` under the names of metrics."""
    names = {path[0] for path in outline.tokens if path[1:] == ("step_interval",)}
    found = any(outline.has(name, "start_step") and outline.has(name, "values") for name in names)
    return "a JSON document of Megatron-LM golden values" if found else None


def trainer(outline: JsonOutline) -> str | None:
    """Hugging Face: a trainer state with its `log_history`, or the flat results with `*_runtime` and `*_per_second`."""
    if outline.is_list("log_history") and outline.has("global_step"):
        return "a JSON document with 'log_history'"
    names = [path[0] for path in outline.tokens if len(path) == 1]
    flat = any(name.endswith("_runtime") for name in names) and any(name.endswith("_per_second") for name in names)
    return "a JSON document with '*_runtime' and '*_per_second'" if flat else None


#: What each benchmark of vLLM always writes.
_VLLM = (
    ("completed", "duration", "request_throughput"),
    ("avg_latency", "latencies"),
    ("elapsed_time", "requests_per_second", "tokens_per_second"),
)


def vllm(outline: JsonOutline) -> str | None:
    """Results of `vllm bench`, one or a list of them, or records of one metric each for PyTorch's dashboard."""
    for names in _VLLM:
        if any(all(outline.has(*top, name) for name in names) for top in ((), ("*",))):
            return f"a JSON document with {names[-1]!r}"
    if outline.has("*", "metric", "benchmark_values") and outline.has("*", "benchmark"):
        return "a JSON document with 'benchmark_values'"
    return None
