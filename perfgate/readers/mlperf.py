"""MLPerf training logs: the `:::MLLOG` lines of mlperf_logging among whatever else a job prints.

    0: :::MLLOG {"namespace": "", "time_ms": 1664527500629, "event_type": "INTERVAL_START", "key": "run_start",
                 "value": null, "metadata": {"file": "run_pretraining.py", "lineno": 1521}}     (on one line)

Source: mlcommons/logging `mlperf_logging/mllog` (v0.7 to v5). Times are wall-clock milliseconds since 1970.

| metric | unit | from |
|---|---|---|
| `run_time`, one value | s | `run_stop` - `run_start`; only with the status `success` |
| `init_time`, one value | s | `init_stop` - `init_start` |
| `epoch_time`, `eval_time`, `block_time`, ... | s | `NAME_stop` - `NAME_start`, each one a sample |
| `throughput`, `tracked_stats.NAME` | 1/s, s or by the name | `tracked_stats` |
| `eval_accuracy`, `eval_error`, `eval_loss` | 1 | the same |

Qualities of several metrics have the label `metric`: that of the metadata (`FID` and `CLIP`), or the names of an object
(`{"BBOX": 0.377, "SEGM": 0.34}`). Some submissions log `run_start` and `run_stop` as points in time.

What was trained (`submission_benchmark`, `global_batch_size`, `opt_name`, ...; the table of `core.conditions` has all)
is a label of every metric of the run. The seed is not.

Several processes may log the start of the same interval: it begins with the first start, and ends with the first stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.core.conditions import TABLE, conditions_of
from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs
from perfgate.readers.unlabelled import is_unmeasured, with_labels
from perfgate.readers.values import checked, leading_json, mapping, unit_of_name

NAME = "mlperf"
METRICS = (
    "`run_time`, `init_time`, `epoch_time`, `eval_time`, `throughput`, `eval_accuracy`,"
    " `tracked_stats.train_step_time`, ...;"
    " labelled with `benchmark`, `global_batch_size`, `optimizer`, ..."
)
CHECKED = "mlperf_logging 0.7 to 5, from its sources; two published logs"
FORMAT = Format(NAME, __name__, markers={":::MLLOG": ""})
#: A field of `run_stop` that follows from its time and that of `run_start`.
BESIDE = "duration"
WORD = ":::MLLOG"
#: The description of the machine, in some submissions.
_SYSTEM_WORD = ":::SYSJSON"
_RUN_TIME, _INIT_TIME = Key("run_time"), Key("init_time")
#: The events that begin a new run after one has stopped.
_BEGINNINGS = ("cache_clear", "submission_benchmark", "init_start", "run_start")
_QUALITIES = ("eval_accuracy", "eval_error", "eval_loss")
_CONDITIONS = frozenset(name for field in TABLE["mlperf"] for name in field.names)


class _LogRun(RunBuilder):
    """A run of a log while its events are read."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        #: For each interval that has begun, its time in ms and its line.
        self.begun: dict[str, tuple[float, int]] = {}
        #: True after `run_stop`.
        self.stopped = False
        #: The fields of the log that are conditions, by key.
        self.conditions: dict[str, Any] = {}

    def condition(self, key: str, value: Any, line: int) -> None:
        """Keep a condition; processes that log different ones are not one run."""
        known = self.conditions.setdefault(key, value)
        if known != value:
            self.say("error", "a condition has two values in one run", line, f": {key} is {known} and {value}")

    def run(self, part: int | None = None) -> Run:
        """Return the finished run, whose conditions are labels; one that never stopped has no run time."""
        if "run" in self.begun:
            self.refuse(_RUN_TIME, "this run_start has no run_stop", self.begun["run"][1])
        labels = conditions_of(self.conditions, NAME, self.file.source.conditions)
        return with_labels(super().run(part), labels)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log, one for each `run_start`."""
    runs = Runs(lambda: _LogRun(file))
    for number, line, _, ended in file.lines((WORD, _SYSTEM_WORD)):
        parts = line.split(WORD)[1:]
        if _SYSTEM_WORD in line:
            file.coverage.lines.tell(number)  # no measurements
        for index, text in enumerate(parts, 1):
            if (event := _event(text)) is not None:
                _take(runs, event, number)
            elif index == len(parts) and not ended:
                runs.run.say("warning", "the last record is cut off; left out", number)
            else:
                runs.run.say("error", "a record cannot be read", number, f": {text.strip()[:80]!r}")
    return runs.finish()


def _event(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object at the beginning of a text; another program printed the rest."""
    event = mapping(leading_json(text))
    return event if isinstance(event.get("key"), str) else None


def _take(runs: Runs[_LogRun], event: Mapping[str, Any], line: int) -> None:
    """Read an event by its key: a condition, the start or stop of an interval, statistics, or a quality."""
    key, value = event["key"], event.get("value")
    if key in _BEGINNINGS and runs.run.stopped:
        runs.banner(line)
    run = runs.run
    if key in _CONDITIONS or key in run.file.source.conditions:  # also those that the rule files name
        run.condition(key, value, line)
    name, _, end = key.rpartition("_")
    if end in ("start", "stop"):  # of any type: some submissions log intervals as points in time
        _interval(run, name, end, event, line)
    elif key == "tracked_stats":
        _statistics(run, mapping(value), line)
    elif key in _QUALITIES:
        metric = mapping(event.get("metadata")).get("metric")
        for name, number in value.items() if isinstance(value, dict) else [(metric, value)]:
            labels = {"metric": name} if isinstance(name, str) and name else {}
            run.sample(Key.of(key, **labels), "1", number, line)


def _statistics(run: _LogRun, tracked: Mapping[str, Any], line: int) -> None:
    """Add tracked statistics, which the submission has named."""
    for name, number in tracked.items():
        if not isinstance(number, int | float) or is_unmeasured(name):
            continue
        unit, per = ("s", 1.0) if name.endswith(("_time", "_timing")) else unit_of_name(name)
        if name == "throughput":
            run.sample(Key(name), "1/s", number, line)
        else:
            run.sample(Key(f"tracked_stats.{name}"), unit, number, line, per=per)


def _interval(run: _LogRun, name: str, end: str, event: Mapping[str, Any], line: int) -> None:
    """Begin the interval of this name, or add its time if the event is its stop."""
    key = Key(f"{name}_time")
    time, fault = checked(event.get("time_ms"), "s")
    if fault:
        run.refuse(key, f"time_ms: {fault}", line)
    elif end == "start":
        run.begun.setdefault(name, (time, line))
    elif name in run.begun:
        milliseconds, status = time - run.begun.pop(name)[0], mapping(event.get("metadata")).get("status")
        if milliseconds < 0:
            run.refuse(key, f"it stops {-milliseconds / 1000} s before it starts; left out", line)
        elif key == _RUN_TIME and status != "success":
            printed = status if isinstance(status, str) else None
            run.refuse(key, f"the status of the run is {printed!r}, not 'success'; left out", line)
        elif key in (_RUN_TIME, _INIT_TIME):
            run.one_value(key, "s", milliseconds / 1000)
        else:
            run.column(key, "s", 1000).values.append(milliseconds)
    elif key == _RUN_TIME and not run.stopped:  # each process logs a stop; only the first one counts
        run.refuse(key, "run_stop without a run_start", line)
    run.stopped = run.stopped or (name, end) == ("run", "stop")
