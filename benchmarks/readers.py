"""Measure time and memory of each reader against a plain Python loop over the lines of the same file.

    python benchmarks/readers.py [--json FILE] [--megabytes 4] [--repeat 3] [FORMAT ...]

Every figure is of a fresh process; readers and loops alternate, so that a busy machine slows both. `NAME.time_ratio` is
the reader's CPU time over that of a loop that only takes the lines, without imports; `NAME.number_ratio` that over a
loop that finds every number with a regular expression and converts it; `NAME.memory_ratio` the peak memory of the whole
process over that of a process with the loop, imports included (Linux). `--json` writes `perfgate.results/1`.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

#: The peak memory of a process in KiB, without that of the one that started it, which `getrusage` counts as its own.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return status.read().partition("VmHWM:")[2].split()[0]
"""
READ = """
import sys, time
from perfgate.core.resource_limits import Limits
from perfgate.readers import Source, read
def chunks(file):
    while chunk := file.read(1 << 18):
        yield chunk
with open(sys.argv[1], "rb") as file:
    read(Source("warm-up", [open(sys.argv[2], "rb").read()]))
    began = time.process_time()
    runs = read(Source("file", chunks(file), Limits(series=10**6)))
    took = time.process_time() - began
wrong = [str(problem) for run in runs for problem in run.problems if problem.severity == "error"]
values = sum(len(series.values) or len(series.aggregate) for run in runs for series in run.series)
if wrong or not values:
    sys.exit(f"not read: {wrong[:3]}, {values} values")
print(took, peak(), values)
"""
LOOP = """
import sys, time
began = time.process_time()
letters = 0
with open(sys.argv[1], errors="replace") as file:
    for line in file:
        letters += len(line)
print(time.process_time() - began, peak(), letters)
"""
NUMBERS = """
import re, sys, time
began = time.process_time()
find, count = re.compile(r"[-+]?[0-9]+[.]?[0-9]*(?:[eE][-+]?[0-9]+)?").findall, 0
with open(sys.argv[1], errors="replace") as file:
    for line in file:
        count += len([float(one) for one in find(line)])
print(time.process_time() - began, peak(), count)
"""

Write = Callable[[Path, int], None]
_random = random.Random(7)


def number(mean: float) -> float:
    """A time, or the like, that differs from row to row."""
    return _random.gauss(mean, mean / 50)


def text(row: Callable[[int], str], head: str = "", foot: str = "") -> Write:
    """A file of rows, as large as asked for."""

    def write(path: Path, size: int) -> None:
        rows = [head]
        length, at = len(head), 0
        while length < size or at < 2:
            rows.append(row(at))
            length += len(rows[-1])
            at += 1
        path.write_text("".join(rows) + foot)

    return write


def document(item: Callable[[int], object], around: Callable[[list[object]], object]) -> Write:
    """Return a writer of JSON documents with as many items as fit, indented as tools do."""

    def write(path: Path, size: int) -> None:
        each = len(json.dumps(around([item(0)]), indent=1))
        path.write_text(json.dumps(around([item(at) for at in range(max(size // each, 2))]), indent=1) + "\n")

    return write


def timers(step: int) -> str:
    """The records of DeepSpeed's timers in one step."""
    stamp = "[2026-02-20 09:55:01,105] [INFO] [logging.py:107:log_dist] [Rank 0]"
    names = ("fwd", "bwd", "bwd_inner", "bwd_allreduce", "step")
    micro, whole = ("".join(f" | {name}{suffix}: {number(300):.2f}" for name in names) for suffix in ("_microstep", ""))
    return f"{stamp} time (ms){micro}\n{stamp} time (ms){whole}\n"


def collectives(step: int) -> str:
    """A call of a collective, and the memory after a step."""
    call = f"comm op: all_reduce | time (ms): {number(9):.2f} | msg size: {step % 9}.0 MB | algbw (Gbps): 1204.52 | "
    memory = "MA 1.73 GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB \n"
    return f"[2026-02-20 09:55:01,105] [INFO] [Rank 0] {call}busbw (Gbps): 1129.23\nAfter the step\n{memory}"


def functions(at: int) -> str:
    """A section of AdvancedProfiler."""
    rows = "".join(
        f"     {row}    0.005    0.000    {number(2):.3f}    0.309 module.py:{row}(f)\n" for row in range(20)
    )
    head = "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"
    return f"Profile stats for: action{at}\n         99 function calls in {number(5):.3f} seconds\n\n{head}{rows}\n\n"


def operators(at: int) -> str:
    """A row of a torch table."""
    times = "".join(f"{value:>14}" for value in ("53.46%", f"{number(48):.3f}ms", "70.85%", f"{number(64):.3f}ms"))
    return f"{f'aten::op{at}': >55}{times}{f'{number(21):.3f}ms': >14}{3: >14}  \n"


def rule(columns: int) -> str:
    """A rule of a torch table."""
    return "  ".join(["-" * 55, *["-" * 12] * columns]) + "  \n"


def export(path: Path, size: int) -> None:
    """An SQLite export of Nsight Systems with kernels alone."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(at, f"kernel{at}") for at in range(50)])
        base.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, demangledName)")
        rows = ((1000 * at, 1000 * at + int(number(500)), 0, at % 50) for at in range(max(size // 24, 2)))
        base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", rows)
    base.close()


_OPERATORS = ("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")
_NSYS = '"Time (%)","Total Time (ns)","Instances","Avg (ns)","Med (ns)","Min (ns)","Max (ns)","StdDev (ns)","Name"\n'
_NCU = '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
_PLACE = "     time   algbw   busbw #wrong"
_NCCL = f"#       size         count      type   redop    root{_PLACE}{_PLACE}\n"
_SIMPLE = (
    "|  Action                                  \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|\n"
)

#: One kind of file each; the name before a comma is the format's.
FILES: dict[str, Write] = {
    "deepspeed": text(timers),
    "deepspeed, collectives and memory": text(collectives),
    "lightning": text(
        lambda at: f"|  action{at: <34} \t|  {number(0.5):.5}\t|  4  \t|  {number(2):.5}\t|\n", _SIMPLE, "-" * 90 + "\n"
    ),
    "lightning, AdvancedProfiler": text(functions, "FIT Profiler Report\n"),
    "torch-table": text(
        operators, rule(6) + "  ".join(f"{name: >12}" for name in _OPERATORS).rjust(139) + "\n" + rule(6), rule(6)
    ),
    "megatron": text(
        lambda at: (
            f" iteration {at + 1:8d}/ 9000000 | consumed samples: {at * 8:12d} | elapsed time per iteration (ms): "
            f"{number(500):.1f} | learning rate: 1.0E-05 | lm loss: 2.1E+00 |\n    forward-backward ....: (1.0, 2.0)\n"
        )
    ),
    "nanogpt": text(lambda at: f"iter {at}: loss {number(3):.4f}, time {number(197):.2f}ms, mfu {number(20):.2f}%\n"),
    "torchtitan": text(
        lambda at: (
            f"[rank0]:[titan] 2025-01-02 03:04:{at % 60:02d},105 - root - INFO - step: {at + 1:2}  loss: "
            f"{number(7):7.4f}  memory: 37.09GiB(39.04%)  tps: {int(number(7000)):,}  tflops: {number(400):,.2f}\n"
        )
    ),
    "maxtext": text(
        lambda at: (
            f"completed step: {at}, seconds: {number(5.6):.3f}, TFLOP/s/device: {number(134):.3f}, Tokens/s/device: "
            f"{number(8671):.3f}, total_weights: 196608, loss: {number(10):.3f}\n"
        )
    ),
    "nemo": text(
        lambda at: (
            f"Training epoch 0, iteration {at}/9000000 | lr: 6.897e-06 | global_batch_size: 128 | global_step: {at} | "
            f"reduced_train_loss: {number(11):.4g} | train_step_timing in s: {number(6):.4g}\n"
        )
    ),
    "levanter": text(
        lambda at: (
            f'2026-04-02 INFO {{"tracker": "json_logger", "event": "log", "step": {at}, "metrics": '
            f'{{"throughput/duration": {number(0.5):.4f}, "throughput/mfu": {number(41):.3f}}}}}\n'
        )
    ),
    "go-test": text(
        lambda at: f"BenchmarkDecode{at % 50}-8 \t 2000 \t {number(57000):.0f} ns/op \t 320 B/op\n", "pkg: a\n"
    ),
    "hf-trainer": text(
        lambda at: f"{{'loss': {number(2):.4f}, 'learning_rate': 1e-05, 'epoch': {at / 100}}}\n",
        "{'eval_loss': 2.0, 'eval_runtime': 5.7, 'epoch': 0.0}\n",
    ),
    "hf-trainer, JSON": document(
        lambda at: {"loss": number(2), "epoch": at / 100, "step": at + 1},
        lambda items: {"global_step": len(items), "log_history": items},
    ),
    "mlperf": text(
        lambda at: (
            f':::MLLOG {{"namespace": "", "time_ms": {at * 1000}, "event_type": "POINT_IN_TIME", "key": '
            f'"tracked_stats", "value": {{"throughput": {number(900):.2f}}}, "metadata": {{"step": {at}}}}}\n'
        )
    ),
    "nccl-tests": text(
        lambda at: (
            f"{1024 << at % 24:12d} {at % 24:12d}     float     sum      -1 {number(78):8.2f}   13.42   12.61      0"
            f"    77.90   13.46   12.65      0\n"
        ),
        _NCCL,
    ),
    "nsys": text(lambda at: f'95.6,{number(2e6):.0f},8,250068.5,249601.0,227873,271585,21636.6,"kernel{at}"\n', _NSYS),
    "nsys, SQLite": export,
    "ncu": text(lambda at: f'"{at}","kernel{at % 50}","Speed","Duration","us","{number(60):.2f}"\n', _NCU),
    "nvidia-smi": text(
        lambda at: f"2026/08/01 10:{at // 60 % 60:02}:{at % 60:02}.123, 0, {number(612):.2f} W, {number(90):.0f} %\n",
        "timestamp, index, power.draw [W], utilization.gpu [%]\n",
    ),
    "perf-stat": text(
        lambda at: f"{at + 1}.000104,{number(800):.2f},msec,task-clock,800000000,100.00,0.8,CPUs utilized\n"
    ),
    "lightning-csv": text(
        lambda at: f"{at // 100},{number(0.1):.17f},{at},{number(12):.3f},{number(8000):.1f}\n",
        "epoch,train_loss,step,step_time_ms,tokens_per_second\n",
    ),
    "rocprof": text(
        lambda at: f'"KERNEL_DISPATCH",1,"kernel{at % 50}",{at * 1000},{at * 1000 + int(number(500))}\n',
        '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n',
    ),
    "tunable-op": text(
        lambda at: f"GemmTunableOp_BFloat16_NN,nn_{at}_1024_1024,Gemm_Rocblas_-621294427,{number(0.01):.7f}\n",
        "Validator,PT_VERSION,2.10.0\n",
    ),
    "nccom-test": text(
        lambda at: f"{1024 * (at + 1):12d} {256 * (at + 1):12d}   uint8   {number(768):8.2f}   40.69   40.69\n",
        "nccom-test -r 2 allr\n size(B)  count(elems)  type  time(us)  algbw(GB/s)  busbw(GB/s)\n",
        "Avg bus bandwidth:      40.6901GB/s\n",
    ),
    "torchbench": text(
        lambda at: f"cuda,model{at},16,{number(1.7):.3f},{number(20):.3f},4.5\n",
        "dev,name,batch_size,speedup,abs_latency,dynamo_peak_mem\n",
    ),
    "tritonbench": text(
        lambda at: f"{at};{number(0.5):.4f};{number(0.25):.4f};2\n", "x_val;a-latency;b-latency;b-speedup\n"
    ),
    "nvbandwidth": text(
        lambda at: (
            f"Running test{at}.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
            f" 0     {(first := number(55)):.2f}     {55 - first / 9:.2f}\n\nSUM test{at} {55 + 8 * first / 9:.2f}\n\n"
        ),
        "nvbandwidth Version: v0.8\nDevice 0: NVIDIA H100 (00000000:1b:00)\n\n",
    ),
    "perf-analyzer": text(
        lambda at: f"{at + 1},{number(1400):.2f},12,300,41,26,257,16,3,690,881,926,1031,{number(700):.0f}\n",
        "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
        "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency,"
        "Avg latency\n",
    ),
    "sglang": text(
        lambda at: (
            f'{{"request_rate": {at + 1}, "completed": 100, "mean_e2e_latency": {number(2500)}, "median_ttft": '
            f'{number(85)}, "median_itl": 20.25}}\n'
        )
    ),
    "serve-log": text(
        lambda at: (
            f"Namespace(model='m', request_rate={at + 1}.0)\n============ Serving Benchmark Result ============\n"
            f"Successful requests:                     200\nMean TTFT (ms):              {number(234):>10.2f}\n"
            f"{'=' * 50}\n"
        )
    ),
    "trtexec": text(
        lambda at: (
            f"[05/10/2021-12:24:30] [I] Average on 10 runs - GPU latency: {number(3)} ms - Host latency: 3.5 ms\n"
        ),
        "&&&& RUNNING TensorRT.trtexec # trtexec --onnx=m.onnx\n",
        "[05/10/2021-12:24:30] [I] === Performance summary ===\n"
        "[05/10/2021-12:24:30] [I] Latency: min = 1 ms, max = 3 ms, mean = 2 ms\n",
    ),
    "trtexec, times": document(
        lambda at: {"startEnqMs": number(0.5), "endEnqMs": 0.75, "computeMs": number(2), "latencyMs": number(2.4)},
        lambda items: items,
    ),
    "pstats": text(
        lambda at: f"{at + 1:>8}    0.005    0.000    {number(2):.3f}    0.309 module.py:{at}(f)\n",
        "         99 function calls in 5.000 seconds\n\n   Ordered by: internal time\n\n"
        "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n",
        "\n\n",
    ),
    "timeit": document(
        lambda at: {"computation": f"f{at}", "times": [number(0.5) for _ in range(20)]}, lambda items: items
    ),
    "torch-benchmark": text(
        lambda at: (
            f"<torch.utils.benchmark.utils.common.Measurement object at 0x7f>\ncase{at}\n  Median: "
            f"{number(5):.2f} us\n  IQR:    0.10 us (4.9 to 5.0)\n  1 measurement, 100 runs , 1 thread\n"
        )
    ),
    "pytest-benchmark": document(
        lambda at: {"name": f"t{at}", "fullname": f"t.py::t{at}", "stats": {"data": [number(1) for _ in range(20)]}},
        lambda items: {"machine_info": {}, "commit_info": {}, "benchmarks": items, "version": "5.1.0"},
    ),
    "pyperf": document(
        lambda at: {"metadata": {}, "values": [number(1) for _ in range(20)]},
        lambda items: {
            "version": "1.0",
            "metadata": {},
            "benchmarks": [{"metadata": {"name": "f"}, "runs": items[:99]}],
        },
    ),
    "google-benchmark": document(
        lambda at: {
            "name": f"f/{at}",
            "run_type": "iteration",
            "iterations": 9,
            "real_time": number(9),
            "cpu_time": 1.0,
            "time_unit": "ns",
        },
        lambda items: {"context": {"library_build_type": "release"}, "benchmarks": items},
    ),
    "hyperfine": document(
        lambda at: {"command": f"c{at}", "mean": 1.0, "times": [number(1) for _ in range(20)]},
        lambda items: {"results": items},
    ),
    "asv": document(
        lambda at: number(1),
        lambda items: {
            "commit_hash": "a",
            "version": 1,
            "params": {},
            "results": {f"f{at}": value for at, value in enumerate(items)},
        },
    ),
    "vllm": document(
        lambda at: number(0.05),
        lambda items: {
            "duration": 9.5,
            "completed": len(items),
            "request_throughput": 1.5,
            "mean_ttft_ms": 50.0,
            "ttfts": items,
        },
    ),
    "perfgate": document(
        lambda at: {"metric": f"m{at}", "unit": "s", "values": [number(1) for _ in range(20)]},
        lambda items: {"schema": "perfgate.results/1", "series": items},
    ),
}


def measured(program: str, *paths: Path) -> tuple[float, float]:
    """Seconds, and peak memory in KiB, of a fresh process; a reader that does not read stops the benchmark."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK + program, *map(str, paths)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{paths[0].name}: {done.stderr.strip()[-500:]}")
    seconds, memory, _ = done.stdout.split()
    return float(seconds), float(memory)


def compare(path: Path, small: Path, repeat: int) -> dict[str, float]:
    """The figures of one file."""
    found: list[list[tuple[float, float]]] = [[], [], []]
    for _ in range(repeat):
        for program, own in zip((READ, LOOP, NUMBERS), found, strict=True):
            own.append(measured(program, path, small))
    (seconds, memory), (plain, plain_memory), (numbers, _) = (
        (statistics.median(time for time, _ in own), statistics.median(size for _, size in own)) for own in found
    )
    return {
        "speed": path.stat().st_size / seconds,
        "time_ratio": seconds / plain,
        "number_ratio": seconds / numbers,
        "memory_ratio": memory / plain_memory,
    }


_UNITS = {"speed": "B/s", "time_ratio": "x", "number_ratio": "x", "memory_ratio": "x"}


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="only these (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write perfgate.results/1")
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    series = []
    print(f"{'file': <36}{'MB/s': >8}{'time, x loop': >14}{'x numbers': >11}{'memory, x loop': >16}")
    for name, write in FILES.items():
        if options.formats and name.partition(",")[0] not in options.formats:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, small = Path(folder, "file"), Path(folder, "small")
            write(path, int(options.megabytes * 1e6))
            write(small, 1000)
            figures = compare(path, small, options.repeat)
        speed, time, memory = figures["speed"] / 1e6, figures["time_ratio"], figures["memory_ratio"]
        print(f"{name: <36}{speed: >8.1f}{time: >14.1f}{figures['number_ratio']: >11.2f}{memory: >16.1f}")
        series += [
            {"metric": figure, "labels": {"file": name}, "unit": _UNITS[figure], "value": value}
            for figure, value in figures.items()
        ]
    if options.json:
        Path(options.json).write_text(json.dumps({"schema": "perfgate.results/1", "series": series}, indent=2) + "\n")


if __name__ == "__main__":
    main()
