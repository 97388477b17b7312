"""The JSON of pytest-benchmark, pyperf, Google Benchmark, hyperfine and asv."""

import json

import pytest
from conftest import write_rules
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, SHARED, errors, run_of, runs_of, said, values_of


def aggregates(run):
    return {str(series.key): dict(series.aggregate) for series in run.series if series.kind == "aggregate"}


def units(run):
    return {str(series.key): (series.unit, series.kind) for series in run.series}


# --- pytest-benchmark --------------------------------------------------------------------------------------------

STATS = {"min": 0.1, "max": 0.4, "mean": 0.2, "stddev": 0.05, "median": 0.15, "rounds": 3, "total": 0.6, "ops": 5.0}


def pytest_benchmark(*stats, **fields):
    rows = [{"name": "test_a", "fullname": "t.py::test_a", "stats": each} for each in stats]
    return json.dumps({"machine_info": {}, "benchmarks": rows, **fields}, indent=1)


def test_pytest_benchmark_with_data():
    run = run_of((FIXTURES / "pytest_benchmark.json").read_bytes())
    values = values_of(run)
    assert run.format == "pytest-benchmark"
    assert [*values] == ["test_bench.py::test_sum[8]", "test_bench.py::test_sum[64]", "test_bench.py::test_once"]
    assert values["test_bench.py::test_sum[8]"][:2] == [3.7149993659113534e-07, 1.542000063636806e-07]
    assert values["test_bench.py::test_once"] == [1.782999788702e-06]
    assert (run.environment, run.commit, run.problems) == ({"cpu": "AMD EPYC"}, None, ())


def test_pytest_benchmark_without_data():
    run = run_of((FIXTURES / "pytest_benchmark_stats.json").read_bytes())
    found = aggregates(run)
    assert found["test_bench.py::test_sum[64]"] == {
        "mean": 4.520600305113476e-07,
        "median": 4.3970003389404154e-07,
        "min": 4.315999831305817e-07,
        "max": 5.037000846641604e-07,
        "stddev": 2.9352935706931812e-08,
        "total": 2.260300152556738e-06,
        "count": 5,
    }
    assert "stddev" not in found["test_bench.py::test_once"]  # the file says 0, of one round
    assert not run.problems


def test_pytest_benchmark_of_2015_has_no_total():
    stats = {name: value for name, value in STATS.items() if name not in ("total", "ops")}
    assert "total" not in aggregates(run_of(pytest_benchmark(stats)))["t.py::test_a"]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (
            {"id": "9d55ab0434c9088746ae2d134702d782bf088644", "dirty": False},
            "9d55ab0434c9088746ae2d134702d782bf088644",
        ),
        ({"id": "9d55ab0434c9088746ae2d134702d782bf088644", "dirty": True}, None),
        ({"id": "unversioned"}, None),
        (None, None),
    ],
)
def test_the_commit_of_pytest_benchmark(info, expected):
    assert run_of(pytest_benchmark(STATS, commit_info=info)).commit == expected


def test_a_benchmark_that_stands_twice():
    run = run_of(pytest_benchmark({**STATS, "data": [1.0, 2.0, 3.0]}, {**STATS, "data": [4.0, 5.0, 6.0]}))
    assert values_of(run) == {"t.py::test_a": [1.0, 2.0, 3.0], "t.py::test_a#2": [4.0, 5.0, 6.0]}
    assert [(str(problem.severity), problem.at.line) for problem in run.problems] == [("warning", 23)]


def test_many_benchmarks_of_one_name():
    names = ["a", "a#2", *["a"] * 3000]
    rows = [{"fullname": name, "stats": {"data": [1.0]}} for name in names]
    run = run_of(json.dumps({"machine_info": {}, "benchmarks": rows}))
    assert [*values_of(run)][:5] == ["a", "a#2", "a#3", "a#4", "a#5"]
    assert len(run.series) == len(names)
    assert [problem.severity for problem in run.problems] == ["warning"]


def test_rounds_that_do_not_agree():
    run = run_of(pytest_benchmark({**STATS, "data": [1.0]}))
    assert said(run) == ["train.log:16:13: warning: t.py::test_a: rounds is 3, but data has 1 values"]


def test_a_benchmark_without_stats():
    run = run_of(pytest_benchmark(STATS, {}))
    assert "t.py::test_a" in aggregates(run)
    assert "t.py::test_a#2: no measurements" in errors(run)[0]


# --- pyperf ------------------------------------------------------------------------------------------------------


def pyperf(*benchmarks, **metadata):
    rows = [{"metadata": {"name": name}, "runs": runs} for name, runs in benchmarks]
    return json.dumps({"version": "1.0", "metadata": metadata, "benchmarks": rows})


def test_pyperf_processes_are_runs():
    runs = runs_of((FIXTURES / "pyperf.json").read_bytes())
    assert [run.part for run in runs] == [1, 2, 3]
    assert [values_of(run)["sum"] for run in runs] == [
        [2.571089843694807e-06, 5.853833009439313e-07],
        [6.371059568799353e-07, 6.609550777803008e-07],
        [5.644536136273359e-07, 5.401254883352635e-07],
    ]
    assert values_of(runs[2])["sorted"] == [1.4528222658238832e-07, 1.3685424804510404e-07]
    assert {(run.format, run.environment["cpu"], run.problems) for run in runs} == {("pyperf", "AMD EPYC", ())}


def test_pyperf_metadata_is_inherited():
    runs = [{"values": [2]}, {"values": [3], "metadata": {"unit": "integer"}}, {"warmups": [[1, 9.0]]}]
    first, second = runs_of(pyperf(("a", runs), unit="byte"))
    assert (units(first), units(second)) == ({"a": ("B", "value")}, {"a": ("1", "value")})


@pytest.mark.parametrize("metadata", [{"name": "a"}, {"metadata": {"name": "a"}}])
def test_pyperf_names_of_the_suite_and_of_a_run(metadata):
    text = json.dumps({"benchmarks": [{"runs": [{"values": [1.5], "metadata": metadata.get("metadata", {})}]}]})
    document = {**json.loads(text), "metadata": {"name": "a"} if "name" in metadata else {}}
    assert values_of(run_of(json.dumps(document))) == {"a": [1.5]}


def test_pyperf_before_0_9_6():
    document = {"version": "0.8", "benchmarks": [{"common_metadata": {"name": "a"}, "runs": [{"samples": [1.5]}]}]}
    assert values_of(run_of(json.dumps(document))) == {"a": [1.5]}


def test_pyperf_benchmarks_of_different_numbers_of_processes():
    first, second = runs_of(
        pyperf(("a", [{"values": [1.0]}, {"values": [2.0]}, {"values": [3.0]}]), ("b", [{"values": [4.0]}] * 2))
    )
    assert (values_of(first), values_of(second)) == ({"a": [1.0], "b": [4.0]}, {"a": [2.0], "b": [4.0]})
    assert said(first) == [
        "train.log:1:51: warning: a has 3 processes, but another benchmark has 2; the first 2 are read"
    ]


def test_pyperf_calibration_only_and_unknown_units():
    (run,) = runs_of(pyperf(("a", [{"warmups": [[1, 1.0]]}]), ("b", [{"values": [1.0], "metadata": {"unit": "x"}}])))
    assert [error.partition("error: ")[2] for error in errors(run)] == [
        "a: no process has values",
        'b: the unit "x" is unknown; left out',
        "no measurements",
    ]


# --- Google Benchmark --------------------------------------------------------------------------------------------


def row(name="BM_a/8", **fields):
    return {
        "name": name, "run_name": name, "run_type": "iteration", "repetitions": 1, "repetition_index": 0,
        "threads": 1, "iterations": 10, "real_time": 200.0, "cpu_time": 100.0, "time_unit": "ns", **fields,
    }  # fmt: skip


def aggregate(statistic, **fields):
    return row(name=f"BM_a/8_{statistic}", run_name="BM_a/8", run_type="aggregate", aggregate_name=statistic, **fields)


def google(*rows):
    return json.dumps({"context": {"num_cpus": 4, "caches": []}, "benchmarks": rows}, indent=1)


def test_google_benchmark():
    run = run_of(google(row(bytes_per_second=5.0, hits=-3, label="x"), row("BM_b", time_unit="ms", max_bytes_used=7)))
    assert values_of(run) == {
        "BM_a/8": [2e-7], "BM_a/8.cpu_time": [1e-7], "BM_a/8.bytes_per_second": [5.0], "BM_a/8.hits": [-3.0],
        "BM_b": [0.2], "BM_b.cpu_time": [0.1], "BM_b.max_bytes_used": [7.0],
    }  # fmt: skip
    assert units(run)["BM_a/8"] == ("s", "value")
    assert units(run)["BM_a/8.bytes_per_second"] == ("B/s", "value")
    assert units(run)["BM_a/8.hits"] == ("1", "value")
    assert units(run)["BM_b.max_bytes_used"] == ("B", "value")
    assert not run.problems


def test_google_repetitions_are_samples_and_aggregates_never_mix():
    rows = [row(repetition_index=index, repetitions=2, real_time=time) for index, time in enumerate([200.0, 400.0])]
    run = run_of(google(*rows, *(aggregate(name) for name in ("mean", "median", "stddev", "cv"))))
    assert values_of(run) == {"BM_a/8": [2e-7, 4e-7], "BM_a/8.cpu_time": [1e-7, 1e-7]}
    assert units(run)["BM_a/8"] == ("s", "samples")


def test_google_aggregates_alone():
    run = run_of(
        google(aggregate("mean", repetitions=5, real_time=300.0), aggregate("stddev", real_time=10.0), aggregate("cv"))
    )
    assert aggregates(run)["BM_a/8"] == {"mean": 3e-7, "stddev": 1e-8, "count": 5}
    assert aggregates(run)["BM_a/8.cpu_time"] == {"mean": 1e-7, "stddev": 1e-7, "count": 5}


def test_a_google_aggregate_without_a_name():
    named = {name: value for name, value in aggregate("mean", real_time=300.0).items() if name != "aggregate_name"}
    assert aggregates(run_of(google(named)))["BM_a/8"]["mean"] == 300e-9
    run = run_of(google(row("BM_b"), {**named, "name": "BM_a/8"}))
    assert [error.partition("error: ")[2] for error in errors(run)] == [
        "an aggregate without a name is left out: BM_a/8"
    ]


def test_google_benchmark_before_1_5():
    def old(name, **fields):
        return {"name": name, "iterations": 1, "real_time": 200.0, "cpu_time": 100.0, "time_unit": "us", **fields}

    fit = {"name": "BM_a_BigO", "cpu_coefficient": 1.0, "real_coefficient": 1.0, "big_o": "N"}
    rows = [old("BM_a"), old("BM_a"), old("BM_a_mean"), old("BM_a_stddev"), fit, {"name": "BM_a_RMS", "rms": 0.1}]
    run = run_of(google(*rows, old("BM_arithmetic_mean")))
    assert values_of(run) == {
        "BM_a": [2e-4, 2e-4], "BM_a.cpu_time": [1e-4, 1e-4],
        "BM_arithmetic_mean": [2e-4], "BM_arithmetic_mean.cpu_time": [1e-4],
    }  # fmt: skip
    assert not run.problems


def test_google_benchmark_that_failed_or_was_skipped():
    run = run_of(
        google(
            row(error_occurred=True, error_message="no GPU", real_time=0.0),
            row("BM_b", repetitions=2),
            row("BM_b", repetitions=2, repetition_index=1, error_occurred=True, error_message="x"),
            row("BM_c", skipped=True, skip_message="later"),
        )
    )
    assert values_of(run) == {"BM_b": [2e-7], "BM_b.cpu_time": [1e-7]}
    assert {str(problem.key) for problem in run.problems if problem.severity == "error"} == {
        "BM_a/8", "BM_a/8.cpu_time", "BM_b", "BM_b.cpu_time",
    }  # fmt: skip
    assert 'failed: "no GPU"' in errors(run)[0]
    assert 'BM_c was skipped: "later"' in said(run)[-1] + said(run)[0]


def test_google_benchmark_twice_with_nan_and_with_unknown_units():
    run = run_of(google(row(hits=float("nan")), row(real_time=1.0), row("BM_b", time_unit="h")))
    assert values_of(run)["BM_a/8#2"] == [1e-9]
    assert [(str(problem.severity), str(problem.key)) for problem in run.problems] == [
        ("error", "BM_a/8.hits"), ("warning", "None"), ("error", "BM_b"), ("error", "BM_b.cpu_time"),
    ]  # fmt: skip


# --- hyperfine ---------------------------------------------------------------------------------------------------


def hyperfine(**fields):
    one = {
        "command": "sleep 1",
        "mean": 1.5,
        "stddev": 0.5,
        "median": 1.5,
        "user": 0.1,
        "system": 0.2,
        "min": 1.0,
        "max": 2.0,
    }
    return {**one, "times": [1.0, 2.0], "exit_codes": [0, 0], **fields}


def results(*rows):
    return json.dumps({"results": rows}, indent=1)


def test_hyperfine():
    run = run_of(results(hyperfine(memory_usage_byte=[1024, 2048])))
    assert values_of(run) == {
        "sleep 1": [1.0, 2.0], "sleep 1.user": [], "sleep 1.system": [], "sleep 1.memory_usage": [1024.0, 2048.0],
    }  # fmt: skip
    assert aggregates(run) == {"sleep 1.user": {"mean": 0.1}, "sleep 1.system": {"mean": 0.2}}
    assert units(run)["sleep 1.memory_usage"] == ("B", "samples")
    assert not run.problems


def test_hyperfine_parameters_are_labels():
    run = run_of(
        results(
            hyperfine(parameters={"n": "1", "cls": "x"}), hyperfine(parameters={"n": "2"}), hyperfine(parameter="3")
        )
    )
    assert [str(series.key) for series in run.series if series.kind == "samples"] == [
        'sleep 1{cls="x", n="1"}', 'sleep 1{n="2"}', 'sleep 1{parameter="3"}',
    ]  # fmt: skip


def test_hyperfine_without_times():
    run = run_of(results({**hyperfine(stddev=None), "times": None}))
    assert aggregates(run)["sleep 1"] == {"mean": 1.5, "median": 1.5, "min": 1.0, "max": 2.0}


@pytest.mark.parametrize(("codes", "how"), [([0, 1], "exited with 1"), ([0, None], "was ended by a signal")])
def test_a_command_that_failed_is_an_error(codes, how):
    run = run_of(results(hyperfine(exit_codes=codes)))
    assert {str(problem.key) for problem in run.problems} == {"sleep 1", "sleep 1.user", "sleep 1.system"}
    assert errors(run)[0] == f"train.log:18:5: error: sleep 1: 1 of 2 runs of the command failed; the first {how}"


def test_a_command_that_stands_twice():
    run = run_of(results(hyperfine(), hyperfine()))
    assert [str(series.key) for series in run.series if series.kind == "samples"] == ["sleep 1", "sleep 1#2"]
    assert [problem.severity for problem in run.problems] == ["warning"]


# --- asv ---------------------------------------------------------------------------------------------------------

COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "samples"]


def asv(version=2, **results):
    fields = {"commit_hash": "05d283b9", "params": {"cpu": "i5"}, "requirements": {}, "version": version}
    columns = {"result_columns": COLUMNS} if version == 2 else {}
    return json.dumps({**fields, **columns, "results": results}, indent=1)


def test_asv_2():
    run = run_of(
        asv(
            **{
                "b.time_a": [[0.5], []],
                "b.mem_b": [[10, 20, None, 40], [["1", "2"], ["'x'", "'y'"]]],
                "b.Suite.time_c": [[0.5], [["8"]], "v", 1, 2.0, [float("-inf")], [float("inf")], [[0.25, 0.75]]],
                "b.track_d": [[-3.0]],
                "b.time_e": [None],
                "b.time_f": [[float("nan"), 1.0], [["1", "2"]]],
            }
        )
    )
    assert values_of(run) == {
        "b.time_a": [0.5], "b.mem_b(1, 'x')": [10.0], "b.mem_b(1, 'y')": [20.0], "b.mem_b(2, 'y')": [40.0],
        "b.Suite.time_c(8)": [0.25, 0.75], "b.track_d": [-3.0], "b.time_f(2)": [1.0],
    }  # fmt: skip
    found = units(run)
    assert (found["b.time_a"], found["b.mem_b(1, 'x')"]) == (("s", "value"), ("B", "value"))
    assert (found["b.Suite.time_c(8)"], found["b.track_d"]) == (("s", "samples"), ("1", "value"))
    assert [(str(problem.severity), str(problem.key)) for problem in run.problems] == [
        ("error", "b.mem_b(2, 'x')"), ("error", "b.time_e"), ("warning", "None"),
    ]  # fmt: skip
    assert (run.commit, run.environment) == ("05d283b9", {"cpu": "i5"})


def test_asv_1():
    run = run_of(
        asv(1, time_a=0.5, time_b=None, mem_c={"result": [1, 2], "params": [["1", "2"]]}, peakmem_d={"result": 7})
    )
    assert values_of(run) == {"time_a": [0.5], "mem_c(1)": [1.0], "mem_c(2)": [2.0], "peakmem_d": [7.0]}
    assert [str(problem.key) for problem in run.problems] == ["time_b"]


def test_asv_failed_with_many_parameters():
    """A billion combinations in a few lines: neither counted nor said one by one."""
    run = run_of(asv(time_a=[None, [[str(n) for n in range(1000)]] * 3], time_b=[[1.0]]))
    assert len(run.problems) == 21
    assert run.problems[0].key is not None
    assert [problem for problem in run.problems if problem.key is None]


def test_asv_more_results_than_parameters():
    run = run_of(asv(time_a=[[1.0, 2.0], [["1"]]]))
    assert values_of(run) == {"time_a(1)": [1.0]}
    assert "more results than parameters" in errors(run)[0]


# --- all of them -------------------------------------------------------------------------------------------------

NUMBERS = st.lists(st.floats(0, 1e9), min_size=1, max_size=5)
WRITERS = {
    "pytest-benchmark": lambda x: pytest_benchmark({**STATS, "rounds": len(x), "data": x}),
    "pyperf": lambda x: pyperf(("t.py::test_a", [{"warmups": []}, {"values": x}])),
    "google-benchmark": lambda x: google(
        *(row("t.py::test_a", time_unit="s", repetition_index=index, real_time=one) for index, one in enumerate(x))
    ),
    "hyperfine": lambda x: results(hyperfine(command="t.py::test_a", times=x)),
    "asv": lambda x: asv(**{"t.py::test_a": [[1.0], [], "v", 1, 1.0, [1.0], [1.0], [x]]}),
}  # fmt: skip


@given(x=NUMBERS, chunk=st.integers(1, 200))
@pytest.mark.parametrize("format", WRITERS)
def test_what_is_written_is_read(format, x, chunk):
    run = run_of(WRITERS[format](x), chunk=chunk)
    assert run.format == format
    assert values_of(run)["t.py::test_a"] == x
    assert not run.problems


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("bad", ["NaN", "Infinity", "1e999", "-0.5", '"0.2"', "true", "null", "[]", "9" * 5000])
def test_what_is_no_measurement(format, bad):
    if format == "asv" and bad == "-0.5":
        pytest.skip("what asv tracks may be negative")
    text = WRITERS[format]([111.5, 222.5, 333.5]).replace("222.5", f"\n{bad}")
    run = run_of(text)
    assert values_of(run)["t.py::test_a"] == [111.5, 333.5]
    (problem,) = run.problems
    line = text[: text.index(f"\n{bad}")].count("\n") + 2
    assert (str(problem.key), problem.severity, problem.at.line) == ("t.py::test_a", "error", line)


@pytest.mark.parametrize("format", WRITERS)
def test_a_cut_document_is_an_error(format):
    text = WRITERS[format]([1.5, 2.5])
    run = run_of(text[:-3])
    assert run.format == format
    assert "the JSON document is cut off" in errors(run)[0]
    assert run.problems[0].key is None


@pytest.mark.parametrize("format", WRITERS)
def test_a_duplicate_key_is_an_error(format):
    text = WRITERS[format]([1.5]).replace("{", '{"same": 1, "same": 2, ', 1)
    assert "the key 'same' occurs twice" in errors(run_of(text))[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["NaN", "0.5", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)


def places(data, path=()):
    yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(value, (*path, key))


@given(format=st.sampled_from([*WRITERS]), data=st.data(), value=JSON)
def test_a_changed_document_never_raises(format, data, value):
    document = json.loads(WRITERS[format]([1.5, 2.5]))
    path = data.draw(st.sampled_from([*places(document)][1:]))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    for run in runs_of(json.dumps(document), format):
        assert run.series or errors(run)
        for series in run.series:
            assert series.values.size or series.aggregate


@given(format=st.sampled_from([*WRITERS]), at=st.integers(0, 400), piece=st.binary(max_size=5))
def test_changed_bytes_never_raise(format, at, piece):
    data = WRITERS[format]([1.5, 2.5]).encode()
    assert runs_of(data[:at] + piece + data[at + 3 :], format)


CONSOLE = {
    "pytest --benchmark-json FILE": "--- benchmark: 3 tests ---\nName (time in ns)      Min    Max\n---\ntest_a 1.0\n",
    "hyperfine --export-json FILE": "Benchmark 1: sleep 1\n  Time (mean ± σ):   1.001 s ±  0.001 s    [User: 1 ms]\n",
    "--benchmark_out=FILE": "Run on (4 X)\n---\nBenchmark    Time      CPU   Iterations\n---\nBM_a  2 ns 2 ns 3\n",
    "pyperf's option -o FILE": ".....\nMean +- std dev: 709 ns +- 145 ns\n",
    "--json FILE": "## copy\n\n|  T  | Samples |  CPU Time  | Noise | GPU Time |\n|-----|---------|---|---|---|\n",
    "asv run writes": "[  0.00%] ·· Benchmarking x\n[ 35.00%] ··· b.time_a    11.1±0.01μs\n",
}


@pytest.mark.parametrize("advice", CONSOLE)
def test_console_output_is_refused_with_advice(advice):
    (error,) = errors(run_of(CONSOLE[advice]))
    assert "is console output of" in error
    assert advice in error


def test_console_output_in_a_log_takes_nothing_away():
    log = CONSOLE["pyperf's option -o FILE"] + "x\n" * 70_000 + "[Rank 0] time (ms) | fwd: 1.00 | step: 2.00\n"
    assert run_of(log).format == "deepspeed"


def test_forced_formats_say_what_to_write():
    assert any(
        "--export-json" in error for error in errors(run_of(CONSOLE["hyperfine --export-json FILE"], "hyperfine"))
    )


def test_processes_of_pyperf_count_as_runs(perfgate, folder):
    steady = [{"values": [1.0 + index / 1000, 1.001, 1.002]} for index in range(5)]
    for name, factor in (("base", 1.0), ("new", 1.5)):
        runs = [{"values": [value * factor for value in run["values"]]} for run in steady]
        (folder / f"{name}.json").write_text(pyperf(("sum", runs)))
    write_rules(folder, "sum within 5% of baseline", head="defaults: {min_samples: 3, warmup: 0}\n")
    assert perfgate("baseline", "approve", "base.json", "--reason", "first").code == 0
    done = perfgate("check", "new.json", "--json", "report.json")
    (verdict,) = json.loads((folder / "report.json").read_text())["verdicts"]
    assert (done.code, verdict["outcome"]) == (1, "fail")
    assert (verdict["new"]["runs"], verdict["base"]["runs"]) == (5, 5)


def test_a_failed_command_is_no_pass(perfgate, folder):
    (folder / "a.json").write_text(results(hyperfine(times=[1.0] * 9, exit_codes=[0] * 8 + [2])))
    (folder / "b.json").write_text(results(hyperfine(times=[1.0] * 9)))
    write_rules(folder, '"sleep 1" under 1 h')
    assert (perfgate("check", "a.json").code, perfgate("check", "b.json").code) == (3, 0)


# --- real files, where the shared folder is present --------------------------------------------------------------


def corpus(name):
    return runs_of((SHARED / "corpus" / name).read_bytes())


@pytest.mark.shared
def test_pytest_benchmark_corpus():
    (old,) = corpus("pytest-benchmark/pytest_benchmark_2015_0001.json")
    assert aggregates(old)["tests/test_normal.py::test_xfast_parametrized[0]"] == {
        "mean": 2.622408132654948e-07, "median": 2.2016643907464864e-07, "min": 2.1731454219544334e-07,
        "max": 1.1447389118979422e-05, "stddev": 2.140441942118885e-07, "count": 9987,
    }  # fmt: skip
    (run,) = corpus("pytest-benchmark/pytest_benchmark_action.json")
    assert run.environment == {"cpu": "Intel(R) Core(TM) i7-4771 CPU @ 3.50GHz"}
    assert values_of(run)["bench.py::test_fib_10"] == [
        3.215300000025678e-05, 2.8706999999794647e-05, 2.489499999969169e-05, 2.487300000009185e-05,
    ]  # fmt: skip
    assert [problem.at.line for problem in run.problems if problem.severity == "error"] == [68, 110]
    (several,) = corpus("pytest-benchmark/pytest_benchmark_several_units.json")
    assert values_of(several)["bench.py::test_sleep_2"] == [
        2.005173128, 2.0051284989999996, 2.005124842999999, 2.0027438879999995, 2.001044877,
    ]  # fmt: skip
    (broken,) = corpus("broken/pytest_benchmark_string_in_data.json")
    assert values_of(broken) == {"t.py::test_a": [0.1, 0.3]}
    (problem,) = broken.problems
    assert (str(problem.key), problem.at.line) == ("t.py::test_a", 30)


@pytest.mark.shared
def test_pyperf_corpus():
    for name in ("pyperf_mult_list_py36.json", "pyperf_mult_list_py36_tags.json"):
        runs = corpus("pyperf/" + name)
        assert [run.part for run in runs] == [*range(1, 21)]
        assert {(*values_of(run),) for run in runs} == {("[1]*1000", "[1,2]*1000", "[1,2,3]*1000")}
        assert values_of(runs[0])["[1]*1000"] == [2.087224121094522e-06, 2.1127525786646117e-06, 2.1118663786623415e-06]
        assert values_of(runs[1])["[1,2,3]*1000"] == [
            4.540110717599077e-06,
            4.6062897949283865e-06,
            4.52680090390345e-06,
        ]
        assert not any(run.problems for run in runs)
    outliers = corpus("pyperf/pyperf_doc_outliers.json.gz")
    assert len(outliers) == 20
    assert values_of(outliers[1]) == {"timeit": [4.165644043041539e-06, 4.175872650336032e-06, 4.189367523110832e-06]}
    memory = corpus("pyperf/pyperf_track_memory.json")
    assert [values_of(run)["timeit"] for run in memory] == [[7360512.0], [7364608.0], [7380992.0]]
    assert units(memory[0]) == {"timeit": ("B", "value")}


@pytest.mark.shared
def test_google_benchmark_corpus():
    (run,) = corpus("google-benchmark/gbench_action.json")
    assert {key: values[0] for key, values in values_of(run).items()} == {
        "fib_10": pytest.approx(2.1498980114547953e-07), "fib_10.cpu_time": pytest.approx(2.1365507206163295e-07),
        "fib_20": pytest.approx(2.7455600415007055e-05), "fib_20.cpu_time": pytest.approx(2.7364903204272359e-05),
    }  # fmt: skip
    assert not run.problems


@pytest.mark.shared
def test_asv_corpus():
    (run,) = corpus("asv/asv_05d283b9.json")
    assert len(run.series) == 12
    assert values_of(run)["time_coordinates.time_latitude"] == [6.59472942352295e-05]
    assert (values_of(run)["time_units.mem_unit"], units(run)["time_units.mem_unit"]) == ([728.0], ("B", "value"))
    assert (run.commit, run.problems) == ("05d283b9694ed6db6e3f2df3f21d832e78bded7f", ())
    (failed,) = corpus("asv/asv_05d4f83d.json")
    assert len(errors(failed)) == 13
    assert failed.problems[0].at.line == 20
    (one,) = corpus("asv/asv_cccccccc.json")
    assert values_of(one) == {"time_coordinates.time_latitude": [6.313679218292237e-05]}
    assert "unknown format" in errors(*corpus("asv/asv_aaaaaaaa.json"))[0]
    assert "console output of asv" in errors(*corpus("asv/asv_stdout_six.txt"))[0]
