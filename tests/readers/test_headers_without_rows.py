"""A reader that saw a header and read no row, or fewer rows than its own count lines say, complains."""

import json

import pytest
from reading import run_of, runs_of

from perfgate.readers.registry import FORMATS

RULES = ["-" * 15] * 7
NAMES = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
CELLS = ["aten::mm", "50.00%", "5.000us", "50.00%", "5.000us", "5.000us", "1"]
OPERATORS = "\n".join("  ".join(cell.rjust(15) for cell in row) for row in (RULES, NAMES, RULES, CELLS))
END = "\n" + "  ".join(RULES) + "\nSelf CPU time total: 10.000us\n\n"
ACTIONS = "Profiler Report\n\nAction                  |  Mean duration (s)    |  Total time (s)\n" + "-" * 65 + "\n"
NSYS = "Time (%),Total Time (ns),{},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
NCU = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Section Name","Metric Name",'
NCU += '"Metric Unit","Metric Value"\n'
COMPARE = "[------ softmax ------]\n              |  B=8\n1 threads: ------------\n"
COLLECTIVES = "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "
COLLECTIVES += "tput_avg (Gbps)     busbw_avg (Gbps)\n"
DEEPSPEED = "[Rank 0] time (ms) | forward: 1.00 | backward: 2.00\n"
NCCL = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
NCCL_END = "# Avg bus bandwidth    : 1.5\n"

#: For each format whose files are tables: a file with a table, and the header of another table.
TABLES = {
    "lightning": (ACTIONS + "on_train_start          |  0.5              |  1.0\n\n", "FIT " + ACTIONS),
    "lightning, sections": (
        "FIT Profiler Report\n\nProfile stats for: step\n         3 function calls in 0.5 seconds\n\n",
        "Profile stats for: other\n\n",
    ),
    "torch-table": (OPERATORS + END, OPERATORS.rpartition("\n")[0] + END),
    "nsys": (
        NSYS.format("Instances") + "50.0,4000,4,1000.0,900.0,500,1700,50.5,k\n\n",
        NSYS.format("Num Calls") + "\n",
    ),
    "ncu": (NCU + '"0","1","p","h","k","1","7","S","Duration","usecond","5.5"\n', NCU),
    "torch-benchmark": (
        COMPARE + "      dense   |  12.8\n\nTimes are in microseconds (us).\n",
        COMPARE + "\nTimes are in microseconds (us).\n",
    ),
    "megatron": (
        "max time across ranks (ms):\n    forward-backward ...............................: 1232.10\n",
        "max time across ranks (ms):\n",
    ),
    "hf-trainer": ("***** train metrics *****\n  train_runtime  = 5.5\n", "***** eval metrics *****\n"),
    "deepspeed": (DEEPSPEED, COLLECTIVES),
    "deepspeed, FLOPS": (DEEPSPEED, "------- DeepSpeed Flops Profiler -------\n" + "-" * 60 + "\n"),
    "nccl-tests": (NCCL + "  8  2  float  sum  -1  10.0  0.5  0.7  0  12.0  0.2  0.5  0\n" + NCCL_END, NCCL + NCCL_END),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_without_a_row_is_said(case):
    whole, header = TABLES[case]
    assert not [problem for problem in run_of(whole).problems if "no row" in problem.message]
    for run in (runs_of(whole + header)[0], *runs_of(header, case.partition(",")[0])):
        assert run.format == case.partition(",")[0]
        assert any(
            word in one.message for one in run.problems for word in ("no row", "nothing that", "no measurements")
        )
    line = whole.count("\n") + 1
    words = ("no row", "nothing that can be read")
    both = [problem for run in runs_of(whole + header) for problem in run.problems]
    said = [problem.at.line for problem in both if any(word in problem.message for word in words)]
    assert said
    assert said[0] >= line


SERVED = {"duration": 5.5, "completed": 3, "request_throughput": 2.0, "ttfts": [0.1, 0.2]}
ROW = {"name": "BM_a", "run_name": "BM_a", "run_type": "iteration", "real_time": 1.0, "cpu_time": 1.0}
STATS = {"rounds": 5, "data": [1.0, 2.0], "min": 1.0}

#: A document with fewer rows than it says, and what is said of it.
COUNTS = {
    "vllm": (SERVED, "2 requests have a time to the first token, but 3 were completed"),
    "google-benchmark": ({"context": {}, "benchmarks": [{**ROW, "repetitions": 3}]}, "BM_a has 1 of 3 repetitions"),
    "pytest-benchmark": (
        {"machine_info": {}, "benchmarks": [{"fullname": "t", "stats": STATS}]},
        "rounds is 5, but data has 2 values",
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_fewer_rows_than_a_count_are_said(case):
    document, said = COUNTS[case]
    run = run_of(json.dumps(document))
    assert run.format == case
    assert any(said in problem.message for problem in run.problems)


#: A document of each JSON format that has its list, and nothing in it.
EMPTY = {
    "pytest-benchmark": {"machine_info": {}, "benchmarks": []},
    "google-benchmark": {"context": {}, "benchmarks": []},
    "pyperf": {"version": "1.0", "benchmarks": []},
    "hyperfine": {"results": []},
    "asv": {"commit_hash": "a", "results": {}},
    "torch-trace": {"traceEvents": []},
    "hf-trainer": {"log_history": [], "global_step": 5},
    "nccl-tests": {"results": []},
    "perfgate": {"schema": "perfgate.results/1", "series": []},
    "vllm": [],
    "nsys": [],
    "megatron": {},
}


@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_document_is_an_error(case):
    for run in runs_of(json.dumps(EMPTY[case]), case):
        assert run.format == case
        assert [problem for problem in run.problems if problem.severity == "error"]


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_every_reader_complains_of_a_file_without_measurements(known):
    if known.magic is None:
        (run,) = runs_of("nothing\n", known.name)
        assert any(problem.severity == "error" for problem in run.problems)
