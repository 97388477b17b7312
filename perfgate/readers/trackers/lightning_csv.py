"""`metrics.csv` of Lightning's CSVLogger, its logger unless another is chosen (`lightning_logs/version_0/metrics.csv`).

    epoch,lr-Adam,step,train_loss_step,tokens_per_second,val_loss
    ,0.001,49,,,
    0,,49,2.302585,8032.5,
    0,,99,,,2.25

Source: Lightning-AI/pytorch-lightning 2.6 `src/lightning/fabric/loggers/csv_logs.py`. Each column but
`epoch` and `step` is a metric with its steps. The end of the name gives the unit (see `trackers.Scalars`), otherwise 1.
A cell is empty if the metric was not logged at that step. The file is recognised by its columns `epoch` and `step`.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Format, InputFile, Run, RunBuilder, csv_rows
from perfgate.readers.trackers import Scalars

NAME = "lightning-csv"
METRICS = "each column, with its steps"
CHECKED = "lightning 2.6: files that it wrote; public files of 1.5 to 2.5"
_STEP = re.compile(r"\d{1,18}", re.ASCII)
_NUMBERS = r"[-+\d.eEnaif,]{1,4000}\r?$"
FORMAT = Format(
    NAME,
    __name__,
    hints={
        "epoch": rf"\A(?=(?:.{{0,4000}},)?epoch[,\r\n])(?=(?:.{{0,4000}},)?step[,\r\n])[^;\n]{{10,4000}}\n{_NUMBERS}"
    },
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    run = RunBuilder(file, NAME)
    scalars = Scalars(run)
    for line, row in csv_rows(run, ",", lambda cells: {"epoch", "step"} <= {*cells}):
        step = row.pop("step").removesuffix(".0")  # also `49.0`
        if any(text for name, text in row.items() if name != "epoch") and not _STEP.fullmatch(step):
            run.say("error", "a row has no step; left out", line, f": {step[:40]!r}")
            continue
        for name, text in row.items():
            if text and name != "epoch":
                scalars.add(name, text, int(step), line)
    return (run.run(),)
