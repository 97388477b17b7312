"""Long lines made of the words that the readers of training logs look for: reading stays linear."""

import re

import pytest
from conftest import ends
from reading import runs_of

from perfgate.readers.registry import FORMATS

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
    "comm op: a | time (ms): 1 | msg size: 1 B | ",
    "MA 1 GB    Max_MA 1 GB  ",
    "Comm. Op  Message Size  Count",
    " " * 20 + "1 B  1",
    ":a | [Caller Func: ",
    "- DeepSpeed Flops Profiler -",
    "fwd latency = ",
    "a b: ",
    "***** train metrics *****",
    "a = ",
    "1:",
    "algo throughput: 1 bps, ",
]


#: What opens tables and blocks, in which more lines mean something.
HEAD = (
    "- DeepSpeed Flops Profiler -\nComm. Op  Message Size  Count\n***** train metrics *****\n"
    "max time across ranks (ms):\n#  size  count  type  time  algbw   busbw\n{'epoch'\n"
)


@pytest.mark.parametrize("format", [None, "deepspeed", "megatron", "hf-trainer", "mlperf", "nccl-tests", "vllm"])
@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_every_line_ends(piece, format):
    with ends():
        runs_of(piece * (80_000 // len(piece)) + "\n", format)
        runs_of(HEAD + piece * (80_000 // len(piece)) + "\n" + piece + "\n", format)


#: Pieces of tables and sentences, which a pattern that can be matched in many ways tries in all of them.
SHORT = ("a, ", "a ", "a,", "| a ", "a: ", "1.0 ", "[a] ", "a=1 ", "- ", '"a",', "a_", "::")


@pytest.mark.parametrize("piece", SHORT)
def test_no_pattern_that_recognises_a_file_tries_too_much(piece):
    """A line of 60 words before `power.draw` kept `check` busy for years."""
    for known in FORMATS:
        for words, pattern in (*known.markers.items(), *known.hints.items()):
            with ends(5):
                re.compile(pattern, re.MULTILINE).search(f"{piece * 60}{words}!\n{words} {piece * 60}!")
