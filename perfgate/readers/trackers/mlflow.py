"""Metrics of MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/NAME`, or the folder `metrics` of a run.

    1795337237512 2.5 0                          timestamp in ms, value, step: one line each
    1795337238012 1.25 1

Source: mlflow/mlflow 3.17 `mlflow/store/tracking/file_store.py`. The name of a metric is only in
the name of its file, so it is taken from there; a folder in `metrics` begins the name: `system/cpu_percentage`. The
end of the name gives the unit (see `trackers.Scalars`), otherwise 1.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Format, InputFile, Run, RunBuilder
from perfgate.readers.trackers import Scalars

NAME = "mlflow"
METRICS = "the name of the file, with its steps"
CHECKED = "mlflow 3.17: files that it wrote; files of public repositories"
FORMAT = Format(NAME, __name__, hints={" ": r"\A\d{13} \S{1,40} -?\d{1,18}\n"})
_LINE = re.compile(r"(\d{1,18}) (\S{1,40})(?: (-?\d{1,18}))?")
_FOLDER = re.compile(r"(?:.*/)?metrics/(.+)")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    run = RunBuilder(file, NAME)
    scalars = Scalars(run)
    path = file.name.replace("\\", "/")
    found = _FOLDER.fullmatch(path)
    name = found[1] if found else path.rpartition("/")[2]
    for number, line, _, ended in file.lines():
        if not line.strip():
            continue
        if not ended:
            run.say("warning", "the last record is cut off; left out", number)
        elif row := _LINE.fullmatch(line.strip()):
            scalars.add(name, row[2], int(row[3] or 0), number)  # without a step it is 0, as for MLflow itself
        else:
            run.say("error", "a line is not `timestamp value step`; left out", number, f": {line[:80]!r}")
    return (run.run(),)
