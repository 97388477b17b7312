"""Changes of the level along the stored runs. They are warnings and never fail a build.

A comparison sees the new runs and the baseline. Many small changes, each within the tolerance, are only visible in the
history: the runs of the anchor, the other stored runs of the level, and the new runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from perfgate.core import Baseline, Problem
from perfgate.core.units import format_change
from perfgate.judge.case import Case
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.measure import Members, NotAvailable
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure

if TYPE_CHECKING:
    from perfgate.core.run_history import ChangePoint

#: A point with a smaller probability is not reported. Odds of 99 to 1 are those of a comparison with the anchor. Among
#: the 16 runs that a level usually has, the t-test of a point is stricter: there, .5 and .999 give the same warnings.
#: The number decides in longer levels (60 runs), where that test accepts points with less evidence.
LEAST_PROBABILITY = 0.99
#: The search needs five runs before a point and five after it.
FEWEST_RUNS = 10


def drifts(case: Case, runs: JudgedRuns) -> list[Problem]:
    """Return a warning for each lasting change for the worse in the history of a metric.

    The history is that of the current level, so an approved change is not reported. A change for the worse before a
    later improvement is not reported, either.
    """
    found = (_drifts_of(rule, case, runs) for rule in case.ruleset.rules if rule.comparisons)
    return list(dict.fromkeys(problem for problems in found for problem in problems))


def _drifts_of(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[Problem]:
    clause, asks = rule.comparisons[0]
    for subject in find_subjects(rule.sentence, runs):
        history = [pair for pair in _history(subject, case.baseline) if pair[0]]
        if len(history) < FEWEST_RUNS:
            continue
        members = tuple(pair[0] for pair in history)
        evidence = Evidence(rule, clause, subject, case, runs, members, ())
        try:
            measures = evidence.measured(members).measures
            points = _points(evidence, asks, measures) if all(map(has_logarithm, measures)) else ()
        except (CannotJudge, NotAvailable):  # the verdict of the rule says why
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
    """Return the changes for the worse since the last one for the better, oldest first; all runs have a logarithm."""
    from perfgate.stats.change_points import find_change_points

    values = [run.value or 0.0 for run in measures]
    errors = [(run.value or 0.0) * math.sqrt(run.within_variance or 0.0) for run in measures]  # 0 is unknown
    better = "neither" if asks.side == "both" else evidence.method.better
    points = find_change_points(values, errors=errors, better=better)
    likely = [point for point in points if point.probability > LEAST_PROBABILITY]
    return tuple(takewhile(lambda point: point.worse is not False, reversed(likely)))[::-1]


def _words(evidence: Evidence, point: ChangePoint, run: RunView, count: int) -> str:
    name = evidence.name((), evidence.shown_statistic)
    verb = "rose" if point.change > 0 else "fell"
    size, least, most = (
        format_change(abs(change)).lstrip("+") for change in (point.change, *sorted((point.low, point.high), key=abs))
    )
    commit = f", commit {run.run.commit[:12]}" if run.run.commit else ""
    return (
        f"{name} {verb} by {size} ({least} to {most}) at run {point.index + 1} of the {count} kept "
        f"runs ({run.run.name}{commit}); "
        "add `within 5% of anchor` to limit the sum of small changes"
    )
