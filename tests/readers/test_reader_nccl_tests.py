import json

import pytest
from damage import check_changes, check_damage, check_pieces
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said, values_of

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
        "all_reduce.time": ("value", "s"),
        "all_reduce.algbw": ("value", "B/s"),
        "all_reduce.busbw": ("value", "B/s"),
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
    assert said(run) == [
        "train.log:12: warning: the last row is cut off; left out",
        "train.log:9: error: the table is cut off: it has 1 of the 31 sizes, and no average at its end",
    ]
    assert len(values_of(run)) == 6


def test_a_short_row_is_an_error():
    run = run_of(TABLE.replace("   76.50   13.50   25.50    N/A", ""))
    assert "train.log:11: error: a row cannot be read: 9 cells, but the header has 13" in errors(run)


def test_every_unreadable_row_is_counted():
    row = next(line for line in TABLE.splitlines() if "76.50   13.50" in line)
    short = row.replace("   76.50   13.50   25.50    N/A", "")
    run = run_of(TABLE.replace(row, "\n".join([short] * 100)))
    assert "train.log: error: a row cannot be read: and 80 more" in errors(run)


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
    assert values_of(run) == {
        'collective.avg_busbw{section="1"}': [0.25e9],
        'collective.avg_busbw{section="2"}': [0.5e9],
    }
    assert errors(run) == [
        f"train.log:{line}: error: a table has no row that can be read: collective" for line in (1, 3)
    ]


UNITS = TABLE.splitlines(keepends=True)[9]


def program(
    name: str,
    time: float,
    ranks: int = 2,
    settings: str = "agg iters: 1 graph: 0",
    redop: str = "sum",
    title: bool = True,
):
    """Return the output of one program of nccl-tests."""
    devices = "".join(
        f"#  Rank {i:2d} Group  0 Pid {7000 + i} on host device {i:2d} [0000:04:00] H100\n" for i in range(ranks)
    )
    row = f"     1048576        262144     float  {redop:>6}      -1   {time:.2f}   13.75   25.75      0"
    row += "    76.50   13.50   25.50    N/A\n"
    return (
        (f"# Collective test starting: {name}_perf\n" if title else "")
        + f"# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) {settings}\n"
        + "#\n# Using devices\n"
        + devices
        + HEAD
        + UNITS
        + row
        + f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {time / 2:.3f}\n#\n"
        + (f"# Collective test concluded: {name}_perf\n" if title else "")
    )


def time_of(run, name, **labels):
    text = ", ".join(f'{key}="{value}"' for key, value in sorted({"place": "out", "size": "1048576", **labels}.items()))
    return values_of(run)[f"{name}.time{{{text}}}"]


def test_programs_in_sequence_have_sections_with_their_own_name_and_average():
    run = run_of(program("all_reduce", 70) + "\n" + program("all_gather", 40, redop="none") + program("alltoall", 90))
    assert run.problems == ()
    assert [time_of(run, name) for name in ("all_reduce", "all_gather", "alltoall")] == [[70e-6], [40e-6], [90e-6]]
    assert values_of(run)["all_reduce.avg_busbw"] == [35e9]
    assert values_of(run)["alltoall.avg_busbw"] == [45e9]
    assert dict(run.environment) == {"gpu": "H100", "gpu_count": 2, "world_size": 2}


def test_names_of_old_programs_are_those_in_the_lines_of_the_launcher():
    text = "".join(
        f"+ mpirun -np 2 /opt/nccl-tests/build/{name}_perf -b 1M -e 1M\n" + program(name, time, title=False)
        for name, time in (("all_reduce", 70), ("reduce_scatter", 40))
    )
    run = run_of("for t in all_reduce_perf reduce_scatter_perf; do\n" + text)
    assert run.problems == ()
    assert (time_of(run, "all_reduce"), time_of(run, "reduce_scatter")) == ([70e-6], [40e-6])


def test_sections_of_different_sizes_have_their_ranks_as_a_label():
    run = run_of(program("all_reduce", 70, ranks=2) + program("all_reduce", 90, ranks=4))
    assert "world_size" not in run.environment
    assert (time_of(run, "all_reduce", ranks=2), time_of(run, "all_reduce", ranks=4)) == ([70e-6], [90e-6])
    assert values_of(run)['all_reduce.avg_busbw{ranks="4"}'] == [45e9]


@pytest.mark.parametrize(
    ("one", "other", "label"),
    [
        ({"settings": "graph: 0"}, {"settings": "graph: 1"}, "graph"),
        ({"settings": "agg iters: 1"}, {"settings": "agg iters: 4"}, "agg_iters"),
    ],
)
def test_settings_that_differ_are_labels(one, other, label):
    run = run_of(program("all_reduce", 70, **one) + program("all_reduce", 90, **other))
    assert {series.key.label(label) for series in run.series} == {
        value.split(": ")[1] for value in (*one.values(), *other.values())
    }


def test_variables_that_differ_are_labels():
    text = "".join(
        f"$ NCCL_ALGO={algo} ./all_reduce_perf -b 1M\n" + program("all_reduce", 70) for algo in ("Ring", "Tree")
    )
    assert {series.key.label("NCCL_ALGO") for series in run_of(text).series} == {"Ring", "Tree"}


def test_equal_sections_are_runs():
    runs = runs_of(program("all_reduce", 70) + program("all_gather", 40) + program("all_reduce", 71))
    assert [time_of(run, "all_reduce") for run in runs] == [[70e-6], [71e-6]]
    assert [run.partial for run in runs] == [False, True]


def test_rows_that_differ_in_type_within_one_name():
    half = program("all_reduce", 80).replace("float", " half")
    run = run_of(program("all_reduce", 70) + half + program("all_gather", 40))
    assert (time_of(run, "all_reduce", type="float"), time_of(run, "all_reduce", type="half")) == ([70e-6], [80e-6])
    assert time_of(run, "all_gather") == [40e-6]


PREFIXES = {
    "mpirun": lambda line: "[1,0]<stdout>:" + line,
    "mpirun, in pieces": lambda line: "[1,0]<stdout>:" + line.replace("      -1   ", "      -1[1,0]<stdout>:   "),
    "srun": lambda line: "0: " + line,
    "torchrun": lambda line: "[rank0]:" + line,
    "kubernetes": lambda line: "2024-08-21T10:19:42.123456789Z " + line,
    "pdsh": lambda line: "ip-10-0-0-4: " + line,
    "kubernetes and mpirun": lambda line: "2024-08-21T10:19:42.1234Z [1,0]<stdout>:" + line,
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_tags_and_prefixes_of_launchers(prefix):
    lines = (program("all_reduce", 70) + program("all_gather", 40)).splitlines(keepends=True)
    run = run_of("".join(map(PREFIXES[prefix], lines)))
    assert run.problems == ()
    assert values_of(run) == values_of(run_of("".join(lines)))
    assert dict(run.environment) == {"gpu": "H100", "gpu_count": 2, "world_size": 2}


def test_processes_that_each_print_a_table_are_ranks():
    lines = [program("all_reduce", time, ranks=1).splitlines(keepends=True) for time in (70, 90)]
    text = "".join(f"[1,{rank}]<stdout>:{line}" for both in zip(*lines, strict=True) for rank, line in enumerate(both))
    run = run_of(text)
    assert run.problems == ()
    assert (time_of(run, "all_reduce", rank=0), time_of(run, "all_reduce", rank=1)) == ([70e-6], [90e-6])


def test_a_table_without_a_tag_beside_those_of_ranks_has_no_rank():
    ranks = "".join(f"[1,0]<stdout>:{line}" for line in program("all_reduce", 90, ranks=1).splitlines(keepends=True))
    run = run_of(program("all_reduce", 70, ranks=1) + ranks)
    assert (time_of(run, "all_reduce"), time_of(run, "all_reduce", rank=0)) == ([70e-6], [90e-6])


@pytest.mark.parametrize(
    "row",
    [
        "  8  2  float  -1  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n",
        "  8  2  float  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n",
        "  8  2  float  12345  0.50  0.75  0  12346  0.25  0.5  0\n",
        "  8  2  float  sum  10.0  0.50  0.75  0  12.0  0.25  0.5  0\n",
    ],
    ids=["redop", "redop and root", "times without decimals", "root"],
)
def test_a_blank_redop_or_root(row):
    run = run_of(HEAD + row)
    assert run.problems == ()
    cells = row.split()
    assert values_of(run)['collective.time{place="out", size="8"}'] == pytest.approx([float(cells[-8]) / 1e6])
    assert values_of(run)['collective.busbw{place="in", size="8"}'] == pytest.approx([0.5e9])


def test_a_table_without_rows_is_an_error():
    text = program("all_reduce", 70) + program("all_gather", 40).replace("   1048576 ", "   1048576, ")
    run = run_of(text)
    assert errors(run) == ["train.log:20: error: a table has no row that can be read: all_gather"]


def test_sizes_that_were_rounded_to_zero_are_a_mean():
    row = "  0  0  float  sum  -1  {}  0.00  0.00  0  12.0  0.00  0.00  0\n"
    run = run_of(
        HEAD + row.format(2.0) + row.format(4.0) + "  4  1  float  sum  -1  5.0  0.0  0.0  0  1.0  0.0  0.0  0\n"
    )
    [series] = [one for one in run.series if str(one.key) == 'collective.time{place="out", size="0"}']
    assert (series.kind, dict(series.aggregate)) == ("aggregate", {"mean": pytest.approx(3e-6), "count": 2.0})
    wrong = f"train.log:{HEAD.count(chr(10)) + 2}: error: collective.time"
    assert errors(run_of(HEAD + row.format(2.0) + row.format("inf")))[0].startswith(wrong)


def test_a_log_of_several_programs_can_be_damaged():
    check_damage(program("all_reduce", 70) + program("all_gather", 40), "nccl-tests")
