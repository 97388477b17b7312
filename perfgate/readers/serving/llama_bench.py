"""`llama-bench` of llama.cpp: its JSON, JSON lines, CSV, or the Markdown that it prints.

    | model                 |       size |     params | backend    | ngl |      test |            t/s |
    | --------------------- | ---------: | ---------: | ---------- | --: | --------: | -------------: |
    | llama 7B Q4_0         |   3.56 GiB |     6.74 B | CUDA       |  99 |     pp512 | 2368.80 ± 8.12 |

    build: 8cc0d4f (4567)

    [{"build_commit": "8cc0d4f", "gpu_info": "...", "model_type": "llama 7B Q4_0", "n_prompt": 512, "n_gen": 0,
      "avg_ts": 2368.8, "stddev_ts": 8.12, "samples_ns": [216143201, 216200010], "samples_ts": [2368.8, 2368.1]}]

Source: ggml-org/llama.cpp `tools/llama-bench/llama-bench.cpp` (2026-08). The metrics are `tokens_per_second` (1/s) and
`time` of a test (s): samples of JSON, and aggregates of CSV and Markdown, which has no `time`. Labels say what was
tested, as the Markdown does: `test` (`pp512` is a prompt of 512 tokens, `tg128` are 128 generated tokens, `@ d4096` is
the depth of the context), `model`, `backend`, and parameters that are not the default. Tests that were made twice are
two runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Format, InputFile, JsonSource, Key, Path, RecordRuns, Run, RunBuilder, labels_of
from perfgate.readers.records import Target, commit_of, csv_rows, fact, records
from perfgate.readers.values import number

NAME = "llama-bench"
METRICS = "`tokens_per_second` and `time` of each test, labelled with `test`, `model`, `backend`, ..."
CHECKED = "llama.cpp's source of 2026-08: generated files; public tables and files"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "t/s |": r"^[ \t>]*\| model +\|.{0,400}\| +test +\| +t/s \|",
        ",avg_ts,": r"^build_commit,.{0,900},avg_ts,",
    },
    json=("of llama-bench", "avg_ts|*.avg_ts", "n_gen|*.n_gen", "build_commit|*.build_commit"),
)
#: Not read: statistics of the samples, and settings.
BESIDE = r"(?:avg|stddev)_[nt]s|build_number|cpu_strict|fit_\w+|poll|defrag_thold|prio|delay|shared memory"
#: Columns of the Markdown, as the other forms name them.
_COLUMNS = {
    "model": "model_type",
    "backend": "backends",
    "threads": "n_threads",
    "ngl": "n_gpu_layers",
    "sm": "split_mode",
    "fa": "flash_attn",
    "nkvo": "no_kv_offload",
    "embd": "embeddings",
    "nopo": "no_op_offload",
    "dev": "devices",
    "ts": "tensor_split",
    "ot": "tensor_buft_overrides",
}
_SPEED = re.compile(r"(\S{1,40}) ± (\S{1,40})")
#: `pp 512`, as it was printed in 2023.
_BLANK = re.compile(r"(?<=[pt][pg]) +")
#: The backends without a GPU.
_ON_CPU = ("CPU", "BLAS", "ZenDNN")
#: A whole number with fewer digits is read as an integer, as JSON has it: `pp512`, not `pp512.0`.
_DIGITS = 19
#: Metric, unit, the end of its fields, and printed units in one unit.
_METRICS = (("tokens_per_second", "1/s", "ts", 1.0), ("time", "s", "ns", 1e9))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file."""
    runs = RecordRuns(file, NAME)
    if file.is_json():
        for source, path, record in records(file):
            _record(runs, record, path, source)
    elif file.head().lstrip().startswith(b"build_commit,"):
        for line, row in csv_rows(runs.first, ",", lambda cells: "build_commit" in cells):
            _record(runs, {name: _number(text, text) for name, text in row.items()}, line)
    else:
        _markdown(runs)
    return runs.finish() or (RunBuilder(file, NAME).run(),)


def _markdown(runs: RecordRuns) -> None:
    header: list[str] = []
    last_row = 0  # of a table without its line `build:` so far
    for line, text, _, ended in runs.first.file.lines(("|", "build: ")):
        last_row = 0 if text.startswith("build: ") else last_row
        cells = [cell.strip() for cell in text.split("|")]
        if cells[1:2] + cells[-2:-1] == ["model", "t/s"]:  # between the first bar and the last one
            header = [_COLUMNS.get(name, name) for name in cells]
            runs.first.file.coverage.lines.headers[line] = cells, "|"  # names the numbers that are not read
        elif header and not ended:
            runs.first.say("warning", "the last record is cut off; left out", line)
        elif len(cells) == len(header) and (speed := _SPEED.fullmatch(cells[-2])):
            row: dict[str, Any] = dict(zip(header, cells, strict=True))
            row |= {"test": _BLANK.sub("", row.get("test", "")), "avg_ts": speed[1], "stddev_ts": speed[2]}
            _record(runs, row, line)
            last_row = line
    if last_row:
        runs.first.say("warning", "the last table has no `build:` below it: rows may be missing", last_row)


def _record(runs: RecordRuns, record: dict[str, Any], place: int | Path, source: JsonSource | None = None) -> None:
    """Add the metrics of a test, which is on a line (an integer) or at a path of the document `source`."""
    labels = labels_of(runs.first.file, NAME, _conditions(record))
    run = runs.run_of(labels if record else None, source)  # None: a run of its own, for the problem
    if source:
        run.report_problems()
    fact(run, "gpu", record.get("gpu_info"))
    fact(run, "cpu", record.get("cpu_info"))
    run.commit = run.commit or commit_of(record.get("build_commit"))
    for metric, unit, name, per in _METRICS:
        samples, to = record.get(f"samples_{name}"), Target(run, Key(metric, labels), unit, per)
        if isinstance(samples, list) and samples and not isinstance(place, int):
            to.samples(samples, (*place, f"samples_{name}"))
        elif f"avg_{name}" in record:
            mean, stddev = record[f"avg_{name}"], record.get(f"stddev_{name}")
            at = place if isinstance(place, int) else (*place, f"avg_{name}")
            printed = {"mean": mean, "stddev": stddev}  # an empty cell is left out, and other text refused
            to.aggregate({name: (_number(value, value or None), at) for name, value in printed.items()})


def _number(value: object, other: object) -> object:
    """Return a printed number as a number, any other text as `other`, and a value of JSON as it is."""
    if not isinstance(value, str):
        return value
    if (parsed := number(value)) is None:
        return other
    return int(value) if value.isdecimal() and len(value) < _DIGITS else parsed


def _conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record without those that are off or 0, and the name of the test, for `labels_of`."""
    own = {name: value for name, value in record.items() if value not in (False, "", 0, "0")}
    prompt, generated, depth = (own.get(name) for name in ("n_prompt", "n_gen", "n_depth"))
    parts = [f"{kind}{count}" for kind, count in (("pp", prompt), ("tg", generated)) if count]
    if parts:
        own["test"] = "+".join(parts) + (f" @ d{depth}" if depth else "")
    # Without a GPU, the number of layers on it does not matter; with one, the number of CPU threads does not.
    own.pop("n_gpu_layers" if any(one in str(own.get("backends")) for one in _ON_CPU) else "n_threads", None)
    return own
