"""Lines of DeepSpeed besides its timers and throughput: the pipeline engine and DeepSpeed-Chat.

    steps: 12 loss: 2.1234 iter time (s): 0.512 samples/sec: 125.0
    |E2E latency=7.99s |Gather latency=0.00s (0.00%) |Generate time=5.26s (65.81%) |...|CurSamplesPerSec=8.01 |...

Sources: deepspeedai/DeepSpeed `runtime/pipe/engine.py`, DeepSpeedExamples `dschat/utils/perf.py`.
"""

from __future__ import annotations

import re

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder

PIPELINE_WORD, CHAT_WORD = "iter time (s):", "|E2E latency="

PIPELINE = re.compile(r"\bsteps: (\d{1,18}) .{0,999}?iter time \(s\): (\S{1,40}) samples/sec: ([^\s\[]{1,40})")
_CHAT = re.compile(r"\|([\w ]{1,40})=([^\s|(]{1,40})")

_CHAT_METRICS = {
    "E2E latency": ("chat.e2e_latency", "s"),
    "Gather latency": ("chat.gather_latency", "s"),
    "Generate time": ("chat.generate_time", "s"),
    "Training time": ("chat.training_time", "s"),
    "Others": ("chat.other_time", "s"),
    "CurSamplesPerSec": ("chat.samples_per_second", "1/s"),
}


def add_pipeline(run: RunBuilder, found: re.Match[str], line: int) -> None:
    """`pipeline.iteration_time` (s) and `pipeline.samples_per_second`: means since the last line, of step n - 1."""
    step = max(int(found[1]) - 1, 0)
    run.add(run.column(Key("pipeline.iteration_time"), "s"), found[2], line, step)
    run.add(run.column(Key("pipeline.samples_per_second"), "1/s"), found[3], line, step)


def add_chat(run: RunBuilder, text: str, line: int) -> None:
    """`chat.e2e_latency`, `chat.generate_time`, ... (s) and `chat.samples_per_second`, not the running average."""
    for name, printed in _CHAT.findall(text):
        if name in _CHAT_METRICS:
            metric, unit = _CHAT_METRICS[name]
            column = run.column(Key(metric), unit)
            run.add(column, printed.removesuffix("s"), line, len(column.values))
