"""First rules for runs without rules: the metrics, and the tolerances that fit the noise.

A tolerance is the smallest of `TOLERANCES` with which one new run of an unchanged program ends in exit 0 with 80 %
probability (`plans`), and with which these runs do, each alone and all together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from perfgate.analysis.plan import plans
from perfgate.core import Baseline, Kind, Location, Plan, Run, Series, Verdict
from perfgate.core.units import display_unit, format_number
from perfgate.judge.case import Case
from perfgate.judge.inquiry import direction
from perfgate.judge.measure import Method, NotAvailable, default_statistic
from perfgate.judge.promise_bounds import RUNS_FOR_A_PROMISE
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.write import sentence_of

#: Usual tolerances, in percent. From 3 % on, rules need no correction for multiple comparisons.
TOLERANCES = (3, 5, 8, 10, 15, 20, 25, 30, 40, 50)
#: The largest number of rules, and of rules in one unit, so that people read the whole report.
MOST, MOST_OF_A_UNIT = 8, 6
#: The largest number of metrics that are tried, the main ones first.
_MOST_TRIED = 24
#: Metrics of single function calls, which may be thousands.
_DETAILS = ("kernel.", "op.", "range.", "collective.")
_KINDS: tuple[Kind, ...] = ("samples", "value", "aggregate")
_UNITS = ("s", "1/s", "B/s", "FLOP/s", "B")
#: The standard deviations of a run that a tolerance has room for, if there are too few runs to see the noise.
_SPREADS_OF_ONE_RUN = 4.0
#: The ratio of a proposed limit to the worst measured value.
_ROOM = 1.2


@dataclass(frozen=True, slots=True)
class Proposal:
    """A first rule for one metric, its plans, and a limit that all runs pass."""

    metric: str
    sentence: str
    #: In percent.
    tolerance: int
    #: The plan of the rule, for each set of labels.
    plans: tuple[Plan, ...]
    limit: str | None


@dataclass(frozen=True, slots=True)
class Proposals:
    """First rules, the main metric first."""

    rules: tuple[Proposal, ...]
    #: The metrics without a rule, by reason.
    left_out: Mapping[str, Sequence[str]]


def propose(runs: Sequence[Run], today: date) -> Proposals:
    """Return first rules for the main metrics that every run has: samples first, times first, then the largest."""
    left_out: dict[str, list[str]] = {}
    found: dict[str, Proposal] = {}
    known = _shared(runs, left_out)
    for tried, metric in enumerate(_ranked(known, left_out)):
        chosen = [known[name] for name in found]
        enough = [series for series in chosen if series[0].unit == known[metric][0].unit]
        if len(found) == MOST or len(enough) == MOST_OF_A_UNIT or tried >= _MOST_TRIED:
            left_out.setdefault("smaller than the metrics that have a rule", []).append(metric)
        elif any(_is_nearly(known[metric], series) for series in enough):
            left_out.setdefault("within 2% of a metric that has a rule", []).append(metric)
        elif isinstance(proposal := _proposal(metric, known[metric], runs, today), Proposal):
            found[metric] = proposal
        else:
            left_out.setdefault(proposal, []).append(metric)
    return Proposals(tuple(found.values()), left_out)


def _is_nearly(series: Sequence[Series], other: Sequence[Series]) -> bool:
    """Return whether two metrics are probably the same, like the timers of a step and of its only micro-step."""
    own, others = sum(map(_total, series)), sum(map(_total, other))
    return series[0].kind == other[0].kind and len(series) == len(other) and math.isclose(own, others, rel_tol=0.02)


def _shared(runs: Sequence[Run], left_out: dict[str, list[str]]) -> dict[str, list[Series]]:
    known: dict[str, list[Series]] = {}
    for run in runs:
        for series in run.series:
            known.setdefault(series.key.metric, []).append(series)
    names = [{series.key.metric for series in run.series} for run in runs]
    alone = [metric for metric in known if not all(metric in some for some in names)]
    if alone:
        left_out["not in every run"] = alone
    return {metric: series for metric, series in known.items() if metric not in alone}


def _ranked(known: Mapping[str, list[Series]], left_out: dict[str, list[str]]) -> list[str]:
    """Return the metrics that a rule can compare, the main ones first."""
    fitting = []
    for metric, series in known.items():
        if len({(one.unit, one.kind) for one in series}) > 1:
            left_out.setdefault("not in the same unit and kind in all runs", []).append(metric)
        elif direction(metric, series[0].unit, None) is None:
            left_out.setdefault("unknown which direction is better (set `better:` in a rule)", []).append(metric)
        else:
            fitting.append(metric)
    return sorted(fitting, key=lambda metric: _rank(metric, known[metric]))


def _rank(metric: str, series: Sequence[Series]) -> tuple[bool, int, int, float, str]:
    """Return a sort key: steps before single calls, samples before sums, times before the rest, then by size."""
    first, total = series[0], sum(map(_total, series))
    unit = _UNITS.index(first.unit) if first.unit in _UNITS else len(_UNITS)
    size = -total if math.isfinite(total) else math.inf
    return metric.startswith(_DETAILS), _KINDS.index(first.kind), unit, size, metric


def _total(series: Series) -> float:
    if series.kind != "aggregate":
        return float(series.values.sum())
    return series.aggregate.get("total", series.aggregate.get("mean", 0.0) * series.aggregate.get("count", 1.0))


def _proposal(metric: str, series: Sequence[Series], runs: Sequence[Run], today: date) -> Proposal | str:
    runs = [replace(run, series=tuple(one for one in run.series if one.key.metric == metric)) for run in runs]
    sentences = {percent: sentence_of(metric, f"within {percent}% of baseline") for percent in TOLERANCES}
    tolerances = {sentence: percent for percent, sentence in sentences.items() if sentence is not None}
    if not tolerances:
        return "a rule cannot name them"
    planned = plans(_case(tolerances, runs, runs, today))
    for sentence, percent in tolerances.items():
        own = tuple(plan for plan in planned if plan.rule == sentence)
        if all(_passes_with_one_run(plan) for plan in own) and _passes(sentence, runs, today):
            return Proposal(metric, sentence, percent, own, _limit(metric, series, runs, today))
    trouble = next((plan.trouble for plan in planned if plan.trouble and not _is_exact(plan)), None)
    if trouble:
        return trouble
    errors = [v.reason for v in judge(_case([sentence], runs, runs, today)) if v.outcome == "error"]
    noise = f"their noise is more than {TOLERANCES[-1]}%: give more runs, or quieter ones"
    return f"{errors[0].replace('-', ' ')} in a run" if errors else noise


def _passes_with_one_run(plan: Plan) -> bool:
    """Return whether one new run of an unchanged program is enough; with too few stored runs, by the assumed noise."""
    if _is_exact(plan):
        return True
    if (plan.base_runs or 0) < RUNS_FOR_A_PROMISE:
        noise = math.hypot(plan.noise_between or 0.0, plan.noise_within or 0.0)
        return plan.tolerance is not None and _SPREADS_OF_ONE_RUN * noise <= plan.tolerance
    return plan.runs_needed is not None and plan.runs_needed <= 1


def _is_exact(plan: Plan) -> bool:
    return plan.trouble is not None and "without noise" in plan.trouble


def _passes(sentence: str, runs: Sequence[Run], today: date) -> bool:
    """Return whether these runs, all together and each alone, pass a rule whose baseline they are."""
    sides = [tuple(runs), *((run,) for run in runs if len(runs) > 1)]
    verdicts = (verdict for new in sides for verdict in judge(_case([sentence], runs, new, today)))
    return all(v.outcome == "pass" or (v.kind == "change" and _is_accepted(v)) for v in verdicts)


def _is_accepted(verdict: Verdict) -> bool:
    """Return whether a change from these runs to one of them ends in exit 0, or only lacks runs to do so."""
    return verdict.exit_code == 0 or verdict.reason == "noise-unknown"


def _case(sentences: Iterable[str], base: Sequence[Run], new: Sequence[Run], today: date) -> Case:
    rules = tuple(Rule(parse_sentence(sentence), Location("rules")) for sentence in sentences)
    # A rule about one metric ignores the problems of other metrics.
    judged = tuple(replace(run, problems=()) for run in new)
    return Case(Ruleset("proposed", rules, {}), judged, Baseline(runs=tuple(base)), today)


def _limit(metric: str, series: Sequence[Series], runs: Sequence[Run], today: date) -> str | None:
    """Return a limit a fifth beyond the worst run, which all runs pass: on the p95 of samples if that is possible."""
    upper = direction(metric, series[0].unit, None) == "lower"
    tail = ("p95" if upper else "p5") if series[0].kind == "samples" else None
    for statistic in [tail, "median"] if tail else [None]:
        value = _worst(series, statistic or default_statistic(series[0]), upper)
        if value is not None:
            words = [statistic, "under" if upper else "over", _quantity(value, series[0].unit, upper)]
            sentence = sentence_of(metric, " ".join(word for word in words if word))
            if sentence is not None and _passes(sentence, runs, today):
                return sentence
    return None


def _worst(series: Sequence[Series], statistic: str, upper: bool) -> float | None:
    try:
        method = Method(statistic, better="lower" if upper else "higher")
        values = [method.measure(one).value for one in series]
    except NotAvailable:
        return None
    usable = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    if not usable:
        return None
    return max(usable) * _ROOM if upper else min(usable) / _ROOM


def _quantity(value: float, base: str, upper: bool) -> str:
    """Return a quantity with two digits, rounded away from the measured value."""
    unit = display_unit(value, base)
    scaled = value / unit.factor
    step = 10.0 ** (math.floor(math.log10(scaled)) - 1)
    rounded = (math.ceil if upper else math.floor)(scaled / step) * step
    symbol = "%" if base == "1" else unit.symbol
    number = format_number(100 * rounded if base == "1" else rounded)
    return f"{number}{symbol}" if symbol == "%" else f"{number} {symbol}"
