"""The request of `perfgate bisect`: its options, their check, and what the rules or the history add to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.commands.compare import asked_change, metric_rule, tolerance_of
from perfgate.commands.history import show
from perfgate.commands.rules_table import stored_cases
from perfgate.core.file_mappings import NO_COMMAND
from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import HistoryChange, HistorySeries
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural
from perfgate.history.events import events_of
from perfgate.measuring.items import ItemProgram
from perfgate.measuring.until_settled import Tell
from perfgate.rules.model_section import HFU, MFU
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_expression
from perfgate.rules.syntax.sentence import ChangeClause, Selector
from perfgate.words import event_words
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused
from perfgate.workspace.rule_source import WORKING_TREE, no_rules, read_mapping_files, read_ruleset

#: The default tolerance: the smallest relative change that is searched for.
_TOLERANCE = 0.02
#: For a change in the history, the tolerance is at most this part of the change.
_PART = 0.5
#: The fewest letters with which a user may shorten the id of an event, or a commit.
_FEWEST = 4


class BisectRequest(Struct, frozen=True):
    """A request to search a list for a change of one metric: the options of `perfgate bisect`, as its help says.

    Times are in seconds. `env`: further environment variables of a remembered command.
    """

    command: tuple[str, ...]
    good: str | None
    bad: str | None
    from_history: str | None
    change: str | None
    environment: str | None
    over: tuple[str, ...]
    full: bool
    rule: str | None
    metric: str | None
    statistic: str | None
    tolerance: str | None
    build: tuple[str, ...] | None
    results: tuple[str, ...]
    most_runs: int
    time_budget: float | None
    timeout: float
    keep: str
    whole_runs: bool
    hook_timeout: float
    env: tuple[tuple[str, str], ...] = ()
    event: str | None = None
    options: CommandOptions = CommandOptions()

    def program(self, ruleset: Ruleset) -> ItemProgram:
        """Return the command for each item, with the mappings of the rules, which may read its results."""
        build, format, seconds = self.build or (), self.options.format, (self.timeout, self.hook_timeout)
        return ItemProgram(self.command, build, self.results, *seconds, format, ruleset.mappings, self.env)

    def check(self) -> None:
        """Raise UsageError for options that are missing, or contradict each other."""
        if not self.command:
            raise click.UsageError(NO_COMMAND)
        if self.event is not None:
            self._refuse_beside("--event")
        elif self.from_history is not None:
            self._refuse_beside("--from-history")
        elif self.change is not None or self.environment is not None:
            raise click.UsageError("--change and --environment need --from-history METRIC")
        elif (self.good is None) == (not self.over) or (self.over and self.bad is not None):  # no range, or two
            start = "or --from-history METRIC, or a list with --over ITEM..."
            raise click.UsageError(f"give --good REF (and --bad REF), {start}")
        elif (self.rule is None) == (self.metric is None):  # neither of them, or both
            raise click.UsageError("give the metric to measure: --rule ID, or --metric NAME")
        if self.statistic is not None and self.rule is not None:
            raise click.UsageError("--statistic needs --metric: a rule has its own statistic")
        if self.over and self.full:
            raise click.UsageError("--full is about merges of commits, and --over is a list")

    def _refuse_beside(self, option: str) -> None:
        """Raise UsageError for options that also give the metric or the range, as `option` does."""
        has_both = self.event is not None and self.from_history is not None
        if has_both or self.over or self.rule is not None or self.metric is not None:
            first = "--from-history, " if has_both else ""
            raise click.UsageError(f"{option} gives metric and range: leave out {first}--metric, --rule and --over")


def with_remembered_command(request: BisectRequest) -> BisectRequest:
    """Return the request with the command that `perfgate.yaml` remembers, if the user gave none. Raises Refused."""
    kept = None if request.command else read_mapping_files(request.options.rules).command
    if kept is None:
        return request
    build, results = request.build or kept.build or None, request.results or kept.results
    return replace(request, command=kept.words, build=build, results=results, env=kept.env)


def with_usual_range(request: BisectRequest, tell: Tell) -> BisectRequest:
    """Return the request with the newest stored commit as good and the first rule about a change.

    Only for a command without a range, metric or rule; other requests do not change. Raises Refused for mistakes in the
    rules.
    """
    given = (request.good, request.from_history, request.event, request.rule, request.metric)
    if request.over or any(value is not None for value in given) or not request.command:
        return request
    ruleset = read_ruleset(WORKING_TREE, request.options.rules, request.options.suite)
    rules = [rule.name for rule in ruleset.rules if any(asks.relative for _, asks in rule.comparisons)]
    cases = [case for case, _ in stored_cases(request.options, ruleset)]
    # The name of a stored run begins with its time.
    commits = [(Path(run.source).name, run.commit) for case in cases for run in case.baseline.runs if run.commit]
    if not rules or not commits:
        return request
    good, rule = max(commits)[1], rules[0]
    tell(f"searching the commits after the stored {good[:12]} for a change: {rule} (--good and --rule choose)")
    return replace(request, good=good, rule=rule)


def ruleset_of(request: BisectRequest) -> tuple[Ruleset, float]:
    """Return a ruleset with the one rule to measure, and the tolerance as a relative change. Raises Refused."""
    asked = None if request.tolerance is None else tolerance_of(request.tolerance).value
    if request.metric is not None:
        rule = _rule_of_metric(request.metric, request.statistic)
        return replace(_without_rules(request), rules=(rule,)), _TOLERANCE if asked is None else asked
    ruleset = read_ruleset(WORKING_TREE, request.options.rules, request.options.suite)
    named = [rule for rule in ruleset.rules if rule.name == request.rule]
    if not named:
        known = ", ".join(rule.name for rule in ruleset.rules[:20])
        raise Refused(f"--rule {request.rule}: unknown rule; the rules are {known}")
    ruleset = replace(ruleset, rules=(named[0],))
    if asked is not None:
        return ruleset, asked
    changes = [clause.asks for clause in named[0].clauses if isinstance(clause.asks, ChangeClause)]
    return ruleset, next((asks.relative for asks in changes if asks.relative), _TOLERANCE)


def _rule_of_metric(metric: str, statistic: str | None) -> Rule:
    """Return a rule about a metric, which may have labels: `forward{rank="0"}`. Raises Refused for a bad statistic."""
    rule = metric_rule(metric, statistic, asked_change(statistic, "5%"))  # the search has a tolerance of its own
    with suppress(SentenceError):
        subject = parse_expression(metric) if metric.endswith("}") else None
        if isinstance(subject, Selector):
            return replace(rule, sentence=replace(rule.sentence, subject=subject))
    return rule


def _without_rules(request: BisectRequest) -> Ruleset:
    """Return a ruleset without rules, but with the mappings, derived metrics and model of the rule files.

    Only `mfu` and `hfu` need the model; for other metrics, mistakes in rules do not matter. Raises Refused.
    """
    without = no_rules("bisect", request.options.rules)
    there = [path for path in request.options.rules if os.path.exists(path)]
    if not there or not WORKING_TREE.has_rules(there):
        return without
    try:
        known = read_ruleset(WORKING_TREE, there, request.options.suite)
    except Refused:
        if (request.metric or "").partition("{")[0] in (MFU, HFU):
            raise
        return without
    return replace(without, metrics=known.metrics, model=known.model)


def from_history(request: BisectRequest, metric: str, tell: Tell) -> BisectRequest:
    """Return the request with the metric, the range and the tolerance of a change in the history.

    --good and --bad replace the range. Raises Refused: exit code 3 for no change; 0 if the history names its commit.
    """
    options = request.options
    place = HistoryPlace(options.baselines, options.suite, request.environment, None, options.rules)
    history = show(place, metric.partition("{")[0])
    named = [series for series in history.series if "{" not in metric or str(series.name.key) == metric]
    series = _series(metric, named, request.statistic)
    return _of_change(request, series, _change(series, request.change), history.line, tell)


def from_event(request: BisectRequest, name: str, tell: Tell) -> BisectRequest:
    """Return the request with the range of an event and its metric that is most clearly worse. Raises Refused."""
    options = request.options
    history = show(HistoryPlace(options.baselines, rules=options.rules))
    event = _event(events_of(history), name)
    near = [
        change
        for change in event.changes
        if request.environment in (None, change.environment) and options.suite in (None, change.suite)
    ]
    if not near:
        raise Refused(f"--event {event.id} has no metric there; it is {event_words.where(event)}", 3)
    clearest = max(
        near, key=lambda change: (bool(change.worse), abs(change.change) / max(change.high - change.low, 1e-9))
    )
    place = (clearest.suite, clearest.environment, clearest.name)
    series = next(one for one in history.series if (one.suite, one.environment, one.name) == place)
    # An event does not keep the change point of a series: find it again. Its range is that of all its metrics.
    of_series = next(change for change in series.changes if change.point.change == clearest.change)
    change = replace(of_series, last_good=event.last_good, first_bad=event.first_bad, commits=event.commits)
    request = replace(request, options=replace(options, suite=clearest.suite))
    return _of_change(request, series, change, history.line, tell)


def _event(events: Sequence[HistoryEvent], name: str) -> HistoryEvent:
    """Return the event whose id begins with `name`. Raises Refused (3), also if the machine is its cause."""
    named = [event for event in events if len(name) >= _FEWEST and event.id.startswith(name)]
    if len(named) != 1:
        raise Refused(f"--event {name}: the history has {listed([event.id for event in events]) or 'no event'}", 3)
    if named[0].kind == "machine":
        raise Refused(f"{event_words.headline(named[0])}: bisect searches commits, and these are not the cause", 3)
    return named[0]


def _of_change(
    request: BisectRequest, series: HistorySeries, change: HistoryChange, line: CommitLine | None, tell: Tell
) -> BisectRequest:
    """Return the request with the metric, the range and the tolerance of a change. Raises Refused (3, or 0)."""
    good, bad = (request.good or change.last_good.commit, request.bad or change.first_bad.commit)
    size = f"{series.name} changed by {format_change(change.point.change)} on {change.likely.time[:10]}"
    if good is None or bad is None:
        raise Refused(f"{size}, between runs without a commit: name the commits with --good and --bad", 3)
    commits = line.between(good, bad) if line else ()
    if request.good is None and request.bad is None:
        if change.is_one_commit:  # the code is the same before and after the change
            raise Refused(f"{size}, between two runs of commit {change.first_bad.label}: the code is not the cause", 3)
        if change.commits == 1:
            about = f" ({commits[0].author}: {commits[0].subject})" if commits else ""
            step = f"to measure it again, name an earlier commit: --good {good[:10]}~5"
            raise Refused(f"the history names the commit already: {change.first_bad.label}{about}; {step}", 0)
    many = plural(len(commits), "commit") if commits else "the commits"
    tell(f"{size}: searching {many} after {good[:12]}, up to {bad[:12]}")
    smallest = min(_TOLERANCE, _PART * abs(change.point.change))
    return replace(
        request,
        good=good,
        bad=bad,
        metric=str(series.name.key),
        statistic=None if series.kind == "value" else series.name.statistic,
        tolerance=request.tolerance or f"{100 * smallest:.2g}%",
    )


def _series(metric: str, named: Sequence[HistorySeries], statistic: str | None) -> HistorySeries:
    """Return the one series that is meant: of the worst rank, and the median of several statistics. Raises Refused."""
    series = [one for one in named if one.name.rank == "worst"] or named
    series = [one for one in series if statistic in (None, one.name.statistic)]
    places = sorted({f"{one.suite}/{one.environment}" for one in series})
    if len(places) > 1:
        raise Refused(f"{metric} has several histories ({listed(places)}): choose with --suite and --environment")
    if statistic is None and len({one.name.statistic for one in series}) > 1:  # `init` writes rules about two
        series = [one for one in series if one.name.statistic == "median"] or series
    keys = sorted({str(one.name.key) for one in series})
    if len(keys) > 1:
        raise Refused(f"--from-history {metric} is {plural(len(keys), 'metric')} ({listed(keys)}): name one of them")
    if len(series) != 1:
        known = listed(sorted({one.name.statistic for one in series})) or "no such labels or statistic"
        raise Refused(f"--from-history {metric}: the history has {known}; choose with --statistic")
    return series[0]


def _change(series: HistorySeries, asked: str | None) -> HistoryChange:
    """Return the change with this number or commit, or the newest one that is, or may be, worse. Raises Refused (3)."""
    changes = series.changes
    if not changes:
        raise Refused(f"{series.name} has no lasting change in its {plural(len(series.runs), 'run')}", 3)
    labels = [f"{number} ({change.likely.label})" for number, change in enumerate(changes, 1)]
    if asked is None:
        worse = [change for change in changes if change.point.worse in (True, None)]
        if not worse:
            raise Refused(f"no lasting change of {series.name} is worse: choose one with --change: {listed(labels)}", 3)
        return worse[-1]
    for number, change in enumerate(changes, 1):
        commits = (change.likely.commit or "", change.first_bad.commit or "")
        is_commit = len(asked) >= _FEWEST and any(commit.startswith(asked) for commit in commits)
        if asked == str(number) or is_commit:
            return change
    raise Refused(f"--change {asked}: {series.name} has no such change; its changes are {listed(labels, 9)}", 3)
