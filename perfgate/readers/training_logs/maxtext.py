"""Logs of MaxText: the lines of its metric logger.

    completed step: 5, seconds: 5.668, TFLOP/s/device: 134.909, Tokens/s/device: 8671.794, total_weights: 196608,
      loss: 10.879, lm_loss: 10.879, perplexity: 53049.4                                        (on one line)
    Completed eval step: 3, seconds: 1.204, running loss=10.702, ...
    Completed eval after train step 20, loss=10.700, perplexity=44355.8, total_weights=...

Source: AI-Hypercomputer/maxtext `src/maxtext/common/metric_logger.py` (0.2.4), and its lines of 2023 and 2024
(`TFLOP/s` for `TFLOP/s/device`, no tokens).

The metrics of evaluations begin with `eval.`; the running averages of eval steps are left out. Step n is step n. A step
at which the profiler starts or stops has no time in the log.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Field, Format, InputFile, Run
from perfgate.readers.training_logs import PrintedField, StepLog, fields_in

NAME = "maxtext"
METRICS = (
    "`iteration_time`, `throughput_per_gpu`, `tokens_per_second_per_gpu`, `loss`, `perplexity`, `eval.iteration_time`, "
    "`eval.loss`, ..."
)
CHECKED = "MaxText 0.2.4's `metric_logger.py`: generated logs, and lines of public logs (2023 to 2026)"
FORMAT = Format(NAME, __name__, markers={"completed step: ": r"\bcompleted step: \d{1,18}, seconds: "})

_STEP = re.compile(r"\bcompleted step: (\d{1,18}), (seconds: .*)")
_EVAL_STEP = re.compile(r"\bCompleted eval step: (\d{1,18}), seconds: ([^\s,]{1,40})")
_EVAL = re.compile(r"\bCompleted eval after train step (\d{1,18}), (\w.*)")
_FIELD = re.compile(r"([\w/]{1,60}): ([^\s,]{1,40})")
_EVAL_FIELD = re.compile(r"(\w{1,60})=([^\s,%]{1,40})(?=,|\s|$)")
_FACTS = re.compile(r"System Information: Jax Version: (\S{1,40})|\bNum_devices: (\d{1,9}), shape")
_KNOWN = {
    "seconds": Field("iteration_time", "s"),
    "TFLOP/s/device": Field("throughput_per_gpu", "FLOP/s", 1e-12),
    "TFLOP/s": Field("throughput_per_gpu", "FLOP/s", 1e-12),
    "Tokens/s/device": Field("tokens_per_second_per_gpu", "1/s"),
    "perplexity": Field("perplexity", "1"),
    "grad_norm": Field("grad_norm", "1"),
}
_LOSS = re.compile(r"(?:\w+_)?loss|(?:\w+_)?perplexity|\w*accuracy")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log = StepLog(file, NAME)
    # "ompleted " is in steps and in evaluations
    for number, line in log.lines("ompleted ", "System Information: Jax V", "Num_devices: "):
        if found := _STEP.search(line):
            log.begin("", number, line, found[1], found.start(1), first=0)
            fields = fields_in(_FIELD, line, found.span(2))
            log.add_known(fields, _losses(fields) | _KNOWN)
        elif found := _EVAL_STEP.search(line):
            log.begin("eval step", number, line, found[1], found.start(1), first=0)
            log.add("eval.iteration_time", "s", found[2], found.start(2), printed_as="seconds")
        elif found := _EVAL.search(line):
            log.begin("eval", number, line, found[1], found.start(1), first=0)
            fields = fields_in(_EVAL_FIELD, line, found.span(2))
            log.add_known(fields, _losses(fields), "eval.")
        elif found := _FACTS.search(line):
            name, value = ("jax", found[1]) if found[1] else ("world_size", int(found[2]))
            log.run.fact(name, value, number)
    return log.runs.finish()


def _losses(fields: list[PrintedField]) -> dict[str, Field]:
    return {name: Field(name, "1") for name, _, _ in fields if _LOSS.fullmatch(name)}
