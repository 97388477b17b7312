"""Logs of torchtitan: the lines of its MetricsProcessor, with or without colour codes.

    [titan] 2026-01-16 02:43:35,918 - root - INFO - step: 100  loss:  2.33670  grad_norm:  0.4648
      memory: 69.83GiB(88.19%)  tps: 42,332  tflops: 270.71  mfu: 27.37%                        (on one line)
    [titan] 2026-01-16 02:43:36,101 - root - INFO - validate step: 100  loss:  2.4011  memory: 60.11GiB(75.92%)
      tps: 120,001                                                                              (on one line)

Source: pytorch/torchtitan `torchtitan/components/metrics.py` (2026-08), and its lines of 2024 (`wps` for `tps`, no
`tflops`). Throughput is a mean over the steps since the last line, memory the maximum since then.

| metric | unit | printed as |
|---|---|---|
| `tokens_per_second_per_gpu` | 1/s | `tps`, `wps` |
| `throughput_per_gpu` | FLOP/s | `tflops` |
| `mfu`, a share | 1 | `mfu`, in %; `N/A` with quantization, which is left out |
| `memory.peak_reserved` | B | `memory`, in GiB |
| `loss`, `grad_norm` | 1 | the same |
| `validation.loss`, `validation.tokens_per_second_per_gpu`, `validation.memory.peak_reserved` | | of `validate step` |
| `time.PART`, `goodput` | s, 1 | see `torchtitan_times` |

Step n is step n - 1 of the run.
"""

from __future__ import annotations

import re

from perfgate.core import Run
from perfgate.readers.formats import Format
from perfgate.readers.text import InputFile
from perfgate.readers.training_logs.step_lines import StepLog
from perfgate.readers.training_logs.torchtitan_times import DATED_WORD, TorchtitanTimes

NAME = "torchtitan"
TITLE = "a log of torchtitan (`step: .. loss: .. memory: .. tps: .. mfu: ..`)"
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
    "tps": ("tokens_per_second_per_gpu", "1/s", 1.0),
    "wps": ("tokens_per_second_per_gpu", "1/s", 1.0),
    "tflops": ("throughput_per_gpu", "FLOP/s", 1e-12),
    "mfu": ("mfu", "1", 100.0),
    "memory": ("memory.peak_reserved", "B", 2.0**-30),
    "loss": ("loss", "1", 1.0),
    "grad_norm": ("grad_norm", "1", 1.0),
}
#: The unit behind a value, where one is printed.
_SUFFIXES = {"memory": "GiB", "mfu": "%"}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log, times = StepLog(file, NAME), TorchtitanTimes()
    for number, line in log.lines("step: ", " capacity: ", DATED_WORD):
        times.line(line)
        if found := _RECORD.search(line):
            if log.begin(found[1] or "", number, line, int(found[2]), 1):
                prefix = "validation." if found[1] else ""
                log.add_known(_fields(found[3]), _KNOWN, prefix)
                times.step(log.run, line, int(found[2]), is_validation=bool(found[1]))
        elif device := _DEVICE.search(line):
            log.run.fact("gpu", device[1], number)
    times.finish()
    return log.runs.finish()


def _fields(text: str) -> list[tuple[str, str]]:
    """Return the names and values of a record, without thousands separators and units."""
    fields = [(name, value) for name, value in _FIELD.findall(text) if not (name == "mfu" and value == "N/A")]
    return [(name, value.replace(",", "").removesuffix(_SUFFIXES.get(name, ""))) for name, value in fields]
