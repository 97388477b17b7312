import pytest
from conftest import ends
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said

HEAD = "<torch.utils.benchmark.utils.common.Measurement object at 0x7f1929a38ed0>"
ONE = f"""\
{HEAD}
x * y
setup:
  x = torch.ones((128,))
  y = torch.ones((128,))

  Median: 2.34 us
  IQR:    0.07 us (2.31 to 2.38)
  424 measurements, 1000 runs per measurement, 1 thread
  WARNING: Interquartile range is 39.4% of the median measurement.
           This suggests significant environmental influence.
"""
TABLE = """\
[--------------------- softmax ---------------------]
                            |  B=8, M=256  |  B=8, M=1024
1 threads: ------------------------------------------
      dense                 |      62.3    |     510.3   \x20
      (32, 128, 768)        |              |    1897.4 (! 15%)
4 threads: ------------------------------------------
      dense                 |      12.8    |     141.9   \x20

Times are in microseconds (us).
"""


def found(run):
    return {str(series.key): dict(series.aggregate) or series.values.tolist() for series in run.series}


def test_a_measurement():
    run = run_of(ONE)
    assert run.format == "torch-benchmark"
    assert found(run) == {'x * y{threads="1"}': {"median": 2.34 / 1e6, "count": 424}}
    assert (run.series[0].unit, run.series[0].kind, run.problems) == ("s", "aggregate", ())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Attention: flash\nforward only\nsetup: x = 1\n", 'Attention: flash{description="forward only", threads="2"}'),
        ("stmt: (big)\n  a = 1\n  a + 1\n\n", 'a = 1; a + 1: big{threads="2"}'),
        ("stmt:\n  a = 1\n  a + 1\n\ndescribed\n", 'a = 1; a + 1{description="described", threads="2"}'),
        ("pass\n", 'pass{threads="2"}'),
    ],
)
def test_titles(text, key):
    body = f"{HEAD}\n{text}  Median: 7.98 ns\n  125 measurements, 1 runs per measurement, 2 threads\n"
    assert found(run_of(body)) == {key: {"median": 7.98 / 1e9, "count": 125}}


@pytest.mark.parametrize("prefix", ["", "    ", "# ", "> ", "#    "])
@pytest.mark.parametrize("time", ["178.42 us", "178.42 µs", "178.42 ns", "178.42 ms", "178.42 s"])
def test_one_measurement_is_a_value(prefix, time):
    lines = [HEAD, "fn(x)", f"  {time}", "  1 measurement, 10000 runs , 1 thread"]
    run = run_of("".join(f"{prefix}{line}\n" for line in lines))
    per = {"us": 1e6, "µs": 1e6, "ns": 1e9, "ms": 1e3, "s": 1.0}[time.split()[1]]
    assert found(run) == {'fn(x){threads="1"}': [178.42 / per]}
    assert run.series[0].kind == "value"


def test_a_list_of_measurements():
    lines = "a\n  Median: 1.00 s\n  2 measurements, 1 runs per measurement, 1 thread"
    run = run_of(f"[{HEAD}\n{lines}, {HEAD}\n{lines.replace('a', 'b', 1)}]\n")
    assert [*found(run)] == ['a{threads="1"}', 'b{threads="1"}']


def test_a_measurement_again():
    run = run_of(ONE + ONE)
    assert [*found(run)] == ['x * y{threads="1"}', 'x * y#2{threads="1"}']
    assert said(run) == ["train.log:12: warning: a name occurs again: x * y is named x * y#2 here"]


def test_a_name_that_looks_like_one_again():
    run = run_of(ONE + ONE + ONE.replace("x * y", "x * y#2") + ONE)
    assert [*found(run)] == [f'{name}{{threads="1"}}' for name in ("x * y", "x * y#2", "x * y#2#2", "x * y#3")]
    assert said(run) == [
        "train.log:12: warning: a name occurs again: x * y is named x * y#2 here",
        "train.log:23: warning: a name occurs again: x * y#2 is named x * y#2#2 here",
    ]


def test_a_measurement_broken_off_and_one_cut_off():
    run = run_of(f"{HEAD}\nlost\nlog line\n" + ONE + f"{HEAD}\ncut\n  Median: 1.0")
    assert [*found(run)] == ['x * y{threads="1"}']
    assert said(run) == [
        "train.log:1: error: this measurement is broken off on line 4; left out",
        "train.log:15: warning: the measurement that begins here is cut off; left out",
    ]


@pytest.mark.parametrize("bad", ["nan", "inf", "-1.00", "x"])
def test_a_median_that_cannot_be_true(bad):
    (problem, _) = run_of(ONE.replace("2.34", bad)).problems
    assert (str(problem.key), problem.severity, problem.at.line) == ('x * y{threads="1"}', "error", 1)


def test_a_table():
    run = run_of(TABLE)
    assert run.format == "torch-benchmark"
    assert found(run) == {
        'softmax: dense{description="B=8, M=256", threads="1"}': {"median": 62.3 / 1e6},
        'softmax: dense{description="B=8, M=1024", threads="1"}': {"median": 510.3 / 1e6},
        'softmax: (32, 128, 768){description="B=8, M=1024", threads="1"}': {"median": 1897.4 / 1e6},
        'softmax: dense{description="B=8, M=256", threads="4"}': {"median": 12.8 / 1e6},
        'softmax: dense{description="B=8, M=1024", threads="4"}': {"median": 141.9 / 1e6},
    }
    assert not run.problems


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("[--------------------- softmax ---------------------]", "[ softmax ]"),
        ("dense                 |      62.3", "dense                 |  \x1b[92m\x1b[1m  62.3\x1b[0m\x1b[0m"),
        ("62.3    |", "62.3 (+-0.4)  |"),
    ],
)
def test_tables_in_other_forms(changed, to):
    assert changed in TABLE
    assert found(run_of(TABLE.replace(changed, to))) == found(run_of(TABLE))


def test_a_table_without_label_with_environments_and_behind_a_comment():
    table = """\
[-------------  -------------]
                      |  new
1 threads: -------------------
  (branch)    a + b   |   1.0
              a | c   |   2.0
  (main)      a + b   |   3.0

Times are in milliseconds (ms).
"""
    expected = {
        'a + b{description="new", env="branch", threads="1"}': {"median": 1.0 / 1e3},
        'a | c{description="new", env="branch", threads="1"}': {"median": 2.0 / 1e3},
        'a + b{description="new", env="main", threads="1"}': {"median": 3.0 / 1e3},
    }
    assert found(run_of(table)) == expected
    assert found(run_of("".join(f"# {line}\n" for line in table.splitlines()))) == expected


def test_a_table_that_is_cut_off_has_no_unit():
    for end in range(len(TABLE) - 25, len(TABLE) - 3):
        run = run_of(TABLE[:end])
        assert run.series == ()
        assert said(run)[0] == "train.log:1: warning: the table that begins here is cut off; left out"


def test_a_table_that_is_broken_off_is_an_error():
    run = run_of(TABLE.replace("4 threads", "INFO a log line\n4 threads") + TABLE.replace("softmax", "other"))
    assert {series.key.metric for series in run.series} == {"other: dense", "other: (32, 128, 768)"}
    assert "this table is broken off on line 6" in errors(run)[0]


@pytest.mark.parametrize(
    "piece", ["[ ", "[-", "  |", " (", ") ", "1 threads: ---", "1", "Times are in a", f"{HEAD} ", "a\n"]
)
def test_every_text_ends(piece):
    with ends():
        for start in ("", f"{HEAD}\nx\n", "[- x -]\n  |  a\n1 threads: ---\n", "[- x -]\n"):
            runs_of(start + piece * (100_000 // len(piece)) + "\n  |  a\n1 threads: ---\n", "torch-benchmark")
        runs_of(ONE * 3000)


@pytest.mark.parametrize("prefix", ["[rank0]: ", "    ", "# "])
def test_a_table_behind_a_prefix(prefix):
    assert found(run_of("".join(f"{prefix}{line}\n" for line in TABLE.splitlines()))) == found(run_of(TABLE))


TIMES = st.decimals(0, 10_000, places=2)


@given(
    times=st.lists(TIMES, min_size=1, max_size=5),
    unit=st.sampled_from(["ns", "us", "ms", "s"]),
    chunk=st.integers(1, 99),
)
def test_what_is_printed_is_read(times, unit, chunk):
    per = {"us": 1e6, "ns": 1e9, "ms": 1e3, "s": 1.0}[unit]
    text = "".join(
        f"{HEAD}\nfn({index})\n  Median: {time} {unit}\n  9 measurements, 1 runs per measurement, 1 thread\n"
        for index, time in enumerate(times)
    )
    run = run_of(text, chunk=chunk)
    assert [series.aggregate["median"] for series in run.series] == [float(time) / per for time in times]
    names = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    head = "[--- t ---]\n" + "  |  ".join(["    ", *(f"c{index}" for index in range(len(times)))])
    row = "  |  ".join(["      r", *map(str, times)])
    table = run_of(f"{head}\n1 threads: ----\n{row}\n\nTimes are in {names[unit]} ({unit}).\n", chunk=chunk)
    assert [series.aggregate["median"] for series in table.series] == [float(time) / per for time in times]
    assert not run.problems + table.problems


BOTH = (ONE + TABLE).encode()


@given(cut=st.integers(0, len(BOTH)), chunk=st.integers(1, 99))
def test_a_cut_never_changes_a_value(cut, chunk):
    whole, part = found(run_of(BOTH)), found(run_of(BOTH[:cut], "torch-benchmark", chunk))
    assert part.items() <= whole.items()


@given(at=st.integers(0, len(BOTH)), gone=st.integers(0, 40), piece=st.binary(max_size=6))
def test_changed_bytes_never_raise(at, gone, piece):
    for run in runs_of(BOTH[:at] + piece + BOTH[at + gone :], "torch-benchmark"):
        assert run.series or errors(run)
