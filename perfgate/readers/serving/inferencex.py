"""Results of InferenceX (once InferenceMAX), `agg_*.json`: a benchmark with its conditions, or a list of them.

    {"hw": "h200", "conc": 64, "model": "m", "framework": "vllm", "precision": "fp8", "isl": 1024, "osl": 1024, "tp": 8,
     "ep": 1, "dp_attention": "false", "tput_per_gpu": 1950.5, "output_tput_per_gpu": 960.2, "mean_ttft": 0.12,
     "p99_tpot": 0.02, "p99_intvty": 50.0, "avg_power_w": 612.5, "joules_per_output_token": 0.6}

Source: SemiAnalysisAI/InferenceX `utils/process_result.py`, `utils/aggregate_power.py` (2026-08). Times are s.
`intvty` is the interactivity, 1 / `tpot`; throughput counts tokens. Each number is one value, labelled with the
conditions. Results of unequal conditions are one run, a sweep, and those of equal conditions are several runs.
"""

from __future__ import annotations

from perfgate.readers.kit import Field, Format, InputFile, Key, RecordRuns, Run, labels_of
from perfgate.readers.records import Target, fact, field_of, records

NAME = "inferencex"
METRICS = "`tput_per_gpu`, `mean_ttft`, `p99_tpot`, `median_intvty`, `avg_power_w`, ..., labelled with the conditions"
CHECKED = "InferenceX's sources of 2026-08: a file that its script wrote"
FORMAT = Format(
    NAME, __name__, json=("of InferenceX", "tput_per_gpu|*.tput_per_gpu", "conc|*.conc", "precision|*.precision")
)
#: Not read: whether the power was measured.
BESIDE = "power_valid"
#: By a pattern of names: the unit. A metric keeps its name.
_FIELDS = {
    r"(?:mean|median|std|p\d{1,2}(?:\.\d{1,3})?)_(?:ttft|tpot|itl|e2el)": Field("", "s"),
    r"(?:\w+_)?tput_per_gpu|(?:mean|median|std|p\d{1,2}(?:\.\d{1,3})?)_intvty": Field("", "1/s"),
    r"\w+_power_w": Field("", "W"),
    r"\w+_energy_j|(?:\w+_)?joules_per_\w+": Field("", "J"),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file."""
    runs = RecordRuns(file, NAME)
    for source, path, record in records(file):
        labels = labels_of(file, NAME, record)
        run = runs.run_of(labels if record else None, source)  # None: a run of its own, for the problem
        run.report_problems()
        fact(run, "image", record.get("image"))
        for name, value in record.items():
            if value is not None and (field := field_of(_FIELDS, name)):
                Target(run, Key(name, labels), field.unit).value(value, (*path, name))
    return runs.finish()
