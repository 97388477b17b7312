"""First rules for runs that show what a step asks of a device: exact counts, device time, and waits for input.

Counts need no noise and no second run, so they block. The wall time of traced steps is judged as widely as it varies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

import numpy as np
from msgspec.structs import replace

from perfgate.analysis.proposals import STEP, about
from perfgate.analysis.tolerances import Fit, Trial
from perfgate.core import Run, Series, read_only
from perfgate.core.advice import ProposedRule
from perfgate.core.details import AddedWork
from perfgate.core.results import LOOKS
from perfgate.core.runs import Values
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge

#: The formats of profilers: their runs have a metric for each operator and kernel, too many for rules.
TRACES = ("torch-trace", "nsys", "rocprof", "xplane")
DEVICE_TIME, INPUT = "work.device_time", "step.dataloader"
#: The tolerances of the device's time in percent: processes of one program differ by .1 to .4 %.
_TOLERANCES = (1, 2, 3, 5, 8, 10)
#: The device is busy for less than this share of a step: then the step waits for the host.
_HOST_BOUND = 0.7
#: The least bound of the share of a step that waits for input, and the room beyond the worst run.
_LEAST_INPUT, _INPUT_ROOM = 0.1, 3.0
_ALL, _DEVICE = "no more work than baseline", "no more device work than baseline"


def work_rules(runs: Sequence[Run], today: date) -> list[ProposedRule]:
    """Return the rules about exact work that these runs pass; empty if a run has no counts of work."""
    counted = [{one.key.metric for one in run.series if one.key.metric.startswith("work.")} for run in runs]
    if not runs or not all(counted):
        return []
    trial = Trial.of(runs, set.union(*counted), today)
    found = list(_counts(runs, trial))
    fit = trial.fitted(about(DEVICE_TIME), _TOLERANCES)
    if isinstance(fit, Fit) and all(DEVICE_TIME in names for names in counted):
        found.append(fit.proposed("work", DEVICE_TIME))
    return [*found, *_input(runs, today)]


def _counts(runs: Sequence[Run], trial: Trial) -> Iterator[ProposedRule]:
    """Yield the rules about counts: counts of the host block only if the step waits for the host."""
    times = [(_medians(run, DEVICE_TIME), _medians(run, STEP)) for run in runs]
    # the share of a step in which the busiest device works
    shares = [max(device) / max(step) for device, step in times if device and step]
    is_busy = len(shares) == len(runs) and float(np.median(shares)) >= _HOST_BOUND
    for sentence, warns in [(_DEVICE, False), (_ALL, True)] if is_busy else [(_ALL, False)]:
        if trial.passes(sentence):
            subject = "work" if sentence is _ALL else "device work"
            yield ProposedRule("work", sentence, subject, "no more than baseline", 0.0, 0, warns=warns)


def _medians(run: Run, metric: str) -> list[float]:
    """The median of each series of a metric with samples."""
    found = (one for one in run.series if one.key.metric == metric and one.kind == "samples" and len(one.values))
    return [float(np.median(one.values)) for one in found]


def _input(runs: Sequence[Run], today: date) -> Iterator[ProposedRule]:
    """Yield a limit on the share of a step that waits for input, for runs that measured the wait."""
    pairs = [(_medians(run, INPUT), _medians(run, STEP)) for run in runs]
    if not all(wait and step for wait, step in pairs):
        return
    worst = max(max(wait) / max(step) for wait, step in pairs)
    bound = math.ceil(20 * max(_LEAST_INPUT, _INPUT_ROOM * worst)) / 20
    sentence = f"median({INPUT}) / median({STEP}) under {100 * bound:.0f}%"
    if bound < 1 and Trial.of(runs, {INPUT, STEP}, today).passes(sentence):
        yield ProposedRule("input", sentence, "wait for input", f"under {100 * bound:.0f}% of a step", None, None)


#: What is added to each step, and the counts that grow by one. A copy is one from the device to the host.
_ADDED = {
    "a kernel and its launch": ("work.kernels", "work.launches"),
    "a synchronisation": ("work.syncs",),
    "a copy to the host": ("work.copies",),
    "an allocation": ("work.allocations",),
}
_KIND_OF_COPY = ("kind", "DtoH")
_MORE_TIME = 1.02


def added_work(case: Case) -> Iterator[AddedWork]:
    """Yield what can be added to the new runs, and the rules that fail then; nothing for runs without exact work."""
    for what, names in _ADDED.items():
        yield from _added(case, what, {name: lambda values: values + 1 for name in names})
    yield from _added(case, "2% of device time", {DEVICE_TIME: lambda values: values * _MORE_TIME})


def _added(case: Case, what: str, more: Mapping[str, Callable[[Values], Values]]) -> Iterator[AddedWork]:
    def grows(series: Series) -> bool:
        is_other_copy = series.key.metric == "work.copies" and _KIND_OF_COPY not in series.key.labels
        return series.key.metric in more and not is_other_copy

    def worse(series: Series) -> Series:
        if not grows(series):
            return series
        return replace(series, values=read_only(more[series.key.metric](series.values)), groups=())

    if not any(grows(series) for run in case.new for series in run.series):
        return
    new = tuple(replace(run, series=tuple(map(worse, run.series))) for run in case.new)
    # A change of time fails after a suspicion is measured again.
    verdicts = judge(replace(case, new=new * -(-LOOKS // len(new))))
    yield AddedWork(what, tuple(dict.fromkeys(one.rule for one in verdicts if one.exit_code == 1)))
