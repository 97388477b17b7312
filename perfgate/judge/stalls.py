"""Traces as the judge sees them: no step is warm-up, and the values of stalled steps are marked.

The schedule of a profiler already skips the warm-up of the program. A stalled step took much longer than usual without
more work; `stats.stalled_steps` finds these steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.core import Baseline, Key, Run, Series
from perfgate.stats.distributions import BoolArray
from perfgate.stats.stalled_steps import StepsOfRun, stalled_steps

_TIME = "step.time"
#: The counts of the host's calls in each step. A stalled step does not have more calls than other steps.
_CALLS = ("work.ops", "work.launches", "work.graph_launches")
#: The metrics that show which steps stalled: code that leaves out metrics has to keep them.
STALL_METRICS = (_TIME, *_CALLS)


def with_stalls(new: Sequence[Run], baseline: Baseline) -> tuple[Sequence[Run], Baseline]:
    """Return the new runs and the baseline with stalled values marked in traces; none if a run does not show its steps.

    A metric gets no marks if a stored run has only a summary of it.
    """
    stored = [series for run in (*baseline.runs, *baseline.anchor) for series in run.series]
    condensed = {series.key.without_members() for series in stored if series.kind == "summary"}
    sides = (baseline.runs, new, baseline.anchor)
    steps = [[_steps(run) for run in side] for side in sides]
    if not all(len(run.times) for run in (*steps[0], *steps[1])):
        steps = [[StepsOfRun() for _ in side] for side in sides]
    base_steps, new_steps, anchor_steps = steps
    base_stalls, new_stalls = stalled_steps(base_steps, new_steps)
    anchor_stalls, _ = stalled_steps(anchor_steps, ())

    def marked(runs: Sequence[Run], steps: Sequence[StepsOfRun], stalls: Sequence[BoolArray]) -> tuple[Run, ...]:
        return tuple(_marked(*each, condensed) for each in zip(runs, steps, stalls, strict=True))

    base, anchor = marked(baseline.runs, base_steps, base_stalls), marked(baseline.anchor, anchor_steps, anchor_stalls)
    return marked(new, new_steps, new_stalls), replace(baseline, runs=base, anchor=anchor)


def _steps(run: Run) -> StepsOfRun:
    """Return the steps of a trace, each as long as on its slowest rank; no steps if their calls are unknown."""
    samples = [series for series in run.series if series.kind == "samples"]
    times = [series.values for series in samples if series.key.metric == _TIME]
    calls = [series.values for series in samples if series.key.metric in _CALLS]
    if not times or not calls or len({len(values) for values in (*times, *calls)}) > 1:
        return StepsOfRun()
    return StepsOfRun(np.max(times, axis=0), np.array(calls))


def _marked(run: Run, steps: StepsOfRun, stalled: BoolArray, condensed: Collection[Key]) -> Run:
    """Return a trace with marks on the wall times of its stalled steps. Marks without any True mean: no warm-up."""
    is_alike = bool((steps.calls == steps.calls[:, :1]).all())  # then each step makes every call equally often
    numbers = next((series.steps for series in run.series if series.key.metric == _TIME), None)

    def of(series: Series) -> Series:
        if series.kind != "samples" or series.key.without_members() in condensed:
            return series
        count, marks = len(series.values), np.zeros(len(series.values), dtype=np.bool_)
        # The device works in a stalled step as long as in any other, so its times (`work.*`) get no marks.
        is_wall = series.unit == "s" and not series.key.metric.startswith("work.") and bool(stalled.any())
        if is_wall and series.steps is not None and numbers is not None:
            marks = np.isin(series.steps, numbers[stalled])
        elif is_wall and is_alike and count % len(stalled) == 0:  # such as the calls of a kernel
            marks = np.repeat(stalled, count // len(stalled))
        return replace(series, stalled=marks)

    return replace(run, series=tuple(map(of, run.series))) if "torch-trace" in run.format else run
