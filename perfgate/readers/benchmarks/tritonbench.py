"""TritonBench: the CSV of an operator (`--output FILE`, `--csv`), with semicolons.

    (M, N, K);aten_matmul-latency;triton_matmul-latency;triton_matmul-speedup
    (1024, 1024, 1024);0.025;0.02;1.25
    average;0.025;0.02;1.25

Source: meta-pytorch/tritonbench `tritonbench/utils/triton_op.py`, `components/do_bench/run.py` (2025-08).

The metric is `BACKEND.METRIC`, labelled with the input, whose name is the first cell of the header: `x="1024"`. Each is
one value, the median of the tool. `latency` and `walltime` are printed in ms, `compile_time` in s, `tflops` in TFLOP/s,
`gbps` in GB/s, `cpu_peak_mem` and `gpu_peak_mem` in GB; all others are 1, and `True` is 1. The row of averages is not
read. A cell that is a text is the error of a backend that failed. Tables of several runs may follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, csv_rows, number, unit_of_name

NAME = "tritonbench"
METRICS = "`BACKEND.latency`, `.tflops`, `.speedup`, `.gbps`, ..., labelled with the input `x`"
CHECKED = "TritonBench's writer of 2025-08: a file that it wrote; generated files"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        f"-{metric}": rf"^[^;\n]{{1,200}};(?:[^;\n]{{1,200}};){{0,200}}?[^;\n]{{1,200}}-{metric}(?:;|\r?$)"
        for metric in ("latency", "tflops", "walltime", "gbps")
    },
)
#: By metric: the base unit, and how many printed units are one base unit.
_UNITS = {
    "latency": ("s", 1e3),
    "walltime": ("s", 1e3),
    "compile_time": ("s", 1.0),
    "tflops": ("FLOP/s", 1e-12),
    "gbps": ("B/s", 1e-9),
    "cpu_peak_mem": ("B", 1e-9),
    "gpu_peak_mem": ("B", 1e-9),
}
_TRUTH = {"True": "1", "False": "0"}
#: Rows that are not inputs.
_SKIPPED = ("average", "hashes")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file: a table after the averages of another one, with the same inputs, is the next run."""
    runs, is_whole = Runs(lambda: RunBuilder(file, NAME)), False  # True after the averages at the end of a table
    problems = RunBuilder(file, NAME)  # of the rows that cannot be read, until it is known which run they belong to
    for line, row in csv_rows(problems, ";", is_header):
        (_, x), *cells = row.items()
        values = [] if x in _SKIPPED else [*_values(x, cells)]
        if is_whole and not runs.run.finished.keys().isdisjoint(key for key, _, _ in values):
            runs.banner(line)  # the next run begins
        if values or not is_whole:  # else the problems may belong to the next run
            runs.run.problems += problems.problems
            problems.problems.clear()
        is_whole = x == "average" or (is_whole and not values)
        for key, metric, text in values:
            _add(runs.run, key, metric, text, line)
    problems.close()
    runs.run.problems += problems.problems
    if not is_whole:
        runs.run.say("warning", "the table has no row `average` at its end: rows may be missing")
    return runs.finish()


def _values(x: str, cells: list[tuple[str, str]]) -> Iterator[tuple[Key, str, str]]:
    """Yield the key, the metric and the text of each cell in the row of an input."""
    for name, text in cells:
        backend, _, metric = name.rpartition("-")
        yield Key.of(f"{backend}.{metric}" if backend else metric, x=x), metric, _TRUTH.get(text, text)


def _add(run: RunBuilder, key: Key, metric: str, text: str, line: int) -> None:
    if number(text) is not None:
        unit, per = _UNITS.get(metric) or unit_of_name(metric)
        run.value(run.unique(key, line), unit, text, line, per=per)
    elif text and metric in (*_UNITS, "speedup", "accuracy"):  # other columns may be texts
        run.refuse(key, f"the backend failed: {text[:200]!r}", line)


def is_header(cells: list[str]) -> bool:
    """Return whether a row is a header: a name, and columns `BACKEND-METRIC`."""
    return len(cells) > 1 and any(cell.rpartition("-")[2] in _UNITS for cell in cells[1:] if "-" in cell)
