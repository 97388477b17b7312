"""SuperBench: `results-summary.jsonl` and `results-summary.json`, and the `results.json` of one rank.

    {"nccl-bw/allreduce_8589934592_busbw:0": 186.4, "kernel-launch/event_time:0": 0.0059, "node": "sb-01"}
    [{"name": "model-benchmarks/pytorch-gpt2", "run_count": 1, "return_code": 0, "raw_data": {...},
      "result": {"return_code": [0], "fp32_train_step_time": [83.8]}, "reduce_op": {...}}]

Source: microsoft/superbenchmark 0.12 `superbench/runner/runner.py`, `benchmarks/result.py`, and the tables of units in
`docs/user-tutorial/benchmarks`. The metric is the printed name, with the rank behind `:` and the node as labels.
The summary of one node, `results-summary.json`, has no node: give it to compare different nodes. A benchmark that ran
several times has the number of the run in its name.

`_UNITS` has the units. Each number is a single value: an average of the tool, if it made several. Steps of `raw_data`
are samples instead. A return code other than 0 is an error of its benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Path, Run, RunBuilder, load_json
from perfgate.readers.records import Target, field_of
from perfgate.readers.values import Field, items, mapping

NAME = "superbench"
METRICS = "the names as printed: `nccl-bw/allreduce_8589934592_busbw`, ..., with the labels `rank` and `node`"
CHECKED = "SuperBench 0.12's sources: generated files; the files of its own tests"
#: Names of SuperBench: a benchmark and a metric, with the rank.
_RESULT = re.compile(r"[\w.-]{1,99}(?:/[^/\s]{1,200}){1,3}$")


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: the `reduce_op` of one rank's results, or the names of a summary."""
    if all(outline.has("*", name) for name in ("name", "return_code", "result", "reduce_op")):
        return "a JSON list with the 'reduce_op' of SuperBench"
    codes = (path[0] for path in outline.tokens if len(path) == 1 and "/return_code" in path[0])
    found = next(codes, None)
    if found is None and outline.text("node") is not None:
        names = (path[0] for path in outline.tokens if len(path) == 1 and _RESULT.match(path[0]))
        found = next(names, None)
    return f"a JSON document of SuperBench with {found!r}" if found else None


FORMAT = Format(NAME, __name__, keys="reduce_op|.*/return_code.*|node", outline=_outline)
#: Names of numbers that are not read.
BESIDE = r".*return_code.*"
_RANK = re.compile(r"(.{1,400}):(\d{1,6})")
_CODE = re.compile(r"(.{1,400})/return_code")
#: By a pattern of metrics: the unit, and printed units in one unit. The first that matches counts.
_UNITS = {
    r"(?:nccl|rccl)-bw\b.*_time|(?:cublas|cudnn)-function/.*_time|ib-traffic.*_lat_.*": Field("", "s", 1e6),
    r"cpu-memory-bw-latency.*_lat": Field("", "s", 1e9),
    r"(?:cpu-hpl|cpu-stream|gpu-burn)\b.*time\w*": Field("", "s"),
    r"(?:cpu-stream.*_throughput|cpu-memory-bw-latency.*_bw)": Field("", "B/s", 1e-6),
    r"cpu-hpl\b.*throughput|gemm-flops\b.*": Field("", "FLOP/s", 1e-9),
    r"(?:cublaslt|hipblaslt)-gemm\b.*_flops|.*_tflops": Field("", "FLOP/s", 1e-12),
    r"gpcnet.*": Field("", "1"),
    r".*_mem_allocated": Field("", "B", 1e-9),
    r".*_(?:bw|busbw|algbw)|ib-(?:loopback|traffic)\b.*_bw_.*": Field("", "B/s", 1e-9),
    r".*(?:_|/)throughput(?:_\w+)?": Field("", "1/s"),
    r"(?:kernel-launch|sharding-matmul|pytorch-matmul|matmul|tensorrt-inference|ort-inference|tcp-connectivity)"
    r"\b.*time(?:_\w+)?|.*(?:step_time|steptime)(?:_\w+)?": Field("", "s", 1e3),
}


def _unit_of(name: str) -> tuple[str, float]:
    """Return the base unit of a metric, and how many printed units are one base unit."""
    return (field.unit, field.per) if (field := field_of(_UNITS, name)) else ("1", 1.0)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file: the results of all its nodes or benchmarks."""
    run = RunBuilder(file, NAME)
    sources: list[JsonSource] = []  # the documents without problems
    for line, text in _documents(file):
        loaded = load_json(text, file.name, file.limits, finite=False)
        source = JsonSource(loaded, line)
        if loaded.problems:  # its numbers are compared as those of a text
            file.coverage.lines.keep(text.encode(), (line,))
        for problem in loaded.problems:
            run.say(problem.severity, problem.message, source.moved(problem.at))
        if not loaded.problems:
            sources.append(source)
    for source in sources:
        run.json = source
        if isinstance(source.loaded.data, list):
            _rank(run, source.loaded.data)
        else:
            _summary(run, mapping(source.loaded.data))
        source.report_waiting()
    return (run.run(),)


def _documents(file: InputFile) -> Iterator[tuple[int, str]]:
    """Yield the documents of a file, each with its first line: one, or one on each line; the last may be cut off."""
    text = file.whole() or ""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if lines and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for _, line in lines[:-1]):
        yield from lines
    else:
        yield 1, text


def _summary(run: RunBuilder, data: Mapping[str, Any]) -> None:
    labels = {"node": str(data["node"])} if "node" in data else {}
    for name, value in data.items():
        if name != "node":
            found = _RANK.fullmatch(name)
            plain, more = (found[1], labels | {"rank": found[2]}) if found else (name, labels)
            _add(run, Key.of(plain, **more), value, (name,))


def _add(run: RunBuilder, key: Key, value: object, place: Path) -> None:
    """Add a number as a single value; a return code is an error, or nothing."""
    if code := _CODE.fullmatch(key.metric):
        if value != 0:
            run.say("error", f"{Key(code[1], key.labels)} failed with the return code {str(value)[:20]}", place)
    elif value is not None:
        unit, per = _unit_of(key.metric)
        run.value(run.unique(key, place), unit, value, place, per=per)


def _rank(run: RunBuilder, benchmarks: list[Any]) -> None:
    """Add the results of one rank."""
    for index, benchmark in enumerate(benchmarks):
        name = mapping(benchmark).get("name")
        if not isinstance(name, str):
            run.say("error", "a benchmark has no 'name'; left out", (index,))
            continue
        for metric in mapping(benchmark.get("result")):
            _add_runs(run, name, metric, benchmark, index)


def _add_runs(run: RunBuilder, name: str, metric: str, benchmark: Mapping[str, Any], index: int) -> None:
    """Add a metric of the benchmark with this index: the number of each run of it, or the steps of the run."""
    values = benchmark["result"][metric]
    run.file.coverage.mark(run.json, (index, "result", metric), values)  # also if its steps are read
    values = values if isinstance(values, list) else [values]
    # `raw_data` has a list for each run: the values of its steps, if the benchmark is one of models
    steps_of_runs = chain(items(mapping(benchmark.get("raw_data")).get(metric)), repeat(None))
    for number, (value, steps) in enumerate(zip(values, steps_of_runs, strict=False)):
        key = Key(f"{name}/{number}/{metric}" if len(values) > 1 else f"{name}/{metric}")
        if isinstance(steps, list) and len(steps) > 1:
            path = (index, "raw_data", metric, number)
            Target(run, run.unique(key, path), *_unit_of(key.metric)).samples(steps, path)
        else:
            _add(run, key, value, (index, "result", metric, number))
