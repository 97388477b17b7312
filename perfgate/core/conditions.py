"""The conditions of a measurement, such as its load. Only measurements under equal conditions are compared.

A reader puts the conditions of a record on its series, as labels. So a load sweep gives a series for each load, and a
baseline of another model or load is detected. `TABLE` has every field of a result file that is a condition; a rule
file can add fields with `conditions`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from perfgate.core.runs import MEMBER_LABELS, Key, fact_text

Labels = tuple[tuple[str, str], ...]
#: The longest text of a condition that is shown in a label.
_LONGEST = 200


class ConditionField(Struct, frozen=True):
    """One condition: the label that it gets, and the field of a record that has it."""

    label: str
    #: The names of the field in different versions of a tool; the first that has a value counts.
    names: tuple[str, ...]
    #: The file or page of the tool in which the field was read.
    source: str
    #: Values that mean the same as no value, such as the default of the tool.
    unset: tuple[str, ...] = ()
    #: Other fields of the record, each with the text that it must begin with; with an empty text it must have no value.
    needs: tuple[tuple[str, str], ...] = ()


_SERVE = "vllm/benchmarks/serve.py"
_ARGS = "vllm/benchmarks/lib/utils.py"
_SGLANG = "sglang/bench_serving.py"
#: For `needs`: the records of random prompts.
_RANDOM = (("dataset_name", "random"),)
#: With an infinite rate and no limit, all requests are sent at once, so their number is the load.
_AT_ONCE = (("request_rate", "inf"), ("max_concurrency", ""))
_GUIDELLM = "guidellm/scheduler/strategies.py; guidellm/benchmark/schemas"
_MLLOG = "mlcommons/logging mlperf_logging/mllog/constants.py"
_INFERENCEX = "SemiAnalysisAI/InferenceX utils/process_result.py"
_LLAMA = "ggml-org/llama.cpp tools/llama-bench/llama-bench.cpp"
_TRTLLM = "tensorrt_llm/bench/dataclasses/reporting.py"
#: Every condition, by tool. A name with a dot is a field in another: `server_info.tp_size`.
TABLE: Mapping[str, tuple[ConditionField, ...]] = {
    "vllm": (  # also for SGLang, and for InferenceX without `conc` or `precision`
        ConditionField("model", ("model_id", "model", "server_info.model_path"), f"{_SERVE}; {_SGLANG}"),
        ConditionField("backend", ("backend", "endpoint_type", "framework"), f"{_SERVE}; {_SGLANG}"),
        ConditionField("request_rate", ("request_rate",), f"{_SERVE}; {_SGLANG}"),
        ConditionField("concurrency", ("max_concurrency", "conc"), f"{_SERVE}; {_SGLANG}; {_INFERENCEX}"),
        ConditionField("burstiness", ("burstiness",), _SERVE, unset=("1",)),
        ConditionField("ramp_up", ("ramp_up_strategy",), _SERVE),
        ConditionField("ramp_up_start", ("ramp_up_start_rps",), _SERVE),
        ConditionField("ramp_up_end", ("ramp_up_end_rps",), _SERVE),
        ConditionField("num_prompts", ("num_prompts",), _SERVE, needs=_AT_ONCE),
        ConditionField("dataset", ("dataset_name",), f"{_SGLANG}; {_ARGS}"),
        ConditionField("input_len", ("input_len", "isl"), f"{_ARGS}; {_INFERENCEX}"),
        ConditionField("input_len", ("random_input_len",), f"{_SGLANG}; {_ARGS}", needs=_RANDOM),
        ConditionField(
            "output_len", ("output_len", "sharegpt_output_len", "fixed_output_len", "osl"), f"{_SGLANG}; {_ARGS}"
        ),
        ConditionField("output_len", ("random_output_len",), f"{_SGLANG}; {_ARGS}", needs=_RANDOM),
        ConditionField("range_ratio", ("random_range_ratio",), f"{_SGLANG}; {_ARGS}", needs=_RANDOM),
        ConditionField("batch_size", ("batch_size",), _ARGS),
        ConditionField("dtype", ("dtype", "server_info.dtype"), f"{_ARGS}; {_SGLANG}", unset=("auto",)),
        ConditionField("precision", ("precision",), _INFERENCEX),
        ConditionField("hardware", ("hw",), _INFERENCEX),
        ConditionField("expert_parallel", ("ep",), _INFERENCEX, unset=("1",)),
        ConditionField("dp_attention", ("dp_attention",), _INFERENCEX, unset=("false", "False")),
        ConditionField("quantization", ("quantization", "server_info.quantization"), f"{_ARGS}; {_SGLANG}"),
        ConditionField(
            "tensor_parallel",
            ("tensor_parallel_size", "tp", "server_info.tp_size"),
            f"{_ARGS}; `--metadata tp=N` of {_SERVE}; {_SGLANG}",
        ),
        ConditionField(
            "pipeline_parallel", ("pipeline_parallel_size", "pp", "server_info.pp_size"), _ARGS, unset=("1",)
        ),
    ),
    "guidellm": (
        ConditionField("model", ("model",), _GUIDELLM),
        ConditionField("strategy", ("strategy.type_",), _GUIDELLM),
        ConditionField("request_rate", ("strategy.rate",), _GUIDELLM),
        ConditionField("concurrency", ("strategy.streams", "strategy.max_concurrency"), _GUIDELLM),
    ),
    "genai-perf": tuple(
        ConditionField(name, (name,), "aiperf/common/config; genai_perf/config/input")
        for name in ("model", "endpoint", "concurrency", "request_rate", "input_len", "output_len")
    ),
    "trtllm-bench": (
        ConditionField("model", ("engine.model",), _TRTLLM),
        ConditionField("backend", ("engine.backend",), _TRTLLM),
        ConditionField("dtype", ("engine.dtype",), _TRTLLM),
        ConditionField("quantization", ("engine.quantization",), _TRTLLM),
        ConditionField("kv_cache_dtype", ("engine.kv_cache_dtype",), _TRTLLM),
        ConditionField("tensor_parallel", ("world_info.tp_size",), _TRTLLM),
        ConditionField("pipeline_parallel", ("world_info.pp_size",), _TRTLLM, unset=("1",)),
        ConditionField("batch_size", ("world_info.max_batch_size",), _TRTLLM),
        ConditionField("input_len", ("request_info.avg_input_length",), _TRTLLM),
    ),
    "trtexec": tuple(
        ConditionField(name, (name,), "NVIDIA/TensorRT samples/common/sampleOptions.cpp")
        for name in ("precision", "shapes", "batch_size", "streams")
    ),
    "mlperf-inference": tuple(
        ConditionField(name, (name,), "mlcommons/inference loadgen/results.cc") for name in ("scenario", "target_qps")
    ),
    "mlperf": (
        ConditionField("benchmark", ("submission_benchmark",), _MLLOG),
        ConditionField("division", ("submission_division",), _MLLOG),
        *(
            ConditionField(name, (name,), _MLLOG)
            for name in ("global_batch_size", "gradient_accumulation_steps", "max_sequence_length", "max_image_size")
        ),
        ConditionField("optimizer", ("opt_name",), _MLLOG),
    ),
    "llama-bench": (
        ConditionField("model", ("model_type",), _LLAMA),
        ConditionField("backend", ("backends",), _LLAMA),
        *(ConditionField(name, (name,), _LLAMA) for name in ("test", "n_gpu_layers", "n_threads")),
        *(
            ConditionField(name, (name,), _LLAMA, unset=(default,))
            for name, default in (
                *(("n_batch", "2048"), ("n_ubatch", "512"), ("type_k", "f16"), ("type_v", "f16"), ("flash_attn", "-1")),
                *(("split_mode", "layer"), ("devices", "auto"), ("tensor_split", "0.00"), ("n_cpu_moe", "0")),
                *(("tensor_buft_overrides", "none"), ("main_gpu", "0"), ("no_kv_offload", "0"), ("no_op_offload", "0")),
            )
        ),
        ConditionField("embeddings", ("embeddings",), _LLAMA),
    ),
    "inferencex": (
        *(
            ConditionField(label, (name,), _INFERENCEX)
            for label, name in (
                *(("hardware", "hw"), ("model", "model"), ("backend", "framework"), ("precision", "precision")),
                *(("input_len", "isl"), ("output_len", "osl"), ("concurrency", "conc"), ("tensor_parallel", "tp")),
            )
        ),
        ConditionField("pipeline_parallel", ("pp",), _INFERENCEX, unset=("1",)),
        ConditionField("expert_parallel", ("ep",), _INFERENCEX, unset=("1",)),
        *(
            ConditionField(name, (name,), _INFERENCEX, unset=("none", "false", "False", "1"))
            for name in ("spec_decoding", "dp_attention", "disagg", "dcp_size", "pcp_size", "kv_offloading")
        ),
        *(
            ConditionField(f"{stage}_{name}", (f"{stage}_{name}",), _INFERENCEX)
            for stage in ("prefill", "decode")
            for name in ("num_workers", "tp", "pp", "ep", "dp_attention", "hw")
        ),
    ),
    # The readers of these formats make the labels; their docstrings cite the sources.
    "pytorch-hud": tuple(
        ConditionField(name, (name,), "pytorch/ao benchmarks/_models/utils.py")
        for name in ("benchmark", "model", "backend", "mode", "dtype", "arch", "compile")
    ),
    "torchbench": (ConditionField("batch_size", ("batch_size",), "pytorch benchmarks/dynamo/common.py"),),
    "perf-analyzer": tuple(
        ConditionField(name, (name,), "triton-inference-server/perf_analyzer src/report_writer.cc")
        for name in ("concurrency", "request_rate")
    ),
    "tunable-op": (ConditionField("shape", ("shape",), "pytorch aten/src/ATen/cuda/tunable"),),
    "nccom-test": tuple(ConditionField(name, (name,), "NCCOM-TEST User Guide") for name in ("size", "type")),
    "go-test": (ConditionField("procs", ("procs",), "golang/go src/testing/benchmark.go"),),
    "nccl-tests": tuple(
        ConditionField(name, (name,), "NVIDIA/nccl-tests src/common.cu")
        for name in ("size", "place", "type", "redop", "root")
    ),
    "torch-benchmark": tuple(
        ConditionField(name, (name,), "pytorch torch/utils/benchmark/utils/common.py")
        for name in ("threads", "description", "env")
    ),
}
#: The labels that are conditions, whatever reader made them.
CONDITIONS = frozenset(field.label for fields in TABLE.values() for field in fields)


def conditions_of(record: Mapping[str, Any], tool: str, more: Collection[str] = ()) -> dict[str, str]:
    """Return the conditions of one record, by label.

    `record`: the fields of the record. `tool`: the key of its rows in `TABLE`. `more`: the names of more fields that
    are conditions, from a rule file.
    """
    found: dict[str, str] = {}
    for field in (*TABLE[tool], *(ConditionField(name, (name,), "the rule file") for name in sorted(more))):
        needed = [(_text(record, name), start) for name, start in field.needs]
        if not all(text.startswith(start) if start else not text for text, start in needed):
            continue
        texts = [_text(record, name) for name in field.names]
        text = next(filter(None, texts), "")
        if text and text not in field.unset:
            found.setdefault(field.label, text)
    return found


def _text(record: Mapping[str, Any], name: str) -> str:
    """Return the value of a field as text; empty if there is none, and for a list or an object."""
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if not isinstance(value, str | int | float):
        return ""
    return " ".join(fact_text(value).split())[:_LONGEST]


def conditions(key: Key, names: Collection[str] = CONDITIONS) -> dict[str, str]:
    """Return the labels of a series that are conditions."""
    return {name: value for name, value in key.labels if name in names}


def without_conditions(key: Key, names: Collection[str] = CONDITIONS) -> Key:
    """Return a key without its conditions, its rank and its device."""
    return Key(key.metric, tuple(pair for pair in key.labels if pair[0] not in (*names, *MEMBER_LABELS)))


def condition_differences(one: Key, other: Key, names: Collection[str] = CONDITIONS) -> dict[str, tuple[str, str]]:
    """Return each condition that differs, with the value of both keys; `unknown` for a key without it."""
    a, b = conditions(one, names), conditions(other, names)
    differing = (name for name in sorted({*a, *b}) if a.get(name) != b.get(name))
    return {name: (a.get(name, "unknown"), b.get(name, "unknown")) for name in differing}


def nearest_conditions(key: Key, others: Iterable[Key], names: Collection[str] = CONDITIONS) -> Key | None:
    """Return the key of `others` that differs in the fewest conditions; None if all differ in other labels, too.

    Rank and device do not count.
    """
    alike = [other for other in others if without_conditions(other, names) == without_conditions(key, names)]
    return min(alike, key=lambda other: (len(condition_differences(key, other, names)), other), default=None)


def other_conditions(
    new: Collection[Key], base: Collection[Key], names: Collection[str] = CONDITIONS
) -> tuple[dict[Key, Key], set[Key]]:
    """Return the new series that the base has only under other conditions, and the base's series that they replace.

    The first is a dictionary from the new key to the most similar key of the base. A metric that both sides have under
    some equal conditions is a load sweep that became longer or shorter. Its new loads are not compared with other
    loads, and its lost loads are not replaced.
    """
    shared = {without_conditions(key, names) for key in {*new} & {*base}}
    known = [key for key in base if without_conditions(key, names) not in shared]
    found = {
        key: other
        for key in {*new} - {*base}
        if without_conditions(key, names) not in shared and (other := nearest_conditions(key, known, names)) is not None
    }
    replaced = {without_conditions(key, names) for key in found}
    return found, {key for key in known if without_conditions(key, names) in replaced}


def by_load(key: Key) -> tuple[str, list[tuple[str, tuple[bool, float, str]]]]:
    """Return a sort key for series: by metric, then by labels, with numbers in labels by size."""
    return key.metric, [(name, load_order(value)) for name, value in key.labels]


def load_order(value: str) -> tuple[bool, float, str]:
    """Return a sort key for the values of a condition: numbers by size (`inf` is the largest), then other texts."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    return (True, 0.0, value) if math.isnan(number) else (False, number, value)
