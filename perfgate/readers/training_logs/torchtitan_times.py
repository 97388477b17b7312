"""The times of a job in a log of torchtitan, whose lines all have a date.

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
the first one what is compiled in it: the log does not tell them apart. Of a validation after a step without a line, the
log tells neither when the step ended nor when the validation began: both are `time.other`. Only the lines of the first
rank count. Source: pytorch/torchtitan `torchtitan/train.py`, `trainer.py`, `components/metrics.py` and
`components/checkpointer/dcp.py` (2026-08).
"""

from __future__ import annotations

import re

from perfgate.core.goodput import CHECKPOINT, EVALUATION, LOST, START, STEP
from perfgate.readers.builder import RunBuilder
from perfgate.readers.time_split import JobClock, moment_of
from perfgate.readers.training_logs.step_lines import rank_of

#: What a line with a date has.
DATED_WORD = " - INFO - "
_BEGINS = re.compile(r"- INFO - .{0,9}(?:torchtitan version: |Starting job: )")
_TRAINING = re.compile(r"Training starts at step (\d{1,18})")
_CHECKPOINT = re.compile(
    r"Finished (?:saving|staging|loading) the checkpoint.{0,60}?in (\d{1,9}(?:\.\d{1,9})?) ?s"
    r"|Last step checkpoint completed in (\d{1,9}(?:\.\d{1,9})?)s"
)


class TorchtitanTimes:
    """The times of all runs of one log while it is read."""

    def __init__(self) -> None:
        self._clock = JobClock((START, STEP, CHECKPOINT, EVALUATION, LOST), rounding=0.1)
        self._rank: str | None = None
        self._has_begun = False

    def line(self, text: str) -> None:
        """Take a line before its values are read."""
        if DATED_WORD not in text or not self._counts(text):
            return
        if _BEGINS.search(text):
            self._clock.begin()
        self._clock.moment(moment_of(text))
        if found := _TRAINING.search(text):
            self._clock.training(done=int(found[1]) - 1)
        elif found := _CHECKPOINT.search(text):
            self._clock.spent(CHECKPOINT, float(found[1] or found[2]), dated=True)

    def step(self, run: RunBuilder, text: str, printed: int, *, is_validation: bool) -> None:
        """Take the line of a step or of a validation that was read."""
        if DATED_WORD not in text or not self._counts(text):
            return
        if is_validation:
            self._clock.evaluation(printed)
        else:
            self._clock.steps_since_mark(run, printed)

    def _counts(self, text: str) -> bool:
        """Return whether a line is of the rank that printed the first line."""
        rank = rank_of(text)
        if not self._has_begun:
            self._rank, self._has_begun = rank, True
        return rank == self._rank

    def finish(self) -> None:
        """Add the metrics of each job to its runs."""
        self._clock.finish()
