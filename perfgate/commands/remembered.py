"""Give the judge what the history shows: noise of metrics without calibration, later runs, and how hosts differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from msgspec.structs import replace

from perfgate.baselines.places import NEWEST_RUNS
from perfgate.baselines.stores import Store
from perfgate.core import HostDifference, Problem
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.noise import learned_priors, runs_since
from perfgate.history.records import id_of_files
from perfgate.history.store import StoredHistory, read
from perfgate.judge.doubts.machine import hosts_of
from perfgate.judge.evidence import Case
from perfgate.judge.measure import default_statistic
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

#: Reads the history of an environment for metrics with these names.
ReadHistory: TypeAlias = Callable[[frozenset[str]], StoredHistory]
#: The number of first parents of a branch among which the measured commit is looked for.
_COMMITS = 200


def reader_of(store: Store, place: str) -> ReadHistory:
    """Return a function that reads the newest runs of the history at SUITE/ENVIRONMENT, and keeps them."""
    suite, environment = place.split("/")
    return cache(lambda names: read(store, suite, environment, wanted=names.__contains__, newest=NEWEST_RUNS))


def with_remembered(
    case: Case,
    runs: JudgedRuns,
    read_history: ReadHistory,
    ref: str | None = None,
    head: str | None = None,
    since: str | None = None,
) -> tuple[Case, list[Problem]]:
    """Return the case with what its history shows, and the problems of the history.

    It shows the noise of metrics, later runs (those of the branch after the baseline), and how the hosts of both sides
    differ. A file or folder of the history that cannot be used is an error if a rule compares with stored runs, because
    the history can change that verdict: without the difference of two hosts, a slower change on a faster host passes.

    `ref`: the branch whose runs count, from which the baseline was read; None for the branch with most runs. `head`:
    the measured commit. Its runs do not count, nor do the new, base and anchor runs, nor other runs of their commits.
    `since`: when the newest run of the baseline was stored; None to leave out later runs.
    """
    compared = frozenset(_compared(case, runs))
    calibrated = {SeriesName(one.key, one.statistic, one.rank) for one in case.baseline.priors if one.pairing is None}
    history = read_history(frozenset(name.key.metric for name in compared))
    judged = (*case.new, *case.baseline.runs, *case.baseline.anchor)
    ids = {id_of_files((file.sha256 for file in run.files), run.part) for run in judged}
    commits = {head, *(run.commit for run in judged)} - {None}

    def is_judged(run: HistoryRun) -> bool:
        return run.id in ids or run.commit in commits

    def is_measured(branch: str) -> bool:  # whether the branch has the measured commit
        return head is not None and _is_of(head, ref or branch)

    on_base, on_new = hosts_of(case)
    # Only if both sides name their hosts, the differences between hosts can be taken out of the noise.
    known = {*on_base, *on_new} if on_base and on_new else set()
    learned = learned_priors(history, compared - calibrated, ref, is_judged, hosts=known, stored=since)
    later = () if since is None else runs_since(history, compared, ref, since, is_judged, is_measured)
    hosts: tuple[HostDifference, ...] = ()
    if on_base and on_new and not on_base & on_new:
        from perfgate.history.hosts import host_differences

        hosts = host_differences(history, compared, ref, on_base, on_new, is_judged)
    priors = (*case.baseline.priors, *learned)
    baseline = replace(case.baseline, priors=priors, remembered=later, hosts=hosts, history_sha256=history.sha256)
    return replace(case, baseline=baseline), [_weighed(problem, bool(compared)) for problem in history.problems]


def _compared(case: Case, runs: JudgedRuns) -> Iterator[SeriesName]:
    """Yield the series that rules compare with stored runs, without rules about each rank: a history has the worst."""
    for rule in case.ruleset.rules:
        rank = rule.sentence.rank or "worst"
        for subject in find_subjects(rule.sentence, runs) if rule.comparisons and rank != "each" else ():
            for series in subject.all_series()[:1]:  # the first one shows the kind of all
                yield SeriesName(subject.key, rule.sentence.statistic or default_statistic(series), rank)


def _is_of(head: str, ref: str) -> bool:
    """Return whether a commit is one of the newest first parents of a ref, as main is after a merge."""
    for name in (ref, f"refs/remotes/origin/{ref}"):
        words = ("rev-list", "--first-parent", f"--max-count={_COMMITS}", "--end-of-options", name, "--")
        try:
            return any(one.startswith(head) for one in git(*words, what=name).decode().split())
        except Refused:
            continue
    return False


def _weighed(problem: Problem, can_decide: bool) -> Problem:
    """Return the problem of a history as an error if the history can change a verdict, or else as a warning."""
    if can_decide:
        return replace(problem, message=f"{problem.message}; the verdicts depend on the history")
    return replace(problem, severity="warning", message=f"{problem.message}; no rule here needs the history")
