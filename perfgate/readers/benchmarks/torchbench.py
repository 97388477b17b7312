"""TorchBench: the CSV of the runners in `benchmarks/dynamo`, and the JSON of its userbenchmarks.

    dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem,...
    cuda,BERT_pytorch,16,1.723,20.512,18.25,0.923,4.25,4.5,...

    {"name": "test_bench", "environ": {"pytorch_version": "2.9.0", "pytorch_git_version": "..."},
     "metrics": {"model=alexnet, test=eval, device=cuda, bs=None, metric=latencies": 4.5}}

Source: pytorch/pytorch `benchmarks/dynamo/common.py`; pytorch/benchmark `userbenchmark/utils.py` (2026-08).

A row gives the metrics `NAME.COLUMN`, labelled with `device` and `batch_size`: `abs_latency` (s, printed in ms),
`compilation_latency` (s), `eager_peak_mem` and `dynamo_peak_mem` (B, printed in GB), `speedup`, `graph_breaks` and so
on (1). Each is one value: a median of the tool. A model whose `accuracy` is not `pass` is an error. In a table without
that column, so is a row without a number, which a failed model leaves. The metrics of a userbenchmark keep their names.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, mapping, number, unit_of_name
from perfgate.readers.records import Target, commit_of, csv_rows, fact, load

NAME = "torchbench"
METRICS = "`MODEL.abs_latency`, `.speedup`, `.compilation_latency`, `.dynamo_peak_mem`, ...; names of a userbenchmark"
CHECKED = "the sources of pytorch and TorchBench (2026-08): generated files; a line of a public log"
FORMAT = Format(
    NAME,
    __name__,
    markers={"dev,name,batch_size,": r"^dev,name,batch_size,"},
    json=("with the 'metrics' of TorchBench", "environ.pytorch_git_version", "metrics={"),
)
#: By column: the base unit, and how many printed units are one base unit.
_UNITS = {
    "abs_latency": ("s", 1e3),
    "compilation_latency": ("s", 1.0),
    "eager_peak_mem": ("B", 1e-9),
    "dynamo_peak_mem": ("B", 1e-9),
}
#: The first columns of a table.
_NEEDED = ("dev", "name", "batch_size")
_PASSES = ("pass", "pass_due_to_skip", "")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    if file.is_json():
        return (_userbenchmark(file),)
    run = RunBuilder(file, NAME)
    for line, row in csv_rows(run, ",", lambda cells: cells[:3] == [*_NEEDED]):
        _row(run, row, line)
    return (run.run(),)


def _row(run: RunBuilder, row: Mapping[str, str], line: int) -> None:
    labels = {"device": row["dev"], "batch_size": row["batch_size"]}
    key = run.unique(Key.of(row["name"], **{name: value for name, value in labels.items() if value}), line)
    if row.get("accuracy", "") not in _PASSES:
        run.refuse(key, f"the accuracy is {row['accuracy'][:80]!r}", line)
    others = (*_NEEDED, "accuracy")
    numbers = {name: text for name, text in row.items() if name not in others and number(text) is not None}
    if not numbers and "accuracy" not in row:
        run.refuse(key, "this row has no number: the model failed", line)
    for name, text in numbers.items():
        unit, per = _UNITS.get(name) or unit_of_name(name)
        run.value(Key(f"{key.metric}.{name}", key.labels), unit, text, line, per=per)


def _userbenchmark(file: InputFile) -> Run:
    data, run = load(file, NAME)
    environ = mapping(data.get("environ"))
    fact(run, "torch", environ.get("pytorch_version"))
    run.commit = commit_of(environ.get("pytorch_git_version"))
    for name, value in mapping(data.get("metrics")).items():
        if value is not None:  # None was not measured
            unit, per = unit_of_name(name)
            Target(run, Key(name), unit, per).value(value, ("metrics", name))
    return run.run()
