"""Logs of torchtitan: the lines of its MetricsProcessor, with or without colour codes.

    [titan] 2026-01-16 02:43:35,918 - root - INFO - step: 100  loss:  2.33670  grad_norm:  0.4648
      memory: 69.83GiB(88.19%)  tps: 42,332  tflops: 270.71  mfu: 27.37%                        (on one line)
    [titan] 2026-01-16 02:43:36,101 - root - INFO - validate step: 100  loss:  2.4011  memory: 60.11GiB(75.92%)
      tps: 120,001                                                                              (on one line)

Source: pytorch/torchtitan `torchtitan/components/metrics.py` (2026-08), and its lines of 2024 (`wps` for `tps`, no
`tflops`). Throughput is a mean over the steps since the last line, memory the maximum since then.

`mfu` is `N/A` with quantization, which is left out. The metrics of `validate step` begin with `validation.`.

Step n is step n - 1 of the run.

**Times of the job.** All lines have a date.

    [titan] 2026-01-16 02:43:01,120 - root - INFO - torchtitan version: 0.2.3 (0.0.0 means ...).
    [titan] 2026-01-16 02:43:20,004 - root - INFO - Finished loading the checkpoint in 6.31 seconds.
    [titan] 2026-01-16 02:43:20,100 - root - INFO - Training starts at step 101
    [titan] 2026-01-16 02:43:35,918 - root - INFO - step: 101  loss:  2.33670  ...
    [titan] 2026-01-16 02:43:39,002 - root - INFO - Finished saving the checkpoint in 3.02 seconds.
    [titan] 2026-01-16 02:43:41,007 - root - INFO - validate step: 101  loss:  2.4011  ...

| metric | time |
|---|---|
| `time.start` | the first line of the program up to `Training starts at step` |
| `time.step` | the line of a step back to the step or validation before it, without the checkpoints in between |
| `time.checkpoint` | `Finished loading`, `saving` or `staging the checkpoint`, and `Last step checkpoint completed` |
| `time.evaluation` | the line of a validation back to the line of the same step, without the checkpoints in between |

Staging is the part of an asynchronous checkpoint for which the training waits. The steps include the wait for data, and
the first one what is compiled in it: the log does not tell them apart. If a validation follows a step without a line,
the log shows neither when the step ended nor when the validation began: both are `time.other`. Only the lines of the
first rank count. Source: pytorch/torchtitan `torchtitan/train.py`, `trainer.py`, `components/metrics.py` and
`components/checkpointer/dcp.py` (2026-08).
"""

from __future__ import annotations

import re
from functools import partial

from perfgate.core.goodput import CHECKPOINT, EVALUATION, LOST, START, STEP
from perfgate.readers.kit import Field, Format, InputFile, Run
from perfgate.readers.time_split import JobClock, moment_of
from perfgate.readers.training_logs import StepLog, fields_in, rank_of

NAME = "torchtitan"
METRICS = (
    "`tokens_per_second_per_gpu`, `throughput_per_gpu`, `mfu`, `memory.peak_reserved`, `loss`, `grad_norm`, "
    "`validation.NAME`; label rank if the launcher prints it; `time.PART` and `goodput` of a log with dates"
)
CHECKED = "torchtitan's `metrics.py` of 2026-08: generated logs, and lines of public logs (2024 to 2026)"
FORMAT = Format(
    NAME, __name__, markers={"step: ": r"\bstep: {0,20}\d{1,18} {1,9}loss: {0,20}\S{1,40} {1,9}.{0,200}(?:tps|wps): "}
)

_RECORD = re.compile(r"\b(validate )?step: {0,20}(\d{1,18}) {1,9}((?:loss|memory|tps|wps): .*)")
_FIELD = re.compile(r"(\w{1,40}): {0,20}([^\s(]{1,40})")
_DEVICE = re.compile(r"(?:CUDA|GPU|XPU|HPU|NPU) capacity: (\S.{0,99}?) with \S{1,20}GiB memory")
_KNOWN = {
    "tps": Field("tokens_per_second_per_gpu", "1/s"),
    "wps": Field("tokens_per_second_per_gpu", "1/s"),
    "tflops": Field("throughput_per_gpu", "FLOP/s", 1e-12),
    "mfu": Field("mfu", "1", 100.0),
    "memory": Field("memory.peak_reserved", "B", 2.0**-30),
    "loss": Field("loss", "1"),
    "grad_norm": Field("grad_norm", "1"),
}
#: The unit behind a value, where one is printed; there may be commas in a value, too.
_SUFFIXES = {"memory": "GiB", "mfu": "%"}

#: Every line with a date has these words.
_DATED_WORD = " - INFO - "
_BEGINS = re.compile(r"- INFO - .{0,9}(?:torchtitan version: |Starting job: )")
_TRAINING = re.compile(r"Training starts at step (\d{1,18})")
_CHECKPOINT = re.compile(
    r"Finished (?:saving|staging|loading) the checkpoint.{0,60}?in (\d{1,9}(?:\.\d{1,9})?) ?s"
    r"|Last step checkpoint completed in (\d{1,9}(?:\.\d{1,9})?)s"
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log, times = StepLog(file, NAME), _Times()
    for number, line in log.lines("step: ", " capacity: ", _DATED_WORD):
        times.line(line)
        if found := _RECORD.search(line):
            is_first = log.begin(found[1] or "", number, line, found[2], found.start(2), first=1)
            fields = [
                (name, text.replace(",", "").removesuffix(_SUFFIXES.get(name, "")), at)
                for name, text, at in fields_in(_FIELD, line, found.span(3))
                if (name, text) != ("mfu", "N/A")
            ]
            log.add_known(fields, _KNOWN, "validation." if found[1] else "")
            if is_first:
                times.step(log, line, found)
        elif device := _DEVICE.search(line):
            log.run.fact("gpu", device[1], number)
    times.clock.finish()
    return log.runs.finish()


class _Times:
    """The times of the job, from lines of the first rank."""

    def __init__(self) -> None:
        self.clock = JobClock((START, STEP, CHECKPOINT, EVALUATION, LOST), rounding=0.1)
        self._rank: str | None = None
        self._has_begun = False

    def line(self, text: str) -> None:
        """Take the date of a line before its values are read, and note a start or a checkpoint that it reports."""
        if _DATED_WORD not in text or not self._counts(text):
            return
        if _BEGINS.search(text):
            self.clock.begin()
        self.clock.moment(moment_of(text))
        if found := _TRAINING.search(text):
            self.clock.training(done=int(found[1]) - 1)
        elif found := _CHECKPOINT.search(text):
            self.clock.spent(CHECKPOINT, float(found[1] or found[2]), dated=True)

    def step(self, log: StepLog, text: str, found: re.Match[str]) -> None:
        """Take the line of a step or of a validation that was read, also for the lines like it (`alike_lines`)."""
        if _DATED_WORD not in text or not self._counts(text):
            return
        clock, run = self.clock, log.run

        def again(_: int, text: str, printed: float) -> None:  # for the lines that are read many at once
            clock.moment(moment_of(text))
            count(int(printed))

        count = clock.evaluation if found[1] else partial(clock.steps_since_mark, run)
        count(int(found[2]))
        log.alike.call(again, (found[2], found.start(2)))
        # a line that also says something else is not read with those like it
        log.file.is_odd |= any(pattern.search(text) for pattern in (_BEGINS, _TRAINING, _CHECKPOINT))

    def _counts(self, text: str) -> bool:
        """Return whether a line is of the rank that printed the first line."""
        rank = rank_of(text)
        if not self._has_begun:
            self._rank, self._has_begun = rank, True
        return rank == self._rank
