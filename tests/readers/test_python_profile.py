"""Profiles of Python: what cProfile and pstats of this Python write, and marshalled data of every version."""

import cProfile
import io
import marshal
import pstats

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said


def aggregates(run):
    return {str(one.key).strip('"'): dict(one.aggregate) for one in run.series if one.kind == "aggregate"}


def values(run):
    return {one.key.metric: one.values[0] for one in run.series if one.kind == "value"}


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@pytest.fixture(scope="module")
def profile():
    profiler = cProfile.Profile()
    profiler.runcall(lambda: (fib(8), sorted([3, 1, 2]), "x".join("ab")))
    return profiler


def dumped(profile, tmp_path):
    profile.dump_stats(tmp_path / "profile")
    return (tmp_path / "profile").read_bytes()


def test_what_cprofile_wrote_is_what_pstats_says(profile, tmp_path):
    run = run_of(dumped(profile, tmp_path))
    stats = pstats.Stats(profile).strip_dirs()
    expected = {}
    for function, (primitive, calls, own, cumulative, _) in stats.stats.items():
        name = pstats.func_std_string(function)
        expected[name] = {"total": cumulative, "count": primitive}
        expected[f"{name}.self"] = {"total": own, "count": calls}
    assert (run.format, said(run)) == ("pstats", [])
    assert aggregates(run) == expected
    assert values(run) == {"profile.time": pytest.approx(stats.total_tt), "profile.calls": stats.total_calls}


@pytest.mark.parametrize("strip", [True, False])
def test_what_pstats_printed(profile, tmp_path, strip):
    printed = io.StringIO()
    stats = pstats.Stats(profile, stream=printed)
    (stats.strip_dirs() if strip else stats).sort_stats("cumulative").print_stats()
    run, binary = run_of("a log\n" + printed.getvalue()), run_of(dumped(profile, tmp_path))
    assert (run.format, said(run)) == ("pstats", [])
    exact = aggregates(binary)
    assert aggregates(run) == {
        name: {**one, "total": pytest.approx(one["total"], abs=5e-4)} for name, one in exact.items()
    }
    assert values(run)["profile.calls"] == values(binary)["profile.calls"]


def test_tables_of_several_profiles_are_runs(profile):
    printed = io.StringIO()
    for _ in range(2):
        pstats.Stats(profile, stream=printed).print_stats(3)
    assert [run.part for run in runs_of(printed.getvalue())] == [1, 2]


paths = st.sampled_from(
    ["/home/a/train.py", "~", "<frozen x>", "/usr/lib/python3.11/json/decoder.py", "C:\\a\\b.py", "é.py"]
)
functions = st.dictionaries(
    st.tuples(paths, st.integers(0, 2**40), st.text(max_size=5)),
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**40), st.floats(0, 1e9), st.floats(0, 1e9)),
    min_size=1,
    max_size=8,
)


@given(functions=functions, version=st.integers(0, 4))
def test_marshalled_data_of_every_version(functions, version):
    caller = {("a.py", 1, "f"): (1, 1, 0.5, 0.5)}
    run = run_of(marshal.dumps({key: (*value, caller) for key, value in functions.items()}, version), "pstats")
    assert errors(run) == []
    assert values(run)["profile.time"] == pytest.approx(sum(own for _, _, own, _ in functions.values()))
    assert values(run)["profile.calls"] == sum(calls for _, calls, _, _ in functions.values())
    assert sum(one["total"] for name, one in aggregates(run).items() if name.endswith(".self")) == pytest.approx(
        sum(own for _, _, own, _ in functions.values())
    )


def test_paths_lose_what_depends_on_the_machine():
    names = {
        "/x/venv/lib/python3.12/site-packages/torch/nn/module.py": "torch/nn/module.py",
        "/usr/lib/python3.12/json/decoder.py": "json/decoder.py",
        "/home/me/train.py": "train.py",
        "<frozen importlib._bootstrap>": "<frozen importlib._bootstrap>",
    }
    run = run_of(marshal.dumps({(path, 1, "f"): (1, 1, 1.0, 1.0, {}) for path in names}))
    assert {one.key.metric for one in run.series if one.key.metric.endswith("(f)")} == {
        f"{x}:1(f)" for x in names.values()
    }


def test_functions_that_share_a_name_are_added_up():
    run = run_of(marshal.dumps({(f"/{x}/a.py", 1, "f"): (1, 2, 0.25, 0.5, {}) for x in "ab"}))
    assert aggregates(run)["a.py:1(f)"] == {"total": 1.0, "count": 2}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (marshal.dumps({("a", 1, "f"): (1, 1, 0.5, 0.5, {})})[:-9], "the profile is damaged: it is cut off"),
        (marshal.dumps({("a", 1, "f"): (lambda: 0).__code__}), "which no profile has"),
        (marshal.dumps({("a", 1, "f"): [1]}), "it has more than functions and their callers"),
        (marshal.dumps({("a", 1, "f"): (1, 1, float("nan"), 0.5, {})}), "its times or calls are not measurements"),
        (marshal.dumps({("a", 1, "f"): (1, 1, -0.5, 0.5, {})}), "its times or calls are not measurements"),
        (marshal.dumps({("a", 1, 2): (1, 1, 0.5, 0.5, {})}), "an item has no name of a function"),
        (b"{)\x03r\xff\xff\xff\x00", "it refers to a value that it lacks"),
        (b"{)\x03" + b")\x01" * 9000, "it has more than functions and their callers"),
        (b"\xfb)\x03u\xff\xff\xff\x7f", "it is cut off"),
    ],
)
def test_damaged_profiles_are_errors(data, problem):
    run = run_of(data)
    assert run.format == "pstats"
    assert problem in errors(run)[0]


@given(data=st.binary(max_size=60))
def test_nothing_raises(data):
    (run,) = runs_of(b"{)\x03" + data)
    assert run.series or errors(run)


def test_a_table_without_rows_is_no_measurement_of_functions():
    run = run_of("   4 function calls in 0.001 seconds\n\n   ncalls  tottime  percall  cumtime  percall filename\n")
    assert said(run) == ["train.log:3: warning: a table has a header and no row"]
    assert (
        "cut off"
        in said(run_of("   ncalls  tottime  percall  cumtime  percall filename\n  1  0.0  0.0  0.0  0.0 a.py:1"))[0]
    )


@pytest.mark.parametrize(("count", "is_read"), [(2**119, True), (2**120, False), (-(2**120), False)])
def test_an_integer_that_no_count_has_is_damage(count, is_read):
    run = run_of(marshal.dumps({("/a.py", 1, "f"): (1, count, 0.25, 0.5, {})}), "pstats")
    assert any("an integer of more than 120 bits" in problem for problem in errors(run)) is not is_read
