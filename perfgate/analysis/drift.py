"""Slow drift since the last decision. It is a warning and never fails a build."""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfgate.core import Baseline, Problem
from perfgate.core.units import format_change, format_number
from perfgate.judge.case import Case
from perfgate.judge.compile import ANCHOR_WINDOW, change_terms
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measure import Members, NotAvailable
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects
from perfgate.rules.ruleset import Rule
from perfgate.stats.history import WARNS, Drift, cusum
from perfgate.stats.moderated import has_logarithm

#: Fewer runs in a row are a step, which the verdicts report.
_FEWEST_RISING = 3


def drifts(case: Case, runs: JudgedRuns) -> list[Problem]:
    """Return a warning for each metric whose runs have slowly become worse since the current level was opened.

    The reference is the first five runs of the level, or the anchor if it is of the same level. So an approved change
    is not a drift.
    """
    found = (_drift_of(rule, case, runs) for rule in case.ruleset.rules if rule.comparisons)
    return list(dict.fromkeys(problem for problems in found for problem in problems))


def _drift_of(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[Problem]:
    clause, asks = rule.comparisons[0]
    for subject in find_subjects(rule.sentence, runs):
        reference, later = _history(subject, case.baseline)
        if len(reference) < ANCHOR_WINDOW or not all((*reference, *later)):
            continue
        inquiry = Inquiry(rule, clause, subject, case, runs, later, reference)
        try:
            first, rest = inquiry.measured(reference).measures, inquiry.measured(later).measures
            if not all(map(has_logarithm, (*first, *rest))):
                continue
            terms = change_terms(inquiry, asks, [*first, *rest])
            drift = cusum(first, rest, terms.prior, terms.worse)
        except (CannotJudge, NotAvailable):  # the verdict of the rule says why
            continue
        if drift.score > WARNS and drift.runs >= _FEWEST_RISING:
            yield Problem("warning", _words(inquiry, drift), rule.at, subject.key)


def _history(subject: Subject, baseline: Baseline) -> tuple[tuple[Members, ...], tuple[Members, ...]]:
    """Return the reference runs, and all later runs in order of time, new ones last."""
    anchored = all(run.source.startswith(f"{baseline.place}/") for run in baseline.anchor)  # stored at PLACE/RUN.json
    if not anchored or not baseline.anchor:
        return subject.base[:ANCHOR_WINDOW], (*subject.base[ANCHOR_WINDOW:], *subject.new)
    known = {run.source for run in baseline.anchor}
    stored = zip(subject.base_views, subject.base, strict=True)
    return subject.anchor, (*(members for view, members in stored if view.run.source not in known), *subject.new)


def _words(inquiry: Inquiry, drift: Drift) -> str:
    change = format_change(math.expm1(drift.shift))
    name = inquiry.name((), inquiry.shown_statistic)
    return (
        f"{name} drifts: the last {drift.runs} runs are on average {change} from the first runs of the level, even if "
        f"each single change is small (CUSUM {format_number(drift.score, 3)}, and the warning starts at {WARNS:g}); "
        "add `within 5% of anchor` to limit it"
    )
