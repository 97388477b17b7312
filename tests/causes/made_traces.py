"""Small traces of a training job that is made up: what the host calls, what the devices run, and how ranks wait.

The host of each rank launches the operators of a step one after the other; the device runs their kernels in order. A
collective begins when all ranks have reached it. At the end of the step the host waits for the device. An operator
without a device works on the host itself. All times are microseconds, and vary by about one percent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

#: The time that the host needs to launch a kernel.
_LAUNCH = 8.0


class Op(Struct, frozen=True):
    """One operator of a step, in a range: where it works, how long, and with which kernel."""

    range: str
    name: str
    us: float
    #: `gpu`, `cpu`, `sync`, `loader`, `comm` (on the device, with all ranks) or `hidden` (the same, beside kernels).
    on: str = "gpu"
    #: The names of its kernels, with a plus between them.
    kernel: str = ""
    calls: int = 1
    #: Bytes that it allocates and keeps until the next step.
    bytes: int = 0


class Job(Struct, frozen=True):
    """A program, and how it is measured."""

    ops: tuple[Op, ...]
    steps: int = 6
    ranks: int = 1
    seed: int = 1
    noise: float = 0.01
    marks_steps: bool = True
    gpu: str = "NVIDIA H100"
    #: Ranks whose kernels need longer, and by how much: {1: 1.2}.
    slow: tuple[tuple[int, float], ...] = ()
    #: Categories of events that the profiler does not record.
    unrecorded: tuple[str, ...] = ()

    def but(self, **changes: Any) -> Job:
        """The same job with other settings."""
        return replace(self, **changes)

    def edited(self, which: str, **changes: Any) -> Job:
        """The same job with changes to the operators of a name."""
        return replace(self, ops=tuple(replace(op, **changes) if op.name == which else op for op in self.ops))

    def without(self, name: str) -> Job:
        """The same job without the operators of a name."""
        return replace(self, ops=tuple(op for op in self.ops if op.name != name))

    def after(self, name: str, *new: Op) -> Job:
        """The same job with more operators behind the one of a name."""
        at = next(at for at, op in enumerate(self.ops) if op.name == name) + 1
        return replace(self, ops=(*self.ops[:at], *new, *self.ops[at:]))


GPU_JOB = Job(
    (
        Op("load", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 400, "loader"),
        Op("forward", "aten::layer_norm", 300, kernel="layer_norm_kernel"),
        Op("forward", "aten::linear", 1800, kernel="sm90_gemm_tn", calls=2, bytes=64 << 20),
        Op("forward", "aten::softmax", 700, kernel="softmax_kernel"),
        Op("backward", "SoftmaxBackward0", 900, kernel="softmax_backward_kernel"),
        Op("backward", "aten::mm", 3500, kernel="sm90_gemm_nt", calls=2),
        Op("backward", "nccl:all_reduce", 2000, "comm", kernel="ncclDevKernel_AllReduce_Sum_bf16"),
        Op("optimizer", "aten::_foreach_add_", 600, kernel="multi_tensor_apply_kernel"),
    )
)
CPU_JOB = Job(
    (
        Op("load_batch", "aten::randn", 300, "cpu"),
        Op("forward", "aten::addmm", 3000, "cpu", calls=4),
        Op("forward", "aten::gelu", 900, "cpu"),
        Op("loss", "aten::mse_loss", 500, "cpu"),
        Op("backward", "AddmmBackward0", 6000, "cpu", calls=4),
        Op("backward", "GeluBackward0", 1400, "cpu"),
        Op("optimizer", "aten::addcdiv_", 800, "cpu", calls=8),
    )
)


def traces(job: Job) -> list[dict[str, Any]]:
    """The traces of all ranks of one run of a job."""
    return _Machine(job).run()


def write(job: Job, folder: Path, *, shuffle: int | None = None) -> Path:
    """Write the traces of one run into a folder, with the events in another order if wanted; return the folder."""
    folder.mkdir(parents=True)
    for rank, trace in enumerate(traces(job)):
        if shuffle is not None:
            random.Random(shuffle).shuffle(trace["traceEvents"])
        (folder / f"rank{rank}.json").write_text(json.dumps(trace), encoding="utf-8")
    return folder


class _Machine:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.random = random.Random(job.seed)
        self.events: list[list[dict[str, Any]]] = [[] for _ in range(job.ranks)]
        self.host = [1_000.0] * job.ranks
        self.device = [1_000.0] * job.ranks
        self.link = [1_000.0] * job.ranks
        self.launches = 0

    def run(self) -> list[dict[str, Any]]:
        for step in range(self.job.steps):
            begun = list(self.host)
            for name, ops in _by_range(self.job.ops):
                entered = list(self.host)
                for op in ops:
                    for _ in range(op.calls):
                        self._call(op)
                for rank, start in enumerate(entered):
                    self._add(rank, "user_annotation", name, start, self.host[rank])
            self._wait(range(self.job.ranks))
            for rank, start in enumerate(begun):
                if self.job.marks_steps:
                    self._add(rank, "user_annotation", f"ProfilerStep#{step}", start, self.host[rank])
                self.host[rank] += 1
        return [self._document(rank) for rank in range(self.job.ranks)]

    def _document(self, rank: int) -> dict[str, Any]:
        head = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.job.ranks}}
        has_gpu = any(op.on not in ("cpu", "loader") for op in self.job.ops)
        devices = [{"id": 0, "name": self.job.gpu}] if has_gpu else []
        return {**head, "deviceProperties": devices, "traceEvents": self.events[rank]}

    def _call(self, op: Op) -> None:
        ranks, job = range(self.job.ranks), self.job
        took = [op.us / op.calls * dict(job.slow).get(rank, 1.0) * self._vary() for rank in ranks]
        if op.on in ("cpu", "loader"):
            for rank in ranks:
                start = self.host[rank]
                self.host[rank] += took[rank] if op.on == "cpu" else op.us * self._vary()
                self._add(rank, "cpu_op" if op.on == "cpu" else "user_annotation", op.name, start, self.host[rank])
        elif op.on == "sync":
            self._wait(ranks, op.name)
        else:
            self._launch(op, took)

    def _launch(self, op: Op, took: Sequence[float]) -> None:
        ranks, job = range(self.job.ranks), self.job
        queue = self.link if op.on == "hidden" else self.device
        begins = [max(queue[rank], self.device[rank], self.host[rank] + _LAUNCH) for rank in ranks]
        together = op.on in ("comm", "hidden")
        ends = [begins[rank] + took[rank] for rank in ranks]
        if together:
            ends = [max(begins) + op.us / op.calls * self._vary()] * job.ranks
        for rank in ranks:
            start, begin = self.host[rank], begins[rank]
            if op.bytes:
                self._allocate(rank, start + 1, op.bytes)
            kernels = op.kernel.split("+")
            for kernel in kernels:
                self.launches += 1
                ids = {"correlation": self.launches}
                launch = self.host[rank]
                self._add(rank, "cuda_runtime", "cudaLaunchKernel", launch + 2, launch + _LAUNCH - 2, ids)
                self.host[rank] += _LAUNCH
                end = begin + (ends[rank] - begins[rank]) / len(kernels)
                self._add(rank, "kernel", kernel, begin, end, {**ids, "device": 0, "stream": 7}, "0")
                begin = end
            self._add(rank, "cpu_op", op.name, start, self.host[rank])
            queue[rank] = ends[rank]

    def _wait(self, ranks: Iterable[int], name: str = "cudaDeviceSynchronize") -> None:
        for rank in ranks:
            start = self.host[rank]
            self.host[rank] = max(start + 5, self.device[rank] + 5, self.link[rank] + 5)
            self._add(rank, "cuda_runtime", name, start, self.host[rank])

    def _allocate(self, rank: int, at: float, size: int) -> None:
        args = {"Bytes": size, "Addr": 4096, "Device Type": 1, "Device Id": 0, "Total Allocated": size}
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "tid": 1, "ts": at, "args": args}
        self.events[rank].append(event)

    def _add(self, rank: int, cat: str, name: str, start: float, end: float, args: Any = None, tid: str = "1") -> None:
        if cat in self.job.unrecorded:
            return
        start, end = round(start, 3), round(end, 3)
        event = {"ph": "X", "cat": cat, "name": name, "tid": tid, "ts": start, "dur": round(end - start, 3)}
        self.events[rank].append(event | ({"args": args} if args else {}))

    def _vary(self) -> float:
        return max(self.random.gauss(1, self.job.noise), 0.5)


def _by_range(ops: Sequence[Op]) -> Iterable[tuple[str, list[Op]]]:
    found: list[tuple[str, list[Op]]] = []
    for op in ops:
        if not found or found[-1][0] != op.range:
            found.append((op.range, []))
        found[-1][1].append(op)
    return found
