"""First rules for runs without rules: the main metrics, each with the tolerance that fits its noise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from perfgate.analysis.tolerances import Fit, Trial, Writer, value_of
from perfgate.core import Better, Key, Kind, Run, Series
from perfgate.core.advice import MeasuredMetric
from perfgate.core.goodput import GOODPUT
from perfgate.core.units import SPEEDS
from perfgate.core.wording import COMMAND, MACHINE_STATE, TIMES_OF_RUN, series_name
from perfgate.judge.evidence import direction
from perfgate.judge.measure import default_statistic
from perfgate.rules.write import sentence_of, sum_per_step

#: The largest number of rules, and of rules in one unit, so that people read the whole report.
MOST, MOST_OF_A_UNIT = 8, 6
#: The largest number of rules about the calls in a step.
MOST_SUMS = 3
#: The largest number of metrics that are tried, the main ones first.
_MOST_TRIED = 24
#: The beginnings of metrics of single functions, which may be thousands.
DETAILS = ("kernel.", "op.", "range.", "collective.")
#: The counts of exact work, and the time of the device.
WORK = "work."
#: The metric with one value for each step of a trace or a recording.
STEP = "step.time"
#: The kinds and the units of metrics, the main ones first.
_KINDS: tuple[Kind, ...] = ("samples", "summary", "value", "aggregate")
_UNITS = (*SPEEDS, "B")
#: The ends of the names of metrics that do not measure performance.
_LEARNING = ("loss", "perplexity", "ppl")
#: The better directions of metrics if the user gave none.
UNSAID: Mapping[str, Better] = MappingProxyType({})
#: The ratio of a proposed limit to the worst measured value.
_ROOM = 1.2
#: Two metrics are probably the same if nearly all of their values (90 %) differ by at most 2 %.
_NEAR, _NEAR_VALUES = 0.02, 0.9


class Proposal(Struct, frozen=True):
    """A first rule for one metric, and a limit that all runs pass, or None."""

    metric: str
    fit: Fit
    limit: str | None
    #: True if the rule is about the time of all calls in a step.
    is_sum: bool


class Proposals(Struct, frozen=True):
    """First rules, the main metric first."""

    rules: tuple[Proposal, ...]
    #: The metrics without a rule, by reason.
    left_out: Mapping[str, Sequence[str]]


def propose(runs: Sequence[Run], today: date, better: Mapping[str, Better] = UNSAID) -> Proposals:
    """Return first rules for the main metrics that every run has: samples first, times first, then the largest.

    `better`: the direction of metrics, where the user gave it.
    """
    left_out: dict[str, list[str]] = {}
    found: dict[str, Proposal] = {}
    known = shared_metrics(runs, left_out)
    for tried, metric in enumerate(ranked(known, left_out, better)):
        why = _why_without_rule(metric, tried, known, found)
        proposal = why or _proposal(metric, known, runs, today, better.get(metric))
        if isinstance(proposal, Proposal):
            found[metric] = proposal
        else:
            left_out.setdefault(proposal, []).append(metric)
    return Proposals(tuple(found.values()), left_out)


def _why_without_rule(
    metric: str, tried: int, known: Mapping[str, Sequence[Series]], found: Mapping[str, Proposal]
) -> str | None:
    """Return why a metric gets no rule beside those that were found; None if it may get one."""
    same_unit = [known[name] for name in found if known[name][0].unit == known[metric][0].unit]
    sums = [proposal for proposal in found.values() if proposal.is_sum]
    is_full = len(found) == MOST or len(same_unit) == MOST_OF_A_UNIT
    # only details are proposed as sums
    if is_full or tried >= _MOST_TRIED or (metric.startswith(DETAILS) and len(sums) >= MOST_SUMS):
        return "smaller than the metrics that have a rule" if found else f"not one of the {_MOST_TRIED} main metrics"
    if any(_is_nearly(known[metric], series) for series in same_unit):
        return "within 2% of a metric that has a rule"
    return None


def _is_nearly(series: Sequence[Series], other: Sequence[Series]) -> bool:
    """Return whether two metrics are probably the same, like the timers of a step and of its only micro-step.

    If they have as many values, nearly all pairs of values must be near: equal totals alone may be a coincidence, such
    as an optimizer step that takes as long as an all-reduce.
    """
    own, others = sum(map(_total, series)), sum(map(_total, other))
    if series[0].kind != other[0].kind or len(series) != len(other) or not math.isclose(own, others, rel_tol=_NEAR):
        return False
    pairs = [(one.values, two.values) for one, two in zip(series, other, strict=True)]
    if series[0].kind != "samples":
        return True
    near = [np.isclose(*pair, rtol=_NEAR, atol=0.0) for pair in pairs if len(pair[0]) == len(pair[1])]
    return all(np.count_nonzero(one) >= _NEAR_VALUES * len(one) for one in near)


def by_metric(runs: Iterable[Run]) -> dict[str, list[Series]]:
    """Return the series of each metric of some runs."""
    known = defaultdict[str, list[Series]](list)
    for run in runs:
        for series in run.series:
            known[series.key.metric].append(series)
    return dict(known)


def shared_metrics(runs: Sequence[Run], left_out: dict[str, list[str]]) -> dict[str, list[Series]]:
    """Return the series of each metric that every run has; the others are added to `left_out`."""
    known = by_metric(runs)
    shared = set.intersection(*({series.key.metric for series in run.series} for run in runs)) if runs else set()
    alone = [metric for metric in known if metric not in shared]
    if alone:
        left_out["not in every run"] = alone
    return {metric: series for metric, series in known.items() if metric in shared}


def ranked(
    known: Mapping[str, Sequence[Series]], left_out: dict[str, list[str]], better: Mapping[str, Better] = UNSAID
) -> list[str]:
    """Return the metrics that a rule can compare, the main ones first. Others, except counts, go to `left_out`."""
    fitting = []
    for metric, series in known.items():
        why = _why_not_compared(metric, series, better.get(metric))
        if why is None:
            fitting.append(metric)
        elif why:
            left_out.setdefault(why, []).append(metric)
    return sorted(fitting, key=lambda metric: _rank(metric, known[metric]))


def _why_not_compared(metric: str, series: Sequence[Series], better: Better | None) -> str | None:
    """Return the reason why no rule can compare a metric, or None; empty for exact counts, which have other rules."""
    if len({(one.unit, one.kind) for one in series}) > 1:
        return "not in the same unit and kind in all runs"
    if metric.startswith(WORK):
        return ""
    if metric.startswith(MACHINE_STATE):
        return "what the machine did, which explains the others"
    if metric in TIMES_OF_RUN:
        return "they grow with the length of the run: limit a share, such as `time.lost / time.total under 5%`"
    if metric == GOODPUT:
        return "longer runs have more: set a limit, such as `goodput at least 90%`"
    if better == "neither":
        return "their mapping says that neither direction is better"
    if direction(metric, series[0].unit, better) is None:
        return "unknown which direction is better (set `better:` in a rule)"
    is_learning = metric.lower().endswith(_LEARNING)
    return "they show if a model learns, not how fast the program is" if is_learning else None


def _rank(metric: str, series: Sequence[Series]) -> tuple[bool, int, int, float, str]:
    """Return a sort key: steps before single functions, samples before sums, times before the rest, then by size."""
    first, total = series[0], sum(map(_total, series))
    unit = _UNITS.index(first.unit) if first.unit in _UNITS else len(_UNITS)
    size = -total if math.isfinite(total) else math.inf
    return metric.startswith(DETAILS), _KINDS.index(first.kind), unit, size, metric


@np.errstate(over="ignore")
def _total(series: Series) -> float:
    """Return the sum of all values of a series."""
    if series.kind not in ("aggregate", "summary"):
        return float(series.values.sum())
    return series.aggregate.get("total", series.aggregate.get("mean", 0.0) * series.aggregate.get("count", 1.0))


def _proposal(
    metric: str, known: Mapping[str, list[Series]], runs: Sequence[Run], today: date, better: Better | None
) -> Proposal | str:
    """Return the rule of a metric, or the reason why there is none. Functions in a trace are judged by their sum."""
    series = known[metric]
    is_sum = metric.startswith(DETAILS) and series[0].kind == "samples" and series[0].unit == "s" and STEP in known
    trial = Trial.of(runs, {metric, STEP}, today, better)
    found = trial.fitted((lambda rest: sum_per_step(metric, STEP, rest)) if is_sum else about(metric))
    if isinstance(found, str):
        return found
    limit = None if is_sum else _limit(trial, metric, series)
    return Proposal(metric, found, limit, is_sum)


def about(metric: str, statistic: str | None = None, labels: str = "") -> Writer:
    """Return a function that writes sentences about a metric, with a statistic unless it is None."""
    return lambda rest: sentence_of(metric, f"{statistic} {rest}" if statistic else rest, labels)


def _limit(trial: Trial, metric: str, series: Sequence[Series]) -> str | None:
    """Return a limit a fifth beyond the worst run, which all runs pass: of the p95 of samples if that is possible."""
    upper = direction(metric, series[0].unit, trial.better) == "lower"
    tail = ("p95" if upper else "p5") if series[0].kind == "samples" else None
    statistics = [tail, "median"] if tail else [None]
    each = ((about(metric, one), series, one or default_statistic(series[0]), upper, _ROOM) for one in statistics)
    return next((found for arguments in each if (found := trial.limit(*arguments)) is not None), None)


#: The most metrics that are listed, each with its labels.
_MOST = 16


def measured_metrics(runs: Sequence[Run]) -> tuple[tuple[MeasuredMetric, ...], int]:
    """Return the main metrics of runs with their labels, and the number of others."""
    known = {name: series for name, series in shared_metrics(runs, {}).items() if not name.startswith(MACHINE_STATE)}
    known = {name: series for name, series in known.items() if not name.startswith(COMMAND)} or known
    order = ranked(known, {})
    order += [name for name in known if name not in order]
    main = [name for name in order if not name.startswith((*DETAILS, WORK))]
    found = defaultdict[Key, list[Series]](list)
    for name in main or order:
        for one in known[name]:
            found[one.key].append(one)
    rows = tuple(_measured(key, series) for key, series in list(found.items())[:_MOST])
    return rows, len({one.key for series in known.values() for one in series}) - len(rows)


def _measured(key: Key, series: Sequence[Series]) -> MeasuredMetric:
    first, statistic = series[0], default_statistic(series[0])
    values = (value_of(one, statistic) for one in series)
    label = series_name(key.metric, dict(key.labels), statistic if first.kind == "samples" else None)
    count = max(len(one.values) for one in series)
    return MeasuredMetric(label, first.unit, tuple(value for value in values if value is not None), count)
