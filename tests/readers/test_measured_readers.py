"""`benchmarks/readers.py` has a file for every reader of text, and its reader reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from reading import runs_of

from perfgate.readers.registry import FORMATS

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import readers as benchmark

#: Documents of some KB, one for a measurement, that are read as JSON documents of the others are.
SMALL = {
    *("guidellm", "genai-perf", "trtllm-bench", "llama-bench", "inferencex", "pytorch-hud", "mlperf-inference"),
    *("benchmark-action", "bencher", "nvbench", "xprof", "superbench", "recording"),
}
#: Binary files, and traces, which `benchmarks/traces.py` measures.
OTHERS = {"torch-trace", "torch-snapshot", "tensorboard", "xplane", "wandb", "mlflow"}


def test_every_reader_of_lines_is_measured() -> None:
    measured = {name.partition(",")[0] for name in benchmark.FILES}
    assert {known.name for known in FORMATS} == measured | SMALL | OTHERS


@pytest.mark.parametrize("name", benchmark.FILES)
def test_its_file_is_read_without_an_error(tmp_path: Path, name: str) -> None:
    benchmark.FILES[name](tmp_path / "file", 3000)
    runs = runs_of((tmp_path / "file").read_bytes())
    assert {run.format for run in runs} == {name.partition(",")[0]}
    assert [problem for run in runs for problem in run.problems if problem.severity == "error"] == []
    assert all(run.series for run in runs)
