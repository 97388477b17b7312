"""The noise between runs, or pairs, of the same code, in what the rules compare: `perfgate calibrate`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfgate.core import CalibratedPrior
from perfgate.core.wording import plural
from perfgate.judge.case import Case
from perfgate.judge.compile import is_exact
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measure import Member, Members, NotAvailable
from perfgate.judge.pairs import PRIORS, paired_ratios
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.stats.history import FEWEST_RUNS, Prior, freedom, prior_of_levels, prior_of_pairs
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure


def calibrate(case: Case, levels: Sequence[str] = ()) -> tuple[list[CalibratedPrior], list[str]]:
    """The noise between the new runs of a case, or between its pairs, for every metric that a rule compares.

    Runs have to be of the same code, and the sides of pairs, too; with `levels`, the name of each run's level, only
    those of one level have to. Each metric is measured as the judge measures it: by the statistic of the rule, with its
    warm-up, and by the rank that speaks for a run. Beside the priors, sorted by name, come the reasons why other
    metrics have none.
    """
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics)
    found: dict[tuple[str, str, str], CalibratedPrior] = {}
    complaints: list[str] = []
    for rule in (rule for rule in case.ruleset.rules if rule.comparisons):
        clause, _ = rule.comparisons[0]
        subjects = find_subjects(rule.sentence, runs)
        if not subjects:
            complaints.append(f"no run has a metric of `{rule.name}`")
        for subject in subjects:
            inquiry = Inquiry(rule, clause, subject, case, runs, subject.new, subject.base)
            try:
                prior = _calibrated(inquiry, levels)
                found.setdefault((str(prior.key), prior.statistic, prior.rank), prior)
            except (CannotJudge, NotAvailable) as error:
                complaints.append(f"{subject.key}: {error}")
    return [found[name] for name in sorted(found)], list(dict.fromkeys(complaints))


def _calibrated(inquiry: Inquiry, levels: Sequence[str]) -> CalibratedPrior:
    """The noise of one metric. Raises CannotJudge where the runs cannot show it, and NotAvailable."""
    subject, pairing = inquiry.subject, inquiry.case.baseline.pairing
    units = sorted({series.unit for series in subject.all_series()})
    if subject.trouble or len(units) != 1:
        why = subject.trouble or f"it has different units: {' and '.join(units)}"
        raise CannotJudge("not-available", why, "see `perfgate inspect`")
    ranks = list(_by_rank(inquiry))
    if pairing is None:
        noise = [_between_runs(inquiry, new, levels) for new, _ in ranks]
    else:
        noise = [_between_pairs(inquiry, new, base, Prior(*PRIORS[pairing])) for new, base in ranks]
    usable = min((one.usable for one in noise), default=0)
    priors = [one.prior for one in noise if one.prior is not None]
    if not priors or len(priors) < len(noise):
        what = plural(usable, "pair" if pairing else "run")
        message = f"{what} of {len(subject.new)} can be used, and {FEWEST_RUNS} are needed"
        raise CannotJudge("too-few-runs", message, "give more of them, unchanged")
    statistic = inquiry.method.statistic
    if is_exact(inquiry.unit, statistic, [run for one in noise for run in one.runs]):
        raise CannotJudge("exact", "it is a number of bytes or a count, compared without noise", "")
    prior = _pooled(priors)
    return CalibratedPrior(subject.key, statistic, inquiry.rank, prior.s0, prior.d0, usable, pairing)


@dataclass(frozen=True, slots=True)
class _Noise:
    """What the runs of one rank show: the noise between them, None where they are too few."""

    runs: Sequence[RunMeasure]
    usable: int
    prior: Prior | None


def _by_rank(inquiry: Inquiry) -> Iterator[tuple[list[Members], list[Members]]]:
    """Both sides, run by run: whole where one rank speaks for a run, else once for each rank."""
    new, base = list(inquiry.new), list(inquiry.base)
    if inquiry.rank != "each":
        yield new, base
        return
    for member in sorted(inquiry.subject.members(new)):
        yield [_only(run, member) for run in new], [_only(run, member) for run in base]


def _only(run: Members, member: Member) -> Members:
    return {member: run[member]} if member in run else {}


def _between_runs(inquiry: Inquiry, runs: Sequence[Members], levels: Sequence[str]) -> _Noise:
    """The noise between runs of one level. Raises NotAvailable."""
    held = [i for i, run in enumerate(runs) if run]
    measures = inquiry.measured([runs[i] for i in held]).measures
    by_level: dict[str, list[RunMeasure]] = {}
    for i, measure in zip(held, measures, strict=True):
        by_level.setdefault(levels[i] if levels else "", []).append(measure)
    found = list(by_level.values())
    enough = freedom(found) >= FEWEST_RUNS - 1
    return _Noise(measures, sum(map(has_logarithm, measures)), prior_of_levels(found) if enough else None)


def _between_pairs(inquiry: Inquiry, new: Sequence[Members], base: Sequence[Members], believed: Prior) -> _Noise:
    """The noise between pairs of which both sides hold the metric. Raises NotAvailable."""
    held = [i for i in range(len(new)) if new[i] and base[i]]
    base_side, new_side = (inquiry.measured([side[i] for i in held]) for side in (base, new))
    pairing = inquiry.case.baseline.pairing or "whole-runs"
    found = paired_ratios(base_side, new_side, inquiry.method.statistic, pairing)
    usable = sum(map(has_logarithm, found))
    return _Noise(new_side.measures, usable, prior_of_pairs(found, believed) if usable >= FEWEST_RUNS else None)


def _pooled(priors: Sequence[Prior]) -> Prior:
    """One prior for all ranks: their mean variance, worth what one of them is, for ranks of a run are no runs."""
    mean = sum(prior.s0**2 for prior in priors) / len(priors)
    return Prior(math.sqrt(mean), min(prior.d0 for prior in priors))
