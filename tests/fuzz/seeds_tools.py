"""More documents that the fuzzer begins with: training programs, tools of the system, stores, trackers, servers."""

from __future__ import annotations

import json
import marshal
from pathlib import Path

READERS = Path(__file__).resolve().parents[1] / "readers"
TRACKERS = READERS / "fixtures" / "trackers"
RULE, LINE = "=" * 50, "=" * 48

TOOLS: dict[str, tuple[str | bytes, ...]] = {
    "nanogpt": ("step 0: train loss 4.2874, val loss 4.2823\niter 0: loss 4.2655, time 119.84ms, mfu 0.19%\n",),
    "torchtitan": (
        "CUDA capacity: NVIDIA H100 with 94.99GiB memory\n"
        "[rank0]:step: 10  loss:  2.33670  grad_norm:  0.4648  memory: 69.83GiB(88.19%)  tps: 42,332  tflops: 270.71  "
        "mfu: 27.37%\n",
    ),
    "nemo": (
        "Training epoch 0, iteration 45/99 | lr: 6.897e-06 | max_memory_reserved: 127785762816 | "
        "reduced_train_loss: 11.96 | train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03\n",
        "Epoch 0: :  4%|4  | 4/100 [00:21<08:36, reduced_train_loss=11.0, global_step=3, train_step_timing in s=5.2]\n",
    ),
    "maxtext": (
        "completed step: 5, seconds: 5.668, TFLOP/s/device: 134.909, Tokens/s/device: 8671.794, loss: 10.879\n"
        "Completed eval after train step 11, loss=2.500, perplexity=12.250, total_weights=9\n",
    ),
    "levanter": (
        '{"tracker": "json_logger", "event": "log", "step": 5, "metrics": {"throughput/duration": 0.5}}\n',
        "Progress on:train 25.0it/100it rate:4.0s/it remaining:05:00 elapsed:01:40 postfix:loss=9.54\n",
    ),
    "nvbandwidth": (
        "nvbandwidth Version: v0.8\nDevice 0: NVIDIA H100 (00000000:1b:00)\nRunning host_to_device_memcpy_ce.\n"
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0     55.50     55.25\n\n"
        "SUM host_to_device_memcpy_ce 110.75\n",
        '{"nvbandwidth": {"testcases": [{"name": "a", "status": "Passed", "bandwidth_matrix": [["1.5", "N/A"]],'
        ' "sum": 1.5, "bandwidth_description": "x (GB/s)"}]}}',
    ),
    "nvbench": (
        '{"devices": [{"id": 0, "name": "V100"}], "benchmarks": [{"name": "copy", "states": [{"device": 0,'
        ' "axis_values": '
        '[{"name": "T", "type": "string", "value": "I32"}], "summaries": [{"tag": "nv/cold/time/gpu/mean", "hint":'
        ' "duration", "data": [{"name": "value", "type": "float64", "value": "0.001"}]}], "is_skipped": false}]}]}',
    ),
    "rocprof": (
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"a, b",2,30,15,1,9,20,5\n',
        '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n"KERNEL_DISPATCH",1,"k",10,30\n',
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"start_timestamp": 1, "end_timestamp": 2,'
        ' "dispatch_info": {"kernel_id": 1}}]}}]}',
    ),
    "perf-stat": (
        " Performance counter stats for 'x':\n\n      1,542.98 msec task-clock    #    0.990 CPUs utilized\n"
        "      <not counted>      cycles\n         0.5483 +- 0.0017 seconds time elapsed  ( +-  0.3% )\n",
        "CPU0,1.5,542.98,msec,task-clock,542978000,100.00,0.990,CPUs utilized\n49,,page-faults,542,100.00,,\n",
        '{"interval" : 0.1, "counter-value" : "542.98", "unit" : "msec", "event" : "task-clock", "x" : 5}\n',
    ),
    "superbench": (
        '{"kernel-launch/event_time:0": 0.0059, "kernel-launch/return_code:0": 0, "node": "sb-01"}\n'
        '{"kernel-launch/event_time:0": 0.0060, "kernel-launch/return_code:0": 0, "node": "sb-02"}\n',
        '[{"name": "gpt2", "return_code": 0, "raw_data": {"step_time": [[1.5, 2]]}, "result": {"step_time": [1.75]},'
        ' "reduce_op": {}}]',
    ),
    "pstats": (
        "   23 function calls (20 primitive calls) in 0.618 seconds\n   ncalls  tottime  percall  cumtime  percall\n"
        "  29485/2    0.005    0.000    0.618    0.309 {built-in method builtins.next}\n",
        marshal.dumps({("a.py", 1, "f"): (1, 2, 0.5, 0.75, {("b.py", 2, "g"): (1, 1, 0.5, 0.5)})}),
    ),
    "tensorboard": ((TRACKERS / "events.out.tfevents").read_bytes(),),
    "wandb": ((TRACKERS / "history.wandb").read_bytes(),),
    "mlflow": ("1795337237512 2.5 0\n1795337238012 1.25 1\n",),
    "benchmark-action": ('[{"name": "latency", "unit": "ms", "value": 12.5, "range": "3%"}]',),
    "bencher": ('{"a": {"latency": {"value": 88.0, "lower_value": 87.4}}, "b": {"throughput": {"value": 5.5}}}',),
    "pytorch-hud": (
        '[{"benchmark": {"name": "b", "mode": "inference", "dtype": "int8wo"}, "model": {"name": "m"},'
        ' "metric": {"name": "latency", "unit": "ms", "benchmark_values": [12.5, 12.75]}}]',
    ),
    "torchbench": (
        "dev,name,batch_size,speedup,abs_latency,dynamo_peak_mem\ncuda,BERT,16,1.723,20.512,4.5\n",
        '{"name": "test_bench", "environ": {"pytorch_git_version": "0"}, "metrics": {"a_ms": 4.5}}',
    ),
    "tritonbench": ("x_val;a-latency;b-latency;b-speedup\n128;0.5;0.25;2\naverage;0.5;0.25;2\n",),
    "serve-log": (
        "Namespace(model='m', request_rate=inf)\n============ Serving Benchmark Result ============\n"
        f"Successful requests:                     200\nMean TTFT (ms):                          234.18\n{RULE}\n",
    ),
    "sglang": ('{"completed": 100, "mean_e2e_latency": 2500.5, "median_ttft": 85.5, "median_itl": 20.25}',),
    "guidellm": (
        '{"benchmarks": [{"type_": "x", "config": {"strategy": {"type_": "constant", "rate": 2}}, "metrics": {'
        '"request_latency": {"successful": {"mean": 1.5, "count": 3, "percentiles": {"p999": 2}}}}}]}',
    ),
    "genai-perf": (
        '{"request_latency": {"unit": "ms", "avg": 2.5, "p99": 4}, "input_config": {"loadgen": {"request_rate": 8}}}',
        '{"metadata": {"request_start_ns": 1}, "metrics": {"latency": {"value": 2.5, "unit": "ms"}}, "error": null}\n',
    ),
    "trtllm-bench": (
        "= PYTORCH BACKEND\nModel: m\n= PERFORMANCE OVERVIEW\nRequest Throughput (req/sec): 18.2\n[TTFT] P99 : 40.5\n",
        '{"engine": {"model": "m"}, "world_info": {"tp_size": 2}, "performance": {"total_latency_ms": 5500.5}}',
    ),
    "trtexec": (
        "[I] === Performance summary ===\n[I] Throughput: 507.399 qps\n[I] Latency: min = 1 ms, mean = 2 ms\n",
        '[{"startEnqMs": 0.5, "endEnqMs": 0.75, "computeMs": 2.0, "latencyMs": 2.375}]',
    ),
    "mlperf-inference": (
        f"{LINE}\nMLPerf Results Summary\n{LINE}\nScenario : Server\nResult is : VALID\nMean latency (ns)     : 4357\n"
        "99.00 percentile latency (ns)   : 136069\nScheduled samples per second : 83.90\n",
        ':::MLLOG {"key": "loadgen_version", "value": "6"}\n:::MLLOG {"key": "result_validity", "value": "VALID"}\n'
        ':::MLLOG {"key": "result_99.00_percentile_latency_ns", "value": 136069}\n',
    ),
    "xprof": (
        json.dumps(
            [
                {"p": {"mxu_utilization_percent": "41.5%"}},
                {
                    "cols": [{"id": "stepnum"}, {"id": "stepTimeMs"}],
                    "rows": [{"c": [{"v": "1"}, {"v": 12.25}]}],
                    "p": {"steptime_ms_average": "12.2"},
                },
            ]
        ),
    ),
}
for path in sorted((READERS / "written").glob("*/*")):
    if path.suffix != ".golden":
        TOOLS[path.parent.name] = (*TOOLS.get(path.parent.name, ()), path.read_bytes())
