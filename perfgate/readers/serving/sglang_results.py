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

from perfgate.readers.kit import Field, Format, InputFile, RecordRuns, Run, add_fields, documents, labels_of, mapping

NAME = "sglang"
METRICS = "`median_ttft`, `median_itl`, `mean_e2e_latency`, `output_throughput`, ..., labelled with the conditions"
CHECKED = "copies of SGLang's script of 2024: generated files"
#: Results of SGLang before its times had their unit in their names.
FORMAT = Format(
    NAME,
    __name__,
    json=("with the 'median_ttft' of SGLang", "median_ttft", "median_itl", "completed", "mean_e2e_latency"),
)
_FIELDS = {
    **{name: Field(name, "s", 1e3) for name in ("mean_e2e_latency", "median_e2e_latency", "median_ttft", "median_itl")},
    **{name: Field(name, "1/s") for name in ("output_throughput", "input_throughput", "request_throughput")},
    "output_token_throughput": Field("output_throughput", "1/s"),
    "duration": Field("duration", "s"),
    "benchmark_duration": Field("duration", "s"),
    "completed": Field("completed", "1"),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file."""
    runs = RecordRuns(file, NAME)
    for source in documents(file):
        record = mapping(source.loaded.data)
        labels = labels_of(file, "vllm", record)  # the same names as in newer results
        # a record that cannot be read (None) gets a run of its own
        run = runs.run_of(labels if record and not source.loaded.problems else None, source, record)
        run.report_problems()
        add_fields(run, _FIELDS, ((name, value, (name,)) for name, value in record.items()), labels)
        if record.get("completed") == 0:
            run.say("error", "no request was completed", ("completed",))
    return runs.finish()
