"""MLPerf training logs: the `:::MLLOG` lines of mlperf_logging among whatever else a job prints.

    0: :::MLLOG {"namespace": "", "time_ms": 1664527500629, "event_type": "INTERVAL_START", "key": "run_start",
                 "value": null, "metadata": {"file": "run_pretraining.py", "lineno": 1521}}     (on one line)

Source: mlcommons/logging `mlperf_logging/mllog` (v0.7 to v5). Times are wall-clock milliseconds since 1970.

| metric | unit | from |
|---|---|---|
| `run_time`, one value | s | `run_stop` - `run_start`; only with the status `success` |
| `init_time`, one value | s | `init_stop` - `init_start` |
| `epoch_time`, `eval_time`, `block_time`, ... | s | `NAME_stop` - `NAME_start`, each one a sample |
| `throughput` | 1/s | the same, of `tracked_stats` |
| `eval_accuracy`, `eval_error`, `eval_loss` | 1 | the same |

Several processes may log the start of the same interval: it begins with the first of them, and ends with the
first stop.
"""

from __future__ import annotations

import json
from typing import Any

from perfgate.core import Key, Run
from perfgate.readers.builder import RunBuilder
from perfgate.readers.jsonrun import checked
from perfgate.readers.runs import Runs
from perfgate.readers.text import Document

NAME = "mlperf"

WORD = ":::MLLOG"
_RUN_TIME, _INIT_TIME = Key("run_time"), Key("init_time")
#: What a new run begins with, once one has stopped.
_BEGINNINGS = ("cache_clear", "submission_benchmark", "init_start", "run_start")
_QUALITIES = ("eval_accuracy", "eval_error", "eval_loss")
_DECODER = json.JSONDecoder()


class _LogRun(RunBuilder):
    """One run of a log while it is read."""

    def __init__(self, document: Document) -> None:
        super().__init__(document, NAME)
        #: Of each interval that has begun, its time in ms and its line.
        self.begun: dict[str, tuple[float, int]] = {}
        self.stopped = False

    def run(self, part: int | None = None) -> Run:
        """The finished run; one that never stopped has no run time."""
        if "run" in self.begun:
            self.refuse(_RUN_TIME, "this run_start has no run_stop", self.begun["run"][1])
        return super().run(part)


def read(document: Document) -> tuple[Run, ...]:
    """The runs of a log, one for each `run_start`."""
    runs = Runs(lambda: _LogRun(document))
    for number, line, _, ended in document.lines((WORD,)):
        parts = line.split(WORD)[1:]
        for index, text in enumerate(parts, 1):
            event = _event(text)
            if event is not None:
                _take(runs, event, number)
            elif index == len(parts) and not ended:
                runs.run.say("warning", "the last record is cut off, and left out", number)
            else:
                runs.run.say_some("error", "a record that cannot be read", number, f": {text.strip()[:80]!r}")
    return runs.finish()


def _event(text: str) -> dict[str, Any] | None:
    """The JSON object at the beginning of a text; what follows it was printed by somebody else."""
    try:
        event, _ = _DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("key"), str) else None


def _take(runs: Runs[_LogRun], event: dict[str, Any], line: int) -> None:
    """One event of the log."""
    key = event["key"]
    if key in _BEGINNINGS and runs.run.stopped:
        runs.banner(line)
    run = runs.run
    name, _, end = key.rpartition("_")
    if end in ("start", "stop") and str(event.get("event_type", "")).startswith("INTERVAL"):
        _interval(run, name, end, event, line)
    elif key == "tracked_stats" and isinstance(event.get("value"), dict) and "throughput" in event["value"]:
        _add(run, Key("throughput"), "1/s", event["value"]["throughput"], line)
    elif key in _QUALITIES:
        _add(run, Key(key), "1", event.get("value"), line)


def _interval(run: _LogRun, name: str, end: str, event: dict[str, Any], line: int) -> None:
    """The start or the stop of an interval."""
    key = Key(f"{name}_time")
    time, fault = checked(event.get("time_ms"), "s")
    if fault:
        run.refuse(key, f"time_ms: {fault}", line)
    elif end == "start":
        run.begun.setdefault(name, (time, line))
    elif name in run.begun:
        _finish(run, key, time - run.begun.pop(name)[0], _status(event), line)
    elif key == _RUN_TIME and not run.stopped:
        run.refuse(key, "run_stop without a run_start", line)
    run.stopped = run.stopped or (name, end) == ("run", "stop")


def _finish(run: _LogRun, key: Key, milliseconds: float, status: str | None, line: int) -> None:
    """An interval that has ended."""
    if milliseconds < 0:
        run.refuse(key, f"{milliseconds / 1000} s is no measurement, which is not negative; left out", line)
    elif key == _INIT_TIME:
        run.one_value(key, "s", milliseconds / 1000)
    elif key != _RUN_TIME:
        column = run.column(key, "s", 1000)
        column.values.append(milliseconds)
    elif status != "success":
        run.refuse(key, f"the status of the run is {status!r}, not 'success'; left out", line)
    else:
        run.one_value(key, "s", milliseconds / 1000)


def _status(event: dict[str, Any]) -> str | None:
    metadata = event.get("metadata")
    status = metadata.get("status") if isinstance(metadata, dict) else None
    return status if isinstance(status, str) else None


def _add(run: _LogRun, key: Key, unit: str, value: object, line: int) -> None:
    number, fault = checked(value, unit)
    if fault:
        run.refuse(key, fault, line)
    else:
        run.column(key, unit).values.append(number)
