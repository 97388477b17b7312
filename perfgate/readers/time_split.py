"""The time of a run of Megatron-LM split into start, steps, checkpoints, evaluation and the rest, and its goodput.

    time to initialize megatron (seconds): 28.352
    [after megatron is initialized] datetime: 2024-08-21 10:15:12
    [before the start of training step] datetime: 2024-08-21 10:16:02
     [2024-08-21 10:19:42] iteration        4/   25000 | ... elapsed time per iteration (ms): 27012.4 | ...
    [after training is done] datetime: 2024-08-21 12:00:00

The whole is the time from the first to the last of these moments, with the initialisation before the first. Its parts:

| metric | time |
|---|---|
| `time.start` | up to the start of training |
| `time.step` | iterations: `elapsed time per iteration` times their number; the clock stops for the next two |
| `time.checkpoint` | the timer `save-checkpoint` of the slowest rank |
| `time.evaluation` | the timer `evaluate` of the slowest rank |
| `time.other` | the rest |

`goodput` is `time.step` as a share of the whole. The moments are whole seconds, so the parts may exceed the whole by up
to 2 s: then the rest is 0. If they exceed it by more, the log means other times (older iterations include evaluation),
and nothing is said. Restarts in one log are runs of their own. Source: NVIDIA/Megatron-LM
`megatron/training/training.py` and `initialize.py`.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

import numpy as np

from perfgate.core import Key, Series, read_only
from perfgate.readers.builder import Column, RunBuilder

#: A line with a moment or with the time of the initialisation has one of these.
DATE_WORD, INITIALIZE_WORD = "datetime: ", "time to initialize megatron (seconds): "
_DATE = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_MOMENT = re.compile(rf"\[([^\]\[]{{1,99}})\] datetime: {_DATE}|\[{_DATE}(?:\.\d{{1,9}})?\] iteration ")
_INITIALIZE = re.compile(r"time to initialize megatron \(seconds\): (\d{1,9}(?:\.\d{1,9})?)")
_TRAINING_STARTS = "before the start of training step"
#: The timers of Megatron in each part of the time.
_TIMERS = {"time.checkpoint": "save-checkpoint", "time.evaluation": "evaluate"}
_ITERATION_TIME = Key("iteration_time")
_READ = (_ITERATION_TIME, *(key for timer in _TIMERS.values() for key in (Key.of(timer, ranks="max"), Key(timer))))
#: The parts may exceed the whole by this, in s: two moments are rounded.
_ROUNDING = 2.0


class TimeSplit:
    """The moments of one run while its log is read."""

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self._initialize = 0.0
        self._first: float | None = None
        self._started: float | None = None
        self._last = 0.0
        #: For each series, the number of its values before the last moment.
        self._until: dict[Key, int] = {}

    def line(self, text: str) -> None:
        """Take a line that may have a moment; the values of its own record are already in the run."""
        if self._first is None and (found := _INITIALIZE.search(text)):
            self._initialize = float(found[1])
        elif found := _MOMENT.search(text):
            try:
                moment = datetime.fromisoformat(found[2] or found[3]).replace(tzinfo=timezone.utc)
            except ValueError:
                return
            self._last = moment.timestamp()
            self._first = self._last if self._first is None else self._first
            if found[1] == _TRAINING_STARTS:
                self._started = self._last
            columns = self._run.columns
            self._until = {key: len(columns[key].values) for key in _READ if key in columns}

    def finish(self) -> None:
        """Add the parts and the goodput to the run, if the log says all that they need."""
        step = self._steps()
        if self._first is None or self._started is None or step is None:
            return
        whole = self._last - self._first + self._initialize
        parts = {"time.start": self._started - self._first + self._initialize, "time.step": step}
        parts |= {name: self._slowest(timer) for name, timer in _TIMERS.items()}
        rest = whole - sum(parts.values())
        if rest < -_ROUNDING:
            return
        parts["time.other"] = max(rest, 0.0)
        for name, value in parts.items():
            self._add(name, "s", value)
        self._add("goodput", "1", step / sum(parts.values()))

    def _add(self, name: str, unit: str, value: float) -> None:
        key = Key(name)
        self._run.finished.setdefault(key, Series(key, unit, "value", read_only(np.array([value]))))

    def _steps(self) -> float | None:
        """Return the seconds of all iterations before the last moment; None with fewer than two records of them."""
        column = self._run.columns.get(_ITERATION_TIME)
        count = self._until.get(_ITERATION_TIME, 0)
        if column is None or count < 2 or len(column.steps) < count:
            return None
        numbers = np.array(column.steps[:count]) + 1
        each = np.diff(numbers, prepend=0)
        each[0] = min(numbers[0], each[1])  # a resumed run begins at any number
        if (each < 1).any():
            return None
        return float((each * np.array(column.values[:count])).sum()) / column.per

    def _slowest(self, timer: str) -> float:
        """Return the seconds of a timer before the last moment: the slowest rank of each time."""
        for key in (Key.of(timer, ranks="max"), Key(timer)):
            column: Column | None = self._run.columns.get(key)
            if column is not None:
                return sum(column.values[: self._until.get(key, 0)]) / column.per
        return 0.0
