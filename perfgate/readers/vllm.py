"""Results of vLLM's benchmarks: `vllm bench serve` (once `benchmark_serving.py`), `latency` and `throughput`.

    {"duration": 51.2, "completed": 100, "request_throughput": 1.95, "mean_ttft_ms": 90.1, "p99_itl_ms": 40.2,
     "ttfts": [0.09, 0.08], "itls": [[0.02, 0.03], [0.02]], "errors": ["", ""], ...}

Source: vllm-project/vllm `vllm/benchmarks/serve.py`, `latency.py`, `throughput.py` and `lib/utils.py` (2024 to 2026);
SGLang's `bench_serving.py` writes the same names. The percentiles depend on `--metric-percentiles`.

| metric | unit | printed as |
|---|---|---|
| `mean_ttft`, `median_tpot`, `std_itl`, `p99_e2el`, ... | s | the same with `_ms`, in ms |
| `duration`, `avg_latency`, `elapsed_time` | s | the same, in s |
| `request_throughput`, `output_throughput`, `total_token_throughput`, `request_goodput`, ... | 1/s | the same |
| `completed`, `failed` | 1 | the same |
| samples: `ttft`, `itl`, `latency` | s | the lists `ttfts`, `itls` (one after another) and `latencies`, in s |

A request that failed has an error and a time to first token of 0: it is left out of `ttft` and `itl`, and counted in a
warning. A file has one run, or several: one on each line (`--append-result`), or in a list. A `.pytorch.json` file, a
list with one metric in each object, is one run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from perfgate.core import Key, Run
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.readers.builder import JsonSource, RunBuilder, finish_all
from perfgate.readers.text import InputFile
from perfgate.readers.values import mapping

NAME = "vllm"
TITLE = "vLLM benchmark results (JSON)"
METRICS = "`mean_ttft`, `p99_itl`, `request_throughput`, ...; each request's `ttft`, `itl`, `latency`"
CHECKED = "vLLM's sources of 2024 to 2026; generated files"

_IN_MS = re.compile(r"([\w.]+)_ms")
_RATE = re.compile(r"\w*(?:_throughput|_goodput|_per_second|_per_s)")
_SECONDS = ("duration", "avg_latency", "elapsed_time")
_COUNTS = ("completed", "failed")
#: Lists of seconds, and the metric of their members.
_LISTS = (("ttfts", "ttft"), ("itls", "itl"), ("latencies", "latency"))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a results file, one for each benchmark in it."""
    text = file.whole()
    documents = _documents("{}" if text is None else text, file.name)
    return finish_all([run for loaded, line in documents for run in _runs(file, loaded, line)])


def _documents(text: str, name: str) -> Iterator[tuple[JsonDocument, int]]:
    """Yield the JSON documents of a file and the line of each: one, or one on each line."""
    whole = load_json(text, name)
    if any("Extra data" in problem.message for problem in whole.problems):
        lines = [(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if lines[0][0].strip().endswith("}"):
            yield from ((load_json(line, name), number) for line, number in lines)
            return
    yield whole, 1


def _runs(file: InputFile, loaded: JsonDocument, line: int) -> Iterator[RunBuilder]:
    data, source = loaded.data, JsonSource(loaded, line)
    several: list[tuple[object, Path]] = [(data, ())]
    is_pytorch = isinstance(data, list) and data and isinstance(mapping(data[0]).get("metric"), dict)
    if isinstance(data, list) and not is_pytorch:
        several = [(member, (index,)) for index, member in enumerate(data) if isinstance(member, dict)]
    for member, path in several or [(None, ())]:
        run = RunBuilder(file, NAME, source)
        run.report_json_faults()
        if isinstance(member, list):
            _add_pytorch(run, member)
        elif isinstance(member, dict):
            _add(run, member, path)
        yield run


def _add_pytorch(run: RunBuilder, records: list[Any]) -> None:
    """`[{"benchmark": {...}, "metric": {"name": "mean_ttft_ms", "benchmark_values": [90.1], ...}}, ...]`."""
    for index, record in enumerate(records):
        metric = mapping(mapping(record).get("metric"))
        values = metric.get("benchmark_values")
        if isinstance(values, list) and len(values) == 1:
            _add_number(run, str(metric.get("name")), values[0], (index, "metric", "benchmark_values", 0))


def _add(run: RunBuilder, result: dict[str, Any], path: Path) -> None:
    for name, value in result.items():
        _add_number(run, name, value, (*path, name))
    if result.get("completed") == 0:
        run.say("error", "no request was completed")
    # A request failed if it has an error, or no token.
    errors, ttfts = result.get("errors"), result.get("ttfts")
    failed = {index for index, error in enumerate(errors if isinstance(errors, list) else ()) if error}
    failed |= {index for index, time in enumerate(ttfts if isinstance(ttfts, list) else ()) if time == 0}
    if failed:
        run.say("warning", f"{len(failed)} requests failed; left out of ttft and itl")
    for name, metric in _LISTS:
        members = result.get(name)
        for index, member in enumerate(members if isinstance(members, list) else ()):
            times = [((at,), time) for at, time in enumerate(member)] if isinstance(member, list) else [((), member)]
            for end, time in times if index not in failed or metric == "latency" else ():
                run.sample(Key(metric), "s", time, (*path, name, index, *end))


def _add_number(run: RunBuilder, name: str, value: object, path: Path) -> None:
    """Add one number of the summary by its printed name; it is None if `--goodput`, for example, was not given."""
    in_ms = _IN_MS.fullmatch(name)
    unit = "s" if in_ms or name in _SECONDS else "1/s" if _RATE.fullmatch(name) else "1" if name in _COUNTS else None
    if unit and value is not None and not isinstance(value, list | dict):
        run.value(Key(in_ms[1] if in_ms else name), unit, value, path, per=1000 if in_ms else 1)
