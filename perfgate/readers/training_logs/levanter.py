"""Logs of Levanter (and of Marin's trainer) with its JSON tracker, and its progress lines.

    2026-04-02 INFO {"tracker": "json_logger", "event": "log", "step": 5, "metrics": {"throughput/duration": 0.51,
      "throughput/tokens_per_second": 8032.1, "throughput/mfu": 41.2}}                          (on one line)
    {"tracker": "json_logger", "event": "summary", "metrics": {"throughput/device_kind": "TPU v4"}}
    Progress on:train 1.20kit/10.0kit rate:6.9it/s remaining:21:03 elapsed:02:51 postfix:loss=3.21

Source: stanford-crfm/levanter 1.2 `tracker/json_logger.py`, `callbacks/_metrics.py`, `trainer.py`; tqdm-loggable 0.4
`tqdm_logging.py`. A step is logged in several records, each with some of its metrics.

`throughput` is that of all devices. `progress.iterations_per_second` is `rate` of `train`: tqdm's running average.
Totals and hyperparameters are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.readers.kit import Field, Format, InputFile, Key, Run, RunBuilder, Runs, checked, leading_json, mapping

NAME = "levanter"
METRICS = (
    "`iteration_time`, `tokens_per_second`, `throughput`, `mfu`, `hook_time`, `loading_time`, `loss`, `eval.loss`, "
    "...; of progress lines `progress.iterations_per_second`"
)
CHECKED = (
    "Levanter 1.2's JSON tracker of 2025-09: a log that it wrote; generated logs; progress lines printed by"
    " tqdm-loggable 0.4.1"
)
#: A file of JSON is one record, or begins with one.
FORMAT = Format(
    NAME,
    __name__,
    markers={'"tracker": "json_logger"': ""},
    hints={"Progress on:train ": r"Progress on:train \S{1,40} rate:"},
    json=("of Levanter's JSON tracker", 'tracker="json_logger"'),
)

#: Totals and hyperparameters.
BESIDE = r"run_progress|parameter_count|(?:optim|params|grad)/.*|throughput/(?:total|theoretical|flops_per)_\w+"

WORD = '"tracker": "json_logger"'
_PROGRESS_WORD = "Progress on:train "
_RATE = Key("progress.iterations_per_second")
_PROGRESS = re.compile(r"Progress on:train \S{1,40} rate:([\d.,]{1,20})(it/s|s/it) ")
_KNOWN = {
    "throughput/duration": Field("iteration_time", "s"),
    "throughput/tokens_per_second": Field("tokens_per_second", "1/s"),
    "throughput/examples_per_second": Field("samples_per_second", "1/s"),
    "throughput/gflops_per_second": Field("throughput", "FLOP/s", 1e-9),
    "throughput/mfu": Field("mfu", "1", 100.0),
    "throughput/hook_time": Field("hook_time", "s"),
    "throughput/loading_time": Field("loading_time", "s"),
    "train/loss": Field("loss", "1"),
}
_OTHER = re.compile(r"eval/(?:.*/)?(?:\w*loss|bpb|loading_time|total_time)")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    runs = Runs(lambda: RunBuilder(file, NAME))
    for number, line, _, ended in file.lines((WORD, _PROGRESS_WORD)):
        at = line.find("{")
        if WORD in line and at >= 0:
            record = mapping(leading_json(line[at:]))
            if record:
                _record(runs, record, number)
            elif ended:
                runs.run.say("error", "a record cannot be read", number, f": {line[at:].strip()[:80]!r}")
            else:
                runs.run.say("warning", "the last record is cut off; left out", number)
        elif ended and (found := _PROGRESS.search(line)):
            _progress(runs.run, found, number)
    return runs.finish()


def _progress(run: RunBuilder, found: re.Match[str], line: int) -> None:
    """Add the rate of a progress line: iterations in a second, or the inverse of the seconds for an iteration."""
    value, fault = checked(found[1].replace(",", ""), "1/s")
    if fault or not value:
        run.refuse(_RATE, fault or "a rate of 0; left out", line)
    else:
        run.sample(_RATE, "1/s", value if found[2] == "it/s" else 1 / value, line)


def _record(runs: Runs[RunBuilder], record: Mapping[str, Any], line: int) -> None:
    """Read one record of the tracker."""
    metrics, step = mapping(record.get("metrics")), record.get("step")
    if kind := metrics.get("throughput/device_kind"):
        runs.run.fact("gpu", str(kind)[:200], line)
    if type(step) is not int or not 0 <= step < 1 << 53 or record.get("event") != "log":
        return
    if any(name in _KNOWN for name in metrics):  # a record of an evaluation begins no run
        runs.count("step", step, line)
    for name, value in metrics.items():
        if known := _KNOWN.get(name):
            runs.run.sample(Key(known.metric), known.unit, value, line, per=known.per, step=step)
        elif _OTHER.fullmatch(name):
            unit = "s" if name.endswith("_time") else "1"
            runs.run.sample(Key(name.replace("/", ".")), unit, value, line, step=step)
