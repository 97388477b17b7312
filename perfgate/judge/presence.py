"""Refuse what cannot be compared: absent metrics and ranks, damaged series, other conditions, impossible numbers.

If a clause cannot be judged, the reason is raised here as `CannotJudge`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from statistics import median

from perfgate.core import Key, Series
from perfgate.core.conditions import condition_differences, nearest_conditions, without_conditions
from perfgate.core.units import UNITS, format_value
from perfgate.core.wording import listed, member_name, plural
from perfgate.judge.derived import RunView, component_names
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.largest_load import LOAD, MEASURED
from perfgate.judge.measure import Member
from perfgate.judge.question import MeasuredSide
from perfgate.judge.subjects import Subject, members_by_key
from perfgate.rules.syntax.sentence import Arithmetic, ChangeClause, Expression, LargestLoad, LimitClause, StatisticOf
from perfgate.words.steps import complete_base, find_calls, make_baseline, sources_of

#: Changes of memory, and the net memory of an operator (allocated less freed): these may be negative.
_SIGNED = re.compile(r".*_delta|.*\.(self_)?[a-z]+_memory")
#: The metrics of single calls in a trace.
_CALLS = ("kernel.", "op.", "range.", "collective.")
_SAME_LOAD = "measure under the conditions of the baseline; another model or load needs a suite of its own"
_NOT_WRITTEN = "find out why it is no longer written, or change the rule"
_ONE_SWEEP = "give runs of equal conditions; the files of one load sweep are one run: give their folder"


def check_presence(evidence: Evidence) -> None:
    """Refuse an absent metric, a missing rank, mixed units and damaged or cut series. Raises CannotJudge."""
    subject = evidence.subject
    if not subject.new:
        raise CannotJudge("no-data", f"{subject.key}: there is no new run", "find out why the program wrote none")
    if subject.trouble:
        lacking = subject.lacking
        step = "see `perfgate inspect`" if lacking is None else complete_base(evidence.case.accept, [lacking])
        raise CannotJudge("not-available", f"{subject.key}: {subject.trouble}", step)
    if subject.stored_as is not None:
        what = "the baseline was measured under other conditions"
        raise _unlike(evidence, subject.stored_as, what, ("here", "the baseline"), _SAME_LOAD)
    for view, members in zip(subject.new_views, subject.new, strict=True):
        if not members:
            refuse_unread(evidence, view)
            raise _lacks_metric(evidence, view)
    everyone = subject.members((*subject.base, *subject.new))
    for view, members in zip(subject.new_views, subject.new, strict=True):
        if gone := sorted(everyone - members.keys()):
            raise _lacks_ranks(subject, view, gone)
    units = sorted({series.unit for series in subject.all_series()})
    if len(units) > 1:  # seconds must not be compared with calls per second
        message = f"{subject.key} has different units: {' and '.join(units)}"
        raise CannotJudge("unit-mismatch", message, "write it in one unit, or under another name")
    if problems := subject.concerned_by(evidence.runs.left_out):
        message = f"{subject.key}: a value was left out: {problems[0].at}: {problems[0].message}"
        raise CannotJudge("not-a-number", message, "find out why the job wrote it")
    _check_rank_lengths(evidence)


def _lacks_metric(evidence: Evidence, view: RunView) -> CannotJudge:
    """Return the error for a new run without the metric.

    If the baseline lacks it, too, but the run has it under other conditions, the error says so.
    """
    subject, metric = evidence.subject, evidence.subject.key.metric
    is_stored = any(subject.base)
    if not is_stored and (unlike := unlike_run(evidence, view)):
        return unlike
    owner = "the baseline has" if is_stored else "other runs have"
    others_have_it = f"{owner} it{_nearest(metric, (view,), subject.base_views)}"
    find_it = find_calls(came=False) if _is_call(metric, view) else _NOT_WRITTEN
    why, step = evidence.runs.why_absent(metric) or (others_have_it, find_it)
    return CannotJudge("metric-absent", f"{view.run.name} has no metric {subject.key}; {why}", step)


def _lacks_ranks(subject: Subject, view: RunView, gone: Sequence[Member]) -> CannotJudge:
    """Return the error for a new run without these ranks of the metric."""
    step = "find out why that process wrote nothing"
    if len(subject.new) > 1:
        if sum(map(len, subject.new)) == len(subject.members(subject.new)):  # no rank is in two of them
            why = f"{subject.key}: the new runs have different ranks, so they are probably the files of one run"
            return CannotJudge("rank-gone", why, "give their folder: each path on the command line is a run")
        step += "; if these are the files of one run, one for each rank, give their folder"
    names = listed([member_name(member) or "the series without rank" for member in gone])
    is_stored = not subject.members(subject.base).isdisjoint(gone)
    where = "the baseline has" if is_stored else "other new runs have"
    return CannotJudge("rank-gone", f"{subject.key}: {view.run.name} lacks {names}, which {where}", step)


def refuse_unread(evidence: Evidence, view: RunView) -> None:
    """Refuse a run without any metric by naming its fault, the cause of each absent metric. Raises CannotJudge."""
    errors = [] if view.names else [problem for problem in view.run.problems if problem.severity == "error"]
    if errors:
        message = f"not judged, because {view.run.name} has no metrics: {errors[0].at}: {errors[0].message}"
        # If no other new run has a metric either, a report shows the fault once, and no table.
        reason = "metric-absent" if evidence.runs.names else "no-data"
        raise CannotJudge(reason, message, "fix that first")


def _check_rank_lengths(evidence: Evidence) -> None:
    """Refuse a rank that ended early, which the rank that represents its run would hide. Raises CannotJudge."""
    for view, members in zip(evidence.subject.new_views, evidence.subject.new, strict=True):
        lengths = {member: len(series.values) for member, series in members.items() if series.kind == "samples"}
        usual = median(lengths.values()) if lengths else 0
        for member, length in lengths.items():
            if length < usual / 2:
                name = member_name(member) or "the series without rank"
                message = (
                    f"{evidence.subject.key}: in {view.run.name}, {name} has {length} values; others have {usual:g}"
                )
                raise CannotJudge("too-few-samples", message, "that process seems to have died early: run it again")


def refuse_partial(evidence: Evidence) -> None:
    """Refuse a new run without the ranks to judge, terms that do not fit, and a value that is not finite on any rank.

    Raises CannotJudge.
    """
    if not all(evidence.new):
        message = f"a run does not have {evidence.subject.key} on every rank"
        raise CannotJudge("rank-gone", message, "find out why")
    check_terms(evidence)
    for run in (*evidence.new, *evidence.base):
        for member, series in run.items():
            if not all(map(math.isfinite, series.extremes)):
                raise evidence.bad_values("not-a-number", evidence.name(member, evidence.shown_statistic))


def check_terms(evidence: Evidence) -> None:
    """Refuse a bound on the improving side, and a quantity that does not fit the metric. Raises CannotJudge."""
    asks, unit, key = evidence.clause.asks, evidence.unit, evidence.subject.key  # `unit` raises for an improving side
    quantity = evidence.clause.quantity
    is_number = quantity is not None and quantity.unit is None and unit in ("1", "count")
    if quantity is None or is_number or (quantity.base == unit and quantity.unit is not None):
        return
    # The Greek letter is another spelling of the micro sign.
    examples = [known.symbol for symbol, known in UNITS.items() if known.base == unit and symbol != "\u03bcs"]
    share = f"{quantity}%, or " if isinstance(asks, ChangeClause) and quantity.unit is None else ""
    step = f"write {share}a quantity in {listed(examples, most=20)}"
    if quantity.unit is None:
        message = f"{quantity} has no unit, and {key} is measured in {unit}"
        raise CannotJudge("no-unit", message, f"{step}, such as {quantity} {examples[len(examples) // 2]}")
    raise CannotJudge("unit-mismatch", f"{quantity} does not fit {key}, which is measured in {unit}", step)


def check_run_count(evidence: Evidence, runs: int, side: str) -> None:
    """Refuse fewer runs than `min_runs`. Raises CannotJudge."""
    needed = evidence.rule.settings.min_runs
    if runs < needed:
        message = f"the rule needs {plural(needed, 'run')}; the {side} side has {runs}"
        raise CannotJudge("too-few-runs", message, f"give {needed - runs} more")


def check_base(evidence: Evidence, asks: ChangeClause) -> None:
    """Refuse stored runs without the metric, or none at all. Raises CannotJudge."""
    case, key = evidence.case, evidence.subject.key
    if all(evidence.base) and evidence.base:
        return
    subject = evidence.subject
    views = subject.anchor_views if asks.reference == "anchor" else subject.base_views
    if case.baseline.pairing is not None and case.baseline.runs and asks.reference == "baseline":
        message = f"the base of a pair has no metric {key}"
        raise CannotJudge("no-baseline", message, "make pairs again once the base program writes it")
    if not any(evidence.base) and any(_is_call(key.metric, view) for view in views):
        message = f"the {asks.reference} made no such call: {key}"
        raise CannotJudge("no-baseline", message, find_calls(came=True))
    if any(evidence.base):
        lacking = [view.run for view, members in zip(views, evidence.base, strict=True) if not members]
        step = complete_base(case.accept, sources_of(lacking))
        raise CannotJudge("no-baseline", f"some runs of the {asks.reference} have no metric {key}", step)
    new = evidence.measured(evidence.new, evidence.subject.new_views)
    if asks.reference == "baseline" and case.baseline.runs:
        message = f"the baseline {case.baseline.place} has no metric {key}"
        message += _nearest(key.metric, views, subject.new_views)
        raise CannotJudge("no-baseline", message, complete_base(case.accept, sources_of(case.baseline.runs)), new)
    step = case.baseline.next_step if case.baseline.next_step.text else make_baseline(case.accept)
    message = case.baseline.missing or f"there is no {asks.reference} to compare {key} with"
    raise CannotJudge("no-baseline", message, step, new)


def _nearest(metric: str, views: Sequence[RunView], others: Sequence[RunView]) -> str:
    """Return the nearest name of a metric that some runs have and the others do not; it may have been renamed."""
    names = {name for view in views for name in view.names} - {name for view in others for name in view.names}
    near = get_close_matches(metric, sorted(names), n=1)
    return f" (its nearest name is {near[0]}: was it renamed?)" if near else ""


def _is_call(metric: str, view: RunView) -> bool:
    """Return whether a metric is about one kind of call, and the run shows the other calls that it made."""
    prefix = metric.partition(".")[0] + "."
    return prefix in _CALLS and any(name.startswith(prefix) for name in view.names)


def _unlike(evidence: Evidence, other: Key, what: str, places: tuple[str, str], step: str) -> CannotJudge:
    """Return the error for a metric that a side has only under other conditions; `places` name both sides."""
    key, names = evidence.subject.key, evidence.runs.conditions
    differences = condition_differences(key, other, names).items()
    texts = [f"{name} is {own} {places[0]} and {its} in {places[1]}" for name, (own, its) in differences]
    message = f"{without_conditions(key, names)}: {what}: {listed(texts)}"
    return CannotJudge("other-conditions", message, step)


def unlike_run(evidence: Evidence, view: RunView) -> CannotJudge | None:
    """Return the error for a new run that has the metric only under other conditions; None if it lacks the metric."""
    subject, names = evidence.subject, evidence.runs.conditions
    found = members_by_key(subject.key.metric, view, subject.expression)
    other = nearest_conditions(subject.key, found, names)
    if other is None:
        return None
    fellow = next(one.run.name for one, members in zip(subject.new_views, subject.new, strict=True) if members)
    what = "the new runs were measured under different conditions"
    return _unlike(evidence, other, what, (f"in {fellow}", view.run.name), _ONE_SWEEP)


def refuse_short_sweep(evidence: Evidence, new: MeasuredSide, *, load: float = -math.inf) -> None:
    """Raise CannotJudge if a sweep ends before it shows on which side of a limit, or of this load, its answer is.

    A larger load may have a larger number: at a limit, `at most` may then fail, and `over` may pass.
    """
    asks = evidence.clause.asks
    for view, series in zip(new.views, new.series, strict=True):
        last, found = series.aggregate[LOAD], float(series.values[0])
        is_open = last < load
        if isinstance(asks, LimitClause):
            is_at_limit = found == asks.bound.value and asks.comparator in ("at most", "over")
            is_open = found < asks.bound.value or is_at_limit
        if last == series.aggregate[MEASURED] and is_open:
            shown = format_value(found, series.unit, evidence.shown_unit)
            message = (
                f"{evidence.subject.key}: every load of {view.run.name} keeps the limits, and the last has {shown}"
            )
            raise CannotJudge("short-sweep", message, "measure larger loads, too")


def refuse_impossible(evidence: Evidence) -> None:
    """Refuse a negative time, size, rate or count: such a measurement is wrong. Raises CannotJudge."""
    asks, subject = evidence.clause.asks, evidence.subject
    is_anchor = isinstance(asks, ChangeClause) and asks.reference == "anchor"
    base_views = subject.anchor_views if is_anchor else subject.base_views
    for views, runs in ((subject.new_views, evidence.new), (base_views, evidence.base)):
        for view, run in zip(views, runs, strict=False):  # of a limit, no base run is compared
            for member, series in run.items():
                number, unit = _negative(series)
                if number is None or (unit != "1" and _may_be_negative(evidence)):  # a count never may
                    continue
                name, value = evidence.name(member), format_value(number, unit)
                message = f"{name} has the value {value} in {view.run.name}, which cannot be negative"
                raise CannotJudge("impossible", message, "find out why the program wrote it, and measure again")


def _negative(series: Series) -> tuple[float | None, str]:
    """Return a negative count of calls (unit `1`), or a negative value that has a unit, with its unit; or None."""
    count = series.aggregate.get("count", 0.0)
    if count < 0:
        return count, "1"
    lowest = min([series.extremes[0], *series.aggregate.values()])
    return (lowest, series.unit) if lowest < 0 and series.unit != "1" else (None, series.unit)


def _may_be_negative(evidence: Evidence) -> bool:
    """Return whether the metric is a change of memory, or a difference."""
    expression, derived = evidence.subject.expression, evidence.runs.metrics
    if isinstance(expression, LargestLoad):
        expression = expression.of  # its limits have signs of their own
    names = component_names(expression, derived)
    if any(map(_SIGNED.fullmatch, names)):
        return True
    parts = (derived[name].expression for name in names if name in derived)
    return any(map(_subtracts, (expression, *parts)))


def _subtracts(expression: Expression) -> bool:
    """Return whether an expression has a minus."""
    if isinstance(expression, Arithmetic):
        return expression.operator == "-" or _subtracts(expression.left) or _subtracts(expression.right)
    return isinstance(expression, StatisticOf) and _subtracts(expression.of)
