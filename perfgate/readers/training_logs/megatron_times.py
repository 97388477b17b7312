"""The times of a job in a log of Megatron-LM.

    time to initialize megatron (seconds): 28.352
    [after megatron is initialized] datetime: 2024-08-21 10:15:12
    [before the start of training step] datetime: 2024-08-21 10:16:02
     [2024-08-21 10:19:42] iteration        4/   25000 | ... elapsed time per iteration (ms): 27012.4 | ...
    [after training is done] datetime: 2024-08-21 12:00:00

| metric | time |
|---|---|
| `time.start` | up to the start of training, with the initialisation before the first date |
| `time.step` | `elapsed time per iteration`, without checkpoints and evaluation, times the number of iterations |
| `time.checkpoint` | the timer `save-checkpoint` of the slowest rank |
| `time.evaluation` | the timer `evaluate` of the slowest rank |

If the log says that checkpoints were saved or the model was evaluated, but has no such timer, the part is absent and
its time is in `time.other`.

The moments are whole seconds, so the parts may exceed the whole by up to 2 s: then the rest is 0. If they exceed it by
more, the log means other times (older iterations include evaluation), and the run gets none. Source: NVIDIA/Megatron-LM
`megatron/training/training.py` and `initialize.py`. Logs of Megatron-DeepSpeed have the same lines; the dates of
DeepSpeed's own step counter are moments, too.
"""

from __future__ import annotations

import re

from perfgate.core.goodput import CHECKPOINT, EVALUATION, LOST, START, STEP
from perfgate.readers.deepspeed.lines import ITERATION
from perfgate.readers.kit import Key, RunBuilder, checked
from perfgate.readers.time_split import JobClock, moment_of

#: A line with a moment or with the time of the initialisation has one of these.
DATE_WORD, INITIALIZE_WORD = "datetime: ", "time to initialize megatron (seconds): "
_DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_MOMENT = re.compile(rf"\[([^\]\[]{{1,99}})\] datetime: {_DATE}|\[{_DATE}(?:\.\d{{1,9}})?\] iteration ")
_INITIALIZE = re.compile(r"time to initialize megatron \(seconds\): (\d{1,9}(?:\.\d{1,9})?)")
_TRAINING_STARTS = "before the start of training step"
#: Lines of a program before its first step; an excerpt of a log may begin with any of these.
_STARTING = (
    "after megatron is initialized",
    "after model, optimizer, and learning rate scheduler are built",
    "after dataloaders are built",
    _TRAINING_STARTS,
)
_TIMERS = {"save-checkpoint": CHECKPOINT, "evaluate": EVALUATION}
#: A line of timers that tells the time of a part has one of these.
TIMER_WORDS = tuple(f"| {name}: " for name in _TIMERS)
#: Words that say that a part happened. Without its timer the part is absent, because its time is unknown.
HAPPENED_WORDS = {"successfully saved checkpoint": CHECKPOINT, "validation loss at ": EVALUATION}
_PRINTED = re.compile(rf"\| ({'|'.join(_TIMERS)}): (\S{{1,40}})")
_LOGGED = re.compile(rf"\[{_DATE},\d{{3}}\] \[")
_ITERATION_TIME = Key("iteration_time")


class MegatronTimes:
    """The times of all runs of one log: its reader passes the lines, and at the end calls `clock.finish`."""

    def __init__(self) -> None:
        self.clock = JobClock((START, STEP, CHECKPOINT, EVALUATION, LOST), rounding=2.0)

    def line(self, run: RunBuilder, text: str) -> None:
        """Take a line that may have a moment; the values of its own record are already in the run."""
        if found := _INITIALIZE.search(text):
            self.clock.begin(before=float(found[1]))
            return
        moment = _MOMENT.search(text)
        at = moment_of(moment[0]) if moment else None
        if moment and moment[1] in _STARTING:
            self.clock.begin()
        self.clock.moment(at)
        if moment and moment[1] == _TRAINING_STARTS and at is not None:
            self.clock.training()
        for found in ITERATION.finditer(text):
            self._iterations(run, found, dated=moment is not None)

    def timer(self, key: Key, text: str) -> bool:
        """Take a timer in ms, as printed, and return whether its time counts for a part of the job.

        Of several ranks, only the timer of the slowest one counts (ranks="max"), none of a single rank.
        """
        part = _TIMERS.get(key.metric)
        if part is None or key.label("rank") is not None or key.label("ranks") == "min":
            return False
        value, fault = checked(text, "s")
        if not fault:
            self.clock.spent(part, value / 1000, dated=False)
        return True

    def timers(self, text: str) -> None:
        """Take a line of timers in ms, `time (ms) | save-checkpoint: 1234.5`, as it was printed until 2022."""
        for name, printed in _PRINTED.findall(text):
            self.timer(Key(name), printed)

    def happened(self, text: str) -> None:
        """Take a line that may say that a checkpoint was saved or that the model was evaluated."""
        for word, part in HAPPENED_WORDS.items():
            if word in text:
                self.clock.happened(part)

    def moment(self, text: str) -> None:
        """Take the date of a line of DeepSpeed: `[2021-06-10 20:53:12,001] [INFO] ...`."""
        if found := _LOGGED.search(text):
            self.clock.moment(moment_of(found[0]))

    def _iterations(self, run: RunBuilder, found: re.Match[str], *, dated: bool) -> None:
        """Take the iterations up to that of a record, also for the lines like it (`alike_lines`).

        `dated`: these lines have a date.
        """
        column, last = run.columns.get(_ITERATION_TIME), int(found[1])
        if column is None or not column.steps or column.steps[-1] != max(last - 1, 0):
            return  # the last time is not of this iteration: its record has none, or it was refused
        self.clock.steps(run, last, column.values[-1] / column.per, dated=dated)
        if run.file.alike:
            per = column.per

            def again(_: int, text: str, last: float, each: float) -> None:
                if dated and (moment := _MOMENT.search(text)):
                    self.clock.moment(moment_of(moment[0]))
                self.clock.steps(run, int(last), each / per, dated=dated)

            run.file.alike.call(again, (found[1], found.start(1)), run.file.alike.place_of(column))
