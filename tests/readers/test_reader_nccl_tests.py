import json

import pytest
from damage import check_changes, check_damage, check_pieces
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import errors, run_of, said, values_of

TABLE = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on host-1 device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on host-1 device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    76.25   13.75   25.75      0    76.50   13.50   25.50    N/A
   268435456      67108864     float     sum      -1   1377.5  194.75  365.25      0   1376.0  195.00  365.75      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 249.125
#
# Collective test concluded: all_reduce_perf
"""

VALUES = {
    'all_reduce.time{place="out", size="1048576"}': [76.25 / 1e6],
    'all_reduce.algbw{place="out", size="1048576"}': [13.75e9],
    'all_reduce.busbw{place="out", size="1048576"}': [25.75e9],
    'all_reduce.time{place="in", size="1048576"}': [76.5 / 1e6],
    'all_reduce.algbw{place="in", size="1048576"}': [13.5e9],
    'all_reduce.busbw{place="in", size="1048576"}': [25.5e9],
    'all_reduce.time{place="out", size="268435456"}': [1377.5 / 1e6],
    'all_reduce.algbw{place="out", size="268435456"}': [194.75e9],
    'all_reduce.busbw{place="out", size="268435456"}': [365.25e9],
    'all_reduce.time{place="in", size="268435456"}': [1376 / 1e6],
    'all_reduce.algbw{place="in", size="268435456"}': [195e9],
    'all_reduce.busbw{place="in", size="268435456"}': [365.75e9],
    "all_reduce.avg_busbw": [249.125e9],
}

HEAD = TABLE.splitlines(keepends=True)[8]


def test_a_table():
    run = run_of(TABLE)
    assert (run.format, run.problems) == ("nccl-tests", ())
    assert dict(run.environment) == {"gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 2, "world_size": 2}
    assert values_of(run) == VALUES
    assert {series.key.metric: (series.kind, series.unit) for series in run.series} == {
        "all_reduce.time": ("samples", "s"),
        "all_reduce.algbw": ("samples", "B/s"),
        "all_reduce.busbw": ("samples", "B/s"),
        "all_reduce.avg_busbw": ("value", "B/s"),
    }


VERSIONS = {
    "2.0, errors as numbers, no name": (
        HEAD.replace("#wrong", " error") + "  8  2  float  sum  -1  10.0  0.50  0.75  2e-07  12.0  0.25  0.5  2e-07\n",
        {"time": ("collective", 10e-6, 12e-6), "busbw": ("collective", 0.75e9, 0.5e9)},
    ),
    "all_gather before 2.9": (
        "$ mpirun -np 8 ./build/all_gather_perf -b 8\n"
        "#  size  count  type  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
        "#   (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)\n"
        "  8  2  float  10.0  0.50  0.75  N/A  12.0  0.25  0.5  N/A\n",
        {"time": ("all_gather", 10e-6, 12e-6), "algbw": ("all_gather", 0.5e9, 0.25e9)},
    ),
    "rccl": (
        "# Collective test starting: alltoall_perf\n"
        + HEAD.replace("\n", "     algo     proto   nchannels\n")
        + "  8  2  float  none  -1  10.0  0.50  0.75  0  12.0  0.25  0.5  0  Direct  SIMPLE  32\n",
        {"time": ("alltoall", 10e-6, 12e-6)},
    ),
    "per iteration, with timestamps": (
        "# Collective test starting: broadcast_perf\n"
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%"
        "  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  timestamp\n"
        "  8  2  float  none  0  10.0  0.50  0.75  0  9.0  11.0  11.0  1.5"
        "  12.0  0.25  0.5  0  9.0  13.0  13.0  1.5  2025-01-01 12:00:00\n",
        {"time": ("broadcast", 10e-6, 12e-6), "busbw": ("broadcast", 0.75e9, 0.5e9)},
    ),
    "time of the CPU": (
        HEAD.replace(" time", " cputime") + "  8  2  float  sum  -1  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n",
        {"cpu_time": ("collective", 10e-6, 12e-6)},
    ),
    "in ms": (
        HEAD
        + "#  (B)  (elements)  (ms)  (MB/s)  (MB/s)  (ms)  (MB/s)  (MB/s)\n"
        + "  8  2  float  sum  -1  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n",
        {"time": ("collective", 0.01, 0.012), "algbw": ("collective", 0.5e6, 0.25e6)},
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(version):
    text, expected = VERSIONS[version]
    run = run_of(text)
    assert (run.format, run.problems) == ("nccl-tests", ())
    values = values_of(run)
    for metric, (collective, out, inside) in expected.items():
        assert values[f'{collective}.{metric}{{place="out", size="8"}}'] == pytest.approx([out])
        assert values[f'{collective}.{metric}{{place="in", size="8"}}'] == pytest.approx([inside])


def test_types_are_labels_where_they_differ_and_repetitions_are_samples():
    row = "  8  2  {}  sum  -1  {}  0.50  0.75  0  12.0  0.25  0.5  0\n"
    text = HEAD + row.format("float", 10.0) + row.format("half", 11.0) + row.format("half", 12.0)
    values = values_of(run_of(text))
    assert values['collective.time{place="out", size="8", type="float"}'] == pytest.approx([10 / 1e6])
    assert values['collective.time{place="out", size="8", type="half"}'] == pytest.approx([11e-6, 12e-6])


def test_a_wrong_result_is_no_measurement():
    run = run_of(TABLE.replace("25.75      0", "25.75      3").replace("values : 0 OK", "values : 3 FAILED"))
    assert {str(problem.key) for problem in run.problems if problem.key} == {*[*VALUES][:3]}
    assert {problem.at.line for problem in run.problems if problem.key} == {11}
    assert said(run)[0] == "train.log:13: error: the test failed: Out of bounds values : 3 FAILED"
    assert values_of(run) == {key: VALUES[key] for key in [*VALUES][3:]}


@pytest.mark.parametrize("text", ["nan", "inf", "-76.2", "x"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(TABLE.replace("76.25", text))
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 11, next(iter(VALUES)))


def test_a_cut_row_is_left_out():
    run = run_of(TABLE[: TABLE.index("195.00")])
    assert said(run) == ["train.log:12: warning: the last row is cut off; left out"]
    assert len(values_of(run)) == 6


def test_a_short_row_is_an_error():
    run = run_of(TABLE.replace("   76.50   13.50   25.50    N/A", ""))
    assert "train.log:11: error: a row cannot be read: 9 cells, but the header has 13" in errors(run)


def test_a_failed_test_is_an_error():
    assert "failure" in errors(run_of(TABLE + "host-1: Test NCCL failure common.cu:1005 'unhandled system error'\n"))[0]


def written(time=76.25, nwrong=0):
    row = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1"}
    out = {"time": time, "alg_bw": 13.75, "bus_bw": 25.75, "nwrong": nwrong}
    inside = {"time": 76.5, "alg_bw": 13.5, "bus_bw": 25.5, "nwrong": None}
    return {
        "version": 2,
        "args": ["./build/all_reduce_perf", "-b", "8"],
        "env": ["HF_TOKEN=hf_secret", "PATH=/bin"],
        "nccl_version": 22707,
        "config": {"nthreads": 1, "ngpus": 2, "devices": [{"rank": 0, "hostname": "h", "device_info": "NVIDIA H100"}]},
        "results": [{**row, "out_of_place": out, "in_place": inside, "actual_iterations": 20, "experiment_name": ""}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 249.125, "okay": "unchecked"},
    }


def test_a_document():
    run = run_of(json.dumps(written()))
    assert (run.format, run.problems) == ("nccl-tests", ())
    assert dict(run.environment) == {"gpu": "NVIDIA H100", "gpu_count": 2, "world_size": 2}
    assert values_of(run) == {key: VALUES[key] for key in [*VALUES][:6] + [*VALUES][-1:]}
    assert "hf_secret" not in repr(run)


@pytest.mark.parametrize("time", [float("nan"), "nan", -1.5, None])
def test_values_of_a_document_that_cannot_be_true(time):
    run = run_of(json.dumps(written(time), indent=1))
    (problem,) = run.problems
    assert str(problem.key) == next(iter(VALUES))
    lines = json.dumps(written(time), indent=1).splitlines()
    assert '"out_of_place"' in lines[problem.at.line - 1]


def test_a_document_of_wrong_results():
    document = {**written(nwrong=2.0), "out_of_bounds": {"count": 2, "okay": "false"}}
    run = run_of(json.dumps(document))
    assert len(errors(run)) == 4
    assert len(values_of(run)) == 4


def test_a_cut_document_is_an_error():
    run = run_of(json.dumps(written())[:-30])
    assert run.series == ()
    assert "cut off" in errors(run)[0]


numbers = st.integers(0, 10**7).map(lambda number: number / 100)


@settings(max_examples=60, deadline=None)
@given(rows=st.dictionaries(st.integers(1, 2**40), st.tuples(*[numbers] * 6), min_size=1, max_size=8))
def test_what_was_written_is_read(rows):
    table = HEAD + "".join(
        f"{size:12d}  {1:12d}  {'float':>8}  {'sum':>6}  {-1:6d}"
        + "".join(f"  {time:7.2f}  {alg:6.2f}  {bus:6.2f}  {0:6g}" for time, alg, bus in (cells[:3], cells[3:]))
        + "\n"
        for size, cells in rows.items()
    )
    values = values_of(run_of(table))
    for size, cells in rows.items():
        for place, (time, alg, bus) in (("out", cells[:3]), ("in", cells[3:])):
            labels = f'{{place="{place}", size="{size}"}}'
            assert values[f"collective.time{labels}"] == [time / 1e6]
            assert values[f"collective.algbw{labels}"] == [alg * 10**9]
            assert values[f"collective.busbw{labels}"] == [bus * 10**9]


def test_damaged_files():
    check_damage(TABLE, "nccl-tests")
    check_pieces(json.dumps(written()), "nccl-tests")
    check_changes(json.dumps(written()), "nccl-tests")


def test_a_header_with_the_unit_of_the_size():
    text = HEAD.replace("   size ", "size(B) ") + "  8  2  float  sum  -1  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n"
    assert values_of(run_of(text, "nccl-tests"))['collective.time{place="out", size="8"}'] == [10 / 1e6]


def test_of_two_averages_none_is_taken_for_the_other():
    run = run_of(HEAD + "# Avg bus bandwidth    : 0.25\n" + HEAD + "# Avg bus bandwidth    : 0.5\n", "nccl-tests")
    assert values_of(run)["collective.avg_busbw"] == [0.25e9]
    assert "give each run its own file" in errors(run)[0]
