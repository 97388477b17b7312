"""First rules for runs that nobody wrote rules for yet: which metrics, and the tolerance that the data can hold.

A tolerance is the smallest of a list that a person would write from, with which an unchanged program passes after one
new run with 80 % probability (`plans`), and with which these runs, each by itself and all together, pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from perfgate.analysis.plan import plans
from perfgate.core import Baseline, Kind, Location, Plan, Run, Series
from perfgate.core.units import display_unit, format_number
from perfgate.judge.case import Case
from perfgate.judge.inquiry import direction
from perfgate.judge.measure import Method, NotAvailable, default_statistic
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.write import sentence_of

#: What a person would write, in percent. From 3 % on, rules need no correction for being many.
TOLERANCES = (3, 5, 8, 10, 15, 20, 25, 30, 40, 50)
#: A report that people read to its end; and room in it for a rate or the memory beside the times.
MOST, MOST_OF_A_UNIT = 8, 6
#: So many metrics are planned for at most, the likeliest first.
_MOST_TRIED = 24
#: One value for every call of a function: parts of a step, which may be thousands.
_DETAILS = ("kernel.", "op.", "range.", "collective.")
_KINDS: tuple[Kind, ...] = ("samples", "value", "aggregate")
_UNITS = ("s", "1/s", "B/s", "FLOP/s", "B")
#: How far a proposed limit lies from what was measured.
_ROOM = 1.2


@dataclass(frozen=True, slots=True)
class Proposal:
    """A first rule for one metric, with the numbers that it rests on, and a limit that the runs keep."""

    metric: str
    sentence: str
    #: In percent.
    tolerance: int
    #: The plan of the rule, for each set of labels.
    plans: tuple[Plan, ...]
    limit: str | None


@dataclass(frozen=True, slots=True)
class Proposals:
    """First rules, the main metric first, and why others have none: metrics by reason."""

    rules: tuple[Proposal, ...]
    left_out: Mapping[str, Sequence[str]]


def propose(runs: Sequence[Run], today: date) -> Proposals:
    """First rules for the main metrics that all these runs hold: times, of samples, that take most of the time."""
    left_out: dict[str, list[str]] = {}
    found: dict[str, Proposal] = {}
    held = _shared(runs, left_out)
    for tried, metric in enumerate(_ranked(held, left_out)):
        chosen = [held[name] for name in found]
        enough = [series for series in chosen if series[0].unit == held[metric][0].unit]
        if len(found) == MOST or len(enough) == MOST_OF_A_UNIT or tried >= _MOST_TRIED:
            left_out.setdefault("less of the whole than those that have one", []).append(metric)
        elif any(_is_nearly(held[metric], series) for series in enough):
            left_out.setdefault("within 2% the same as one that has a rule", []).append(metric)
        elif isinstance(proposal := _proposal(metric, held[metric], runs, today), Proposal):
            found[metric] = proposal
        else:
            left_out.setdefault(proposal, []).append(metric)
    return Proposals(tuple(found.values()), left_out)


def _is_nearly(series: Sequence[Series], other: Sequence[Series]) -> bool:
    """Whether two metrics are one under two names, as timers of a step and of its only micro-step are."""
    own, others = sum(map(_total, series)), sum(map(_total, other))
    return series[0].kind == other[0].kind and len(series) == len(other) and math.isclose(own, others, rel_tol=0.02)


def _shared(runs: Sequence[Run], left_out: dict[str, list[str]]) -> dict[str, list[Series]]:
    """The series of each metric that every run holds."""
    held: dict[str, list[Series]] = {}
    for run in runs:
        for series in run.series:
            held.setdefault(series.key.metric, []).append(series)
    names = [{series.key.metric for series in run.series} for run in runs]
    alone = [metric for metric in held if not all(metric in some for some in names)]
    if alone:
        left_out["not in every run"] = alone
    return {metric: series for metric, series in held.items() if metric not in alone}


def _ranked(held: Mapping[str, list[Series]], left_out: dict[str, list[str]]) -> list[str]:
    """The metrics that a rule could be about, the main ones first."""
    fitting = []
    for metric, series in held.items():
        if len({(one.unit, one.kind) for one in series}) > 1:
            left_out.setdefault("not of one unit and kind in all runs", []).append(metric)
        elif direction(metric, series[0].unit, None) is None:
            left_out.setdefault("nothing says which direction is better (a rule can, with `better:`)", []).append(
                metric
            )
        else:
            fitting.append(metric)
    return sorted(fitting, key=lambda metric: _rank(metric, held[metric]))


def _rank(metric: str, series: Sequence[Series]) -> tuple[bool, int, int, float, str]:
    """Whole steps before single calls, samples before sums, times before the rest, and then the largest."""
    first, total = series[0], sum(_total(one) for one in series)
    is_detail = metric.startswith(_DETAILS)
    unit = _UNITS.index(first.unit) if first.unit in _UNITS else len(_UNITS)
    return is_detail, _KINDS.index(first.kind), unit, -total if math.isfinite(total) else math.inf, metric


def _total(series: Series) -> float:
    if series.kind != "aggregate":
        return float(series.values.sum())
    return series.aggregate.get("total", series.aggregate.get("mean", 0.0) * series.aggregate.get("count", 1.0))


def _proposal(metric: str, series: Sequence[Series], runs: Sequence[Run], today: date) -> Proposal | str:
    """A rule for one metric, or the reason why there is none."""
    runs = [replace(run, series=tuple(one for one in run.series if one.key.metric == metric)) for run in runs]
    tolerances = {sentence: percent for percent in TOLERANCES if (sentence := _change(metric, percent)) is not None}
    if not tolerances:
        return "no rule can name them"
    planned = plans(_case(tolerances, runs, runs, today))
    for sentence, percent in tolerances.items():
        own = tuple(plan for plan in planned if plan.rule == sentence)
        if all(_is_held(plan) for plan in own) and _passes(sentence, runs, today):
            return Proposal(metric, sentence, percent, own, _limit(metric, series, runs, today))
    trouble = next((plan.trouble for plan in planned if plan.trouble and not _is_exact(plan)), None)
    return trouble or _reason(next(reversed(tolerances)), runs, today)


def _reason(sentence: str, runs: Sequence[Run], today: date) -> str:
    """Why even the widest tolerance does not hold."""
    errors = [v.reason for v in judge(_case([sentence], runs, runs, today)) if v.outcome == "error"]
    noise = f"their noise is beyond {TOLERANCES[-1]}%: give more runs, or quieter ones"
    return f"{errors[0].replace('-', ' ')} in a run" if errors else noise


def _change(metric: str, percent: int) -> str | None:
    return sentence_of(metric, f"within {percent}% of baseline")


def _is_held(plan: Plan) -> bool:
    """Whether one new run of an unchanged program most likely passes."""
    return _is_exact(plan) or (plan.runs_needed is not None and plan.runs_needed <= 1)


def _is_exact(plan: Plan) -> bool:
    return plan.trouble is not None and "without noise" in plan.trouble


def _passes(sentence: str, runs: Sequence[Run], today: date) -> bool:
    """Whether these runs, all together and each by itself, pass a rule that has them for its baseline."""
    sides = [tuple(runs), *((run,) for run in runs if len(runs) > 1)]
    return all(v.outcome == "pass" for new in sides for v in judge(_case([sentence], runs, new, today)))


def _case(sentences: Sequence[str] | Mapping[str, int], base: Sequence[Run], new: Sequence[Run], today: date) -> Case:
    rules = tuple(Rule(parse_sentence(sentence), Location("rules")) for sentence in sentences)
    # A rule about one metric is not concerned by what is wrong with the others.
    judged = tuple(replace(run, problems=()) for run in new)
    return Case(Ruleset("proposed", rules, {}), judged, Baseline(runs=tuple(base)), today)


def _limit(metric: str, series: Sequence[Series], runs: Sequence[Run], today: date) -> str | None:
    """A limit that all runs keep, a fifth beyond the worst of them: of samples the p95, else the usual statistic."""
    upper = direction(metric, series[0].unit, None) == "lower"
    tail = ("p95" if upper else "p5") if series[0].kind == "samples" else None
    statistics = [tail, "median"] if tail else [None]
    for statistic in statistics:
        for value in _worst(series, statistic or default_statistic(series[0]), upper):
            words = [statistic, "under" if upper else "over", _quantity(value, series[0].unit, upper)]
            sentence = sentence_of(metric, " ".join(word for word in words if word))
            if sentence is not None and _passes(sentence, runs, today):
                return sentence
    return None


def _worst(series: Sequence[Series], statistic: str, upper: bool) -> Iterator[float]:
    """The worst run's value with some room; nothing where there is no such value."""
    try:
        method = Method(statistic, better="lower" if upper else "higher")
        values = [method.measure(one).value for one in series]
    except NotAvailable:
        return
    known = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    if known:
        yield max(known) * _ROOM if upper else min(known) / _ROOM


def _quantity(value: float, base: str, upper: bool) -> str:
    """A quantity of two digits, rounded away from what was measured."""
    unit = display_unit(value, base)
    scaled = value / unit.factor
    step = 10.0 ** (math.floor(math.log10(scaled)) - 1)
    rounded = (math.ceil if upper else math.floor)(scaled / step) * step
    symbol = "%" if base == "1" else unit.symbol
    number = format_number(100 * rounded if base == "1" else rounded)
    return f"{number}{symbol}" if symbol == "%" else f"{number} {symbol}"
