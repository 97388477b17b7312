"""Logs of NeMo 2: the lines of its ProgressPrinter; and of NeMo 1 and 2: progress bars with the time of a step.

    Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: 45 |
      max_memory_reserved: 127785762816 | max_memory_allocated: 115792977920 | reduced_train_loss: 11.96 |
      train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 5888         (on one line)
    Epoch 0: :  4%|4         | 4/100 [00:21<08:36, reduced_train_loss=11.00, global_step=3.000,
      consumed_samples=32.00, train_step_timing in s=5.200]                                     (on one line)

Source: NVIDIA/NeMo 2.5 `nemo/lightning/pytorch/callbacks/progress_printer.py`, `progress_bar.py`, `flops_callback.py`,
`memory_profiler` values of `max_memory_*`, and `nemo/utils/exp_manager.py` (`TimingCallback`). Values are printed with
4 digits; with `log_interval` over 1 they are means over the iterations since the last line.

A line has the step `iteration`; a bar has `global_step`, and counts once for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.readers.kit import Field, Format, InputFile, Run
from perfgate.readers.training_logs import PrintedField, StepLog, fields_in

NAME = "nemo"
METRICS = (
    "`iteration_time`, `throughput_per_gpu`, `tokens_per_second_per_gpu`, `memory.peak_allocated`, "
    "`reduced_train_loss`, `val_loss`, ..."
)
CHECKED = "NeMo 2.5's callbacks: generated logs, and lines of public logs (2024 to 2025)"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "Training epoch ": r"\bTraining epoch \d{1,9}, iteration \d{1,18}/\d{1,18} \| ",
        "train_step_timing in s=": "",
    },
)

_LINE = re.compile(r"\bTraining epoch \d{1,9}, iteration (\d{1,18})/\d{1,18} \| (.*)")
_FIELD = re.compile(r"(?:(?<=\| )|(?<=\|))\s*([\w /.-]{1,80}): ([^\s|]{1,40})\s*(?=\||$)")
_BAR = re.compile(r"\bEpoch \d{1,9}: .{0,300}?\[(.{0,2000}?train_step_timing in s=[^\]]{1,400})")
_BAR_FIELD = re.compile(r"([\w /.-]{1,80})=([^\s,\]]{1,40})")
_KNOWN = {
    "train_step_timing in s": Field("iteration_time", "s"),
    "TFLOPS_per_GPU": Field("throughput_per_gpu", "FLOP/s", 1e-12),
    "tokens_per_sec_per_gpu": Field("tokens_per_second_per_gpu", "1/s"),
    "max_memory_reserved": Field("memory.peak_reserved", "B"),
    "max_memory_allocated": Field("memory.peak_allocated", "B"),
    "peak_memory_usage": Field("memory.peak_allocated", "B"),
    "memory_allocated": Field("memory.allocated", "B"),
    "grad_norm": Field("grad_norm", "1"),
}
_LOSS = re.compile(r"(?:\w+[_/])?(?:loss(?:_\w+)?|ppl)")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log = StepLog(file, NAME)
    for number, line in log.lines("Training epoch ", "train_step_timing in s="):
        if found := _LINE.search(line):
            fields, step, at = fields_in(_FIELD, line, found.span(2)), found[1], found.start(1)
        elif found := _BAR.search(line):
            fields = [(name.strip(), text, at) for name, text, at in fields_in(_BAR_FIELD, line, found.span(1))]
            step, at = _step_of_bar(fields), -1  # the line may not have the step as this text
        else:
            continue
        log.begin("", number, line, step, at, first=0)
        losses = {name: Field(name, "1") for name, _, _ in fields if _LOSS.fullmatch(name)}
        log.add_known(fields, losses | _KNOWN)
    return log.runs.finish()


def _step_of_bar(fields: Sequence[PrintedField]) -> str:
    """Return the last `global_step` of a progress bar, `3` for `3.000`; 0 without one."""
    printed = [text for name, text, _ in fields if name == "global_step"]
    whole = re.fullmatch(r"(\d{1,18})(?:\.0*)?", printed[-1]) if printed else None
    return whole[1] if whole else "0"
