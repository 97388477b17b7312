"""The times of a recorded run: `perfgate.Recorder` records how long it took, and its samples show for what.

`time.total` and `time.start` are single values of the recording. The other parts are sums of samples (`_SAMPLES`):
`compile_time` is inside the steps, so `time.step` is without it. `time.other` is the rest.

The callbacks record data, checkpoints and evaluation outside of the steps. Each rank has times of its own. A recording
that was not closed has no `time.total`, so it gets no parts.
"""

from __future__ import annotations

from perfgate.core.goodput import CHECKPOINT, COMPILE, DATA, EVALUATION, START, STEP, metrics, with_rest
from perfgate.core.wording import WHOLE_TIME
from perfgate.readers.kit import Key, RunBuilder
from perfgate.readers.time_split import add_times

#: The parts of the time, and the series whose samples add up to them.
_SAMPLES = {
    STEP: "step.time",
    COMPILE: "compile_time",
    DATA: "data_time",
    CHECKPOINT: "checkpoint_time",
    EVALUATION: "evaluation_time",
}
#: The share of the whole by which the parts may exceed it.
_ROUNDING = 1e-6


def add_run_times(run: RunBuilder) -> None:
    """Add the parts and the goodput of every rank that recorded its whole time and the times of its steps."""
    # A list, because series are added.
    for key, whole in [(key, series.values) for key, series in run.finished.items() if key.metric == WHOLE_TIME]:
        found = {part: _sum(run, Key(metric, key.labels)) for part, metric in _SAMPLES.items()}
        parts = {part: seconds for part, seconds in found.items() if seconds is not None}
        if STEP not in parts or len(whole) != 1:
            continue
        parts[STEP] -= parts.get(COMPILE, 0.0)
        start = run.finished.get(Key(f"time.{START}", key.labels))
        if start is not None and len(start.values) == 1:
            parts[START] = float(start.values[0])
        split = with_rest(parts, float(whole[0]), rounding=_ROUNDING * float(whole[0]))
        add_times(run, metrics(split or {}), dict(key.labels))  # none if the parts are longer than the whole


def _sum(run: RunBuilder, key: Key) -> float | None:
    """Return the sum of the samples of a series in s; None if it is not recorded, or not in a unit of time."""
    # A column grew line by line, its values in units of 1 / `per` seconds; a finished series was one list, in seconds.
    column, series = run.columns.get(key), run.finished.get(key)
    if column is not None and column.unit == "s":
        return sum(column.values) / column.per
    if series is not None and series.unit == "s" and series.kind == "samples":
        return float(series.values.sum())
    return None
