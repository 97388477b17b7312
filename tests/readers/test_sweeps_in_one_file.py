"""Runs of one file that differ in a field: a label where it is known, else an error."""

import json

import pytest
from reading import errors, run_of, runs_of, said, values_of

from perfgate.readers import Source, read

PERF = " Performance counter stats for '{}':\n\n      {} msec task-clock\n\n      {} seconds time elapsed\n\n"
TRT = "&&&& RUNNING TensorRT.trtexec [v10] # trtexec --onnx=m.onnx --shapes=x:{}x3\n[I] === Performance summary ===\n"
SERVE = "Maximum request concurrency: {}\n============ Serving Benchmark Result ============\n"
SGLANG = {"backend": "sglang", "completed": 100, "duration": 5.5, "request_throughput": 1.95, "mean_ttft_ms": 90.5}


def test_commands_of_perf_stat_are_labels():
    text = "".join(PERF.format(command, 1000, 2) for command in ("./a", "./b", "./a", "./b"))
    runs = runs_of(text)
    assert [run.part for run in runs] == [1, 2]
    assert {*values_of(runs[0])} == {f'{m}{{command="./{c}"}}' for m in ("task-clock", "time_elapsed") for c in "ab"}
    assert [len(run.series) for run in runs_of(PERF.format("./a", 1, 2) * 2)] == [2, 2]


@pytest.mark.parametrize(
    ("commands", "told"),
    [("ab", []), ("aa", ["2 runs; new runs begin at line 7"]), ("ababa", ["3 runs; new runs begin at line 13, 25"])],
)
def test_the_runs_of_a_sweep_are_counted_after_they_are_joined(commands, told):
    runs = runs_of("".join(PERF.format(f"./{command}", 1000, 2) for command in commands))
    assert [line.partition("this file has ")[2] for line in said(runs[0])] == told


def test_shapes_of_trtexec_are_labels():
    run = run_of("".join(TRT.format(size) + "[I] Throughput: 5 qps\n" for size in (1, 8)))
    assert [*values_of(run)] == ['throughput{shapes="x:1x3"}', 'throughput{shapes="x:8x3"}']


def test_the_concurrency_before_a_block_is_a_label():
    rows = "Successful requests:       5\nMean TTFT (ms):     234.5\n" + "=" * 50 + "\n"
    run = run_of("".join(SERVE.format(load) + rows for load in (32, 64)))
    assert {series.key.label("concurrency") for series in run.series} == {"32", "64"}


def test_records_that_differ_in_an_unknown_field_are_no_runs():
    records = [SGLANG | {"routing": routing, "date": routing} for routing in ("round_robin", "cache_aware")]
    text = "".join(json.dumps(record) + "\n" for record in records)
    said = [error for run in runs_of(text, "vllm") for error in errors(run)]
    assert len(said) == 1
    assert "routing is cache_aware here and round_robin in a record before" in said[0]
    same = "".join(json.dumps(record | {"routing": "a"}) + "\n" for record in records)
    assert [errors(run) for run in runs_of(same, "vllm")] == [[], []]


def test_times_of_inferencex_are_in_seconds():
    result = {"hw": "b200", "conc": 8, "completed": 5, "duration": 50.5, "request_throughput": 1, "median_ttft": 1.834}
    run = run_of(json.dumps(result))
    assert {series.key.metric: series.values.tolist() for series in run.series}["median_ttft"] == [1.834]
    (error,) = errors(run_of(json.dumps(result | {"median_ttft": 1834.5})))
    assert "has no unit, and is longer than the benchmark" in error


LLAMA = "| model | backend | test | t/s |\n| --- | --- | --: | --: |\n| llama 7B | CUDA | pp512 | {} ± 1.0 |\n\n"


def test_tables_below_other_headings_are_no_runs_unless_the_heading_is_a_label():
    text = "### GPU 0 ONLY ###\n" + LLAMA.format(758.2) + "### DUAL GPU ###\n" + LLAMA.format(901.5)
    (said,) = [error for run in runs_of(text) for error in errors(run)]
    assert "heading is DUAL GPU here and GPU 0 ONLY in a record before" in said
    (run,) = read(Source("a.txt", [text.encode()], conditions=["heading"]))
    assert {series.key.label("heading") for series in run.series} == {"GPU 0 ONLY", "DUAL GPU"}


@pytest.mark.parametrize(
    "heading", ["## Run {} of 3", "=== trial #{} ===", "--- 12:0{}:00 ---", "## job 10{}", "## took {}.5 s", "## a"]
)
def test_tables_below_headings_of_repetitions_are_runs(heading):
    runs = runs_of("".join(f"{heading.format(at)}\n{LLAMA.format(700 + at)}" for at in (1, 2, 3)))
    assert [len(run.series) for run in runs] == [1, 1, 1]
    assert not any(map(errors, runs))


@pytest.mark.parametrize("heading", ["=== batch {} ===", "=== size {}024 ==="])
def test_tables_below_headings_of_loads_are_no_repetitions(heading):
    runs = runs_of("".join(f"{heading.format(at)}\n{LLAMA.format(700 + at)}" for at in (1, 2)))
    assert "not repetitions of one measurement" in str([errors(run) for run in runs])


def test_headings_of_other_programs_are_labels():
    text = "// charging\n" + PERF.format("./a", 1000, 2) + "// not charging\n" + PERF.format("./a", 2000, 3)
    assert [*values_of(run_of(text))] == [
        f'{metric}{{heading="{one}"}}'
        for one in ("charging", "not charging")
        for metric in ("task-clock", "time_elapsed")
    ]
