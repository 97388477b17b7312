"""The digits of an answer do not depend on the number of cores: nothing is computed by BLAS, which splits its sums."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PACKAGE = Path(__file__).resolve().parents[2] / "perfgate"
#: The names of numpy that call BLAS or LAPACK.
BLAS = {"dot", "vdot", "inner", "outer", "matmul", "tensordot", "einsum", "linalg", "correlate", "convolve"}


def test_no_code_calls_blas() -> None:
    found = []
    # The answer of a bisection is a posterior of measurements that nobody can make twice.
    for path in sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "bisect"):
        for node in ast.walk(ast.parse(path.read_text())):
            product = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
            called = isinstance(node, ast.Attribute) and node.attr in BLAS
            if product or called:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")  # type: ignore[attr-defined]
    assert found == []


def test_a_trace_reads_the_same_with_one_thread_and_with_two(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 400_000, "tid": 1}]
    for i in range(20_000):
        shape = {"blocks per SM": float(random.random()) / 3, "est. achieved occupancy %": 40, "device": 0}
        duration = float(random.integers(10_000, 30_000)) / 1000
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": i * 19.7, "dur": duration, "tid": 7, "args": shape}
        events.append(kernel)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    command = [sys.executable, "-m", "perfgate", "inspect", str(trace), "--json", "--values"]
    texts = [
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
        ).stdout
        for threads in (1, 2)
    ]
    assert texts[0] == texts[1]
    assert b"gpu.sm_efficiency" in texts[0]
