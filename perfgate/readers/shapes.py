"""What the upper levels of each JSON format look like: why a document of this shape is one, or None."""

from __future__ import annotations

from perfgate.readers.sniffing import Shape


def none(shape: Shape) -> None:
    """For formats that are no JSON."""


def results(shape: Shape) -> str | None:
    """`{"schema": "perfgate.results/1", ...}`; a later version, too, so that it can be refused by name."""
    schema = shape.text("schema")
    return f"a JSON document of schema {schema}" if schema and schema.startswith("perfgate.results/") else None


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
