"""The advice of `init`: first rules, the change that each can detect, and the time of a step, if one is about it.

A gate compares with stored runs, or it makes pairs: the base and the change run at the same time, by turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from msgspec.structs import replace

from perfgate.analysis.plan import PAIRS, SPREAD_OF_PAIRS, pairs_fail_from
from perfgate.analysis.proposals import (
    DETAILS,
    STEP,
    UNSAID,
    WORK,
    Proposal,
    Proposals,
    about,
    propose,
    ranked,
    shared_metrics,
)
from perfgate.analysis.step_time import CLEARLY, Known, is_unsteady, main_time, step_time, use_steadier, whole_step
from perfgate.analysis.tolerances import TOLERANCES, Fit, Trial, spread_of, spread_of_pairs
from perfgate.analysis.work_advice import with_work, work_rules
from perfgate.core import Better, Run, Series
from perfgate.core.advice import Advice, LeftOut, ProposedRule, StepTime
from perfgate.core.results import LOOKS, RUNS_FOR_A_PROMISE
from perfgate.core.units import SPEEDS
from perfgate.core.wording import COMMAND, show_labels
from perfgate.judge.evidence import direction
from perfgate.judge.measure import default_statistic
from perfgate.judge.pairs import Pairs

#: The tolerances of pairs in percent: on a calm machine, where stored runs agree, and on another one.
_CALM_TOLERANCE, _USUAL_TOLERANCE = 5, 10
#: The tolerance of pairs in percent is at least this multiple of their measured relative spread (3 % for a spread of
#: 0.04): then an unchanged program passes with 10 pairs.
_ROOM_OF_PAIRS = 75
#: The most parts of a step that pairs judge if no metric is a whole step; and the largest tolerance of a steady part.
_MOST_PARTS, _STEADY = 4, 20
#: At most this many sets of labels have a budget each.
_MOST_BUDGETS = 5
#: A budget is at least this multiple of the worst run, and this many tolerances of the same metric above it.
_ROOM, _TOLERANCES_OF_ROOM = 1.2, 2
_UNSTEADY = "stored runs would not show what they will be on another day"
#: The formats whose metrics are benchmarks that say nothing about each other.
_BENCHMARKS = ("asv", "go-test", "google-benchmark", "hyperfine", "pyperf", "pytest-benchmark")
_OF_WORK = "exact work has rules of its own, such as `no more work than baseline`"
_NOT_WITH_PAIRS = "few rules need few pairs: add one with `perfgate init --paired --add METRIC RUN...`"


def advise(
    runs: Sequence[Run],
    today: date,
    *,
    is_paired: bool = False,
    better: Mapping[str, Better] = UNSAID,
    pairs: Pairs | None = None,
) -> Advice:
    """Return first rules for a gate that compares with stored runs, or with `is_paired` for one that makes pairs.

    `better`: the direction of metrics, where the user gave it. `pairs`: pairs of the same program, which show how much
    pairs differ.
    """
    runs, steadier = use_steadier(runs)  # without a wall time that CPU time or instructions replace
    found = replace(_advise(runs, today, is_paired, better, pairs), steadier=steadier)
    return found if is_paired else with_work(found, runs, work_rules(runs, today), today)


def _advise(
    runs: Sequence[Run], today: date, is_paired: bool, better: Mapping[str, Better], pairs: Pairs | None
) -> Advice:
    """Return the advice without rules about exact work."""
    found = propose(runs, today, better)
    known = shared_metrics(runs, left_out={})
    step = step_time(known, found, len(runs))
    if is_paired:
        return _of_pairs(runs, today, found, step, better, pairs)
    rules, unsteady = list[ProposedRule](), list[str]()
    costly = None if step.is_noisy else main_time(known, found, step)  # the one metric with a mean and a budget
    for proposal in found.rules:
        if step.is_noisy and (proposal.metric == step.metric or is_unsteady(known[proposal.metric])):
            unsteady.append(proposal.metric)
            continue
        rules.append(_usual(proposal, known))
        if proposal.metric == costly:
            rules += _cost(proposal, known, runs, today)
    left_out = {**found.left_out, _UNSTEADY: unsteady}
    return Advice(tuple(rules), _left_out(left_out), step, len(runs), most_runs=LOOKS)


def _left_out(found: Mapping[str, Sequence[str]]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(reason, tuple(metrics)) for reason, metrics in found.items() if metrics)


def proposed_for(
    metric: str, runs: Sequence[Run], today: date, *, is_paired: bool = False, better: Mapping[str, Better] = UNSAID
) -> ProposedRule | str:
    """Return the rule for one metric, or the reason why there is none. At least one run has the metric."""
    left_out: dict[str, list[str]] = {}
    runs = [_only(run, metric) for run in runs]
    known = shared_metrics(runs, left_out)
    ranked(known, left_out, better)  # adds its reasons to `left_out`
    why = next((reason for reason, names in left_out.items() if metric in names), None)
    if why is not None:
        return why
    found = propose(runs, today, better)
    mine = next((proposal for proposal in found.rules if proposal.metric == metric), None)
    if is_paired and not metric.startswith(WORK):
        usual = _tolerance_of_pairs(runs, is_unsteady(known[metric]), [mine])
        return _of_pair(metric, known, usual, better) or "a rule cannot name it"
    if mine is not None:
        return _usual(mine, known)
    # only counts of work are left out without a reason
    return next((reason for reason, names in found.left_out.items() if metric in names), _OF_WORK)


def _only(run: Run, metric: str) -> Run:
    """Return the run with only this metric, and the step if the metric is judged per step."""
    names = {metric, STEP} if metric.startswith(DETAILS) else {metric}
    return replace(run, series=tuple(one for one in run.series if one.key.metric in names))


# --- rules that compare with stored runs ----------------------------------------------------------------------------


def _usual(proposal: Proposal, known: Known) -> ProposedRule:
    """Return the proposed rule, whose subject is the metric and statistic, or the sum of calls."""
    if proposal.is_sum:
        return proposal.fit.proposed("sum", proposal.fit.sentence.partition(" within ")[0], proposal.limit)
    subject = f"{proposal.metric} {default_statistic(known[proposal.metric][0])}"
    return proposal.fit.proposed("usual", subject, proposal.limit)


def _cost(proposal: Proposal, known: Known, runs: Sequence[Run], today: date) -> Iterator[ProposedRule]:
    """Yield a rule about the mean of a time, which includes stalls, and a budget (a limit); each only if it fits."""
    metric, series = proposal.metric, known[proposal.metric]
    trial = Trial.of(runs, {metric}, today)
    statistic, tolerance = None, proposal.fit.tolerance
    if series[0].kind == "samples":
        fit = trial.fitted(about(metric, "mean"))
        if isinstance(fit, Fit):
            statistic, tolerance = "mean", fit.tolerance
            yield fit.proposed("cost", f"{metric} mean")
    measured = statistic or default_statistic(series[0])
    room = max(_ROOM, 1 + _TOLERANCES_OF_ROOM * tolerance / 100)
    for labels, of_labels in _by_labels(series, measured, room):
        budget = trial.limit(about(metric, statistic, labels), of_labels, measured, upper=True, room=room)
        if budget is not None:
            allowed = f"under{budget.rpartition('under')[2]}"
            yield ProposedRule("budget", budget, f"{metric}{labels} {measured}", allowed, fails_from=room - 1)


def _by_labels(series: Sequence[Series], statistic: str, room: float) -> list[tuple[str, list[Series]]]:
    """Return the labels and series of each budget: one for all, or one for each set of labels if these differ much.

    With one budget for slow and fast requests, a fast one could become several times slower. Too many sets of labels
    have no budget.
    """
    found = defaultdict[str, list[Series]](list)
    for one in series:
        found[show_labels(one.key.without_members().labels)].append(one)
    if len(found) == 1 or (spread_of(series, statistic) or 0.0) < room - 1:
        return [("", [*series])]
    return sorted(found.items()) if len(found) <= _MOST_BUDGETS else []


# --- rules that compare in pairs ------------------------------------------------------------------------------------


def _of_pairs(
    runs: Sequence[Run], today: date, found: Proposals, step: StepTime, better: Mapping[str, Better], made: Pairs | None
) -> Advice:
    """Return the rules of a gate that makes pairs: few times, bytes (which have no noise), a budget, and CPU time.

    `made`: pairs of the same program, whose spread gives the tolerances; None for the usual tolerances.
    """
    known, left_out = shared_metrics(runs, left_out={}), dict[str, list[str]]()
    order = ranked(known, left_out, better)
    mains = _judged_in_pairs(known, found, order)
    if all(run.format in _BENCHMARKS for run in runs):  # each is a program of its own, and none is a part
        mains = [name for name in order if known[name][0].unit in SPEEDS]
    ruled = {proposal.metric: proposal for proposal in found.rules}
    usual = _tolerance_of_pairs(runs, step.is_noisy, [ruled.get(name) for name in mains])
    rules, cpu = _times_in_pairs(mains, known, made, better, usual, is_busy=step.is_noisy)
    trouble = None if rules else step.trouble or "a rule cannot name it"
    covered = StepTime(next(iter(mains), None), trouble)
    rules += [_usual(one, known) for one in found.rules if known[one.metric][0].unit == "B"]
    # with this tolerance, all main metrics are in `ruled`: see `_tolerance_of_pairs`
    if usual == _CALM_TOLERANCE and mains and known[mains[0]][0].unit == "s":
        rules += [one for one in _cost(ruled[mains[0]], known, runs, today) if one.purpose == "budget"]
    rules += [one for one in cpu if one.subject not in {rule.subject for rule in rules}]
    done = {*mains, *(rule.subject.partition(" ")[0] for rule in rules)}
    left_out[_NOT_WITH_PAIRS] = [name for name in order if name not in done and known[name][0].unit != "B"]
    return Advice(tuple(rules), _left_out(left_out), covered, len(runs), is_paired=True, most_runs=PAIRS)


def _tolerance_of_pairs(runs: Sequence[Run], is_noisy: bool, mains: Sequence[Proposal | None]) -> int:
    """Return the tolerance in percent: the smaller one if enough stored runs agree about the main metrics."""
    agree = all(proposal is not None and proposal.fit.tolerance <= _USUAL_TOLERANCE for proposal in mains)
    is_calm = len(runs) >= RUNS_FOR_A_PROMISE and not is_noisy and agree
    return _CALM_TOLERANCE if is_calm else _USUAL_TOLERANCE


def _times_in_pairs(
    mains: Sequence[str], known: Known, made: Pairs | None, better: Mapping[str, Better], usual: int, *, is_busy: bool
) -> tuple[list[ProposedRule], list[ProposedRule]]:
    """Return the rules about the main metrics, and about CPU time. Metrics without `made` pairs get `usual` percent."""
    spreads = {name: spread_of_pairs(made, name) for name in mains}
    cpu = list(_cpu_time(made, [spread for spread in spreads.values() if spread], is_busy=is_busy))
    room = 2 * _ROOM_OF_PAIRS if cpu else _ROOM_OF_PAIRS  # three pairs are few, and the CPU time sees smaller changes
    tolerances = {name: usual if one is None else _fitting(room * one) for name, one in spreads.items()}
    rules = (_of_pair(name, known, tolerances[name], better, spreads[name]) for name in mains)
    return [rule for rule in rules if rule is not None], cpu


def _judged_in_pairs(known: Known, found: Proposals, order: Sequence[str]) -> list[str]:
    """Return the few metrics that pairs judge: whole steps, or else the longest part and the steady ones."""
    named = whole_step(known)
    if named is not None and named in order:
        return [named]
    calm = [one.metric for one in found.rules if one.fit.tolerance <= _STEADY and not one.metric.startswith(DETAILS)]
    steady = [name for name in calm if known[name][0].unit in SPEEDS]
    longest = [name for name in order if known[name][0].unit in SPEEDS][:1]
    if steady and any(known[name][0].unit != "s" for name in [*steady, *longest]):  # a rate counts the whole step
        return steady[:_MOST_PARTS]
    return list(dict.fromkeys([*longest, *steady]))[:_MOST_PARTS]


def _fitting(percent: float) -> int:
    """Return the smallest usual tolerance of pairs that is at least this one, in percent; or the largest one."""
    least = max(_CALM_TOLERANCE, percent)
    return next((tolerance for tolerance in TOLERANCES if tolerance >= least), TOLERANCES[-1])


def _of_pair(
    metric: str, known: Known, tolerance: int, better: Mapping[str, Better], spread: float | None = None
) -> ProposedRule | None:
    """Return the rule for pairs; None if no rule can name the metric.

    `tolerance`: in percent. `spread`: the relative standard deviation of pairs of one program, or None if unknown.
    """
    series = known[metric][0]
    sentence = about(metric)(f"within {tolerance}% of baseline")
    towards: Better = direction(metric, series.unit, better.get(metric)) or "lower"
    if sentence is None:
        return None
    subject, asks = f"{metric} {default_statistic(series)}", f"within {tolerance}%"
    noise = SPREAD_OF_PAIRS if spread is None else spread
    fails_from = pairs_fail_from(tolerance / 100, PAIRS, towards, noise)
    return ProposedRule(
        "usual", sentence, subject, asks, fails_from, tolerance, noise, is_calibrated=spread is not None
    )


def _cpu_time(made: Pairs | None, noises: Sequence[float], *, is_busy: bool) -> Iterator[ProposedRule]:
    """Yield a rule about the CPU time of the whole command if it is clearly steadier than the times (`noises`).

    On a busy machine it is enough if it is as steady, because the times of three pairs may agree by chance.

    There is none for three kinds of programs: a benchmark that measures for a fixed time needs the same CPU time if its
    code is slower; a program with a GPU waits for it on the CPU; and the steps of a Recorder take turns, so their pairs
    have no whole command.
    """
    metric = f"{COMMAND}cpu_time"
    spread = spread_of_pairs(made, metric)
    if made is None or spread is None or not noises or spread > (1 if is_busy else CLEARLY) * max(noises):
        return
    if any("gpu" in run.environment or run.format in (*_BENCHMARKS, "perfgate") for run in made.base):
        return
    rule = _of_pair(metric, shared_metrics(made.base, left_out={}), _fitting(_ROOM_OF_PAIRS * spread), UNSAID, spread)
    if rule is not None:
        yield replace(rule, purpose="cpu")
