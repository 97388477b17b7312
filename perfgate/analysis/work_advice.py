"""The advice about exact work: rules about counts, about the time of a device, and about the wait for input.

Counts have no noise and need no second run, so their rules block. The wall time of traced steps gets a tolerance as
wide as it varies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np
from msgspec.structs import replace

from perfgate.analysis.proposals import DETAILS, STEP, WORK, about
from perfgate.analysis.tolerances import TOLERANCES, Fit, Trial
from perfgate.core import Run
from perfgate.core.advice import Advice, LeftOut, ProposedRule, StepTime

#: The formats of profilers: their runs have a metric for each operator and kernel, too many for rules.
TRACES = ("torch-trace", "nsys", "rocprof", "xplane")
DEVICE_TIME, INPUT = "work.device_time", "step.dataloader"
#: The tolerances of the device's time in percent; processes of one program differ by .1 to .4 %.
_TOLERANCES = (1, 2, 3, 5, 8, 10)
#: If the device is busy for less than this share of a step, the step waits for the host.
_HOST_BOUND = 0.7
#: The least bound of the share of a step that waits for input, and the room beyond the worst run.
_LEAST_INPUT, _INPUT_ROOM = 0.1, 3.0
_ALL, _DEVICE = "no more work than baseline", "no more device work than baseline"
#: Exit 0 excludes a change of the time of traced steps of this many tolerances.
_PROMISE_OF_TRACES = 3


def work_rules(runs: Sequence[Run], today: date) -> list[ProposedRule]:
    """Return the rules about exact work that these runs pass; empty if a run has no counts of work."""
    counted = [{one.key.metric for one in run.series if one.key.metric.startswith(WORK)} for run in runs]
    if not runs or not all(counted):
        return []
    trial = Trial.of(runs, set.union(*counted), today)
    found = list(_counts(runs, trial))
    fit = trial.fitted(about(DEVICE_TIME), _TOLERANCES)
    if isinstance(fit, Fit):
        found.append(fit.proposed("work", DEVICE_TIME))
    return [*found, *_input(runs, today)]


def _counts(runs: Sequence[Run], trial: Trial) -> Iterator[ProposedRule]:
    """Yield the rules about counts. If the device is busy, counts of the host only warn, because it does not wait."""
    times = [(_medians(run, DEVICE_TIME), _medians(run, STEP)) for run in runs]
    # the share of a step in which the busiest device works
    shares = [max(device) / max(step) for device, step in times if device and step]
    is_busy = len(shares) == len(runs) and float(np.median(shares)) >= _HOST_BOUND
    for sentence, warns in [(_DEVICE, False), (_ALL, True)] if is_busy else [(_ALL, False)]:
        if trial.passes(sentence):
            subject = "work" if sentence is _ALL else "device work"
            yield ProposedRule(
                "work", sentence, subject, "no more than baseline", fails_from=0.0, tolerance=0, warns=warns
            )


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
    bound = math.ceil(20 * max(_LEAST_INPUT, _INPUT_ROOM * worst)) / 20  # rounded up to 5 %
    sentence = f"median({INPUT}) / median({STEP}) under {100 * bound:.0f}%"
    if bound < 1 and Trial.of(runs, {INPUT, STEP}, today).passes(sentence):
        yield ProposedRule("input", sentence, "wait for input", f"under {100 * bound:.0f}% of a step")


def with_work(advice: Advice, runs: Sequence[Run], work: Sequence[ProposedRule], today: date) -> Advice:
    """Return the advice with rules about exact work first. For traces, of all times only that of the step is kept."""
    if not work:
        return advice
    # exact work has no noise, so this gate needs no pairs: `is_noisy` is False
    if not all(run.format in TRACES for run in runs):
        return replace(advice, rules=(*work, *advice.rules), step=replace(advice.step, is_noisy=False))
    times = [one for one in advice.rules if one.subject.startswith(f"{STEP} ") and one.purpose == "usual"]
    wide = [rule for rule in (_twice_as_wide(one, runs, today) for one in times) if rule is not None]
    step = advice.step if wide else StepTime(STEP, "the steps of a trace vary too much; their work is exact")
    return replace(advice, rules=(*work, *wide), step=replace(step, is_noisy=False), left_out=_without_details(advice))


def _without_details(advice: Advice) -> tuple[LeftOut, ...]:
    """Return what was left out, without what rules are about; of details and counts there are too many."""
    found = []
    for one in advice.left_out:
        names = [name for name in one.metrics if not name.startswith((*DETAILS, WORK))]
        found.append(replace(one, metrics=tuple(name for name in names if name not in (STEP, INPUT))))
    return tuple(one for one in found if one.metrics)


def _twice_as_wide(rule: ProposedRule, runs: Sequence[Run], today: date) -> ProposedRule | None:
    """Return the rule about a time with at least twice its tolerance; exit 0 excludes three times that.

    One trace of unchanged code must pass nearly always, and a trace has few steps.
    """
    among = [percent for percent in TOLERANCES if percent >= 2 * (rule.tolerance or 0)]
    fit = Trial.of(runs, {STEP}, today).fitted(about(STEP), among) if among else ""
    if not isinstance(fit, Fit):
        return None
    return replace(fit.proposed("usual", rule.subject), at_worst=_PROMISE_OF_TRACES * fit.tolerance)
