"""Give the judge the noise that the history shows, for the metrics without a calibration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perfgate.baselines.places import NEWEST_RUNS
from perfgate.baselines.stores import Store
from perfgate.core import Problem
from perfgate.core.run_history import HistoryRun, SeriesName
from perfgate.history.noise import learned_priors
from perfgate.history.records import id_of_files
from perfgate.history.store import read
from perfgate.judge.case import Case
from perfgate.judge.measure import default_statistic
from perfgate.judge.subjects import JudgedRuns, find_subjects


def with_learned_noise(
    case: Case, runs: JudgedRuns, store: Store, ref: str | None = None, head: str | None = None
) -> tuple[Case, list[Problem]]:
    """Return the case with the noise of its metrics, and a warning for each file of the history that cannot be used.

    Parameters
    ----------
    store : the history of the case's baseline.
    ref : the ref that the baseline was read from; only runs of its branch count. None for the branch of most runs.
    head : the measured commit, whose runs do not count, as the runs that are judged do not.
    """
    suite, environment, *_ = (case.baseline.place or "").split("/")
    wanted = frozenset(_compared(case, runs)) - {
        SeriesName(one.key, one.statistic, one.rank) for one in case.baseline.priors if one.pairing is None
    }
    names = {name.key.metric for name in wanted}
    history = read(store, suite, environment, names.__contains__, NEWEST_RUNS)
    judged = (*case.new, *case.baseline.runs, *case.baseline.anchor)
    ids = {id_of_files((file.sha256 for file in run.files), run.part) for run in judged}
    commits = {head, *(run.commit for run in judged)} - {None}

    def is_judged(run: HistoryRun) -> bool:
        return run.id in ids or run.commit in commits

    learned = learned_priors(history, wanted, ref, is_judged)
    baseline = replace(case.baseline, priors=(*case.baseline.priors, *learned))
    return replace(case, baseline=baseline), [_warning(problem) for problem in history.problems]


def _compared(case: Case, runs: JudgedRuns) -> Iterator[SeriesName]:
    """Yield the series that rules compare with stored runs. The noise of the worst rank is not that of each rank."""
    for rule in case.ruleset.rules:
        rank = rule.sentence.rank or "worst"
        for subject in find_subjects(rule.sentence, runs) if rule.comparisons and rank != "each" else ():
            for series in subject.all_series()[:1]:
                yield SeriesName(subject.key, rule.sentence.statistic or default_statistic(series), rank)


def _warning(problem: Problem) -> Problem:
    """Return the problem of a history as a warning: no verdict needs a history."""
    return replace(problem, severity="warning", message=f"{problem.message}; its noise is not used")
