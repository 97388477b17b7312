"""The range of a search: the metric, and the commits between two refs or a list that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path

import numpy as np
from msgspec import Struct

from perfgate.core import Baseline, Better, Fact, Run
from perfgate.core.causes import SearchedItem
from perfgate.core.wording import COMMAND, listed, plural
from perfgate.judge.evidence import CannotJudge, Case, Evidence, direction
from perfgate.judge.measure import NotAvailable
from perfgate.judge.pairs import Pairs, paired_ratios
from perfgate.judge.question import MeasuredSide
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.judge.utilization import with_utilization
from perfgate.judge.verdicts import COMPUTED
from perfgate.rules.model_section import HFU, MFU
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.stats.moderated import has_logarithm
from perfgate.stats.statistics import RunMeasure
from perfgate.workspace.commit_files import Commit
from perfgate.workspace.env_facts import merge_facts
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git, today


class SearchedRange(Struct, frozen=True):
    """Ordered items: the first one is good, the last one bad. `commits` is empty for a list that the user gave."""

    names: tuple[str, ...]
    commits: tuple[Commit, ...] = ()

    def item(self, position: int) -> SearchedItem:
        """Return the facts about an item: for a commit its author, date, subject and diffstat; else only its name."""
        if not self.commits:
            return SearchedItem(self.names[position])
        shape = "--format=%an%x00%as%x00%s%x00%P%x00"
        arguments = ("log", "-1", "--shortstat", "--first-parent", "-m", shape, self.commits[position].sha)
        text = git(*arguments, what="the commit cannot be read").decode("utf-8", "replace")
        author, date, subject, parents, rest = text.split("\0")
        merged = len(parents.split()) > 1
        return SearchedItem(self.names[position], author, date, subject, rest.strip(), is_merge=merged)


def commit_range(good: str, bad: str) -> SearchedRange:
    """Return the first parents of `bad` after `good`, oldest first, and `good` before them. Raises Refused."""
    first, last = Commit.of(good), Commit.of(bad)
    if first.sha == last.sha:
        raise Refused(f"--good {good} and --bad {bad} are the same commit: there is nothing between them")
    base = git("merge-base", first.sha, last.sha, what=f"{good} and {bad} have no common commit").decode().strip()
    if base != first.sha:
        way = "exchange them" if base == last.sha else f"use their common commit, --good {base[:12]}"
        raise Refused(f"--good {good} is not an ancestor of --bad {bad}: {way}")
    return _range(first.sha, _first_parents(f"{first.sha}..{last.sha}"), first.top)


def inside_merge(merge: Commit) -> SearchedRange | None:
    """Return the commits that a merge brought, and first the commit at which their branch began; None without any.

    A branch may have merged main since then, so the first commit is the parent of the next one.
    """
    brought = _first_parents(f"{merge.sha}^1..{merge.sha}^2")
    if not brought:
        return None
    base = git("rev-parse", f"{brought[0]}^", what="the merge cannot be read").decode().strip()
    return _range(base, brought, merge.top)


def _first_parents(range_: str) -> list[str]:
    """Return the first parents of the last commit of a range that are in the range, oldest first."""
    return git("rev-list", "--first-parent", "--reverse", range_, what="the range cannot be read").decode().split()


def _range(first: str, later: Sequence[str], top: Path) -> SearchedRange:
    """Return the commits of these hashes. `top`: see `Commit`."""
    shas = (first, *later)
    return SearchedRange(shas, tuple(Commit(sha[:12], sha, top) for sha in shas))


def item_range(items: Sequence[str]) -> SearchedRange:
    """Return the items of `--over`, in order. Raises Refused for fewer than two, and for one that is there twice."""
    if len(items) < 2:
        raise Refused("--over needs at least two items, the first one good and the last one bad")
    if twice := [item for number, item in enumerate(items) if item in items[:number]]:
        raise Refused(f"--over has {twice[0]} twice")
    return SearchedRange(tuple(items))


class NoMetric(Exception):
    """A run does not have the metric as a positive number; the message says why."""


class MetricValue(Struct, frozen=True):
    """The metric in one run, in base units, or the ratio of a pair.

    `within` is the variance of its logarithm as estimated within the run.
    """

    metric: str
    statistic: str | None
    unit: str
    better: Better | None
    value: float
    within: float
    #: The unit in a run; that of a pair is `1`.
    run_unit: str = ""

    @property
    def log_value(self) -> float:
        """The logarithm of the value."""
        return log(self.value)


def with_computed(ruleset: Ruleset, runs: Sequence[Run], given: Mapping[str, Fact]) -> tuple[Run, ...]:
    """Return the runs with `mfu` and `hfu` (utilization of FLOPs) if the rule files have the section `model`.

    `given`: the facts of `--env`.
    """
    if ruleset.model is None:
        return tuple(runs)
    facts, _ = merge_facts(runs, given, ruleset.identity)
    return with_utilization(runs, ruleset.model, facts)


def value_in_run(ruleset: Ruleset, run: Run) -> MetricValue:
    """Return the metric of the one rule of a ruleset in a run. Raises NoMetric."""
    evidence, side = _measured(ruleset, run)
    return _value(evidence, side.measures[0], evidence.unit)


def value_in_pair(ruleset: Ruleset, pairs: Pairs) -> MetricValue:
    """Return the ratio of new to base in a pair. Raises NoMetric."""
    if len(pairs.new) != 1:
        raise NoMetric("one of the two programs wrote no metric")
    (_, base), (evidence, new) = (_measured(ruleset, side[0]) for side in (pairs.base, pairs.new))
    ratio = paired_ratios(base, new, evidence.method.statistic, pairs.pairing)[0]
    return _value(evidence, ratio, "1")


def prior_of(ruleset: Ruleset, run: Run, baseline: Baseline, pairing: str | None) -> tuple[float, float]:
    """Return the prior (s0, d0) of the noise of the metric: that of the stored baseline, or the default."""
    evidence, _ = _measured(ruleset, run, baseline)
    return evidence.prior(pairing)


def _measured(ruleset: Ruleset, run: Run, baseline: Baseline | None = None) -> tuple[Evidence, MeasuredSide]:
    """Return the evidence about the one rule in a run, and the measured metric; of `baseline`, only the noise counts.

    Raises NoMetric.
    """
    rule: Rule = ruleset.rules[0]
    case = Case(ruleset, new=(run,), baseline=baseline or Baseline(), today=today(), facts={})
    runs = JudgedRuns.of((run,), Baseline(), ruleset.metrics, ruleset.conditions)
    found = find_subjects(rule.sentence, runs)
    subjects = [one for one in found if one.new[0]]  # empty if the run lacks it
    name = rule.sentence.subject_text
    if not subjects:
        trouble = next((f"{name}: {one.trouble}" for one in found if one.trouble), None)
        raise NoMetric(trouble or f"wrote no metric {name}: {_why_absent(name, run)}")
    if len(subjects) > 1:
        names = sorted(str(one.key) for one in subjects)
        raise NoMetric(f"{name} is {plural(len(subjects), 'metric')}: {listed(names)}; name one of them")
    evidence = Evidence.of(rule, rule.clauses[0], subjects[0], case, runs)
    try:
        if not all(np.isfinite(series.values).all() for series in evidence.new[0].values()):
            raise NoMetric(f"{name} has values that are not finite numbers")
        return evidence, evidence.measured(evidence.new)
    except (CannotJudge, NotAvailable) as error:
        raise NoMetric(str(error)) from None


def _why_absent(name: str, run: Run) -> str:
    """Return the reason why a run lacks a metric: its first error, or the metrics that it has instead."""
    errors = [problem.message for problem in run.problems if problem.severity == "error"]
    if name in (MFU, HFU):
        errors.reverse()  # the reason why they cannot be computed is the last one
    if errors:
        return errors[0]
    names = sorted(  # those of the whole command are last
        {series.key.metric for series in run.series}, key=lambda metric: (metric.startswith(COMMAND), metric)
    )
    has = f"it has {listed(names)}" if names else "it has no metrics"
    return f"{has}; {COMPUTED[name]}" if name in COMPUTED else has


def _value(evidence: Evidence, found: RunMeasure, unit: str) -> MetricValue:
    """Return a measured number with the facts of its metric. Raises NoMetric."""
    key = evidence.subject.key
    if found.value is None or not has_logarithm(found):
        raise NoMetric(f"{key} is not a positive number, so a relative change does not exist")
    better = direction(key.metric, evidence.unit, evidence.rule.better, evidence.method.statistic)
    statistic = evidence.shown_statistic
    return MetricValue(
        str(key), statistic, unit, better, found.value, within=found.within_variance or 0.0, run_unit=evidence.unit
    )
