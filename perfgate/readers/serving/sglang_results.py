"""Older results of SGLang's `bench_serving` (2024): JSON lines whose times in ms have no `_ms` in their names.

    {"backend": "sglang", "dataset_name": "random", "request_rate": 4, "completed": 100, "mean_e2e_latency": 2500.5,
     "median_ttft": 85.5, "median_itl": 20.25, "output_throughput": 1200.5, "duration": 51.2}

Source: copies of sgl-project/sglang `python/sglang/bench_serving.py` of 2024 in other projects; newer results have the
names of vLLM's, and are read as in the format vllm. The metrics here have these names, too: `median_ttft`,
`median_itl`, `mean_e2e_latency`, `median_e2e_latency` (s), `duration` (s), `output_throughput`, `request_throughput`
(1/s), `completed` (1). The conditions are labels: `backend`, `dataset`, `request_rate`, `input_len`, ... Records of
unequal conditions are one run, a load sweep, and those of equal conditions are several runs.
"""

from __future__ import annotations

from perfgate.core import Key, Run
from perfgate.core.conditions import conditions_of
from perfgate.readers.benchmarks.benchmark_json import documents
from perfgate.readers.builder import JsonSource
from perfgate.readers.formats import Format
from perfgate.readers.records import RecordRuns
from perfgate.readers.text import InputFile
from perfgate.readers.values import mapping

NAME = "sglang"
TITLE = "older results of SGLang's bench_serving (JSON lines)"
METRICS = "`median_ttft`, `median_itl`, `mean_e2e_latency`, `output_throughput`, ..., labelled with the conditions"
CHECKED = "copies of SGLang's script of 2024: generated files"
#: Results of SGLang before its times had their unit in their names.
FORMAT = Format(
    NAME,
    __name__,
    json=("with the 'median_ttft' of SGLang", "median_ttft", "median_itl", "completed", "mean_e2e_latency"),
)

_METRICS = {
    **dict.fromkeys(("mean_e2e_latency", "median_e2e_latency", "median_ttft", "median_itl"), (None, "s", 1e3)),
    "duration": (None, "s", 1.0),
    "benchmark_duration": ("duration", "s", 1.0),
    "output_throughput": (None, "1/s", 1.0),
    "output_token_throughput": ("output_throughput", "1/s", 1.0),
    "input_throughput": (None, "1/s", 1.0),
    "request_throughput": (None, "1/s", 1.0),
    "completed": (None, "1", 1.0),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file."""
    runs = RecordRuns(file, NAME)
    for loaded, line in documents(file):
        source = JsonSource(loaded, line)
        record = mapping(loaded.data)
        labels = tuple(sorted(conditions_of(record, "vllm", file.source.conditions).items()))
        run = runs.run_of(labels if record and not loaded.problems else None, source)
        for problem in loaded.problems:
            run.say(problem.severity, problem.message, source.moved(problem.at))
        for name, value in record.items():
            if name in _METRICS and value is not None:
                other, unit, per = _METRICS[name]
                run.value(Key(other or name, labels), unit, value, (name,), per=per)
        if record.get("completed") == 0:
            run.say("error", "no request was completed", ("completed",))
        source.report_waiting()
    return runs.finish()
