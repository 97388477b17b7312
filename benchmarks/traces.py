"""Measure time and memory of reading a trace, as ratios to other readers of traces, in one run.

    python benchmarks/traces.py [--json FILE] [--megabytes 100] [--repeat 3] [--plugin PYTHON] [--orjson PYTHON]

There are two traces, of 100 MB and of three times that; what others need is measured on the larger. They are
generated: a training loop with forward, backward, optimizer and NCCL, in the layout that Kineto writes.
All times are CPU seconds of fresh processes that take turns on one core, because other work on the machine changes a
wall time more. So a trace is read by one process here. `--plugin` names the Python of an environment that holds
torch-tb-profiler 0.4.3; `--orjson` one that holds orjson. `--json` writes `perfgate.results/1`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

GOALS = {
    "inspect_time": "perfgate inspect --json of the larger trace",
    "plugin_to_inspect": "torch_tb_profiler against it; the goal is at least 25",
    "orjson_to_inspect": "a bare orjson.loads against it; the goal is over 1",
    "json_to_inspect": "a bare json.loads against it",
    "memory": "its peak resident memory with the smaller one; the goal is 0.35 of the file and 60 MiB",
    "memory_growth": "how much more of it the larger one needs; the goal is at most 70 MiB",
    "calls": "reading the smaller one with its call tree against without; the goal is at most 1.3",
    "calls_of_larger": "the same of the larger one",
    "memory_with_calls": "the peak resident memory of reading the smaller one with its call tree",
    "time_growth": "how many times the time per byte of the larger one; the goal is at most 1.3",
}

_HEAD = """
{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85045149696,
      "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132
    }
  ],
  "cuda_runtime_version": 12080,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8, "nccl_version": "2.25.1"},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1767189312000000000,
  "traceEvents": ["""

_OPS = ("aten::linear", "aten::addmm", "aten::mul", "aten::add_", "aten::layer_norm", "aten::_softmax", "aten::gelu")
_KERNELS = (
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::MulFunctor<float>>>",
    "void at::native::vectorized_layer_norm_kernel<float, float>(int, float, float const*, float const*, float*)",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
)


class Trace:
    """Events of a training loop on a clock that only goes forward.

    With `layers`, layer n calls in each step what it calls in the others and what layer n + `layers` calls: a program
    has some hundred places of calls. Without, calls are drawn, and there are thousands.
    """

    def __init__(self, seed: int = 7, layers: int | None = None) -> None:
        self._random = random.Random(seed)
        self._calls = [random.Random(layer).choices(_OPS, k=4) for layer in range(layers or 0)]
        self._clock = 4_458_676_416_788.066
        self._device_clock = self._clock
        self._id = 0

    def steps(self) -> Iterator[str]:
        """Events, a step of some thousand after the other, without end."""
        number = 0
        while True:
            begun = self._clock
            for layer in range(150):
                yield from self._operators(layer)
            yield from self._collective()
            number += 1
            yield self._host(
                "user_annotation", f"ProfilerStep#{number}", begun, self._clock - begun, '"External id": 1'
            )

    def _operators(self, layer: int) -> Iterator[str]:
        """Yield operators within each other, as torch calls them; the inmost one launches a kernel."""
        begun = [self._tick(3) for _ in range(4)]
        for query in ("cudaStreamIsCapturing", "cudaPeekAtLastError"):
            self._id += 1
            yield self._call(query)
        self._id += 1
        yield self._launch("cudaLaunchKernel")
        yield self._kernel(self._random.choice(_KERNELS), "")
        shape = f"[{self._random.randrange(1, 64)}, 4096, {128 * layer}]"
        names = self._calls[layer % len(self._calls)] if self._calls else self._random.choices(_OPS, k=4)
        for name, ts in zip(names, reversed(begun), strict=True):
            args = f'"External id": {self._id},"Input Dims": [{shape}, {shape}, []], "Input type": ["BFloat16", "", ""]'
            yield self._host("cpu_op", name, ts, self._tick(2) - ts, args)

    def _collective(self) -> Iterator[str]:
        self._id += 1
        yield self._launch("cudaLaunchKernelExC")
        yield self._kernel(
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            ', "Collective name": "allreduce", "In msg nelems": 2873320, "Out msg nelems": 2873320, "Group size": 8, '
            '"dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"',
        )

    def _tick(self, micros: float) -> float:
        self._clock += self._random.uniform(0.2, micros)
        return self._clock

    def _host(self, cat: str, name: str, ts: float, dur: float, args: str) -> str:
        return _event(cat, name, '"pid": 3812, "tid": 3812', ts, dur, args)

    def _call(self, name: str) -> str:
        ts = self._tick(4)
        args = f'"External id": {self._id},"cbid": 211, "correlation": {self._id}'
        return self._host("cuda_runtime", name, ts, self._tick(6) - ts, args)

    def _launch(self, name: str) -> str:
        event, ts = self._call(name), self._clock
        arrow = (
            f'\n  {{\n    "ph": "%s", "id": {self._id}, "pid": 3812, "tid": 3812, "ts": {ts:.3f},\n'
            '    "cat": "ac2g", "name": "ac2g"%s\n  }'
        )
        return ",".join((event, arrow % ("s", ""), arrow % ("f", ', "bp": "e"')))

    def _kernel(self, name: str, more: str) -> str:
        start = self._device_clock = max(self._clock, self._device_clock) + self._random.uniform(0.5, 2)
        self._device_clock += (dur := self._random.uniform(2, 12))
        args = (
            f'"External id": {self._id}, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": '
            f'{self._id},\n      "registers per thread": 40,\n      "shared memory": 400,\n      "blocks per SM": '
            f'{self._random.uniform(0.1, 8):.6f},\n      "warps per SM": 75.851852,\n      "grid": [512, 1, 1],\n      '
            f'"block": [512, 1, 1],\n      "est. achieved occupancy %": {self._random.randrange(101)}{more}'
        )
        return _event("kernel", name, '"pid": 0, "tid": 7', start, dur, args)


def _event(cat: str, name: str, place: str, ts: float, dur: float, args: str) -> str:
    return (
        f'\n  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", {place},\n    "ts": {ts:.3f}, '
        f'"dur": {dur:.3f},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def write_trace(path: Path, megabytes: float, seed: int = 7, layers: int | None = None) -> None:
    """A trace of about this size; another seed gives other times, and other calls without `layers`."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEAD)
        for event in Trace(seed, layers).steps():
            file.write(("," if size else "") + event)
            size += len(event) + 1
            if size > megabytes * 1e6 and "ProfilerStep" in event:
                break
        file.write('\n  ],\n  "traceName": "trace.json"\n}\n')


def seconds(command: list[str]) -> float:
    """The CPU time of a fresh process, which may keep what it compiles; one that fails stops the benchmark."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)[:200]} failed")
    return used.ru_utime + used.ru_stime


#: Runs a command, and prints its peak resident memory in KiB: in a process of its own, for the system counts children.
_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def peak(command: list[str]) -> float:
    """The peak resident memory of a fresh process, in bytes."""
    done = subprocess.run([sys.executable, "-c", _PEAK, *command], check=True, capture_output=True, text=True)
    return float(done.stdout) * 1024


#: What a user of the plugin waits for.
_PLUGIN = """
import sys, tempfile
from torch_tb_profiler.profiler.data import RunProfileData
with tempfile.TemporaryDirectory() as cache:
    RunProfileData.parse("worker0", 0, sys.argv[1], cache)
"""


def rivals(path: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    """The commands that perfgate is compared with."""
    found = {"json": [sys.executable, "-c", f"import json; json.load(open({str(path)!r}))"]}
    if options.orjson:
        found["orjson"] = [options.orjson, "-c", f"import orjson; orjson.loads(open({str(path)!r}, 'rb').read())"]
    if options.plugin:
        found["plugin"] = [options.plugin, "-c", _PLUGIN, str(path)]
    return found


def inspect(path: Path) -> list[str]:
    """The command that is measured."""
    return [sys.executable, "-m", "perfgate", "inspect", "--json", str(path)]


def read(path: Path, *, with_calls: bool) -> list[str]:
    """A program that reads a trace, with or without its call tree."""
    program = f"from perfgate.workspace.inputs import read_runs; read_runs([{str(path)!r}], with_calls={with_calls})"
    return [sys.executable, "-c", program]


def measure(folder: Path, options: argparse.Namespace) -> dict[str, tuple[float, str]]:
    """Every figure, with its unit."""
    small, large = folder / "small.json", folder / "large.json"
    write_trace(small, options.megabytes)
    write_trace(large, 3 * options.megabytes)
    commands = {"small": inspect(small), "inspect": inspect(large), **rivals(large, options)}
    for name, path in (("calls", small), ("calls_of_larger", large)):
        commands |= {name: read(path, with_calls=True), f"no_{name}": read(path, with_calls=False)}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.repeat):
        for name, command in commands.items():
            times[name].append(seconds(command))
    median = {name: statistics.median(found) for name, found in times.items()}
    memory = [peak(inspect(path)) for path in (small, large)]
    per_byte = [median[name] / path.stat().st_size for name, path in (("small", small), ("inspect", large))]
    return {
        "inspect_time": (median["inspect"], "s"),
        **{f"{name}_to_inspect": (median[name] / median["inspect"], "x") for name in rivals(large, options)},
        "memory": (memory[0], "B"),
        "memory_growth": (memory[1] - memory[0], "B"),
        **{name: (median[name] / median[f"no_{name}"], "x") for name in ("calls", "calls_of_larger")},
        "memory_with_calls": (peak(read(small, with_calls=True)), "B"),
        "time_growth": (per_byte[1] / per_byte[0], "x"),
    }


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write perfgate.results/1")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plugin", metavar="PYTHON", help="a Python with torch-tb-profiler 0.4.3")
    parser.add_argument("--orjson", metavar="PYTHON", help="a Python with orjson")
    options = parser.parse_args()
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options)
    for name, (value, unit) in figures.items():
        shown = {"s": f"{1000 * value:8.0f} ms ", "B": f"{value / 2**20:8.1f} MiB"}.get(unit, f"{value:8.2f} {unit}  ")
        print(f"{name:20s} {shown}  {GOALS[name]}")
    if options.json:
        series = [{"metric": name, "unit": unit, "value": value} for name, (value, unit) in figures.items()]
        Path(options.json).write_text(json.dumps({"schema": "perfgate.results/1", "series": series}, indent=2) + "\n")


if __name__ == "__main__":
    main()
