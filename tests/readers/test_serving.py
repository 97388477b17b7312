"""Benchmarks of inference servers: written here as their sources do, and read back."""

import json
import random

import pytest
from damage import check_changes, check_pieces
from reading import errors, run_of, runs_of, said, values_of

from perfgate.readers.records import statistic_of

RANDOM = random.Random(11)


def aggregates(run):
    return {str(one.key): dict(one.aggregate) for one in run.series if one.kind == "aggregate"}


@pytest.mark.parametrize(
    ("printed", "name"),
    [("p50", "median"), ("P50.0", "median"), ("p50.5", "p50.5"), ("p05", "p5"), ("P99.90", "p99.9"), ("qps", None)],
)
def test_the_names_of_statistics(printed, name):
    assert statistic_of(printed) == name


# --- the console of vLLM and SGLang ---------------------------------------------------------------------------------


def row(name, text):
    return f"{name:<40} {text:<10}"


def block(*head, times=("TTFT", "TPOT", "ITL", "E2EL")):
    """`benchmark()` of both: numbers have two decimals."""
    lines, values = ["", f"{' Serving Benchmark Result ':=^50}", *(row(name, text) for name, text in head)], {}
    rates = {
        "Request throughput (req/s):": "request_throughput",
        "Output token throughput (tok/s):": "output_throughput",
        "Total token throughput (tok/s):": "total_token_throughput",
    }
    lines += [
        row("Successful requests:", "200"),
        row("Failed requests:", "3"),
        row("Benchmark duration (s):", "669.97"),
    ]
    for name, metric in rates.items():
        value = f"{RANDOM.uniform(0, 999):.2f}"
        lines.append(row(name, value))
        values[metric] = float(value)
    for time in times:
        lines.append(f"{time:-^50}")
        for statistic in ("Mean", "Median", "P99", "P99.9"):
            value = f"{RANDOM.uniform(0, 999):.2f}"
            lines.append(row(f"{statistic} {time} (ms):", value))
            values[f"{statistic.lower()}_{time.lower().replace(' ', '_')}"] = float(value) / 1000
    return [*lines, "=" * 50], values | {"completed": 200, "failed": 3, "duration": 669.97}


def labelled(values, labels):
    return {f"{name}{labels}": [value] for name, value in values.items()}


def test_a_block_of_vllm():
    lines, values = block(("Maximum request concurrency:", "24"), ("Request rate configured (RPS):", "0.30"))
    arguments = "Namespace(subparser='bench', model='org/m', dataset_name='random', random_input_len=4000, seed=0)"
    run = run_of("\n".join([arguments, *lines, "done", ""]))
    assert (run.format, said(run)) == ("serve-log", [])
    labels = '{concurrency="24", dataset="random", input_len="4000", model="org/m", request_rate="0.3"}'
    assert values_of(run) == labelled(values, labels)
    assert {series.kind for series in run.series} == {"value"}


def test_a_block_of_sglang():
    head = [("Backend:", "sglang"), ("Traffic request rate:", "inf"), ("Max request concurrency:", "not set")]
    lines, values = block(*head, times=("E2E Latency", "TTFT", "ITL"))
    values["total_throughput"] = values.pop("total_token_throughput")
    run = run_of("\n".join([*lines, ""]))
    assert said(run) == []
    assert values_of(run) == labelled(values, '{backend="sglang", request_rate="inf"}')


def test_blocks_of_a_sweep_are_one_run_and_equal_blocks_are_several():
    lines, expected = [], {}
    for rate in ("1.00", "4.00"):
        more, values = block(("Request rate configured (RPS):", rate))
        lines += more
        expected |= labelled(values, f'{{request_rate="{float(rate):g}"}}')
    sweep = "\n".join([*lines, ""])
    assert values_of(run_of(sweep)) == expected
    assert [values_of(run) for run in runs_of(sweep + sweep)] == [expected, expected]


def test_the_names_are_those_of_the_json():
    lines, values = block()
    written = {
        f"{name}_ms" if name.split("_")[-1] in ("ttft", "tpot", "itl", "e2el") else name: v
        for name, v in values.items()
    }
    document = run_of(json.dumps({name: v * 1000 if name.endswith("_ms") else v for name, v in written.items()}))
    assert document.format == "vllm"
    assert set(values_of(document)) == set(values_of(run_of("\n".join([*lines, ""]))))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (block()[0][:-1], "warning: a block of results has no end: rows may be missing"),
        ([f"{' Serving Benchmark Result ':=^50}", "=" * 50], "error: a block of results has no row"),
        ([*block()[0][:2], row("Successful requests:", "0"), "=" * 50], "error: no request was completed"),
        ([*block()[0][:2], row("Mean TTFT (ms):", "nan"), "=" * 50], "error: mean_ttft: nan is not a finite number"),
    ],
)
def test_blocks_that_lack_something(lines, problem):
    assert problem in said(run_of("\n".join([*lines, ""])))[0]


SGLANG = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": 4,
    "random_input_len": 512,
    "completed": 100,
    "mean_e2e_latency": 2500.5,
    "median_e2e_latency": 2400.5,
    "median_ttft": 85.5,
    "median_itl": 20.25,
    "output_token_throughput": 1200.5,
    "benchmark_duration": 51.25,
    "sharegpt_output_len": None,
}


def test_older_results_of_sglang():
    """Its times are in ms, and their names do not say so."""
    sweep = [SGLANG, {**SGLANG, "request_rate": 8}]
    run = run_of("\n".join(json.dumps(one) for one in sweep) + "\n")
    assert (run.format, said(run)) == ("sglang", [])
    values = {"mean_e2e_latency": 2.5005, "median_e2e_latency": 2.4005, "median_ttft": 0.0855, "median_itl": 0.02025}
    values |= {"output_throughput": 1200.5, "duration": 51.25, "completed": 100}
    expected = {}
    for rate in (4, 8):
        labels = f'{{backend="sglang", dataset="random", input_len="512", request_rate="{rate}"}}'
        expected |= labelled(values, labels)
    assert values_of(run) == expected
    assert "no request was completed" in errors(run_of(json.dumps({**SGLANG, "completed": 0})))[0]


# --- guidellm -------------------------------------------------------------------------------------------------------

PERCENTILES = {"p001": 1.0, "p01": 2.0, "p05": 3.0, "p10": 4.0, "p25": 5.0, "p50": 6.0, "p75": 7.0, "p90": 8.0}
PERCENTILES |= {"p95": 9.0, "p99": 10.0, "p999": 11.0}


def distribution(mean, count=100):
    found = {"mean": mean, "median": 6.0, "mode": 6.0, "variance": 4.0, "std_dev": 2.0, "min": 1.0, "max": 12.0}
    return found | {"count": count, "total_sum": mean * count, "percentiles": PERCENTILES, "pdf": None}


def guidellm(*strategies, successful=100):
    metrics = ("request_latency", "time_to_first_token_ms", "output_tokens_per_second", "output_token_count")
    benchmarks = [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": strategy, "backend": {"model": "org/m"}},
            "metrics": {
                "request_totals": {"successful": successful, "errored": 2, "incomplete": 0, "total": 102},
                **{name: {"successful": distribution(5.5), "errored": distribution(1.0)} for name in metrics},
            },
        }
        for strategy in strategies
    ]
    return {"metadata": {"version": 2, "guidellm_version": "0.7.3"}, "config": {}, "benchmarks": benchmarks}


def test_a_sweep_of_guidellm():
    run = run_of(json.dumps(guidellm({"type_": "constant", "rate": 2.0}, {"type_": "concurrent", "streams": 8})))
    assert (run.format, said(run)) == ("guidellm", [])
    for labels in (
        '{model="org/m", request_rate="2", strategy="constant"}',
        '{concurrency="8", model="org/m", strategy="concurrent"}',
    ):
        found = aggregates(run)
        assert found[f"request_latency{labels}"]["p99.9"] == 11.0
        assert found[f"time_to_first_token{labels}"] == {
            "mean": 5.5e-3,
            "median": 6e-3,
            "stddev": 2e-3,
            "min": 1e-3,
            "max": 12e-3,
            "count": 100,
            "total": 0.55,
            "p0.1": 1e-3,
            "p1": 2e-3,
            "p5": 3e-3,
            "p10": 4e-3,
            "p25": 5e-3,
            "p75": 7e-3,
            "p90": 8e-3,
            "p95": 9e-3,
            "p99": 10e-3,
            "p99.9": 11e-3,
        }
        assert values_of(run)[f"requests.errored{labels}"] == [2]
    units = {one.key.metric: one.unit for one in run.series}
    assert (units["output_tokens_per_second"], units["output_token_count"]) == ("1/s", "1")


def test_equal_strategies_of_guidellm_are_runs():
    runs = runs_of(json.dumps(guidellm({"type_": "constant", "rate": 2.0}, {"type_": "constant", "rate": 2.0})))
    assert [len(run.series) for run in runs] == [7, 7]


def test_a_benchmark_of_guidellm_without_success():
    run = run_of(json.dumps(guidellm({"type_": "throughput"}, successful=0)))
    assert "no request was successful with" in errors(run)[0]


# --- genai-perf and aiperf ------------------------------------------------------------------------------------------

STATISTICS = {"avg": 297.5, "p1": 250.0, "p50": 290.0, "p99": 400.0, "min": 249.0, "max": 410.0, "std": 20.5}
AIPERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 4.25},
    "request_latency": {"unit": "ms", **STATISTICS},
    "output_token_throughput_per_user": {"unit": "tokens/sec/user", **STATISTICS},
    "output_sequence_length": {"unit": "tokens", **STATISTICS},
    "min_request_timestamp": {"unit": "ns", "avg": 1.7e18},
    "telemetry_stats": {"gpu_power_usage": {"unit": "W", "gpu0": {"avg": 350.5}}},
    "input_config": {
        "endpoint": {"model_names": ["org/m"], "type": "chat"},
        "loadgen": {"concurrency": 8},
        "input": {"prompt": {"input_tokens": {"mean": 550}, "output_tokens": {"mean": 100}}},
    },
}
AIPERF_LABELS = 'concurrency="8", endpoint="chat", input_len="550", model="org/m", output_len="100"'
GENAI_CONFIG = {
    "model_names": ["org/m"],
    "endpoint": {"type": "kserve"},
    "perf_analyzer": {"stimulus": {"concurrency": 8}},
}


def test_results_of_aiperf():
    run = run_of(json.dumps(AIPERF, indent=2))
    labels = f"{{{AIPERF_LABELS}}}"
    power = '{concurrency="8", device="0", endpoint="chat", input_len="550", model="org/m", output_len="100"}'
    assert (run.format, said(run)) == ("genai-perf", [])
    assert values_of(run)[f"request_throughput{labels}"] == [4.25]
    assert values_of(run)[f"telemetry.gpu_power_usage{power}"] == [350.5]
    assert aggregates(run)[f"request_latency{labels}"] == {
        "mean": 0.2975,
        "p1": 0.25,
        "median": 0.29,
        "p99": 0.4,
        "min": 0.249,
        "max": 0.41,
        "stddev": pytest.approx(0.0205),
    }
    units = {one.key.metric: one.unit for one in run.series}
    assert units == {
        "request_throughput": "1/s",
        "request_latency": "s",
        "output_token_throughput_per_user": "1/s",
        "output_sequence_length": "1",
        "telemetry.gpu_power_usage": "W",
    }


def test_results_of_genai_perf():
    run = run_of(json.dumps({**AIPERF, "input_config": GENAI_CONFIG}))
    assert values_of(run)['request_throughput{concurrency="8", endpoint="kserve", model="org/m"}'] == [4.25]


def record(latency, error=None):
    metrics = {
        "request_latency": {"value": latency, "unit": "ms"},
        "inter_chunk_latency": {"value": [4.5, 5.5], "unit": "ms"},
    }
    metadata = {"session_num": 1, "request_start_ns": 1759813207532900363, "was_cancelled": False}
    return json.dumps({"metadata": metadata, "metrics": metrics, "error": error})


def test_records_of_aiperf():
    text = "\n".join([record(297.5), record(300.5), record(1.0, {"code": 499}), ""])
    run = run_of(text)
    assert run.format == "genai-perf"
    assert values_of(run) == {"request_latency": [0.2975, 0.3005], "inter_chunk_latency": [0.0045, 0.0055] * 2}
    assert said(run) == ["train.log:3: warning: 1 requests failed; left out"]
    assert said(run_of(text + record(5.0)[:-9]))[0] == "train.log:4: warning: the last record is cut off; left out"


# --- TensorRT -------------------------------------------------------------------------------------------------------


def trtexec(precision="FP16"):
    """`printEpilog`."""
    names = ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")
    metrics = ("latency", "enqueue_time", "h2d_latency", "gpu_compute_time", "d2h_latency")
    lines = [
        "&&&& RUNNING TensorRT.trtexec [TensorRT v110100] # trtexec --onnx=a.onnx --fp16",
        f"[07/07/2026-10:00:00] [I] Precision: {precision}",
        "[07/07/2026-10:00:00] [I] Selected Device: NVIDIA H100",
        "[07/07/2026-10:00:00] [I] === Performance summary ===",
        "[07/07/2026-10:00:00] [I] Throughput: 507.399 qps",
    ]
    values = {}
    labels = f'{{precision="{precision}"}}'
    for name, metric in zip(names, metrics, strict=True):
        numbers = [f"{RANDOM.uniform(0.01, 9):.6g}" for _ in range(7)]
        low, high, mean, median, *percentiles = numbers
        tail = "".join(f", percentile({p}%) = {one} ms" for p, one in zip((90, 95, 99), percentiles, strict=True))
        lines.append(
            f"[07/07/2026-10:00:00] [I] {name}: min = {low} ms, max = {high} ms, mean = {mean} ms, "
            f"median = {median} ms{tail}"
        )
        keys = ("min", "max", "mean", "median", "p90", "p95", "p99")
        values[f"{metric}{labels}"] = {key: float(one) / 1000 for key, one in zip(keys, numbers, strict=True)}
    lines += [
        "[07/07/2026-10:00:00] [I] Total Host Walltime: 3.005 s",
        "[07/07/2026-10:00:00] [I] Total GPU Compute Time: 2.9 s",
    ]
    return lines, values


def test_the_summary_of_trtexec():
    lines, values = trtexec()
    run = run_of("\n".join([*lines, ""]))
    assert (run.format, said(run), dict(run.environment)) == ("trtexec", [], {"gpu": "NVIDIA H100"})
    assert aggregates(run) == values
    assert values_of(run)['throughput{precision="FP16"}'] == [507.399]
    assert values_of(run)['host_walltime{precision="FP16"}'] == [3.005]


def test_summaries_of_trtexec_are_runs():
    (one, first), (two, second) = trtexec(), trtexec()
    assert [aggregates(run) for run in runs_of("\n".join([*one, *two, ""]))] == [first, second]


def test_exported_times_of_trtexec():
    rows = [
        {"startEnqMs": 0.5, "endEnqMs": 0.75, "h2dMs": 0.125, "computeMs": 2.0, "d2hMs": 0.25, "latencyMs": 2.375 + at}
        for at in range(3)
    ]
    run = run_of("[\n  " + "\n, ".join(json.dumps(one) for one in rows) + "\n]\n")
    assert (run.format, said(run)) == ("trtexec", [])
    assert values_of(run) == {
        "latency": [0.002375, 0.003375, 0.004375],
        "gpu_compute_time": [0.002] * 3,
        "h2d_latency": [0.000125] * 3,
        "d2h_latency": [0.00025] * 3,
        "enqueue_time": [0.00025] * 3,
    }


def test_a_row_of_trtexec_that_occurs_twice_replaces_nothing():
    run = run_of("\n".join([*trtexec()[0], "[07/07/2026-10:00:00] [I] Throughput: 2 qps", ""]))
    assert values_of(run)['throughput{precision="FP16"}'] == [507.399]
    assert "occurs twice; using the first" in errors(run)[0]


def test_a_summary_of_trtexec_without_rows():
    assert "a performance summary has no row" in errors(run_of("[I] === Performance summary ===\n[I] bye\n"))[0]


TRTLLM = {
    "engine": {
        "model": "org/m",
        "backend": "Pytorch",
        "dtype": "bfloat16",
        "kv_cache_dtype": None,
        "quantization": "FP8",
    },
    "machine": {"name": "NVIDIA H200", "memory.total": 139.8, "clocks.mem": 3.2},
    "world_info": {"tp_size": 2, "pp_size": 1, "max_batch_size": 64, "max_num_tokens": 2048},
    "request_info": {"num_requests": 100, "avg_input_length": 128.0, "avg_output_length": 256.0},
    "performance": {
        "total_latency_ms": 5500.5,
        "avg_request_latency_ms": 250.25,
        "request_throughput_req_s": 18.25,
        "system_output_throughput_tok_s": 4600.5,
        "system_total_throughput_tok_s": 6900.75,
        "output_throughput_per_user_tok_s": 100.5,
        "output_throughput_per_gpu_tok_s": 2300.25,
        "request_latency_percentiles_ms": {
            "p50": 240.0,
            "p99": 400.5,
            "minimum": 100.0,
            "maximum": 500.0,
            "average": 250.25,
        },
    },
    "streaming_metrics": {
        "token_output_speed_tok_s": 120.5,
        "avg_ttft_ms": 20.5,
        "ttft_percentiles": {"p50": 20.0, "p99": 40.5, "minimum": 10.0, "maximum": 50.0, "average": 20.5},
    },
}
TRTLLM_LABELS = (
    '{backend="Pytorch", batch_size="64", dtype="bfloat16", input_len="128.0000", model="org/m", quantization="FP8", '
    'tensor_parallel="2"}'
)
TRTLLM_VALUES = {
    "request_throughput": 18.25,
    "output_throughput": 4600.5,
    "total_token_throughput": 6900.75,
    "total_latency": 5.5005,
    "output_throughput_per_user": 100.5,
    "output_throughput_per_gpu": 2300.25,
    "output_speed_per_user": 120.5,
}
TRTLLM_AGGREGATES = {
    f"request_latency{TRTLLM_LABELS}": {"median": 0.24, "p99": 0.4005, "min": 0.1, "max": 0.5, "mean": 0.25025},
    f"ttft{TRTLLM_LABELS}": {"median": 0.02, "p99": 0.0405, "min": 0.01, "max": 0.05, "mean": 0.0205},
}


def report_of_trtllm():
    """`ReportUtility.report_statistics`."""
    rule, performance, streaming = "=" * 59, TRTLLM["performance"], TRTLLM["streaming_metrics"]
    lines = [
        rule,
        "= PYTORCH BACKEND",
        rule,
        "Model:\t\t\torg/m",
        "Model Path:\t\t/models/m",
        "TensorRT LLM Version:\t1.2",
    ]
    lines += [
        "Dtype:\t\t\tbfloat16",
        "KV Cache Dtype:\t\tNone",
        "Quantization:\t\tFP8",
        "",
        rule,
        "= MACHINE DETAILS ",
        rule,
    ]
    lines += ["NVIDIA H200, memory 139.80 GB, 3.20 GHz", "", rule, "= WORLD + RUNTIME INFORMATION ", rule]
    lines += ["TP Size:                2", "PP Size:                1", "Max Runtime Batch Size: 64", "", rule]
    lines += [
        "= REQUEST DETAILS ",
        rule,
        "Average Input Length (tokens):  128.0000",
        rule,
        "= PERFORMANCE OVERVIEW ",
        rule,
    ]
    lines += [f"Request Throughput (req/sec):                     {performance['request_throughput_req_s']:.4f}"]
    lines += [f"Total Output Throughput (tokens/sec):             {performance['system_output_throughput_tok_s']:.4f}"]
    lines += [f"Total Token Throughput (tokens/sec):              {performance['system_total_throughput_tok_s']:.4f}"]
    lines += [f"Total Latency (ms):                               {performance['total_latency_ms']:.4f}"]
    lines += [f"Average request latency (ms):                     {performance['avg_request_latency_ms']:.4f}"]
    lines += [
        f"Per User Output Throughput [w/ ctx] (tps/user):   {performance['output_throughput_per_user_tok_s']:.4f}"
    ]
    lines += [f"Per GPU Output Throughput (tps/gpu):              {performance['output_throughput_per_gpu_tok_s']:.4f}"]
    lines += [f"Per User Output Speed (tps/user):                 {streaming['token_output_speed_tok_s']:.4f}", ""]
    lines += [f"[TTFT] {key.upper():<7}: {value:.4f}" for key, value in streaming["ttft_percentiles"].items()]
    lines += [
        f"[Latency] {key.upper():<7}: {v:.4f}" for key, v in performance["request_latency_percentiles_ms"].items()
    ]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("row", ["Request Throughput (req/sec): 2.0", "[TTFT] P99 : 42.0"])
def test_a_row_of_trtllm_that_is_printed_again_replaces_nothing(row):
    first = (
        "= PYTORCH BACKEND\nModel: m\n= PERFORMANCE OVERVIEW\nRequest Throughput (req/sec): 18.2\n[TTFT] P99 : 40.5\n"
    )
    run = run_of(f"{first}{row}\n")
    assert values_of(run) == values_of(run_of(first))
    assert "occurs twice; using the first" in errors(run)[0]


@pytest.mark.parametrize("text", [json.dumps(TRTLLM), report_of_trtllm()], ids=["json", "printed"])
def test_trtllm_bench(text):
    run = run_of(text)
    assert (run.format, said(run), dict(run.environment)) == ("trtllm-bench", [], {"gpu": "NVIDIA H200"})
    assert {k: v for k, v in values_of(run).items() if v} == labelled(TRTLLM_VALUES, TRTLLM_LABELS)
    assert aggregates(run) == TRTLLM_AGGREGATES


OFFLINE = "vllm bench throughput --model m --input-len {}\nThroughput: 2.73 requests/s, 699.93 total tokens/s"


def test_vllm_bench_throughput():
    run = run_of(OFFLINE.format(64) + ", 349.97 output tokens/s\n" + OFFLINE.format(32) + "\n")
    assert (run.format, said(run)) == ("serve-log", [])
    assert {(series.key.metric, series.key.label("input_len"), *series.values) for series in run.series} == {
        ("requests_per_second", "64", 2.73),
        ("tokens_per_second", "64", 699.93),
        ("output_tokens_per_second", "64", 349.97),
        ("requests_per_second", "32", 2.73),
        ("tokens_per_second", "32", 699.93),
    }


def test_the_output_throughput_of_trtllm_bench_0_16():
    run = run_of(report_of_trtllm().replace("Total Output Throughput", "Token Throughput"))
    assert {"output_throughput", "total_token_throughput"} < {series.key.metric for series in run.series}


def test_reports_of_trtllm_bench_are_runs():
    assert [aggregates(run) for run in runs_of(report_of_trtllm() * 2)] == [TRTLLM_AGGREGATES] * 2


# --- MLPerf Inference -----------------------------------------------------------------------------------------------

SUMMARY = """\
================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 81.68
Completed tokens per second: 24593.77
Result is : VALID
  Performance constraints satisfied : Yes

================================================
Additional Stats
================================================
Scheduled samples per second : 83.90
Min latency (ns)                : 980187992
Max latency (ns)                : 165057127340
Mean latency (ns)               : 43579602295
50.00 percentile latency (ns)   : 38401775522
99.00 percentile latency (ns)   : 136069232834
99.90 percentile latency (ns)   : 159705402675

Completed tokens per second                 : 24593.77
Mean First Token latency (ns)               : 918456323
99.00 percentile first token latency (ns)   : 1914647645

Mean Time per Output Token (ns)               : 144594078
99.00 percentile time to output token (ns)   : 193380124

================================================
Test Parameters Used
================================================
samples_per_query : 1
target_latency (ns): 0
"""
LOADGEN_VALUES = {
    'completed_samples_per_second{scenario="Server"}': [81.68],
    'completed_tokens_per_second{scenario="Server"}': [24593.77],
    'scheduled_samples_per_second{scenario="Server"}': [83.9],
}
LOADGEN_AGGREGATES = {
    'latency{scenario="Server"}': {
        "min": 0.980187992,
        "max": 165.05712734,
        "mean": 43.579602295,
        "median": 38.401775522,
        "p99": 136.069232834,
        "p99.9": 159.705402675,
    },
    'first_token_latency{scenario="Server"}': {"mean": 0.918456323, "p99": 1.914647645},
    'time_per_output_token{scenario="Server"}': {"mean": 0.144594078, "p99": 0.193380124},
}


def detail(**changed):
    records = {
        "loadgen_version": "6.0 @ abc",
        "effective_scenario": "Server",
        "effective_test_mode": "PerformanceOnly",
        "result_validity": "VALID",
        "result_query_count": 73728,
        "result_scheduled_samples_per_sec": 83.9,
        "result_completed_samples_per_sec": 81.68,
        "result_min_latency_ns": 980187992,
        "result_max_latency_ns": 165057127340,
        "result_mean_latency_ns": 43579602295,
        "result_50.00_percentile_latency_ns": 38401775522,
        "result_99.00_percentile_latency_ns": 136069232834,
        "result_99.90_percentile_latency_ns": 159705402675,
        "result_first_token_mean_latency_ns": 918456323,
        "result_first_token_99.00_percentile_latency_ns": 1914647645,
        "result_token_throughput": 6.9e-09,
        "result_time_per_output_token_99.00_percentile_ns": 193380124,
        "result_time_to_output_token_mean": 144594078,
        "result_completed_tokens_per_second": 24593.77,
    } | changed
    rest = '"time_ms": 0.007090, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": {}}'
    return "".join(
        f':::MLLOG {{"key": "{key}", "value": {json.dumps(value)}, {rest}\n' for key, value in records.items()
    )


@pytest.mark.parametrize("text", [SUMMARY, detail()], ids=["summary", "detail"])
def test_logs_of_loadgen(text):
    run = run_of(text)
    assert (run.format, said(run)) == ("mlperf-inference", [])
    assert {key: value for key, value in values_of(run).items() if value} == LOADGEN_VALUES
    assert {key: pytest.approx(one) for key, one in aggregates(run).items()} == LOADGEN_AGGREGATES


@pytest.mark.parametrize("comma", [",", ", "])
def test_a_line_of_loadgen_that_is_too_long_is_left_out(comma):
    """The lists of all samples are as long as the test."""
    record = ':::MLLOG {"key": "%s", "value": %s, "time_ms": 1.5, "namespace": "mlperf::logging", "metadata": {}}\n'
    samples = f"[{comma.join(map(str, range(250_000)))}]"
    values = {
        "loadgen_version": '"6.0"',
        "logged": samples,
        "result_validity": '"VALID"',
        "result_mean_latency_ns": "1000",
    }
    run = run_of("".join(record % pair for pair in values.items()))
    assert aggregates(run) == {"latency": {"mean": pytest.approx(1e-6)}}
    (problem,) = said(run)
    assert problem.startswith("train.log:2: warning: a line is read in pieces because it is longer than the limit")


def test_tests_of_loadgen_are_runs():
    assert [run.part for run in runs_of(SUMMARY * 2)] == [1, 2]
    assert [run.part for run in runs_of(detail() * 2)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SUMMARY.replace(": VALID", ": INVALID"), "the result is INVALID"),
        (
            detail(result_validity="INVALID", result_invalid_reason="Min duration\nnot met"),
            "INVALID: Min duration not met",
        ),
        (SUMMARY.replace("Result is : VALID\n", ""), "the log has no result"),
        (SUMMARY.replace("PerformanceOnly", "AccuracyOnly"), "a run for accuracy, which measures no performance"),
        (SUMMARY.replace("43579602295", "nan"), 'latency{scenario="Server"}: mean: nan is not a finite number'),
        (detail() + ":::MLLOG {\n", "a record cannot be read"),
    ],
)
def test_logs_of_loadgen_without_a_result(text, problem):
    assert any(problem in line for line in errors(run_of(text)))


TEXTS = {
    "sglang": json.dumps(SGLANG),
    "serve-log": "\n".join([*block(("Backend:", "sglang"))[0], ""]),
    "guidellm": json.dumps(guidellm({"type_": "constant", "rate": 2.0})),
    "genai-perf": json.dumps(AIPERF),
    "trtexec": "\n".join([*trtexec()[0], ""]),
    "trtllm-bench": report_of_trtllm(),
    "mlperf-inference": SUMMARY,
}


@pytest.mark.parametrize("name", TEXTS)
def test_damaged_files(name):
    check_pieces(TEXTS[name], name)
    check_changes(TEXTS[name], name, times=40)


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_endless_digits_of_llama_bench_are_no_fault(digits):
    head = "build_commit,model_type,n_prompt,n_gen,avg_ts,stddev_ts\n"
    assert values_of(run_of(f"{head}abc,llama,512,0,1{'0' * digits},1.0\n", "llama-bench")) is not None
    assert values_of(run_of(f"{head}abc,llama,1{'0' * digits},0,12,1.0\n", "llama-bench")) is not None


def test_a_damaged_speed_of_llama_bench_is_an_error():
    text = "| model | backend | test | t/s |\n| --- | --- | --- | --- |\n| m | CUDA | tg128 | {} ± 8.0 |\nbuild: a\n"
    (problem,) = errors(run_of(text.format("2x.5"), "llama-bench"))
    assert '"2x.5" is not a number; left out' in problem
    assert not errors(run_of(text.format("2.5"), "llama-bench"))


@pytest.mark.parametrize(
    "text",
    [
        "Request concurrency: 4\n  Client:\n    Avg latency: 7 usec\n    p99 latency: 9x9 usec\n",
        "Concurrency,Inferences/Second,p50 latency,p99 latency\n4,14.5,,9x9\n",
    ],
    ids=["printed", "CSV"],
)
def test_a_damaged_latency_of_perf_analyzer_is_an_error(text):
    (problem,) = errors(run_of(text, "perf-analyzer"))
    assert "latency" in problem
    assert '"9x9" is not a number; left out' in problem


def test_loads_of_perf_analyzer_that_were_measured_twice_are_two_runs():
    text = "Request concurrency: 4\n  Client:\n    Throughput: {} infer/sec\n    p99 latency: {} usec\n"
    first, second = runs_of(text.format(100, 900) + text.format(50, 1800), "perf-analyzer")
    assert [values_of(run)['throughput{concurrency="4"}'] for run in (first, second)] == [[100], [50]]
    assert [aggregates(run)['latency{concurrency="4"}']["p99"] for run in (first, second)] == [0.0009, 0.0018]
    run = run_of(text.format(100, 900) + "    Throughput: 500 infer/sec\n    p99 latency: 9 usec\n", "perf-analyzer")
    assert values_of(run)['throughput{concurrency="4"}'] == [100]
    assert aggregates(run)['latency{concurrency="4"}']["p99"] == 0.0009
    assert ["occurs twice; using the first" in error for error in errors(run)] == [True, True]
