"""The first inputs of the fuzzer: a document or two of every format that is read without a problem, and rule files."""

from __future__ import annotations

from seeds_tools import TOOLS

RULE = "-" * 90
OPERATORS = "-------  ------------  ------------  ------------  ------------  ------------  ------------  "

#: Histories of other tools.
HISTORIES = (
    "time,commit,metric,value,unit\n2026-01-01T00:00:00Z,4f2a9c1,forward,1.5,ms\n1767225600,abc,rate,2,it/s\n",
    'window.BENCHMARK_DATA = {"entries": {"Rust": [{"commit": {"id": "4f2a9c1"}, "date": 1767225600000,\n'
    '"tool": "customBiggerIsBetter", "benches": [{"name": "a", "value": 1.5, "unit": "ns/iter"}]}]}}',
    '{"results": [{"branch": {"name": "main"}, "testbed": {"name": "t"}, "benchmark": {"name": "b"}, "measure":\n'
    '{"slug": "latency", "units": "nanoseconds (ns)"}, "metrics": [{"start_time": "2026-01-01T00:00:00Z",\n'
    '"version": {"hash": "4f2a9c1"}, "metric": {"value": 88.0}}]}]}',
    '{"b": {"latency": {"value": 88.0, "lower_value": 87.4}}}',
    '{"version": 2, "commit_hash": "4f2a9c1", "date": 1767225600000, "env_name": "py", "params": {"machine": "m"},\n'
    '"result_columns": ["result"], "results": {"time_a": [[0.5]], "track_b": null}}',
    '{"machine_info": {}, "commit_info": {"id": "4f2a9c1"}, "datetime": "2026-01-01T00:00:00", "benchmarks":\n'
    '[{"fullname": "test_a", "stats": {"min": 1, "max": 2, "mean": 1.5, "rounds": 5}}]}',
    '{"iteration-time": {"start_step": 1, "step_interval": 5, "values": {"1": 1.5, "6": 1.25}}}',
)
#: By the name of the format.
FORMATS: dict[str, tuple[str | bytes, ...]] = {
    "perfgate": (
        '{"schema": "perfgate.results/1", "environment": {"gpu": "H200", "world_size": 8}, "commit": "4f2a9c1",\n'
        ' "series": [{"metric": "forward", "labels": {"rank": "0"}, "unit": "ms", "values": [1.5, 2], "steps": [8, 9]},'
        '            {"metric": "load", "unit": "s", "aggregate": {"mean": 0.2, "count": 40, "total": 8.0}},\n'
        '            {"metric": "memory.peak", "unit": "GiB", "value": 22.9}]}',
        '{"schema": "perfgate.results/1", "runs": [{"series": [{"metric": "a", "unit": "1/s", "value": 1}]},\n'
        '{"series": [{"metric": "a", "unit": "1/s", "value": 2}]}]}',
    ),
    "timeit": (
        '{"small": {"computation": "forward", "times": [0.5, 0.25], "profile_steps": 2}, "big": {"times": [1, 2e-3]}}',
        "Running profile for: small\nProfilingResult(computation='forward', times=[0.5, 0.25], profile_steps=2)\n"
        'result: {"name": "x",\n "times": [0.5,\n 0.75]}\n',
    ),
    "deepspeed": (
        "[INFO] DeepSpeed info: version=0.9.2, git-hash=x\n"
        "[Rank 0] time (ms) | forward: 359.87 | backward: 1026.01 | step: 161.82\n"
        "[Rank 1] time (ms) | forward: 1.00 (gate: 0.50, moe: 0.25) | backward: nan | step: 3.00\n"
        "[Rank 0] step=10, skipped=0, lr=[0.1], mom=[0.9]\n"
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=1.5, CurrSamplesPerSec=2.5, MemAllocated=3.5GB\n"
        "Global Steps: 101 Data (t): 0.001 Batch (t): 1.856, 1057.47/s\nworld_size: 2\n",
        "[Rank 0] rank=0 time (ms) | fwd_microstep: 1.00 | bwd_microstep: 2.00\n"
        "steps: 12 loss: 2.1234 iter time (s): 0.512 samples/sec: 125.0\nTraceback (most recent call last):\n",
    ),
    "megatron": (
        " iteration        1/     100 | consumed samples: 8 | elapsed time per iteration (ms): 30.5 | loss: 1E+1 |\n"
        "(min, max) time across ranks (ms):\n    forward-compute ................: (1.50, 2.50)\n"
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 |\n",
        '{"iteration-time": {"start_step": 0, "step_interval": 5, "values": {"1": 1.5, "6": "nan"}}}',
    ),
    "hf-trainer": (
        "{'loss': 1.5, 'grad_norm': 2.0, 'epoch': 0.5}\n{'train_runtime': 12.5, 'train_samples_per_second': 3.0,\n"
        " 'epoch': 1.0}\n",
        '{"global_step": 2, "log_history": [{"step": 1, "loss": 1.5}, {"step": 2, "train_runtime": 3.5}]}',
    ),
    "mlperf": (
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "INTERVAL_START", "key": "run_start", "value": null, '
        '"metadata": {}}\n:::MLLOG {"namespace": "", "time_ms": 5, "event_type": "POINT_IN_TIME", "key": '
        '"tracked_stats", "value": {"throughput": 7.5}, "metadata": {"step": 3}}\n:::MLLOG {"namespace": "", '
        '"time_ms": 9, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {}}\n',
    ),
    "vllm": (
        '{"duration": 51.2, "completed": 2, "request_throughput": 1.95, "mean_ttft_ms": 90.1,\n'
        ' "ttfts": [0.09, 0.08], "itls": [[0.02, 0.03], [0.02]], "errors": ["", ""]}',
    ),
    "nccl-tests": (
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n"
        "#       size       count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw\n"
        "           8           2   float     sum      -1    12.50    0.10    0.15      0    11.50    0.10    0.15\n"
        "# Avg bus bandwidth    : 0.15\n",
    ),
    "lightning": (
        f"FIT Profiler Report\n\n{RULE}\n|  Action  |  Mean duration (s)  |  Num calls  |  Total time (s)  |  "
        f"Percentage %  |\n{RULE}\n|  run_training_batch  |  0.5  |  2  |  1.0  |  1.0  |\n{RULE}\n",
        "FIT Profiler Report\n\nProfile stats for: a\n         5 function calls in 0.001 seconds\n\n"
        "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"
        "        1    0.001    0.001    0.001    0.001 f.py:1(g)\n\n",
    ),
    "torch-table": (
        f"{OPERATORS}\n   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
        f"{OPERATORS}\n   a::b          1.0%       1.500us          1.0%       2.500us       1.000us             1  \n"
        f"{OPERATORS}\nSelf CPU time total: 1.500us\n",
    ),
    "torch-benchmark": (
        "<torch.utils.benchmark.utils.common.Measurement object at 0x7f1929a38ed0>\nx * y\n  Median: 2.34 us\n"
        "  IQR:    0.07 us (2.31 to 2.38)\n  424 measurements, 1000 runs per measurement, 1 thread\n"
        "[------ softmax ------]\n             |  B=8  |  B=64\n1 threads: -----------\n      dense  |  1.5  |  2.5\n\n"
        "Times are in microseconds (us).\n",
    ),
    "pytest-benchmark": (
        '{"machine_info": {}, "commit_info": {"id": "abcdef1"}, "benchmarks": [{"fullname": "t.py::a", '
        '"stats": {"data": [1.5, 2.5], "rounds": 2, "mean": 2.0}}]}',
    ),
    "pyperf": (
        '{"version": "1.0", "metadata": {"name": "b", "unit": "second"}, "benchmarks": [{"runs": '
        '[{"values": [1.5, 2.5]}, {"values": [3.5]}]}]}',
    ),
    "google-benchmark": (
        '{"context": {"num_cpus": 2}, "benchmarks": [{"name": "b", "run_type": "iteration", "iterations": 5, '
        '"real_time": 1.5, "cpu_time": 2.5, "time_unit": "ns"}]}',
    ),
    "hyperfine": ('{"results": [{"command": "c", "mean": 1.5, "times": [1.0, 2.0], "exit_codes": [0, 0]}]}',),
    "asv": (
        '{"commit_hash": "abcdef1", "params": {"machine": "m"}, "version": 2, "result_columns": ["result", "params"], '
        '"results": {"b": [[1.5, null], [["1", "2"]]]}}',
    ),
    "nsys": (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "90.0,100,2,50.0,50.0,1,99,5.0,k\n10.0,10,2,5.0,5.0,1,9,0.5,\"f<int, 2>\"\n",
        '[{"Time (%)": 1.0, "Total Time (ns)": 5, "Instances": 1, "Name": "k"}]',
    ),
    "recording": (
        '{"schema":"perfgate.recording/1","environment":{"gpu":"H200"}}\n'
        '{"metric":"forward","unit":"s","values":[0.5,0.25],"steps":[1,2]}\n',
    ),
    "ncu": (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","1","p","h","k","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","S","Duration","nsecond","1,234.5"\n',
    ),
    **TOOLS,
}  # fmt: skip

RULES: tuple[str, ...] = (
    "version: 1\nsuite: small\nrules:\n  - backward_allreduce p95 under 50 ms\n  - forward* within 5% of baseline\n",
    "version: 1\ndefaults: {warmup: auto, confidence: 95%, min_runs: 1}\nmetrics:\n  share: a / (b + c)\nrules:\n"
    "  - id: tail\n    assert: p99(step.time) / p50(step.time) under 3\n    severity: warning\n"
    '    when: {gpu: "*H100*", world_size: ">= 8"}\n'
    "  - forward median on the slowest rank at most 1.1x the median rank\n"
    '  - \'"odd name"{rank="0"} p99.9 within 10% and 2 ms of anchor\'\n',
)

#: What the mutator puts in: words of the formats, and numbers at the edges of what computers can hold.
TOKENS: tuple[bytes, ...] = tuple(
    word.encode()
    for word in (
        *"{}[]()\"'|:,.*?-+#%&!<>=\\/ \t\r\n",
        "\x00", "\x1b[0m", "\x1b]", "\ufeff", "\u2028", "\u202e", "é", "nan", "NaN", "inf", "-Infinity", "1e999", "-1",
        "0", "1e-320", "18446744073709551616", "9" * 400, "null", "true", "1_0", "0x1f", "::error::x", "##[error]x",
        "time (ms) |", "[Rank 9]", '"times": [', '"values": [', "times=[", "{{{{", "]]]]", "<<: *a", "&a", "*a", "!!x",
        "ms", "%", "within", "of baseline", "under", "- ",
    )
)  # fmt: skip
