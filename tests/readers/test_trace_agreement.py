"""The reader of Chrome traces against the oracle: on real traces, on torch's own, and on random ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from reading import SHARED
from trace_comparison import EXACT, LOOSE, check
from trace_events import load
from trace_oracle import MODES, answers
from trace_texts import traces

from perfgate.readers import Source, read

FIXTURES = Path(__file__).parent / "fixtures/traces"


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.gz")), ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_traces_of_torch(path):
    check(path.name, path.read_bytes(), EXACT)


#: Beyond this many bytes, inflated, the oracle takes its time over a trace.
LARGE = 9_000_000


def inflated(path):
    data = path.read_bytes()
    return int.from_bytes(data[-4:], "little") if path.suffix == ".gz" else len(data)


def corpus():
    folder = SHARED / "corpus/chrome-trace"
    paths = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]) if folder.is_dir() else []
    slow = {path: [pytest.mark.slow] if inflated(path) > LARGE else [] for path in paths}
    return [pytest.param(path, marks=marks, id=path.name[:60]) for path, marks in slow.items()]


@pytest.mark.shared
@pytest.mark.parametrize("path", corpus())
def test_real_traces(path):
    data = path.read_bytes()
    if "traceEvents" in load(data):
        check(path.name, data, LOOSE)
    else:
        (run,) = read(Source(path.name, [data]))
        assert run.series == ()
        assert any(problem.severity == "error" for problem in run.problems)


# --- the files of one run ----------------------------------------------------------------------------------------


def inspected(perfgate, *words):
    """Return the content of one run in `inspect`: the values of each series, the environment and the problems."""
    done = perfgate("inspect", "--json", "--values", *words)
    assert done.code == 0, done.said
    (run,) = json.loads(done.out)["runs"]
    series = {(found["metric"], found["labels"].get("rank")): found["values"] for found in run["series"]}
    return series, run["environment"], [problem["message"] for problem in run["problems"]]


@pytest.mark.parametrize("mode", MODES)
def test_two_ranks_are_one_run(perfgate, mode):
    files = [FIXTURES / f"two_ranks/rank{rank}.json.gz" for rank in range(2)]
    series, environment, problems = inspected(perfgate, "--trace-mode", mode, FIXTURES / "two_ranks")
    for rank, path in enumerate(files):
        expected = answers(path.read_bytes())[mode]
        for part, times in expected.parts.items():
            assert series[f"step.{part}", str(rank)] == pytest.approx([time / 1e9 for time in times], abs=1e-9)
        assert len(series["range.gloo:all_reduce", str(rank)]) == 3
    assert environment["world_size"] == 2
    assert problems == []


def test_two_spans_of_one_profiler_are_one_run(perfgate):
    spans = [answers(path.read_bytes())["corrected"] for path in sorted((FIXTURES / "two_spans").glob("*"))]
    series, _, _ = inspected(perfgate, FIXTURES / "two_spans")
    times = [time / 1e9 for span in spans for time in span.parts["time"]]
    assert series["step.time", None] == pytest.approx(times, abs=1e-9)
    forward = [time / 1e9 for span in spans for time in span.series["range.forward"]]
    assert series["range.forward", None] == pytest.approx(forward, abs=1e-9)


def test_a_rank_that_is_not_there_is_said(perfgate, folder):
    shutil.copy(FIXTURES / "two_ranks/rank1.json.gz", folder)
    series, _, problems = inspected(perfgate, "rank1.json.gz")
    assert {rank for _, rank in series} == {"1"}
    assert any("rank" in problem and "0" in problem for problem in problems)


def test_a_rank_that_only_the_file_s_name_tells_is_said(perfgate, folder):
    shutil.copy(FIXTURES / "with_steps/trace.json.gz", folder / "rank-3.json.gz")
    series, _, problems = inspected(perfgate, "rank-3.json.gz")
    assert {rank for _, rank in series} == {"3"}
    assert any("name" in problem for problem in problems)


def test_a_trace_without_steps_says_so(perfgate):
    series, _, problems = inspected(perfgate, FIXTURES / "without_steps/trace.json.gz")
    assert len(series["step.time", None]) == 1
    assert any("no step" in problem for problem in problems)


# --- random ones -------------------------------------------------------------------------------------------------


@given(traces())
def test_random_traces(text):
    check("trace.json", text.encode(), EXACT)


@settings(max_examples=25)
@given(traces())
def test_the_pieces_that_a_file_comes_in_do_not_matter(text):
    check("trace.json", text.encode(), EXACT, chunk=7)
