"""Run-to-run noise of what the rules compare, measured on runs of the same code: `perfgate calibrate`."""

from __future__ import annotations

import math

from perfgate.judge.changes import is_exact
from perfgate.judge.evidence import Evidence, Subject, find_subjects
from perfgate.judge.finding import Undecidable
from perfgate.judge.messages import counted
from perfgate.judge.question import Question
from perfgate.judge.verdicts import Case
from perfgate.measure import NotAvailable
from perfgate.model import CalibratedPrior, Series
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.prior import FEWEST_RUNS, Prior, prior_from

#: Fewer unchanged runs than this measure no noise.
RUNS_NEEDED = FEWEST_RUNS


def calibrate(case: Case) -> tuple[list[CalibratedPrior], list[str]]:
    """The noise between the new runs of a case, for every metric that a rule compares with stored runs.

    The runs have to be of the same code. Each metric is measured as the judge measures it: by the statistic of the
    rule, with its warm-up, and by the rank that speaks for a run. Beside the priors, sorted by name, come the reasons
    why other metrics have none.
    """
    evidence = Evidence.of(case.new, case.baseline, case.ruleset.metrics)
    found: dict[tuple[str, str, str], CalibratedPrior] = {}
    complaints: list[str] = []
    for rule in (rule for rule in case.ruleset.rules if rule.comparisons):
        clause, _ = rule.comparisons[0]
        subjects = find_subjects(rule.sentence, evidence)
        if not subjects:
            complaints.append(f"no run holds what `{rule.name}` names")
        for subject in subjects:
            question = Question(clause, subject, rule, case, evidence, subject.new, ())
            try:
                prior = _calibrated(question)
                found.setdefault((str(prior.key), prior.statistic, prior.rank), prior)
            except (Undecidable, NotAvailable) as error:
                complaints.append(f"{subject.key}: {error}")
    return [found[name] for name in sorted(found)], list(dict.fromkeys(complaints))


def _calibrated(question: Question) -> CalibratedPrior:
    """The noise of one metric. Raises Undecidable where the runs cannot show it, and NotAvailable."""
    subject = question.subject
    units = sorted({series.unit for series in subject.all_series()})
    if subject.trouble or len(units) != 1:
        why = subject.trouble or f"it is measured in {' here and in '.join(units)} there"
        raise Undecidable("not-available", why, "see `perfgate inspect`")
    reading = question.reading
    members = _members(question, subject)
    measures = [[reading.measure(series) for series in runs] for runs in members]
    usable = min(sum(map(has_logarithm, runs)) for runs in measures)
    if usable < FEWEST_RUNS:
        message = f"{counted(usable, 'run')} of {len(subject.new)} can be used, and {FEWEST_RUNS} are needed"
        raise Undecidable("too-few-runs", message, "give more unchanged runs")
    if is_exact(question.unit, reading.statistic, [run for runs in measures for run in runs]):
        raise Undecidable("exact", "it is a number of bytes or a count, compared without noise", "")
    prior = _pooled([prior_from(runs) for runs in measures])
    return CalibratedPrior(subject.key, reading.statistic, question.rank, prior.s0, prior.d0, usable)


def _members(question: Question, subject: Subject) -> list[list[Series]]:
    """The series that are measured, run by run: of the rank that speaks for a run, or of each."""
    if question.rank != "each":
        runs = [members for members in subject.new if members]
        return [list(question.side(runs).series)]
    return [[run[member] for run in subject.new if member in run] for member in sorted(subject.members(subject.new))]


def _pooled(priors: list[Prior]) -> Prior:
    """One prior for all ranks: their mean variance, worth what one of them is, for ranks of a run are no runs."""
    mean = sum(prior.s0**2 for prior in priors) / len(priors)
    return Prior(math.sqrt(mean), min(prior.d0 for prior in priors))
