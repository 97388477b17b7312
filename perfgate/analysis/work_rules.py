"""First rules for runs that show what a step asks of a device: exact counts, device time, and waits for input.

Counts need no noise and no second run, so they block. The wall time of traced steps is judged as widely as it varies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np

from perfgate.analysis.proposals import STEP, about
from perfgate.analysis.tolerances import Fit, Trial, noise_of
from perfgate.core import Run, Series
from perfgate.core.advice import ProposedRule

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
        found.append(_compared(fit))
    return [*found, *_input(runs, today)]


def _counts(runs: Sequence[Run], trial: Trial) -> Iterator[ProposedRule]:
    """Yield the rules about counts: what hosts do blocks only where the step waits for them."""
    share = _busy_share(runs)
    sentences = [(_ALL, False)] if share is None or share < _HOST_BOUND else [(_DEVICE, False), (_ALL, True)]
    for sentence, warns in sentences:
        if trial.passes(sentence):
            subject = "work" if sentence is _ALL else "device work"
            yield ProposedRule("work", sentence, subject, "no more than baseline", 0.0, 0, warns=warns)


def _busy_share(runs: Sequence[Run]) -> float | None:
    """The share of a step in which the busiest device works; None without devices or steps."""
    shares = []
    for run in runs:
        times, step = _medians(run, DEVICE_TIME), _medians(run, STEP)
        if not times or not step:
            return None
        shares.append(max(times) / max(step))
    return float(np.median(shares))


def _medians(run: Run, metric: str) -> list[float]:
    """The median of each series of a metric with samples."""
    found: list[Series] = [one for one in run.series if one.key.metric == metric and one.kind == "samples"]
    return [float(np.median(one.values)) for one in found if len(one.values)]


def _compared(fit: Fit) -> ProposedRule:
    noisiest = fit.noisiest
    noise = None if noisiest is None else noise_of(noisiest)
    return ProposedRule(
        "work", fit.sentence, DEVICE_TIME, f"within {fit.tolerance}%", fit.fails_from, fit.tolerance, noise
    )


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
