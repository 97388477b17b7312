"""Records of PyTorch's benchmark database, which the HUD shows (schema v3): a list, one record, or one on each line.

    [{"benchmark": {"name": "TorchAO benchmark", "mode": "inference", "dtype": "int8wo", "extra_info": {...}},
      "model": {"name": "llama", "type": "model", "backend": "triton"},
      "metric": {"name": "latency(ms)", "unit": "ms", "benchmark_values": [12.5, 12.75], "target_value": 0},
      "runners": [{"name": "H100", "gpu_name": "NVIDIA H100"}]}]

Source: pytorch/ao `benchmarks/_models/utils.py`, and vllm-project/vllm `vllm/benchmarks/lib/utils.py`.
Records of vLLM are read as in the format vllm. The metric is the name, labelled with what was measured: `benchmark`,
`model`, `backend`, `mode`, `dtype`, `device`, `arch` and `compile`. Several values are samples, one is a value. The
unit is `unit`, or the unit at the end of the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Path, RecordRuns, Run
from perfgate.readers.records import Target, documents
from perfgate.readers.values import items, mapping, shown, unit_of_name, unit_of_text

NAME = "pytorch-hud"
METRICS = "the metric's name, labelled with `benchmark`, `model`, `backend`, `mode`, `dtype`, `device`, `arch`"
CHECKED = "the writers of pytorch/ao (2026): generated files"
#: The metrics of vLLM's serving benchmark.
_VLLM_METRIC = re.compile(r"(?:mean|median|std|p[\d.]+)_(?:ttft|tpot|itl|e2el)_ms")


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: a record with `benchmark_values`; None for records of vLLM."""
    for top in ((), ("*",)):
        name, metric = (outline.text(*top, part, "name") or "" for part in ("benchmark", "metric"))
        if outline.has(*top, "metric", "benchmark_values") and outline.has(*top, "benchmark"):
            is_vllm = name.lower().startswith("vllm") or _VLLM_METRIC.fullmatch(metric)
            return None if is_vllm else "a JSON document with 'benchmark_values'"
    return None


FORMAT = Format(NAME, __name__, keys="benchmark_values", outline=_outline)
_LONGEST_LABEL = 200


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file: records with the same name and labels belong to different runs."""
    runs = RecordRuns(file, NAME)
    for source in documents(file):
        data = source.loaded.data
        listed: list[tuple[Path, Any]] = [((index,), record) for index, record in enumerate(items(data))]
        for path, record in listed or [((), data)]:
            _record(runs, source, path, mapping(record))
    return runs.finish()


def _record(runs: RecordRuns, source: JsonSource, path: Path, record: Mapping[str, Any]) -> None:
    metric = mapping(record.get("metric"))
    name, values = metric.get("name"), metric.get("benchmark_values")
    if not isinstance(name, str) or not name or source.loaded.problems:
        run = runs.run_of(None, source)  # a run of its own, for the problems
        run.report_problems()
        if not source.loaded.problems:
            run.say("error", "a record has no metric with a name; left out", path)
        return
    key = Key.of(name, **_labels(record))
    run = runs.run_of(key, source)
    for runner in items(record.get("runners")):
        if isinstance(gpu := mapping(runner).get("gpu_name") or mapping(runner).get("gpu_info"), str):
            run.facts.setdefault("gpu", gpu[:_LONGEST_LABEL])
    unit, per = unit_of_text(str(metric.get("unit") or "")) or unit_of_name(name)
    to = Target(run, key, unit, per)
    if isinstance(values, list) and values:
        to.samples(values, (*path, "metric", "benchmark_values"))
    else:
        to.refuse(f"{shown(values)} is not a list of values; left out", (*path, "metric"))


def _labels(record: Mapping[str, Any]) -> dict[str, str]:
    benchmark, model = mapping(record.get("benchmark")), mapping(record.get("model"))
    extra = mapping(benchmark.get("extra_info"))
    found = {
        "benchmark": benchmark.get("name"),
        "mode": benchmark.get("mode"),
        "dtype": benchmark.get("dtype"),
        "model": model.get("name") or record.get("model"),
        "backend": model.get("backend"),
        "device": extra.get("device"),
        "arch": extra.get("arch"),
        "compile": str(extra["compile"]).lower() if isinstance(extra.get("compile"), bool) else extra.get("compile"),
    }
    return {name: value[:_LONGEST_LABEL] for name, value in found.items() if isinstance(value, str) and value}
