"""Logs of nanoGPT and its forks: iterations and evaluations.

    step 0: train loss 4.2874, val loss 4.2823
    iter 0: loss 4.2655, time 119975.84ms, mfu -100.00%
    iter 10: loss 3.1338, time 1972.52ms, mfu 0.19%

Source: karpathy/nanoGPT `train.py` (2022 to 2025). The time is that of one iteration, the last one before the line.
Forks add fields with a name, such as `grad_norm 2.0590`; those with an unknown name are not read.

| metric | unit | printed as |
|---|---|---|
| `iteration_time` | s | `time`, in ms |
| `mfu`, a share | 1 | `mfu`, in %: a running average; -100.00 % if there is none yet, which is left out |
| `loss`, `grad_norm` | 1 | the same |
| `train_loss`, `val_loss` | 1 | `train loss`, `val loss` of an evaluation |

Iteration n is step n.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfgate.core import Run
from perfgate.readers.formats import Format
from perfgate.readers.text import InputFile
from perfgate.readers.training_logs.step_lines import StepLog
from perfgate.readers.values import Field

NAME = "nanogpt"
TITLE = "a log of nanoGPT (`iter N: loss .., time ..ms, mfu ..%`)"
METRICS = "`iteration_time`, `mfu`, `loss`, `grad_norm`, `train_loss`, `val_loss`"
CHECKED = "nanoGPT's `train.py` of 2025-11: generated logs, and lines of public logs"
FORMAT = Format(
    NAME, __name__, markers={"iter ": r"\biter \d{1,18}: loss \S{1,40}, (?:\S.{0,200}, )?time \S{1,40}?ms\b"}
)

_ITERATION = re.compile(r"\biter (\d{1,18}): (loss \S.*)")
_EVALUATION = re.compile(r"\bstep (\d{1,18}): train loss ([^\s,]{1,40}), val loss ([^\s,]{1,40})")
_FIELD = re.compile(r"(\w{1,40}):? ([^\s,]{1,40}?)(ms|%)?(?=,|\s|$)")
#: A printed name and its unit: the metric, the base unit, and how many printed units are one base unit.
_KNOWN = {
    ("time", "ms"): Field("iteration_time", "s", 1e3),
    ("mfu", "%"): Field("mfu", "1", 100.0),
    ("loss", None): Field("loss", "1"),
    ("grad_norm", None): Field("grad_norm", "1"),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log = StepLog(file, NAME)
    for number, line in log.lines("iter ", "train loss"):
        if (found := _ITERATION.search(line)) and log.begin("iter", number, line, int(found[1]), 0):
            for metric, unit, per, text in _fields(found[2]):
                log.add(metric, unit, text, per=per)
        elif (found := _EVALUATION.search(line)) and log.begin("step", number, line, int(found[1]), 0):
            log.add("train_loss", "1", found[2])
            log.add("val_loss", "1", found[3])
    return log.runs.finish()


def _fields(text: str) -> Iterator[tuple[str, str, float, str]]:
    """Yield the known fields of an iteration, each once: the metric, its unit, the printed units in it, the text."""
    left = dict(_KNOWN)
    for name, value, unit in _FIELD.findall(text):
        known = left.pop((name, unit or None), None)
        if known and not (name == "mfu" and value == "-100.00"):
            yield *known, value
