"""Stored runs of the same code: the noise between them, or between pairs (`calibrate`), and drifts of their level.

A comparison sees only the new runs and the baseline. Many small changes, each within the tolerance, are only visible in
the history: the runs of the anchor (the first ones), the other stored runs of the level, and the new runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from perfgate.core import Baseline, CalibratedPrior, Problem
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import CannotJudge, Case, Evidence
from perfgate.judge.measure import Members, NotAvailable, is_exact
from perfgate.judge.pairs import PRIORS, paired_ratios
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.history import FEWEST_RUNS, Prior, freedom, prior_of_levels, prior_of_pairs
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure

if TYPE_CHECKING:
    from perfgate.core.run_history import ChangePoint


def calibrate(case: Case, levels: Sequence[str] = ()) -> tuple[list[CalibratedPrior], list[str]]:
    """Return the noise of each metric that a rule compares, sorted by name, and the reasons why others have none.

    The noise is that between the new runs of the case, or between its pairs. All runs must be of the same code, and
    both sides of each pair, too. If `levels` names the level of each run, only the runs of one level must be.

    A metric is measured as the judge measures it: with the statistic, the warm-up and the rank of the rule.
    """
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    found: dict[tuple[str, str, str], CalibratedPrior] = {}
    complaints: list[str] = []
    for rule in (rule for rule in case.ruleset.rules if rule.comparisons):
        clause, _ = rule.comparisons[0]  # its comparisons measure the same
        subjects = find_subjects(rule.sentence, runs)
        if not subjects:
            complaints.append(f"no run has a metric of `{rule.name}`")
        for subject in subjects:
            evidence = Evidence(rule, clause, subject, case, runs, new=subject.new, base=subject.base)
            try:
                prior = _calibrated(evidence, levels)
                found.setdefault((str(prior.key), prior.statistic, prior.rank), prior)
            except (CannotJudge, NotAvailable) as error:
                complaints.append(f"{subject.key}: {error}")
    return [found[name] for name in sorted(found)], list(dict.fromkeys(complaints))


def _calibrated(evidence: Evidence, levels: Sequence[str]) -> CalibratedPrior:
    """Return the noise of one metric. Raises NotAvailable, and CannotJudge if the runs cannot show the noise."""
    subject, pairing = evidence.subject, evidence.case.baseline.pairing
    units = sorted({series.unit for series in subject.all_series()})
    if subject.trouble or len(units) != 1:
        why = subject.trouble or f"it has different units: {' and '.join(units)}"
        raise CannotJudge("not-available", why, "see `perfgate inspect`")
    noise = [_noise(evidence, new, base, levels) for new, base in _by_rank(evidence)]
    priors = [one.prior for one in noise if one.prior is not None]
    few = [(one.usable, one.needed) for one in noise if one.prior is None]
    if few or not noise:
        usable, needed = min(few, default=(0, FEWEST_RUNS))
        what = plural(usable, "pair" if pairing else "run")
        message = f"{what} of {len(subject.new)} can be used, and {needed} are needed"
        raise CannotJudge("too-few-runs", message, "measure the same code more often")
    statistic = evidence.method.statistic
    if is_exact(evidence.unit, statistic, [run for one in noise for run in one.runs]):
        raise CannotJudge("exact", "it is a number of bytes or a count, compared without noise", "")
    # One prior for all ranks. The ranks of one run are not independent, so they add no degrees of freedom.
    s0 = math.sqrt(sum(prior.s0**2 for prior in priors) / len(priors))
    d0 = min(prior.d0 for prior in priors)
    runs = min(one.usable for one in noise)
    return CalibratedPrior(subject.key, statistic, evidence.rank, s0, d0, runs=runs, pairing=pairing)


class _Noise(Struct, frozen=True):
    """The noise between the runs, or pairs, of one rank or of all ranks together."""

    runs: Sequence[RunMeasure]
    #: The number of runs or pairs that can be used.
    usable: int
    #: The number of them that shows the noise: of each level, the first run only shows the level.
    needed: int
    #: The noise; None if too few can be used.
    prior: Prior | None


def _by_rank(evidence: Evidence) -> Iterator[tuple[list[Members], list[Members]]]:
    """Yield both sides, run by run: once with all ranks, or once for each rank if the rule says `each`."""
    new, base = list(evidence.new), list(evidence.base)
    if evidence.rank != "each":
        yield new, base
        return
    for member in sorted(evidence.subject.members(new)):
        own_new, own_base = ([{member: run[member]} if member in run else {} for run in side] for side in (new, base))
        yield [*own_new], [*own_base]  # again as lists of `Members`, for mypy


def _noise(evidence: Evidence, new: Sequence[Members], base: Sequence[Members], levels: Sequence[str]) -> _Noise:
    pairing = evidence.case.baseline.pairing
    if pairing is None:
        return _between_runs(evidence, new, levels)
    return _between_pairs(evidence, new, base, pairing)


def _between_runs(evidence: Evidence, runs: Sequence[Members], levels: Sequence[str]) -> _Noise:
    """Return the noise between the runs of each level that have the metric. Raises NotAvailable."""
    present = [i for i, run in enumerate(runs) if run]
    measures = evidence.measured([runs[i] for i in present]).measures
    by_level = defaultdict[str, list[RunMeasure]](list)
    for i, measure in zip(present, measures, strict=True):
        by_level[levels[i] if levels else ""].append(measure)
    found = list(by_level.values())
    needed = FEWEST_RUNS - 1 + len(found)
    prior = prior_of_levels(found) if freedom(found) >= FEWEST_RUNS - 1 else None
    return _Noise(measures, sum(map(has_logarithm, measures)), needed, prior)


def _between_pairs(evidence: Evidence, new: Sequence[Members], base: Sequence[Members], pairing: str) -> _Noise:
    """Return the noise between the pairs with the metric on both sides. Raises NotAvailable."""
    present = [i for i in range(len(new)) if new[i] and base[i]]
    base_side, new_side = (evidence.measured([side[i] for i in present]) for side in (base, new))
    found = paired_ratios(base_side, new_side, evidence.method.statistic, pairing)
    usable = sum(map(has_logarithm, found))
    prior = prior_of_pairs(found, Prior(*PRIORS[pairing])) if usable >= FEWEST_RUNS else None
    return _Noise(new_side.measures, usable, FEWEST_RUNS, prior)


#: A change point with a smaller probability is not reported. A comparison with the anchor has the same odds, 99 to 1.
#: Among the 16 runs that a level usually has, the t-test of a point is stricter: there, .5 and .999 give the same
#: warnings. This number decides in longer levels (60 runs), where the t-test accepts points with less evidence.
LEAST_PROBABILITY = 0.99
#: The search needs five runs before a point and five after it.
FEWEST_FOR_DRIFT = 10


def drifts(case: Case, runs: JudgedRuns) -> list[Problem]:
    """Return a warning for each lasting change for the worse in the history of a metric.

    The history is that of the current level, so an approved change is not reported. A change for the worse before a
    later improvement is not reported, either.
    """
    rules = (rule for rule in case.ruleset.rules if rule.comparisons)
    return list(dict.fromkeys(problem for rule in rules for problem in _drifts_of(rule, case, runs)))


def _drifts_of(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[Problem]:
    """Yield the warnings about the metrics of one rule."""
    clause, asks = rule.comparisons[0]
    for subject in find_subjects(rule.sentence, runs):
        history = [pair for pair in _history(subject, case.baseline) if pair[0]]
        if len(history) < FEWEST_FOR_DRIFT:
            continue
        members = tuple(pair[0] for pair in history)
        evidence = Evidence(rule, clause, subject, case, runs, new=members, base=())
        try:
            measures = evidence.measured(members).measures
            points = _points(evidence, asks, measures) if all(map(has_logarithm, measures)) else ()
        except (CannotJudge, NotAvailable):  # the verdict of the rule has the reason
            continue
        for point in points:
            words = _words(evidence, point, history[point.index][1], len(history))
            yield Problem("warning", words, rule.at, subject.key)


def _history(subject: Subject, baseline: Baseline) -> Iterator[tuple[Members, RunView]]:
    """Yield the runs of the level in order of time, new ones last, each with the members of the metric.

    The first are those of the anchor if it is of the same level: a level keeps these and its newest runs.
    """
    stored = zip(subject.base, subject.base_views, strict=True)
    if all(run.source.startswith(f"{baseline.place}/") for run in baseline.anchor):  # stored at PLACE/RUN.json
        known = {run.source for run in baseline.anchor}
        yield from zip(subject.anchor, subject.anchor_views, strict=True)
        yield from (pair for pair in stored if pair[1].run.source not in known)
    else:
        yield from stored
    yield from zip(subject.new, subject.new_views, strict=True)


def _points(evidence: Evidence, asks: ChangeClause, measures: tuple[RunMeasure, ...]) -> tuple[ChangePoint, ...]:
    """Return the changes for the worse since the last one for the better, oldest first. All values are positive."""
    from perfgate.stats.change_points import find_change_points

    values = [run.value or 0.0 for run in measures]
    errors = [(run.value or 0.0) * math.sqrt(run.within_variance or 0.0) for run in measures]  # relative; 0: unknown
    better = "neither" if asks.side == "both" else evidence.method.better
    points = find_change_points(values, errors=errors, better=better)
    likely = [point for point in points if point.probability > LEAST_PROBABILITY]
    return tuple(takewhile(lambda point: point.worse is not False, reversed(likely)))[::-1]


def _words(evidence: Evidence, point: ChangePoint, run: RunView, count: int) -> str:
    name = evidence.name(member=(), statistic=evidence.shown_statistic)
    verb = "rose" if point.change > 0 else "fell"
    changes = (point.change, *sorted((point.low, point.high), key=abs))
    size, least, most = (format_change(abs(change)).lstrip("+") for change in changes)
    commit = f", commit {run.run.commit[:12]}" if run.run.commit else ""
    return (
        f"{name} {verb} by {size} ({least} to {most}) at run {point.index + 1} of the {count} kept runs "
        f"({run.run.name}{commit}); add `within 5% of anchor` to limit the sum of small changes"
    )
