"""The changes that each rule can detect with the stored runs, and how to detect smaller ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfgate.core import Better, Key
from perfgate.core.results import LOOKS, RUNS_FOR_A_PROMISE, RUNS_THAT_SHOW_NOISE
from perfgate.core.summaries import Plan
from perfgate.core.wording import plural
from perfgate.judge.ask import ANCHOR_WINDOW, change_terms, limit_confidence
from perfgate.judge.decide.bounds import OF_RUNS, RED_PRIOR, SHARP_PRIOR, SHARP_RED, prior_of
from perfgate.judge.evidence import CannotJudge, Case, Evidence
from perfgate.judge.measure import NotAvailable
from perfgate.judge.presence import check_terms
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause, WorkClause
from perfgate.stats.bounds import values_to_pass
from perfgate.stats.distributions import t_quantile
from perfgate.stats.margin import Margin
from perfgate.stats.moderated import RunNoise, has_logarithm, run_noise
from perfgate.stats.statistics import Quantile, RunMeasure, parse_statistic

#: Advice compares two ways that take as long: this many times the steps, and this many runs.
TIMES = 3
#: The largest number of base runs that are compared with.
RUNS_COMPARED = 10
#: The power to put into the formula so that at least 8 of 10 cases fail: with few base runs, with enough of them to
#: show the noise, and with pairs. Found by simulation (see the tests): the noise is estimated, and all looks share one
#: error rate.
_FEW_RUNS, _MANY_RUNS, _PAIRS = 0.97, 0.94, 0.9
#: The spread of pairs of one program that a plan without pairs assumes: measured on a shared, busy machine.
SPREAD_OF_PAIRS = 0.03
#: The most pairs that a gate makes.
PAIRS = 10
#: If stored runs see only larger changes of the time of a step, pairs may see smaller ones.
POOR = 0.15


def plans(case: Case) -> tuple[Plan, ...]:
    """Return a plan for each clause of each rule that applies, and each metric of the stored runs, in rule order.

    Only the rules, the baseline and the facts of the case are used.
    """
    runs = JudgedRuns.of((), case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    applying = [r for r in case.ruleset.rules if all(c.holds(case.facts) is not False for c in r.when)]
    return tuple(found for rule in applying for found in _of_rule(rule, case, runs))


def _of_rule(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[Plan]:
    """Yield a plan for each clause and metric of a rule."""
    subjects = find_subjects(rule.sentence, runs)
    for clause in rule.clauses:
        if isinstance(clause.asks, WorkClause):
            yield _without(rule, clause, case, subject=None, why="exact: one run shows every change")
        elif not subjects:
            why = f"the stored runs have no metric {rule.sentence.subject_text}"
            yield _without(rule, clause, case, subject=None, why=why)
        else:
            yield from (_of_subject(rule, clause, subject, case, runs) for subject in subjects)


def _of_subject(rule: Rule, clause: Clause, subject: Subject, case: Case, runs: JudgedRuns) -> Plan:
    to_anchor = isinstance(clause.asks, ChangeClause) and clause.asks.reference == "anchor"
    stored = tuple(members for members in (subject.anchor if to_anchor else subject.base) if members)
    try:
        return _planned(Evidence(rule, clause, subject, case, runs, new=(), base=stored))
    except (CannotJudge, NotAvailable) as error:
        return _without(rule, clause, case, subject, str(error))


def _without(rule: Rule, clause: Clause, case: Case, subject: Subject | None, why: str | None) -> Plan:
    """Return a plan without numbers, and the reason why it has none."""
    return Plan(
        rule=rule.name,
        metric=subject.key.metric if subject else rule.sentence.subject_text,
        labels=dict(subject.key.labels) if subject else {},
        statistic=rule.sentence.statistic,
        asks=clause.text,
        at=rule.at,
        baseline=case.baseline.place,
        power=rule.settings.power,
        confidence=rule.settings.confidence,
        trouble=why,
    )


def _planned(evidence: Evidence) -> Plan:
    """Return the plan of one clause and metric. Raises CannotJudge if there is nothing to plan, and NotAvailable."""
    asks, key = evidence.clause.asks, evidence.subject.key
    if evidence.subject.trouble or not evidence.base:
        raise CannotJudge("no-baseline", evidence.subject.trouble or f"no stored run has {key}", "")
    check_terms(evidence)
    measures = evidence.measured(evidence.base).measures
    plan = replace(
        _without(evidence.rule, evidence.clause, evidence.case, evidence.subject, why=None),
        statistic=evidence.shown_statistic,
        base_runs=len(measures),
    )
    if isinstance(asks, LimitClause):
        return _of_limit(plan, evidence, asks, measures)
    if not isinstance(asks, ChangeClause) or not asks.is_stored:
        raise CannotJudge("not-planned", "it compares the ranks of one run with each other, without stored runs", "")
    return _of_change(plan, evidence, asks, measures)


def _of_limit(plan: Plan, evidence: Evidence, asks: LimitClause, measures: Sequence[RunMeasure]) -> Plan:
    """Add the effective sample size that a percentile needs to pass, and that of the last stored run."""
    statistic = parse_statistic(evidence.method.statistic)
    available = measures[-1].n_effective
    if not isinstance(statistic, Quantile) or available is None:
        raise CannotJudge("not-planned", "it needs no plan: only a limit on a percentile needs enough steps", "")
    allowed = 1 - statistic.q if asks.upper else statistic.q
    confidence = limit_confidence(evidence, evidence.base)
    needed = values_to_pass(allowed, confidence)
    advice = "enough: a run like the stored ones can pass"
    if available < needed:
        times = math.ceil(10 * needed / available) / 10
        advice = f"more steps: {times:g} times as many, or {plural(math.ceil(needed / available), 'run')}"
    return replace(plan, confidence=confidence, values_needed=needed, values_held=available, advice=advice)


def _of_change(plan: Plan, evidence: Evidence, asks: ChangeClause, measures: Sequence[RunMeasure]) -> Plan:
    """Add the changes from the stored runs that the next runs can detect.

    A failure is a change beyond `margin` (the tolerance), and a pass excludes one of `excluded` (`at_worst`).
    """
    terms = change_terms(evidence, asks, measures)
    if not all(map(has_logarithm, measures)):
        raise CannotJudge("not-positive", "the stored values have no relative change: use a limit instead", "")
    if terms.exact:
        raise CannotJudge("exact", "it is compared without noise: one run shows every change", "")
    centre, seen = run_noise(measures, terms.prior)
    seen = replace(seen, shared=2 * terms.wander**2)  # the levels of both sides wander
    noise = seen  # `seen` is what the runs show, `noise` what a pass assumes
    margin = excluded = terms.tolerated(math.exp(centre))  # the anchor has no `at_worst`: a pass excludes the tolerance
    anchored, fewest = asks.reference == "anchor", 0
    calibrated = evidence.calibrated()
    if not anchored:
        excluded = terms.doubted(math.exp(centre))
        if not terms.noise_known:  # the judge assumes more noise than few runs show
            centre, noise = run_noise(measures, prior_of(OF_RUNS.green_prior, excluded))
            fewest = RUNS_FOR_A_PROMISE
    new_runs = ANCHOR_WINDOW if anchored else 1
    needed = _needed(noise, excluded.room, terms, fewest)
    return replace(
        plan,
        confidence=terms.confidence,
        tolerance=terms.applied_tolerance(math.exp(centre)),
        new_runs=new_runs,
        noise_between=math.sqrt(max(seen.variance - seen.within, 0.0)),
        noise_within=math.sqrt(seen.within),
        calibrated=calibrated is not None,
        noise=None if calibrated is None else calibrated.said(),
        detectable=margin.detectable(noise.reach(new_runs, terms.confidence, terms.power)),
        fails_from=None if anchored else _fails_from(measures, seen, margin, terms, calibrated is not None),
        runs_needed=needed,
        at_worst=None if anchored else excluded.size,
        advice=_advice(noise, excluded.room, needed, new_runs, terms, fewest),
    )


def _fails_from(
    measures: Sequence[RunMeasure], seen: RunNoise, margin: Margin, terms: ChangeTerms, calibrated: bool
) -> float | None:
    """Return the change that a rule sees: the smallest one that fails in 8 of 10 cases within `LOOKS` new runs.

    `seen`: the noise of the runs. Without a calibrated prior, the judge has two bounds for red. One assumes much noise,
    the sharp one little, for a part (`SHARP_RED`) of the error rate. The one that fails a smaller change decides.
    """
    power = _MANY_RUNS if len(measures) >= RUNS_THAT_SHOW_NOISE else _FEW_RUNS
    if calibrated:
        return margin.detectable(seen.reach(LOOKS, terms.confidence, power))
    bounds = ((RED_PRIOR, terms.confidence), (SHARP_PRIOR, 1 - SHARP_RED * (1 - terms.confidence)))
    reaches = [
        run_noise(measures, prior_of(prior, margin))[1].reach(LOOKS, confidence, power) for prior, confidence in bounds
    ]
    return margin.detectable(min(reaches))


def seen_changes(case: Case) -> dict[tuple[str, str, str], float]:
    """Return the change that each rule sees, by rule, metric with labels, and clause, as all reports show it."""
    return {
        (plan.rule, str(Key.of(plan.metric, **plan.labels)), plan.asks): plan.fails_from
        for plan in plans(case)
        if plan.fails_from is not None
    }


def pairs_fail_from(tolerance: float, pairs: int, better: Better, spread: float = SPREAD_OF_PAIRS) -> float | None:
    """Return the smallest change that pairs fail in 8 of 10 cases; the sharp bound of red decides about pairs.

    `tolerance`: relative. `pairs`: the most pairs that are made. `better`: the better direction of the metric.
    `spread`: the relative standard deviation of pairs of one program.
    """
    error = spread / math.sqrt(pairs)
    margin = Margin.of_ratio(tolerance, "down" if better == "higher" else "up")
    levels = (1 - SHARP_RED * 0.05, _PAIRS)  # the sharp bound at 95 % confidence, and the power
    return margin.detectable(sum(t_quantile(pairs - 1, level) for level in levels) * error)


def _needed(noise: RunNoise, room: float, terms: ChangeTerms, fewest: int) -> int | None:
    """Return the number of new runs with which an unchanged program passes; None if no number is enough.

    `room`: the change that must be excluded, as a logarithm. `fewest`: both sides together need this many runs.
    """
    needed = noise.runs_needed(room, terms.confidence, terms.power)
    return None if needed is None else max(needed, fewest - noise.base_runs)


def _advice(noise: RunNoise, room: float, needed: int | None, new_runs: int, terms: ChangeTerms, fewest: int) -> str:
    """Return the cheapest way to let an unchanged program pass with the wanted power."""
    if needed is not None and needed <= new_runs:
        return f"enough: an unchanged program passes with {plural(needed, 'new run')}"
    more_runs = noise.reach(TIMES, terms.confidence, terms.power)
    longer_runs = noise.of_longer_runs(TIMES).reach(1, terms.confidence, terms.power)
    if longer_runs < more_runs:
        return f"more steps: the noise is inside the runs, so {TIMES} times the steps help more than {TIMES} runs"
    # each way with the number of runs that it takes
    ways = [(needed, f"more runs: an unchanged program passes with {needed} new ones")] if needed else []
    for base_runs in range(noise.base_runs + 1, RUNS_COMPARED + 1):
        then = _needed(noise.of_base_runs(base_runs), room, terms, fewest)
        if then is not None:
            enough = f"with {base_runs} of them, an unchanged program passes with {plural(then, 'new run')}"
            ways.append((base_runs - noise.base_runs + then, f"more base runs: {enough}"))
    if not ways:
        return "pairs are cheaper (`perfgate run --paired`), or use a wider tolerance: more runs do not help"
    runs, advice = min(ways, key=lambda way: way[0])  # pairs cost less than more runs than a gate makes
    return f"{advice}; pairs (`perfgate run --paired`) are cheaper" if runs > LOOKS else advice
