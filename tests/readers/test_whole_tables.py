"""A table is whole, or it is said to be cut: interrupted rows, announced sizes, sections that never came."""

import pytest
from reading import errors, run_of, runs_of, values_of

START = "# Collective test starting: all_reduce_perf\n"
SIZES = "# nThread 1 nGpus 1 minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 5 iters: 20\n"
HEAD = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw\n"
END = "# Avg bus bandwidth    : 0.15\n"
NCCL = "node1:77:91 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 4 datatype 7 op 0\n"


def row(size: int) -> str:
    return f"  {size}   2   float     sum      -1    12.50    0.10    0.15      0    11.50    0.10    0.15\n"


def test_the_rest_of_an_interrupted_row_is_joined():
    first, rest = row(16)[:35], row(16)[35:]
    run = run_of(START + HEAD + row(8) + first + NCCL + NCCL + rest + END)
    assert errors(run) == []
    assert values_of(run) == values_of(run_of(START + HEAD + row(8) + row(16) + END))


def test_an_interrupted_row_without_its_rest_is_refused():
    run = run_of(START + HEAD + row(8) + row(16)[:35] + NCCL + END)
    assert ["interrupted by a message of NCCL" in error for error in errors(run)] == [True]
    assert all(series.key.label("size") in ("8", None) for series in run.series)


def test_a_row_with_a_word_for_a_number_is_refused():
    run = run_of(START + HEAD + row(8) + row(16).replace("12.50", "AllReduce: opCount 0") + END)
    assert ["words are where the header has numbers" in error for error in errors(run)] == [True]


@pytest.mark.parametrize(
    ("rows", "said"),
    [((8, 16, 32), []), ((8, 16), ["the table is cut off: it has 2 of the 3 sizes, and no average at its end"])],
)
def test_announced_sizes_are_counted(rows, said):
    run = run_of(START + SIZES + HEAD + "".join(map(row, rows)))
    assert [error.partition(": error: ")[2] for error in errors(run)] == said


def test_a_device_with_little_memory_measures_fewer_sizes():
    reduced = "# Reducing maxBytes to 16 due to memory limitation\n"
    assert errors(run_of(START + SIZES + reduced + HEAD + row(8) + row(16))) == []


def test_a_test_that_was_announced_and_never_came():
    first, *_ = runs_of(START + SIZES + HEAD + row(8) + row(16) + row(32) + END + START.replace("reduce", "gather"))
    assert "a test was announced, and has no table: all_gather" in errors(first)[0]


SUMMARY = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Offline
Samples per second: 81.68
Result is : VALID
================================================
Additional Stats
================================================
Mean latency (ns)               : 43579602295
"""
PARAMETERS = "================\nTest Parameters Used\n================\nsamples_per_query : 1\ntarget_qps : 90\n"


def test_a_summary_of_loadgen_ends_with_its_parameters():
    assert errors(run_of(SUMMARY + PARAMETERS)) == []
    (error,) = errors(run_of(SUMMARY))
    assert "the summary is cut off" in error
