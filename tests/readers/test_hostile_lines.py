"""Long lines made of the words that the readers of training logs look for: reading stays linear."""

import time

import pytest
from reading import runs_of

PIECES = [
    "iteration 1/ 2 | elapsed time per iteration (ms): 1.0 |",
    "iteration 1/ 2 |",
    "elapsed time per iteration (ms):",
    "a | ",
    "memory (MB) | allocated: 1",
    "across ranks (ms):",
    "[Rank 1] time (ms)",
    "(a) ",
    ":::MLLOG ",
    ':::MLLOG {"key": "run_start", "a": [',
    ':::MLLOG {"',
    "{'",
    "{'epoch': 1}",
    "{'a_runtime': '",
    "'train_runtime",
    "'train_",
    "}{'",
    "#  size algbw ",
    "#size",
    "# Rank 1 device 1 [",
    "all_",
    "a_perf",
    "1 2 float ",
    "# Avg bus bandwidth  ",
    "'a': 1",
]


@pytest.mark.parametrize("format", [None, "megatron", "hf-trainer", "mlperf", "nccl-tests", "vllm"])
@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_no_line_takes_long(piece, format):
    head = "max time across ranks (ms):\n#  size  count  type  time  algbw   busbw\n{'epoch'\n"
    started = time.process_time()
    runs_of(piece * (200_000 // len(piece)) + "\n", format)
    runs_of(head + piece * (200_000 // len(piece)) + "\n" + piece + "\n", format)
    assert time.process_time() - started < 2
