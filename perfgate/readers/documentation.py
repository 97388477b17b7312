"""Text about a tool, which holds no measurements: a tutorial, a script, a configuration. What to give instead."""

from __future__ import annotations

import re

#: A tool, the words by which people set it up, and what its reader reads.
_TOOLS = (
    (
        "torch.profiler",
        r"torch\.(?:autograd\.)?profiler|tensorboard_trace_handler|key_averages\(|ProfilerActivity",
        "run the script that it shows, and give the trace files of its tensorboard_trace_handler or"
        " export_chrome_trace, or the table of key_averages().table() that it prints",
    ),
    (
        "DeepSpeed",
        r"wall_clock_breakdown|deepspeed\.initialize\(|import deepspeed|flops_profiler|comms_logger",
        'run the job with "wall_clock_breakdown": true in its configuration, and give what it prints',
    ),
    (
        "Lightning's profilers",
        r"(?:Simple|Advanced|PyTorch)Profiler\b|profiler=[\"'](?:simple|advanced|pytorch)[\"']",
        "run the script that it shows, and give the report (printed, or the file of dirpath= and filename=)",
    ),
    (
        "torch.utils.benchmark",
        r"torch\.utils\.benchmark|\bblocked_autorange\(",
        "run the script that it shows, and give the Measurements that it prints",
    ),
    (
        "Nsight Systems",
        r"\bnsys (?:profile|stats|export|launch)\b",
        "profile the job, and give what nsys stats prints or nsys export --type sqlite writes",
    ),
    ("Nsight Compute", r"\bncu (?:-|\w)", "profile the job, and give what ncu --csv prints"),
    (
        "pytest-benchmark",
        r"pytest[_-]benchmark|\bdef test_\w+\(benchmark\b",
        "run the tests with --benchmark-json FILE, and give that file",
    ),
    ("hyperfine", r"\bhyperfine -", "run it with --export-json FILE, and give that file"),
    ("nccl-tests", r"\b(?:all_reduce|all_gather|reduce_scatter|alltoall)_perf\b", "run it, and give what it prints"),
)


def about(text: str) -> str | None:
    """What a text without measurements speaks of most, the line of its first word, and what to give; None if nothing.

    Takes text of a file in which no format was found.
    """
    found = [(tool, [*re.finditer(pattern, text)], advice) for tool, pattern, advice in _TOOLS]
    tool, matches, advice = max(found, key=lambda one: len(one[1]))
    if not matches:
        return None
    line = text.count("\n", 0, matches[0].start()) + 1
    where = f"{matches[0][0]!r} on line {line}"
    return f"no measurements: this speaks of {tool} ({where}), and is not what it writes; {advice}"
