"""Logs of nanoGPT and its forks, and of modded-nanogpt: iterations and evaluations.

    step 0: train loss 4.2874, val loss 4.2823
    iter 0: loss 4.2655, time 119975.84ms, mfu -100.00%
    iter 10: loss 3.1338, time 1972.52ms, mfu 0.19%

    step:125/1750 val_loss:4.6045 train_time:17280ms step_avg:150.26ms                         modded-nanogpt
    step:126/1750 train_time:17427ms step_avg:150.23ms
    peak memory allocated: 36348 MiB reserved: 52032 MiB

Source: karpathy/nanoGPT `train.py` (2022 to 2025); KellerJordan/modded-nanogpt `train_gpt.py` and logs of its `records`
(2024-10 to 2026-07). The time of nanoGPT is that of one iteration, the last one before the line.
Forks add fields with a name, such as `grad_norm 2.0590`; those with an unknown name are not read.

`mfu` is a running average, and -100.00 % if there is none yet, which is left out. `train_loss` and `val_loss` are those
of an evaluation.

Iteration n is step n; a step of modded-nanogpt, which counts from 1, is step n - 1, and its evaluation n is step n.
modded-nanogpt prints running totals and means, so the times come from these:

| metric | unit | from |
|---|---|---|
| `iteration_time` | s | the difference of `train_time` to the line before, for each step between them |
| `train_time`, `step_avg` | s | of the last evaluation: the whole training without evaluations, and its mean |
| `memory.peak_allocated`, `memory.peak_reserved` | B | `peak memory ...`, in MiB |
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Field, Format, InputFile, Key, Run, RunBuilder, checked
from perfgate.readers.training_logs import StepLog

NAME = "nanogpt"
METRICS = "`iteration_time`, `mfu`, `loss`, `grad_norm`, `train_loss`, `val_loss`; `train_time`, `step_avg`"
CHECKED = "nanoGPT's `train.py` of 2025-11: generated logs, and lines of public logs; logs of modded-nanogpt's records"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "iter ": r"\biter \d{1,18}: loss \S{1,40}, (?:\S.{0,200}, )?time \S{1,40}?ms\b",
        " step_avg:": r"\bstep:\d{1,18}/\d{1,18} (?:\w{1,40}:\S{1,40} )?train_time:",
    },
)

_ITERATION = re.compile(r"\biter (\d{1,18}): (loss \S.*)")
_EVALUATION = re.compile(r"\bstep (\d{1,18}): train loss ([^\s,]{1,40}), val loss ([^\s,]{1,40})")
#: The first words behind the program, which modded-nanogpt prints into its log.
_PROGRAM_ENDS = ("Running Python ", "Running python ", "Running PyTorch ", "Running pytorch ")
_STEP = re.compile(
    r"\bstep:(\d{1,18})/(\d{1,18}) (?:(train|val)_loss:(\S{1,40}) )?train_time:(\S{1,40}?)(m?s) step_avg:(\S{1,40})ms"
)
_MEMORY = re.compile(
    r"peak memory (?:allocated|consumption): (?P<allocated>\d{1,12}) MiB(?: reserved: (?P<reserved>\d{1,12}) MiB)?"
)
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
    last: dict[RunBuilder, tuple[int, float]] = {}
    end = 0, 0  # the last step of modded-nanogpt, and the number of its steps
    for number, line in log.lines("iter ", "train loss", " step_avg:", "peak memory ", *_PROGRAM_ENDS):
        if found := _ITERATION.search(line):
            log.begin("iter", number, line, found[1], found.start(1), first=0)
            _iteration(log, line, found.start(2))
        elif found := _EVALUATION.search(line):
            log.begin("step", number, line, found[1], found.start(1), first=0)
            log.add("train_loss", "1", found[2], found.start(2))
            log.add("val_loss", "1", found[3], found.start(3))
        elif found := _STEP.search(line):
            _step(log, last, found, number, line)
            end = int(found[1]), int(found[2])
        elif line.startswith(_PROGRAM_ENDS):  # the numbers above it are those of the program, no measurements
            file.coverage.lines.tell_before(number)
        elif found := _MEMORY.search(line):
            for name, text in found.groupdict().items():
                if text:
                    log.run.value(Key(f"memory.peak_{name}"), "B", text, number, per=2.0**-20)
    if end[0] < end[1]:
        log.run.say("warning", f"the log ends at step {end[0]} of {end[1]}: the job did not end, or still runs")
    return log.runs.finish()


def _iteration(log: StepLog, line: str, begin: int) -> None:
    """Add the known fields of a line of nanoGPT, the first of each name."""
    left = dict(_KNOWN)
    for field in _FIELD.finditer(line, begin):
        known = left.pop((field[1], field[3]), None)
        if known and not (field[1] == "mfu" and field[2].startswith("-")):
            log.add(known.metric, known.unit, field[2], field.start(2), per=known.per)


def _step(
    log: StepLog, last: dict[RunBuilder, tuple[int, float]], found: re.Match[str], number: int, line: str
) -> None:
    """Read a line of modded-nanogpt, whose times are running totals.

    `last`: for each run the step of the line before, and its total in s. `log.run` is another run if steps go back.
    """
    step, kind, per = int(found[1]), found[3] or "train", 1e3 if found[6] == "ms" else 1.0
    # The number of an evaluation is that of the steps before it.
    if not log.begin(kind, number, line, found[1], found.start(1), first=1 if kind == "train" else 0):
        return  # another process has printed this step, too: a difference from its total would be 0
    log.file.is_odd = True  # not read many at once, because the times are differences
    if found[4]:
        log.add(f"{kind}_loss", "1", found[4])
    time, fault = checked(found[5], "s")
    if fault:
        log.run.refuse(Key("iteration_time"), fault, number)
        return
    before, then = last.get(log.run, (step, 0.0))
    last[log.run] = (step, time / per)
    if step > before and time / per >= then:  # a smaller total: some versions begin it anew after the first steps
        log.add("iteration_time", "s", repr((time / per - then) / (step - before)), printed_as="train_time")
    is_last_evaluation = kind == "val" and found[1] == found[2]
    if is_last_evaluation and Key("train_time") in log.run.finished:
        log.run.refuse(Key("train_time"), "the last evaluation occurs twice: is this a log of two trainings?", number)
    elif is_last_evaluation:
        log.run.value(Key("train_time"), "s", time, number, per=per)
        log.run.value(Key("step_avg"), "s", found[7], number, per=1e3)
