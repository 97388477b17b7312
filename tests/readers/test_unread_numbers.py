"""Whatever the reader: a file with one number more than it knows says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from perfgate.readers import FORMATS, Source, read

sys.path.append(str(Path(__file__).resolve().parents[1] / "fuzz"))
from seeds import FORMATS as SEEDS

NEW = "frobnication_time"
TRACE = """{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 9},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 2, "dur": 5, "tid": 1}]}"""
#: Binary formats and traces, whose tests are below; torch-snapshot, xplane and pstats add up whatever they have.
OTHERS = {"tensorboard", "wandb", "torch-trace", "torch-snapshot", "xplane", "pstats"}


def unread(data: str | bytes, format: str | None = None) -> list[str]:
    """The names of the numbers that are not read."""
    runs = read(Source("f", [data.encode() if isinstance(data, str) else data]), format)
    return [one.name for part in runs[0].coverage for one in part.unread]


def says(data: str | bytes, format: str) -> bool:
    """True if the new number is a metric, or is told of."""
    runs = read(Source("f", [data.encode() if isinstance(data, str) else data]), format)
    metrics = [series.key.metric for run in runs for series in run.series]
    problems = [problem.message for run in runs for problem in run.problems]
    unread = [one.name for run in runs for part in run.coverage for one in part.unread]
    return any(NEW in text for text in (*metrics, *problems, *unread))


def with_one_more(text: str) -> Iterator[str]:
    """A document with a new field in each of its objects in turn, or a text with a new line, field or column."""
    try:
        data = json.loads(text)
    except ValueError:
        lines = text.rstrip("\n").split("\n")
        if text.startswith('{"'):  # one document a line
            yield "\n".join([json.dumps(json.loads(lines[0]) | {NEW: 12.34567}), *lines[1:]])
            return
        yield "\n".join([*lines, f"{NEW}: 12.34567 ms", ""])
        yield "\n".join([lines[0], f"{NEW}: 12.34567 ms", *lines[1:], ""])
        return
    for one in objects(data):
        one[NEW] = 12.34567
        yield json.dumps(data)
        del one[NEW]


def objects(data: Any) -> Iterator[dict[str, Any]]:
    """The objects of a document that are not settings."""
    if isinstance(data, dict):
        yield data
    for one in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from objects(one)


@pytest.mark.parametrize("format", [one.name for one in FORMATS])
def test_a_reader_tells_of_one_number_more(format: str) -> None:
    assert format in SEEDS or format in OTHERS, "add a file of this format to tests/fuzz/seeds.py"
    for seed in SEEDS.get(format, ()) if format not in OTHERS else ():
        if isinstance(seed, bytes) and b"\0" in seed:
            continue
        text = seed if isinstance(seed, str) else seed.decode()
        told = [says(more, format) for more in with_one_more(text)]
        assert any(told) if text.startswith(("{", "[")) else all(told), text[:200]


def test_what_is_read_is_not_told_of() -> None:
    left = {format: names for format, seeds in SEEDS.items() if (names := [*chain(*(unread(one) for one in seeds))])}
    assert {name: sorted({*unread}) for name, unread in left.items()} == {
        "levanter": ["postfix:loss"],
        "tensorboard": ["weights"],
        "torchtitan": ["NVIDIA H100 with"],
        # Means of ten runs, in the log, and rows below a title that is damaged or there twice.
        "trtexec": ["GPU latency", "Host latency", "enqueue", "max", "mean", "median", "min", "throughput"],
    }


def test_events_of_a_trace_that_no_metric_has_are_told_of() -> None:
    more = ', {"ph": "X", "cat": "frobnication", "name": "a", "ts": 3, "dur": 4}]}'
    assert unread(TRACE, "torch-trace") == []
    assert unread(TRACE.removesuffix("]}") + more, "torch-trace") == ["events of frobnication"]


def test_a_large_text_is_examined_in_parts() -> None:
    lines = "".join(
        f"[Rank 0] time (ms) | fwd: {at}.25 | bwd: 2.5 | (x)\nloading took {at}.5 ms\n" for at in range(40_000)
    )
    (run,) = read(Source("f", [lines.encode()]))
    (coverage,) = run.coverage
    assert coverage.is_estimate
    assert [one.name for one in coverage.unread] == ["loading took"]
    assert 20_000 < coverage.unread[0].count < 60_000


def test_a_large_document_is_known_by_its_fields() -> None:
    rows = [{"step": at, "loss": at / 7, "epoch": at / 10} for at in range(30_000)]
    assert unread(json.dumps({"global_step": 1, "log_history": rows})) == []


SMI = "| N/A   44C    P0    46W / 300W |      0MiB / 32510MiB |      0%      Default |"
STEP = "step:1/2 train_time:76ms step_avg:75.74ms"

#: What real files have besides their measurements.
NSYS = (
    "[8/8] Executing 'cuda_api_sum' stats report\n\n Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name    \n"
    " --------  ---------------  ---------  --------  --------\n     80.8          444,988         10  44,498.8  x\n"
)
BESIDE = (
    ("nsys", NSYS),
    ("nanogpt", f"if loss > 2.5: print('time 5 ms')\nRunning Python 3.12.7\n{SMI}\n{STEP}\n"),
    ("mlperf", ':::SYSJSON {"disk":"2.5 TB NVMe SSD"}\n:::MLLOG {"key": "run_start", "time_ms": 5}\n'),
    ("go-test", "BenchmarkCRC/poly=IEEE/size=1.5/align=0-8  \t 1000 \t 1114 ns/op\nPASS\n"),
    ("perf-stat", " Performance counter stats for './a':\n\n 5 cycles\n  # 0.27  stalled cycles per insn\n"),
    ("llama-bench", "| model | size | test | t/s |\n| llama 7B Q4_0 | 3.56 GiB | pp512 | 758.22 ± 1.75 |\n"),
    ("asv", '{"commit_hash": "a", "version": 1, "results": {"t": {"result": [0.5], "stats": [{"mean": 0.7}]}}}'),
)


@pytest.mark.parametrize(("format", "text"), BESIDE)
def test_what_is_no_measurement_is_not_told_of(format: str, text: str) -> None:
    assert unread(text, format) == []
