"""A table is whole, or it is said to be cut: interrupted rows, announced sizes, sections that never came."""

import pytest
from reading import errors, run_of, runs_of, said, values_of

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


def test_a_row_that_is_interrupted_twice_is_joined():
    first, out, rest = row(16)[:35], row(16)[35:65], row(16)[65:]
    assert (out.split()[-1], len(rest.split())) == ("0", 3)
    run = run_of(START + HEAD + row(8) + first + NCCL + NCCL + out + NCCL + rest + END)
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


GO = "goos: linux\npkg: x/y\nBenchmarkA-8  \t 100\t 12.5 ns/op\nBenchmarkB-8  \t 100\t 13.5 ns/op\n"
NCCOM = (
    "  size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n  8  2  fp32  63.52  0.10  0.10\n"
)
PERF = " Performance counter stats for './a':\n\n     1,000.11 msec task-clock\n     5,000      cycles\n"
TRITON = "M;aten-latency;triton-latency\n256;0.11;0.09\n512;0.21;0.19\n"
SMI = "timestamp,power.draw [W],utilization.gpu [%]\n10:00,95.0,45\n10:01,96.0,46\n"


@pytest.mark.parametrize(
    ("text", "end", "warning"),
    [
        (GO, "PASS\nok  \tx/y\t3.2s\n", "no PASS or FAIL at its end"),
        (NCCOM, "Avg bus bandwidth:      0.2346GB/s\n", "no `Avg bus bandwidth` at its end"),
        (PERF, "\n       1.02 seconds time elapsed\n", "no `time elapsed` at its end"),
        (TRITON, "average;0.16;0.14\n", "no row `average` at its end"),
    ],
)
def test_what_a_tool_prints_at_its_end_is_missed(text, end, warning):
    assert said(run_of(text + end)) == []
    (only,) = said(run_of(text))
    assert warning in only


@pytest.mark.parametrize("text", [PERF, SMI])
def test_a_row_that_is_cut_off_is_left_out_with_a_warning(text):
    run = run_of(text[:-2])
    assert "the last record is cut off; left out" in said(run)[0]
    assert len(values_of(run)) == len(values_of(run_of(text))) - (text == PERF)


STEPS = "step:{}/20 train_time:{}ms step_avg:10.0ms\n"
REPORT = "[{}/8] Executing 'osrt_sum' stats report\n\nTime (%),Total Time (ns),Num Calls,Name\n100.0,4000,4,poll\n"
LLAMA = "| model | backend | test | t/s |\n| llama 7B | CUDA | pp512 | 758.2 ± 1.0 |\n"


@pytest.mark.parametrize(
    ("cut", "whole", "message"),
    [
        (
            STEPS.format(8, 80) + STEPS.format(9, 90),
            STEPS.format(19, 190) + STEPS.format(20, 200),
            "the log ends at step 9 of 20: the job did not end, or still runs",
        ),
        (REPORT.format(5), REPORT.format(8), "the last report is 5 of 8: the output is cut off"),
        (LLAMA, f"{LLAMA}\nbuild: 34ce48d97 (7356)\n", "the last table has no `build:` below it: rows may be missing"),
    ],
)
def test_what_an_output_announces_of_itself(cut, whole, message):
    assert any(message in text for text in said(run_of(cut)))
    assert said(run_of(whole)) == []
