"""The metric that is the time of a step, and the steadier metric that can replace a wall time.

CPU time or instructions replace a wall time only if the program computes nearly all of the time. If it waits for a GPU
or a disk, they do not show what makes it slower.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import stdev

import numpy as np
from msgspec.structs import replace

from perfgate.analysis.proposals import DETAILS, STEP, Proposals, by_metric, ranked
from perfgate.analysis.tolerances import TOO_NOISY, spread_of, value_of
from perfgate.core import Key, Run, Series
from perfgate.core.advice import BLIND, SteadierMetric, StepTime
from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.core.units import SPEEDS, format_change
from perfgate.core.wording import COMMAND, CPU_METRICS
from perfgate.judge.measure import default_statistic

#: The names that tools give to the time of a whole step, or of a whole training.
_STEPS = (
    *(STEP, "step.cpu_time", "step.instructions"),
    *("step_time", "iteration_time", "batch_time", "train_batch", "run_training_batch"),
    *("train_runtime", "run_time"),
)
#: If equal steps vary by this factor within a run, other programs use the machine: there they vary by 1.9 and more, and
#: on quiet machines by up to 1.2. With other programs, runs that follow each other may agree by chance.
_UNSTEADY = 1.5
#: This many runs do not agree by chance.
_MANY_RUNS = 6
#: The number of first steps, which are slower and do not count; fewer steps than the second number show nothing.
_WARMUP, _FEWEST = 3, 12
#: The series of each metric.
Known = Mapping[str, Sequence[Series]]


def step_time(known: Known, found: Proposals, runs: int) -> StepTime:
    """Return the metric of the time of a step, and the reason why no rule should compare it with stored runs, if any.

    If no metric has a usual name for it, each rule about a time or a rate sees steps; then it is the first time with a
    rule, or else the first time in the order of `ranked`. `runs`: the number of runs.
    """
    named = whole_step(known)
    main = named or main_time(known, found)
    # few runs that follow each other may agree by chance
    factor = unsteadiness(known[main]) if main is not None and runs < _MANY_RUNS else 1.0
    if factor > _UNSTEADY:
        return StepTime(main, f"the time of equal steps varies by a factor of {factor:.1f} within a run", is_noisy=True)
    if named is None and any(known[proposal.metric][0].unit in SPEEDS for proposal in found.rules):
        return StepTime(main)
    metric = named or next((name for name in ranked(known, left_out={}) if known[name][0].unit == "s"), None)
    return StepTime(None, "these runs have no time") if metric is None else _compared(metric, known, found)


def _compared(metric: str, known: Known, found: Proposals) -> StepTime:
    """Return the metric, with the reason why the rules do not compare it, or see only large changes, if any."""
    mine = next((one for one in found.rules if one.metric == metric), None)
    fails_from = mine.fit.fails_from if mine is not None else None
    if fails_from is not None and fails_from > BLIND and len(known[metric]) >= RUNS_FOR_A_PROMISE:
        return StepTime(metric, f"stored runs would show only {format_change(fails_from)} and more", is_noisy=True)
    reason = next((reason for reason, names in found.left_out.items() if metric in names), None)
    # `within 2% of a metric that has a rule`: that rule sees the step
    if mine is not None or reason is None or reason.startswith("within 2%"):
        return StepTime(metric)
    if reason != TOO_NOISY:
        return StepTime(metric, reason)
    alike = defaultdict[Key, list[Series]](list)
    for one in known[metric]:
        alike[one.key].append(one)
    found_spreads = (spread_of(series, default_statistic(series[0])) for series in alike.values())
    spreads = [spread for spread in found_spreads if spread is not None]
    trouble = "the noise within a run is more than 50%"
    if spreads:
        trouble = f"these runs of one program differ by {format_change(max(spreads)).lstrip('+')}"
    return StepTime(metric, trouble, is_noisy=True)


def whole_step(known: Known) -> str | None:
    """Return the metric of whole steps, or of the whole training, by its usual name; None if there is none."""
    return next((name for name in _STEPS if name in known), None)


def main_time(known: Known, found: Proposals, step: StepTime | None = None) -> str | None:
    """Return the time for rules about costs and budgets: of those with a rule, the step's time, or else the first."""
    times = [one.metric for one in found.rules if known[one.metric][0].unit == "s"]
    times = [name for name in times if not name.startswith(DETAILS)]
    return step.metric if step is not None and step.metric in times else next(iter(times), None)


def is_unsteady(series: Iterable[Series]) -> bool:
    """Return whether equal steps of these runs vary as on a machine that other programs use."""
    return unsteadiness(series) > _UNSTEADY


def unsteadiness(series: Iterable[Series]) -> float:
    """Return the factor between the slow and the fast tenth of equal steps, in the successive runs that differ most.

    It is 1 for fewer than two runs with enough steps. Step i of two runs does the same work, so only the ratios of such
    steps are looked at: that some steps have more work than others does not matter.
    """
    places = defaultdict[tuple[tuple[str, str], ...], list[Series]](list)
    for one in series:
        if one.kind == "samples" and len(one.values) >= _FEWEST and (one.values > 0).all():
            places[one.key.labels].append(one)
    factors = [1.0]
    for one, other in (pair for found in places.values() for pair in pairwise(found)):
        count = min(len(one.values), len(other.values))
        ratios = np.log(one.values[_WARMUP:count]) - np.log(other.values[_WARMUP:count])
        low, high = np.percentile(ratios, (10, 90))
        factors.append(math.exp((high - low) / math.sqrt(2)))  # a ratio varies more than one step by this root
    return max(factors)


_CPU_TIME, _INSTRUCTIONS = ".cpu_time", ".instructions"
#: A wall time with less noise is not replaced.
_LEAST_NOISE = 0.005
#: Noise is clearly smaller if it is at most this share of the other.
CLEARLY = 0.5
#: The least share of the wall time that is CPU time, in the run that waited least.
_LEAST_SHARE = 0.8
#: Fewer runs do not show their noise.
_FEWEST_RUNS = 3


def use_steadier(runs: Sequence[Run]) -> tuple[list[Run], tuple[SteadierMetric, ...]]:
    """Return the runs with one metric of each span, and the metrics that replaced a wall time.

    The one metric is the wall time, or a clearly steadier one. A whole command keeps its CPU time beside its time.
    Spans that were recorded without counters have no CPU time: they do not change.
    """
    known, has_gpu = by_metric(runs), any("gpu" in run.environment for run in runs)
    dropped, chosen = set[str](), list[SteadierMetric]()
    for stem in sorted(name.removesuffix(_CPU_TIME) for name in known if name.endswith(_CPU_TIME)):
        wall = next((name for name in (f"{stem}.time", stem) if name in known), None)
        if wall is None:
            continue
        kept = {wall}
        steadier = None if has_gpu else _steadier(wall, stem, known, len(runs))
        if steadier is not None:
            kept = {steadier.metric}
            chosen.append(steadier)
        elif f"{stem}." == COMMAND:  # of a whole command, both are few
            kept.add(stem + _CPU_TIME)
        dropped |= {wall, *(stem + end for end in CPU_METRICS)} - kept
    left = [replace(run, series=tuple(one for one in run.series if one.key.metric not in dropped)) for run in runs]
    return left, tuple(chosen)


def _steadier(wall: str, stem: str, known: Known, runs: int) -> SteadierMetric | None:
    """Return the metric that is clearly steadier than a wall time; None if there is none, or the program waits."""
    cpu, instructions = stem + _CPU_TIME, stem + _INSTRUCTIONS
    noise = _noise(known[wall], runs)
    shares = [busy / whole for whole, busy in zip(_medians(known[wall]), _medians(known[cpu]), strict=False)]
    if noise is None or max(shares, default=0.0) < _LEAST_SHARE:
        return None
    found = {name: own for name in (cpu, instructions) if (own := _noise(known.get(name, ()), runs)) is not None}
    use_instructions = instructions in found and found[instructions] <= CLEARLY * found.get(cpu, math.inf)
    best = instructions if use_instructions else cpu
    if best not in found or is_unsteady(known[best]):
        return None
    is_needed = noise >= _LEAST_NOISE or is_unsteady(known[wall])
    return SteadierMetric(best, wall, noise) if is_needed and found[best] <= CLEARLY * noise else None


def _noise(series: Sequence[Series], runs: int) -> float | None:
    """Return the relative standard deviation of the median from run to run; None if that is unknown."""
    if runs < _FEWEST_RUNS or len(series) != runs:
        return None
    values = _medians(series)
    return stdev(map(math.log, values)) if len(values) == runs else None


def _medians(series: Sequence[Series]) -> list[float]:
    """Return the medians of these series that are positive."""
    values = (value_of(one, "median") for one in series)
    return [value for value in values if value is not None and value > 0]
