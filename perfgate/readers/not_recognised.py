"""Texts that no reader knows: what they are, and what to give perfgate instead."""

from __future__ import annotations

import re

#: Console output of tools that also write JSON: a word that must occur, the pattern around it, the tool, and how it
#: writes JSON. The console output is rounded, so it is refused.
_CONSOLE = (
    ("(time in ", r"^Name \(time in \w+\)\s+Min", "pytest-benchmark", "pytest --benchmark-json FILE"),
    ("Time (mean ", r"^[ \t]*Time \(mean ± ", "hyperfine", "hyperfine --export-json FILE"),
    (
        "Iterations",
        r"^Benchmark\s+Time(?:\(\w+\))?\s+CPU(?:\(\w+\))?\s+Iterations",
        "Google Benchmark",
        "--benchmark_out=FILE --benchmark_out_format=json",
    ),
    ("Mean +- std dev: ", r"Mean \+- std dev: ", "pyperf", "pyperf's option -o FILE"),
    ("·· ", r"^\[ *\d+\.\d+%\] ·+ ", "asv", "the files that asv run writes below its results_dir"),
)

#: Texts about a tool (a tutorial, a script, a configuration): the tool, words by which people set it up, what to give.
_TOOLS = {
    "torch.profiler": (
        r"torch\.(?:autograd\.)?profiler|tensorboard_trace_handler|key_averages\(|ProfilerActivity",
        "run the script, and give the trace files that tensorboard_trace_handler or export_chrome_trace writes,"
        " or the table that key_averages().table() prints",
    ),
    "DeepSpeed": (
        r"wall_clock_breakdown|deepspeed\.initialize\(|import deepspeed|flops_profiler|comms_logger",
        'run the job with "wall_clock_breakdown": true in its configuration, and give its log',
    ),
    "Lightning's profilers": (
        r"(?:Simple|Advanced|PyTorch)Profiler\b|profiler=[\"'](?:simple|advanced|pytorch)[\"']",
        "run the script, and give the report (printed, or the file of dirpath= and filename=)",
    ),
    "torch.utils.benchmark": (
        r"torch\.utils\.benchmark|\bblocked_autorange\(",
        "run the script, and give the Measurements that it prints",
    ),
    "Nsight Systems": (
        r"\bnsys (?:profile|stats|export|launch)\b",
        "profile the job, and give what nsys stats prints or nsys export --type sqlite writes",
    ),
    "Nsight Compute": (r"\bncu (?:-|\w)", "profile the job, and give what ncu --csv prints"),
    "pytest-benchmark": (
        r"pytest[_-]benchmark|\bdef test_\w+\(benchmark\b",
        "run the tests with --benchmark-json FILE, and give that file",
    ),
    "hyperfine": (r"\bhyperfine -", "run it with --export-json FILE, and give that file"),
    "nccl-tests": (r"\b(?:all_reduce|all_gather|reduce_scatter|alltoall)_perf\b", "run it, and give what it prints"),
}


def console(text: str) -> str | None:
    """Return whose console output a text is, and how that tool writes JSON instead; None if it is not."""
    for word, pattern, tool, advice in _CONSOLE:
        found = re.search(pattern, text, re.MULTILINE) if word in text else None
        if found:
            line = text.count("\n", 0, found.start()) + 1
            return f"on line {line} is console output of {tool}, which is rounded and not read; give its JSON: {advice}"
    return None


def about(text: str) -> str | None:
    """Return which tool a text without measurements is about, and what to give instead; None if about no tool."""
    found = [(tool, [*re.finditer(pattern, text)], advice) for tool, (pattern, advice) in _TOOLS.items()]
    tool, matches, advice = max(found, key=lambda one: len(one[1]))
    if not matches:
        return None
    where = f"{matches[0][0]!r} on line {text.count(chr(10), 0, matches[0].start()) + 1}"
    return f"no measurements: this text is about {tool} ({where}) but is not its output; {advice}"
