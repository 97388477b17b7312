import gzip
import io
import json
import pickle
import subprocess
import sys
import zipfile
from importlib import import_module

import pytest
from conftest import ends
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of

from perfgate.readers import FORMATS, Source, read, recognise

DEEPSPEED = "[Rank 0] time (ms) | fwd: 1.00 | step: 2.00\n"
TIMEIT = json.dumps({"computation": "forward", "times": [0.1]})
RESULTS = json.dumps({"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", "value": 1}]})


def recognised(data: bytes | str):
    return recognise(Source("f", [data.encode() if isinstance(data, str) else data]))


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        ("x\n" * 2021 + DEEPSPEED, "deepspeed", "found 'time (ms)' on line 2022"),
        ("a" * 5_000_000 + "\n" + DEEPSPEED, "deepspeed", "found 'time (ms)' on line 2"),
        ("epoch=0/micro_step=1/global_step=1, RunningAvgSamplesPerSec=1", "deepspeed", "'SamplesPerSec='"),
        (TIMEIT, "timeit", "a JSON document with 'times'"),
        ("INFO\n" + TIMEIT, "timeit", "on line 2"),
        (RESULTS, "perfgate", "a JSON document of schema perfgate.results/1"),
        ('{"train_batch_size": 8}\n' + DEEPSPEED, "deepspeed", "on line 2"),
        ("[2024-02-20 09:55:01] x\n" + DEEPSPEED, "deepspeed", "on line 2"),
        ("[1,0]<stdout>:x\n" + DEEPSPEED, "deepspeed", "on line 2"),
        (DEEPSPEED + TIMEIT, "deepspeed", "on line 1"),
        ("log\n" + TIMEIT + "\n" + DEEPSPEED, "timeit", "on line 2"),
        ("\ufeff" + RESULTS, "perfgate", "schema"),
        (gzip.compress(RESULTS.encode(), mtime=0), "perfgate", "schema"),
        (DEEPSPEED.encode("utf-16"), "deepspeed", "on line 1"),
    ],
)
def test_formats_are_recognised_by_content(data, name, why):
    recognition = recognised(data)
    assert recognition.format == name
    assert why in recognition.why
    (run,) = recognition.read()
    assert run.format == name
    assert (run.source, run.recognised_by) == ("f", recognition.why)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\t\r\n", "the file is empty: it contains only blanks"),
        (b"\0" * 3000, "it contains only NUL bytes (a disk that was full, or"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"step;time;loss\n1;2;3\n", "CSV of an unknown format with ';' between its columns"),
        (b"hello\nworld\n", "unknown format: no line is output of a tool that perfgate reads"),
        (bytes(range(256)) * 20, "this is a binary file of an unknown kind"),
        (b"12.5\n", "JSON of an unknown format"),
        (b'{"traces": 1, "b": []}', "its top-level keys are traces, b"),
        (b"[" * 100_000, "nested deeper than the limit depth=64"),
        (b'{"a": [1, 2', "on line 1, column 12: the JSON document is cut off"),
        (pickle.dumps({"times": [1.0]}), "a Python pickle, which is never loaded"),
        (pickle.dumps({"times": [1.0]}, 2), "a Python pickle, which is never loaded"),
        (b"BZh91AY", "the only compression that perfgate reads is gzip"),
        (b"\x1f\x8bgarbage", "the gzip stream is damaged"),
    ],
)
def test_files_that_cannot_be_read_are_runs_with_an_error(data, message):
    run = run_of(data)
    assert (run.format, run.series) == ("unknown", ())
    (problem,) = run.problems
    assert problem.severity == "error"
    assert message in problem.message


def test_a_zip_archive_is_never_loaded():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", b"x")
    assert "a pickle is never loaded" in errors(run_of(archive.getvalue()))[0]


def test_a_format_can_be_forced():
    assert run_of("hello\n", "deepspeed").format == "deepspeed"
    assert errors(run_of("hello\n", "deepspeed")) == ["train.log: error: no measurements"]
    assert "there is no format 'nope'" in errors(run_of("hello\n", "nope"))[0]


def test_every_reader_has_what_the_registry_asks_for():
    assert len({known.name for known in FORMATS}) == len(FORMATS)
    for known in FORMATS:
        assert all((known.title, known.metrics, known.checked))
        module = import_module(known.module)
        assert module.__doc__
        assert callable(module.read)


@pytest.mark.parametrize(("text", "tool"), [(DEEPSPEED, "deepspeed"), (TIMEIT, "benchmarks"), (RESULTS, "recorded")])
def test_a_file_loads_its_own_reader_and_no_other(text, tool):
    program = f"""
import sys
from perfgate.readers import Source, read
read(Source("f", [{text.encode()!r}]))
print(*{{name.split(".")[2] for name in sys.modules if name.startswith("perfgate.readers.") and name.count(".") > 2}})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [tool]


PIECES = (
    b"time (ms) | ,fwd: 1.00, | ,(,),[Rank 0] ,rank=1 ,nan,1.5,\xff,SamplesPerSec=,1/2, CurrSamplesPerSec=3,"
    b"MemAllocated=1GB,Data (t): ,1 Batch (t): ,step=3, skipped=,Global Steps: 4 ,{,},[,],"
    b'"times": [,1, ,",times=[,Result(,\\,{"schema": "perfgate.results/1", "series": [,"metric": ,1e999,'
    b"\x1f\x8b,\x1b[,\0,:,=, ,\n,\r,Traceback (most recent call last):,Initializing TorchBackend in DeepSpeed"
).split(b",")


@given(
    data=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from([*PIECES, b","]), max_size=40).map(b"".join)),
    format=st.sampled_from([None, *(known.name for known in FORMATS)]),
    chunk=st.integers(1, 50),
)
def test_nothing_raises(data, format, chunk):
    runs = runs_of(data, format, chunk)
    assert runs
    for run in runs:
        assert run.series or any(problem.severity == "error" for problem in run.problems)
        for series in run.series:
            assert series.values.size or series.aggregate
            assert ((series.values >= 0) | (series.unit != "s")).all()


@pytest.mark.parametrize(
    "piece",
    [
        b"| ",
        b"| x 1 | a: 1 y",
        b"| a: 1 (",
        b" ",
        b"time (ms) | a",
        b"\x1b]",
        b'\\"',
        b"[",
        b"{",
        b"Data (t): 1 (",
        b"store-based barrier",
        b"A(",
        b"1/",
        b"] ",
        b"Running profile for:",
        b"rank=1",
    ],
    ids=repr,
)
@pytest.mark.parametrize("start", [b"time (ms) |", b'{"', b"[", b""], ids=repr)
def test_every_line_ends(piece, start):
    with ends(10):
        for known in FORMATS:
            runs_of(start + piece * (40_000 // len(piece)) + b"\n", known.name)
        runs_of(start + piece * (60_000 // len(piece)))


def test_reading_is_one_call():
    assert read(Source("f", [DEEPSPEED.encode()]))[0].format == "deepspeed"


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        (
            b'{"machine_info": {}, "commit_info": {}, "benchmarks": []}',
            "pytest-benchmark because of 'machine_info' and",
        ),
        (b'{"mean_ttft_ms": 5.5, "p99_ttft_ms": 8.5}', "vllm because of 'mean_ttft_ms' and 'p99_ttft_ms'"),
        (b"NCCL INFO Bootstrap\nnothing\n", "nccl-tests because of 'NCCL INFO' on line 1"),
        (b"step 1\n{'loss': 5.5}\n", "hf-trainer because of \"'loss':\" on line 2"),
    ],
)
def test_the_message_of_an_unknown_file_has_a_guess_and_what_to_do(data, guess):
    (problem,) = run_of(data).problems
    name = guess.split()[0]
    assert f"unknown format, most like {guess}" in problem.message
    step = f": give the whole output of that tool, or try --format {name}; for a file of your own tool, propose a"
    assert problem.message.endswith(f"{step} mapping: perfgate inspect --suggest train.log")
    assert "\n" not in problem.message


def test_a_stored_baseline_is_not_a_run():
    (problem,) = run_of(b'{"schema": "perfgate.baseline/1", "suite": "a", "series": [{"metric": "x"}]}').problems
    assert problem.message.startswith("this is a perfgate.baseline/1, which has no runs to judge: give the files")
