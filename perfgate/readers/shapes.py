"""What the upper levels of each JSON format look like: why a document of this shape is one, or None."""

from __future__ import annotations

from perfgate.readers.sniffing import Shape


def none(shape: Shape) -> None:
    """For formats that are no JSON."""


def results(shape: Shape) -> str | None:
    """`{"schema": "perfgate.results/1", ...}`; a later version, too, so that it can be refused by name."""
    schema = shape.text("schema")
    return f"a JSON document of schema {schema}" if schema and schema.startswith("perfgate.results/") else None


def recording(shape: Shape) -> str | None:
    """`{"schema": "perfgate.recording/1", ...}`, and more documents on the lines after it."""
    schema = shape.text("schema")
    return f"a JSON document of schema {schema}" if schema and schema.startswith("perfgate.recording/") else None


#: What Kineto writes at the top of a trace, before or after the events, which may come last.
_KINETO = ("schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds", "trace_id")


def trace(shape: Shape) -> str | None:
    """`{"traceEvents": [...]}`, the header of one before its events, or a bare list of events with a `ph`."""
    if shape.tokens.get(("traceEvents",)) == "[":
        return "a JSON document with 'traceEvents'"
    if shape.tokens.get(("*", "ph"), "").startswith('"') and (
        ("*", "ts") in shape.tokens or ("*", "name") in shape.tokens
    ):
        return "a JSON list of events with 'ph'"
    found = [name for name in _KINETO if (name,) in shape.tokens]
    return f"a JSON document with {found[0]!r} and {found[1]!r}" if len(found) > 1 else None


def timing(shape: Shape) -> str | None:
    """An object with `times`, or objects with `times` under names or in a list."""
    found = any(path[-1:] == ("times",) and len(path) <= 2 and token == "[" for path, token in shape.tokens.items())
    return "a JSON document with 'times'" if found else None


def pytest_benchmark(shape: Shape) -> str | None:
    """`{"machine_info": {...}, "benchmarks": [{"fullname": ..., "stats": {...}}]}`, in any order."""
    named = ("machine_info",) in shape.tokens or ("benchmarks", "*", "fullname") in shape.tokens
    found = named and shape.tokens.get(("benchmarks", "*", "stats")) == "{"
    return "a JSON document with the 'stats' of pytest-benchmark" if found else None


def pyperf(shape: Shape) -> str | None:
    """`{"benchmarks": [{"runs": [...]}], "version": "1.0"}`."""
    found = shape.tokens.get(("benchmarks", "*", "runs")) == "["
    return "a JSON document with the 'runs' of pyperf" if found else None


def google_benchmark(shape: Shape) -> str | None:
    """`{"context": {...}, "benchmarks": [{"real_time": ...}]}`; before 1.5 a row that failed has no time."""
    rows = any(("benchmarks", "*", name) in shape.tokens for name in ("real_time", "run_type", "error_occurred"))
    found = rows and shape.tokens.get(("context",)) == "{"
    return "a JSON document with the 'context' of Google Benchmark" if found else None


def hyperfine(shape: Shape) -> str | None:
    """`{"results": [{"command": ..., "mean": ...}]}`."""
    times = any(("results", "*", name) in shape.tokens for name in ("mean", "times"))
    found = times and shape.text("results", "*", "command") is not None
    return "a JSON document with the 'command' of hyperfine" if found else None


def asv(shape: Shape) -> str | None:
    """`{"commit_hash": ..., "params": {...}, "results": {...}}`; `result_columns` since version 2."""
    found = ("commit_hash",) in shape.tokens and shape.tokens.get(("results",)) == "{"
    return "a JSON document with the 'commit_hash' and 'results' of asv" if found else None


def nsys(shape: Shape) -> str | None:
    """A list of rows as `nsys stats --format json` writes them: objects with a total and a name."""
    keys = {path[1] for path in shape.tokens if len(path) == 2 and path[0] == "*"}
    total = next((key for key in sorted(keys) if key.startswith(("Total Time", "Total ("))), None)
    return f"a JSON list of rows with {total!r}" if total and keys & {"Name", "Operation", "Range"} else None


def golden(shape: Shape) -> str | None:
    """Megatron-LM: objects with `start_step`, `step_interval` and `values` under the names of metrics."""
    names = {path[0] for path in shape.tokens if path[1:] == ("step_interval",)}
    found = any((name, "start_step") in shape.tokens and (name, "values") in shape.tokens for name in names)
    return "a JSON document of Megatron-LM golden values" if found else None


def trainer(shape: Shape) -> str | None:
    """Hugging Face: a trainer state with its `log_history`, or the flat results with `*_runtime` and `*_per_second`."""
    if shape.tokens.get(("log_history",)) == "[" and ("global_step",) in shape.tokens:
        return "a JSON document with 'log_history'"
    names = [path[0] for path in shape.tokens if len(path) == 1]
    flat = any(name.endswith("_runtime") for name in names) and any(name.endswith("_per_second") for name in names)
    return "a JSON document with '*_runtime' and '*_per_second'" if flat else None


#: What each benchmark of vLLM always writes.
_VLLM = (
    ("completed", "duration", "request_throughput"),
    ("avg_latency", "latencies"),
    ("elapsed_time", "requests_per_second", "tokens_per_second"),
)


def vllm(shape: Shape) -> str | None:
    """Results of `vllm bench`, one or a list of them, or records of one metric each for PyTorch's dashboard."""
    for names in _VLLM:
        if any(all((*top, name) in shape.tokens for name in names) for top in ((), ("*",))):
            return f"a JSON document with {names[-1]!r}"
    if ("*", "metric", "benchmark_values") in shape.tokens and ("*", "benchmark") in shape.tokens:
        return "a JSON document with 'benchmark_values'"
    return None


def nccl_tests(shape: Shape) -> str | None:
    """`results` of sizes, measured out of place and in place."""
    rows = {path[2] for path in shape.tokens if path[:2] == ("results", "*") and len(path) == 3}
    found = "size" in rows and not rows.isdisjoint({"out_of_place", "in_place"})
    return "a JSON document of nccl-tests results" if found else None
