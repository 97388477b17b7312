"""Profiles that the fuzzer begins with: a trace of torch, snapshots of its allocator, profiles of JAX."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "readers"))
from xplane_files import HOST, LAUNCHES, STREAM, plane

FIXTURES = Path(__file__).resolve().parents[1] / "readers" / "fixtures"


def _event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _step(number: int, at: float) -> list[dict[str, Any]]:
    """An operator that launches a kernel, and a wait."""
    ran = {"correlation": number, "device": 0, "stream": 7, "grid": [2, 3, 4]}
    return [
        _event("user_annotation", f"ProfilerStep#{number}", at, 90),
        _event("python_function", "train.py(12): forward", at + 1, 60, **{"Python id": number}),
        _event("cpu_op", "aten::mm", at + 2, 20, **{"External id": number, "Input Dims": [[8, 4], [4, 2]]}),
        _event("cuda_runtime", "cudaLaunchKernel", at + 4, 3, correlation=number),
        _event("kernel", "void gemm<float>(float*)", at + 30, 40, 7, **ran),
        _event("cuda_runtime", "cudaStreamSynchronize", at + 30, 45, correlation=number + 100),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": at + 5, "s": "t",
         "args": {"Bytes": 1024, "Device Type": 1, "Device Id": 0, "Total Allocated": 4096, "Total Reserved": 8192}},
    ]  # fmt: skip


_TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
    "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
    "traceEvents": [*_step(3, 100), *_step(4, 200), *_step(5, 300)],
    "traceName": "trace.json",
}
_STREAMS = plane("/device:GPU:0", {"Stream #13(Compute)": STREAM}, "NVIDIA H100")

#: By the name of the format.
PROFILES: dict[str, tuple[bytes, ...]] = {
    "torch-trace": (json.dumps(_TRACE).encode(), json.dumps(_TRACE, indent=2).encode()),
    "torch-snapshot": tuple(path.read_bytes() for path in sorted(FIXTURES.glob("torch_snapshot*.pickle"))),
    "xplane": (HOST, plane("/host:CPU", {"python": LAUNCHES}) + _STREAMS),
}
