"""The noise between runs, or pairs, of the same code, for each metric that the rules compare: `perfgate calibrate`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from perfgate.core import CalibratedPrior
from perfgate.core.wording import plural
from perfgate.judge.ask import is_exact
from perfgate.judge.case import Case
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.measure import Members, NotAvailable
from perfgate.judge.pairs import PRIORS, paired_ratios
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.stats.history import FEWEST_RUNS, Prior, freedom, prior_of_levels, prior_of_pairs
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure


def calibrate(case: Case, levels: Sequence[str] = ()) -> tuple[list[CalibratedPrior], list[str]]:
    """Return the noise of each metric that a rule compares, sorted by name, and why other metrics have none.

    The noise is that between the new runs of the case, or between its pairs. All runs must be of the same code, and
    both sides of each pair, too. If `levels` names the level of each run, only the runs of one level must be.

    A metric is measured as the judge measures it: with the statistic, the warm-up and the rank of the rule.
    """
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    found: dict[tuple[str, str, str], CalibratedPrior] = {}
    complaints: list[str] = []
    for rule in (rule for rule in case.ruleset.rules if rule.comparisons):
        clause, _ = rule.comparisons[0]
        subjects = find_subjects(rule.sentence, runs)
        if not subjects:
            complaints.append(f"no run has a metric of `{rule.name}`")
        for subject in subjects:
            evidence = Evidence(rule, clause, subject, case, runs, subject.new, subject.base)
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
    if pairing is None:
        noise = [_between_runs(evidence, new, levels) for new, _ in _by_rank(evidence)]
    else:
        noise = [_between_pairs(evidence, new, base, Prior(*PRIORS[pairing])) for new, base in _by_rank(evidence)]
    usable = min((one.usable for one in noise), default=0)
    priors = [one.prior for one in noise if one.prior is not None]
    if not priors or len(priors) < len(noise):
        what = plural(usable, "pair" if pairing else "run")
        message = f"{what} of {len(subject.new)} can be used, and {FEWEST_RUNS} are needed"
        raise CannotJudge("too-few-runs", message, "measure the same code more often")
    statistic = evidence.method.statistic
    if is_exact(evidence.unit, statistic, [run for one in noise for run in one.runs]):
        raise CannotJudge("exact", "it is a number of bytes or a count, compared without noise", "")
    # One prior for all ranks. The ranks of one run are not independent, so they add no degrees of freedom.
    s0 = math.sqrt(sum(prior.s0**2 for prior in priors) / len(priors))
    d0 = min(prior.d0 for prior in priors)
    return CalibratedPrior(subject.key, statistic, evidence.rank, s0, d0, usable, pairing)


class _Noise(Struct, frozen=True):
    """The noise between the runs of one rank; None if there are too few runs."""

    runs: Sequence[RunMeasure]
    usable: int
    prior: Prior | None


def _by_rank(evidence: Evidence) -> Iterator[tuple[list[Members], list[Members]]]:
    """Yield both sides, run by run: once with all ranks, or once for each rank if the rule says `each`."""
    new, base = list(evidence.new), list(evidence.base)
    if evidence.rank != "each":
        yield new, base
        return
    for member in sorted(evidence.subject.members(new)):
        own_new, own_base = ([{member: run[member]} if member in run else {} for run in side] for side in (new, base))
        yield [*own_new], [*own_base]


def _between_runs(evidence: Evidence, runs: Sequence[Members], levels: Sequence[str]) -> _Noise:
    present = [i for i, run in enumerate(runs) if run]
    measures = evidence.measured([runs[i] for i in present]).measures
    by_level: dict[str, list[RunMeasure]] = {}
    for i, measure in zip(present, measures, strict=True):
        by_level.setdefault(levels[i] if levels else "", []).append(measure)
    found = list(by_level.values())
    enough = freedom(found) >= FEWEST_RUNS - 1
    return _Noise(measures, sum(map(has_logarithm, measures)), prior_of_levels(found) if enough else None)


def _between_pairs(evidence: Evidence, new: Sequence[Members], base: Sequence[Members], believed: Prior) -> _Noise:
    """Return the noise between the pairs that have the metric on both sides. Raises NotAvailable."""
    present = [i for i in range(len(new)) if new[i] and base[i]]
    base_side, new_side = (evidence.measured([side[i] for i in present]) for side in (base, new))
    pairing = evidence.case.baseline.pairing or "whole-runs"
    found = paired_ratios(base_side, new_side, evidence.method.statistic, pairing)
    usable = sum(map(has_logarithm, found))
    return _Noise(new_side.measures, usable, prior_of_pairs(found, believed) if usable >= FEWEST_RUNS else None)
