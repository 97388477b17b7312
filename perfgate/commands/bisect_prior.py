"""The prior knowledge of a search: the noise, and stored runs of its ends, from the baseline and the history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.places import differences, identity_of
from perfgate.baselines.repository import StoredBaselines
from perfgate.baselines.stores import open_store
from perfgate.bisect.measurements import Model, StoredEnds, ends_of_history, stored_ends
from perfgate.bisect.ranges import MetricValue, NoMetric, SearchedRange, prior_of, value_in_run
from perfgate.core import Baseline, Fact, Run
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import HistorySeries
from perfgate.core.wording import plural
from perfgate.history.load import commit_line, load
from perfgate.judge.pairs import PRIORS, split_pairs
from perfgate.measuring.until_settled import Tell
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import DEFAULT
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import CommandOptions, acceptance


class MeasuredStart(Struct, frozen=True):
    """The first measurement of a search: its runs, the metric in them, and whether they are a pair."""

    runs: Sequence[Run]
    facts: MetricValue
    paired: bool


class PriorQuestion(Struct, frozen=True):
    """The metric of a search and its stored runs: with `by_rule`, those of the rule's baseline count, too."""

    options: CommandOptions
    ruleset: Ruleset
    by_rule: bool
    items: SearchedRange


def prior_model(asked: PriorQuestion, start: MeasuredStart, tell: Tell) -> Model:
    """Return the prior knowledge of the search: the noise of stored runs or the default, and the levels of the ends.

    Stored runs are of the same metric, statistic and environment. They are not used for pairs, which are ratios.
    """
    options, ruleset, items = asked.options, asked.ruleset, asked.items
    known = PRIORS["in-turn"] if start.paired else (DEFAULT.s0, DEFAULT.d0)
    model = Model(len(items.names), s0=known[0], d0=known[1], paired=start.paired)
    if not Path(options.baselines).is_dir():
        return model
    facts, _ = merge_facts(list(start.runs), read_facts(options.env), ruleset.identity)
    baseline = _baseline(options, ruleset, facts) if asked.by_rule else Baseline()
    pairs = split_pairs(start.runs) if start.paired else None
    run = pairs.new[0] if pairs else start.runs[0]
    s0, d0 = prior_of(ruleset, run, baseline, "in-turn" if start.paired else None)
    if start.paired:
        return replace(model, s0=s0, d0=d0)
    ends = _of_history(options, items, start.facts, facts)
    ends = ends if ends.levels else _of_baseline(ruleset, items, baseline)
    if (s0, d0) == known and ends.noise is not None:
        s0, d0 = ends.noise
    for level in ends.levels:
        name = items.names[level.position][:12]
        tell(f"{plural(level.runs, 'stored run')} of the level of {name} count, as long as new ones agree with them")
    return replace(model, s0=s0, d0=d0, stored=ends.levels)


def _baseline(options: CommandOptions, ruleset: Ruleset, facts: dict[str, Fact]) -> Baseline:
    store = open_store(options.baselines)
    return StoredBaselines(store, ruleset).load(facts, acceptance(options)).baseline


def _of_history(
    options: CommandOptions, items: SearchedRange, metric: MetricValue, facts: dict[str, Fact]
) -> StoredEnds:
    """Return the ends as the history of the metric knows them; empty if it has no such metric, or several."""
    if not items.commits:
        return StoredEnds()
    found = load(open_store(options.baselines), metric=metric.metric.partition("{")[0], suite=options.suite)
    series = [
        one
        for place in found.environments
        if not differences(place.identity, identity_of(facts, list(place.identity)))
        for one in place.series
        if _is_of(one, metric)
    ]
    good, bad = items.names[0], items.names[-1]
    if len(series) != 1 or found.line is None:
        return StoredEnds()
    return ends_of_history(series[0], found.line, good, bad, len(items.names) - 1)


def _is_of(series: HistorySeries, metric: MetricValue) -> bool:
    name = series.name
    is_same = str(name.key) == metric.metric and name.rank == "worst" and series.unit == metric.unit
    return is_same and metric.statistic in (None, name.statistic)


def _of_baseline(ruleset: Ruleset, items: SearchedRange, baseline: Baseline) -> StoredEnds:
    """Return the runs of the stored level, if their commits are all at or before the good one: they are its level."""
    line: CommitLine | None = commit_line([items.names[0]]) if items.commits else None
    if line is None or not baseline.runs or any(line.place(run.commit) is None for run in baseline.runs):
        return StoredEnds()
    try:
        return stored_ends({0: [value_in_run(ruleset, run).value for run in baseline.runs]})
    except NoMetric:
        return StoredEnds()
