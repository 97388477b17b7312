"""The format that an unknown file is most like: a guess from its keys or words, for the message about it."""

from __future__ import annotations

import re
from collections.abc import Collection

#: Keys of each JSON format. A file that has two of them, and more than of any other format, may be of that format.
_KEYS: dict[str, str] = {
    "pytest-benchmark": "machine_info commit_info benchmarks fullname fullfunc stats rounds iqr_outliers extra_info",
    "google-benchmark": "context benchmarks run_name run_type real_time cpu_time time_unit repetition_index",
    "pyperf": "benchmarks runs warmups values metadata",
    "hyperfine": "results command mean stddev user system exit_codes memory_usage_byte",
    "asv": "commit_hash env_name date python requirements result_columns env_vars durations",
    "torch-trace": "traceEvents schemaVersion deviceProperties distributedInfo displayTimeUnit ph",
    "hf-trainer": "log_history global_step best_metric epoch learning_rate train_runtime train_loss eval_loss",
    "vllm": "model_id request_rate max_concurrency completed request_throughput output_throughput mean_ttft_ms "
    "median_ttft_ms p99_ttft_ms mean_itl_ms mean_tpot_ms total_input_tokens num_prompts burstiness",
    "nccl-tests": "out_of_place in_place nccl_version average_bus_bandwidth out_of_bounds alg_bw bus_bw",
    "megatron": "start_step end_step step_interval",
    "perfgate": "series metric unit incomplete",
}
#: Words of text formats that also occur where the format itself does not.
_WORDS: dict[str, str] = {
    "deepspeed": r"\bSamplesPerSec\b|\bwall_clock|(?i:deepspeed)",
    "megatron": r"\belapsed time per iteration\b|\bconsumed samples\b|(?i:megatron)",
    "torch-table": r"\b(?:Self )?(?:CPU|CUDA) (?:time|total)\b",
    "lightning": r"\bProfiler Report\b|\bMean duration\b|\bNum calls\b",
    "nsys": r"\bTotal Time\b|\bNum Calls\b|(?i:nsight systems)",
    "ncu": r"==PROF==|\bKernel Name\b|\bMetric (?:Name|Value)\b|(?i:nsight compute)",
    "nccl-tests": r"\bbusbw\b|\balgbw\b|\bNCCL INFO\b",
    "mlperf": r"(?i:\bmllog\b|\bmlperf\b)",
    "hf-trainer": r"'(?:loss|grad_norm|learning_rate|eval_loss)':|\btrain_(?:runtime|samples_per_second)\b",
    "torch-benchmark": r"\bIQR:|\bMeasurement object\b",
}


def nearest_json(keys: Collection[str]) -> tuple[str, str] | None:
    """Return the format whose keys a JSON document has most of, and two of these keys in words; None without any."""
    found = {name: [key for key in own.split() if key in keys] for name, own in _KEYS.items()}
    name = max(found, key=lambda one: len(found[one]))
    several = found[name]
    alike = sum(len(other) == len(several) for other in found.values())
    return (name, f"{several[0]!r} and {several[1]!r}") if len(several) > 1 and alike == 1 else None


def nearest_text(text: str) -> tuple[str, str] | None:
    """Return the format whose words a text has most often, and the first of them with its line; None without any."""
    found = {name: [*re.finditer(pattern, text)] for name, pattern in _WORDS.items()}
    name = max(found, key=lambda one: len(found[one]))
    if not found[name]:
        return None
    first = found[name][0]
    return name, f"{first[0]!r} on line {text.count(chr(10), 0, first.start()) + 1}"
