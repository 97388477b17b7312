"""One comparison of two sides: the statistics of a change without looks, doubts and a promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfgate.core.results import ChangeResult
from perfgate.judge.decide.change import judge_runs
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.statistics import RunMeasure, describe, parse_statistic, warmup_for
from perfgate.stats.steady import RunValues, steady_run


def measured(runs: Sequence[RunValues], terms: ChangeTerms) -> list[RunMeasure]:
    """Each run as one number."""
    warmup = warmup_for(terms.statistic, terms.warmup)
    return [describe(steady_run(run, warmup, terms.better), parse_statistic(terms.statistic)) for run in runs]


def compare_once(base: Sequence[RunValues], new: Sequence[RunValues], **options: Any) -> ChangeResult:
    """The answer to one comparison, as with the anchor."""
    terms = ChangeTerms(looks=None, **options)
    return judge_runs(measured(base, terms), measured(new, terms), terms)
