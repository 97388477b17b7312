"""Split the time of a job by the moments in its log and by the times that the log prints between them.

A reader calls a `JobClock` for each line that has a date or tells a time. Time is attributed only as far as the log
says so: the rest is `time.other`. The parts and `goodput` are those of `core.goodput`.

An attempt is one start of the program up to its end. Several attempts in one log are one job if the later ones continue
it: their steps begin after the first step. Then the runs of all attempts have the numbers of the whole job. An attempt
that begins at the first step is a job of its own. If dates go back, or the parts are longer than the whole, the runs
get no times.

A report of Lightning's SimpleProfiler has these times:

| metric | time |
|---|---|
| `time.total` | the row `Total`: since the profiler was made |
| `time.step` | `run_training_batch` |
| `time.data` | `[_TrainingEpochLoop].train_dataloader_next`, `get_train_batch` |
| `time.checkpoint` | `save_checkpoint`; before Lightning 2.6 the hooks of `ModelCheckpoint` |
| `time.evaluation` | `[_EvaluationLoop].val_next` and `[Strategy]NAME.validation_step`, also of the sanity check |
| `time.other` | the rest, the start included |

These rows are not inside each other. Reports before 1.6 have no names in brackets, so they tell neither evaluation nor
checkpoints, and those before 1.2 have no total. Sources: Lightning-AI/pytorch-lightning `profilers/simple.py`,
`loops/training_epoch_loop.py`, `loops/evaluation_loop.py`, `trainer/trainer.py` and `trainer/call.py` (2.6).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct, field

from perfgate.core import Key
from perfgate.core.goodput import CHECKPOINT, DATA, EVALUATION, STEP, Attempt, TimeSpent, metrics, split, with_rest
from perfgate.readers.builder import RunBuilder

_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
#: Processes that write to one log may be late by this, in s.
_OUT_OF_ORDER = 1.0


def moment_of(text: str) -> float | None:
    """Return the first date of a line in s since 1970, without its time zone; None without a valid date."""
    found = _DATE.search(text)
    day = _day(found[1]) if found else None
    hour, minute, second = map(int, found[2].split(":")) if found else (0, 0, 0)
    if found is None or day is None or hour > 23 or minute > 59 or second > 59:
        return None
    return day + (hour * 3600 + minute * 60 + second) + float(f"0.{found[3] or 0}")


@lru_cache(maxsize=16)
def _day(date: str) -> float | None:
    try:
        return datetime.fromisoformat(date).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


class _Record(Struct):
    """The steps from the record before up to `last`, which were done at the moment `at`."""

    last: int
    at: float
    #: The seconds of one step, or else of all these steps.
    each: float | None = None
    seconds: float = 0.0


class _Reading(Struct):
    """An attempt while its lines are read; moments are in s."""

    #: The first moment and the last one so far, and the seconds before the first one.
    first: float
    last: float
    before: float
    #: The last moment, plus the seconds that lines without a date told since then.
    now: float
    #: The moment when the steps begin, and the number of steps that were done by then.
    training: float | None = None
    done: int | None = None
    #: The moment up to which time is accounted for, and the seconds that the log told since then.
    mark: float = 0.0
    told: float = 0.0
    spent: list[TimeSpent] = field(default_factory=list)
    records: list[_Record] = field(default_factory=list)
    runs: list[RunBuilder] = field(default_factory=list)
    #: The parts that happened, and those whose time is told.
    happened: set[str] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)

    @property
    def step(self) -> int:
        """The last step that is done."""
        return self.records[-1].last if self.records else self.done or 0

    def attempt(self) -> Attempt | None:
        """Return the attempt; None if the log does not say where its steps begin, or how many the first record has."""
        after = self.done
        if after is None and len(self.records) > 1:  # as if the first record had as many steps as the second
            after = max(2 * self.records[0].last - self.records[1].last, 0)
        if after is None or self.training is None or not self.records:
            return None
        found = Attempt(self.first, self.last, self.before, self.training, done=after, spent=[*self.spent])
        for one in self.records:
            seconds = one.seconds if one.each is None else one.each * (one.last - after)
            found.spent.append(TimeSpent(STEP, seconds, one.at, after=after, last=one.last))
            after = one.last
        return found


class JobClock:
    """The jobs of one log while it is read.

    Parameters:
        told: the parts that this kind of log prints.
        rounding: the s by which the parts may exceed the whole, because moments are rounded.
    """

    def __init__(self, told: Collection[str], rounding: float) -> None:
        self._told, self._rounding = told, rounding
        self._ended: list[_Reading] = []
        self._reading: _Reading | None = None
        self._before = 0.0
        self._is_in_order = True
        #: Times and records of lines without a date: they count if a moment follows.
        self._waiting: list[TimeSpent | _Record] = []

    def moment(self, at: float | None) -> None:
        """Take the date of a line: the attempt goes on to here."""
        if at is None:
            return
        if self._reading is None:
            self._reading = _Reading(first=at, last=at, before=self._before, now=at, mark=at)
            self._before = 0.0
        reading = self._reading
        self._is_in_order &= at >= reading.last - _OUT_OF_ORDER
        reading.last = reading.now = max(reading.last, at)
        for one in self._waiting:
            (reading.records if isinstance(one, _Record) else reading.spent).append(one)  # type: ignore[arg-type]
        self._waiting = []

    def begin(self, before: float | None = None) -> None:
        """Begin an attempt, `before` s before its first moment; a program may say so several times before a step."""
        if self._reading is not None and self._reading.training is not None:
            self._close()
        if self._reading is None and before is not None:
            self._before = before

    def training(self, done: int | None = None) -> None:
        """Note that the steps begin at the last moment; an earlier attempt has done the first `done` of them."""
        if self._reading is not None and self._reading.records:  # another attempt, whose start the log lost
            moment = self._reading.last
            self._close()
            self.moment(moment)
        if (reading := self._reading) is not None:
            reading.training = reading.mark = reading.last
            reading.done, reading.told = done, 0.0

    def spent(self, part: str, seconds: float, *, dated: bool) -> None:
        """Note the time that the log prints for a part, on a line with a date or on one without."""
        if (reading := self._reading) is None:
            return
        reading.now += 0.0 if dated else seconds
        reading.told += seconds
        reading.timed.add(part)
        found = TimeSpent(part, seconds, reading.now, after=reading.step, last=reading.step)
        (reading.spent if dated else self._waiting).append(found)

    def happened(self, part: str) -> None:
        """Note that a part happened; if this attempt prints no time for it, the job has no time for the part."""
        if self._reading is not None:
            self._reading.happened.add(part)

    def steps_since_mark(self, run: RunBuilder, last: int) -> None:
        """Note that the steps up to `last` were done at the last moment: in the time since `mark` less `told`."""
        if (reading := self._of_step(run, last)) is not None:
            seconds = max(reading.last - reading.mark - reading.told, 0.0)
            reading.records.append(_Record(last, reading.last, seconds=seconds))
            reading.mark, reading.told = reading.last, 0.0

    def steps(self, run: RunBuilder, last: int, each: float, *, dated: bool) -> None:
        """Note that the steps up to `last` are done and that each took `each` s."""
        if (reading := self._of_step(run, last)) is not None:
            reading.now += 0.0 if dated else each * max(last - reading.step, 0)
            (reading.records if dated else self._waiting).append(_Record(last, reading.now, each))

    def evaluation(self, step: int) -> None:
        """Note that an evaluation ended at the last moment: it took the time since `mark` less `told`.

        Without a record of `step`, steps were done in that time, too, so the time of the evaluation is unknown.
        """
        if (reading := self._reading) is None:
            return
        if reading.records and reading.step == step:
            seconds = max(reading.last - reading.mark - reading.told, 0.0)
            reading.spent.append(TimeSpent(EVALUATION, seconds, reading.last, after=step, last=step))
        reading.mark, reading.told = reading.last, 0.0

    def _of_step(self, run: RunBuilder, last: int) -> _Reading | None:
        """Return the attempt that a step belongs to; a step that goes back begins one, if the log lost its start."""
        reading = self._reading
        if reading is None or reading.training is None:
            return None
        if reading.records and last <= reading.step:
            moment = reading.last
            self._close()
            self.moment(moment)
            self.training(done=last)  # as its beginning is unknown, this step counts as done before
            return None
        if all(run is not other for other in reading.runs):
            reading.runs.append(run)
        return reading

    def _close(self) -> None:
        """End the attempt; it is dropped if it has no record of steps."""
        if self._reading is not None and self._reading.records:
            self._ended.append(self._reading)
        self._reading, self._waiting = None, []

    def finish(self) -> None:
        """Add the metrics of each job to its runs."""
        self._close()
        job: list[_Reading] = []
        for one in self._ended:
            found = one.attempt()
            continues = job and found and 0 < (found.done or 0) <= job[-1].step  # no step in between is missing
            if not continues:
                self._add(job)
                job = []
            job.append(one)
        self._add(job)

    def _add(self, job: Sequence[_Reading]) -> None:
        """Add the metrics of a job to its runs, if all its attempts are known."""
        attempts = [one.attempt() for one in job]
        known = [one for one in attempts if one is not None]
        if not self._is_in_order or not known or len(known) < len(attempts):
            return
        # Parts that happened, but whose time the log does not tell.
        untold = {part for one in job for part in one.happened - one.timed}
        found = metrics(split(known, set(self._told) - untold, self._rounding) or {})
        if found and job[0].runs and known[0].done:
            what = f"this log goes on from step {known[0].done}: goodput and time.* are of this log alone"
            job[0].runs[0].say("warning", f"{what}; for the whole job, join its logs in one file")
        for run in dict.fromkeys(run for one in job for run in one.runs):
            add_times(run, found)


def add_times(
    run: RunBuilder, found: Mapping[str, tuple[float, str]], labels: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add metrics (name: value, unit) to a run, with these labels; a metric that the run has already stays."""
    for name, (value, unit) in found.items():
        key = Key.of(name, **labels)
        if key not in run.finished and key not in run.columns:
            run.one_value(key, unit, value)


#: Actions in reports of SimpleProfiler.
_STEP = "run_training_batch"
_SAVE = re.compile("save_checkpoint")
_SAVE_HOOKS = re.compile(r"\[Callback\]ModelCheckpoint(?:\{.*\})?\.on_(?:train|validation)_\w*end")
_ROWS = {
    DATA: re.compile(r"\[_?TrainingEpochLoop\]\.train_dataloader_next|get_train_batch"),
    EVALUATION: re.compile(r"\[_?Evaluation\w*Loop\]\.\w+_next|\[Strategy\]\w+\.validation_step"),
}
#: The share of the whole by which the parts may exceed it: numbers are printed with 5 digits.
_ROUNDING = 1e-3


def profiler_metrics(rows: Mapping[str, float], whole: float | None, *, is_whole: bool) -> dict[str, tuple[float, str]]:
    """Return each time metric of a report of SimpleProfiler with its value and unit; none without steps or a total.

    Parameters:
        rows: the total of each action in s.
        whole: the seconds in the row of the total.
        is_whole: the report has all its rows, so a part without a row took no time; otherwise it is unknown.
    """
    if whole is None or _STEP not in rows:
        return {}

    def totals(names: re.Pattern[str]) -> list[float]:
        return [total for action, total in rows.items() if names.fullmatch(action)]

    found = {part: totals(names) for part, names in _ROWS.items()}
    found[CHECKPOINT] = totals(_SAVE) or totals(_SAVE_HOOKS)
    parts = {part: sum(spent) for part, spent in found.items() if spent or is_whole}
    parts[STEP] = rows[_STEP]
    return metrics(with_rest(parts, whole, _ROUNDING * whole) or {})
