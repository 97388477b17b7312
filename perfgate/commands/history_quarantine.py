"""`perfgate history quarantine`: the false alarms of each rule, and the quarantines that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import click

from perfgate.baselines.stores import Store, open_store
from perfgate.cli.printing import complain, screen
from perfgate.cli.shared import command_options
from perfgate.commands.history import PLACE
from perfgate.core import Problem
from perfgate.core.remembered_runs import FalseAlarms
from perfgate.history.false_alarms import MOST_FALSE, false_alarms
from perfgate.history.store import HistoryColumn, StoredHistory, branch_of, places, read
from perfgate.judge.subjects import is_named
from perfgate.reporters.history_table import false_alarms_text
from perfgate.rules.load import readable_rulesets
from perfgate.rules.ruleset import Rule
from perfgate.stats.distributions import rate_bounds
from perfgate.workspace import surroundings
from perfgate.workspace.options import HistoryPlace, Refused
from perfgate.workspace.rule_source import WORKING_TREE, sound_rules

#: The newest runs that a replay uses, and the days of a proposed quarantine.
_RUNS, _DAYS = 500, 30


@click.command("quarantine")
@command_options(*PLACE, name="place", build=HistoryPlace)
def command(place: HistoryPlace) -> int:
    """Replay the rules over the remembered runs, and propose a quarantine for rules with many false alarms.

    A run is judged against the runs before it in its level, where nothing changed: if it is red, the alarm is false.
    More than 1 in 50 runs, at 95 % confidence, is many. The line to paste into the rule ends after 30 days.

    \b
    Example: perfgate history quarantine
    """
    found, problems = quarantine(place)
    seen = screen()
    if found:
        click.echo(false_alarms_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return complain(problems)


def quarantine(place: HistoryPlace) -> tuple[list[FalseAlarms], list[Problem]]:
    """Return the false alarms of each rule and metric, the most first, and files that cannot be used.

    Raises Refused for mistakes in the rules, and (3) if nothing is remembered.
    """
    files = WORKING_TREE.rule_files(place.rules)
    suites = {ruleset.suite for ruleset in readable_rulesets(files)}
    store = open_store(place.baselines)
    found: list[FalseAlarms] = []
    known, problems = places(store, place.suite)
    for suite, environment in known:
        if suite in suites and place.environment in (None, environment):
            rules = sound_rules(files, suite).rules
            history = read(store, suite, environment)
            problems += history.problems
            found += _of_history(history, rules, place.ref)
    if not found and not problems:
        raise Refused(_nothing(store, suites, {suite for suite, _ in known}), 3)
    return sorted(found, key=lambda one: (-one.low, -one.alarms, one.place, one.rule, one.series)), problems


def _nothing(store: Store, suites: set[str], remembered: set[str]) -> str:
    names = ", ".join(sorted(suites))
    if remembered and not remembered & suites:
        return (
            f"the rules are of the suite {names}, and the history in {store.shown} is of "
            f"{', '.join(sorted(remembered))}: correct `suite` in the rules, or import the runs again with --suite"
        )
    return (
        f"no rule of {names} can be replayed with the history in {store.shown}: it needs six remembered runs of a "
        "metric that a rule names (`perfgate history add RUN...`)"
    )


def _of_history(history: StoredHistory, rules: Sequence[Rule], ref: str | None) -> Iterator[FalseAlarms]:
    branch = branch_of(history.runs, ref)
    if branch is None:
        return
    until = surroundings.today() + timedelta(days=_DAYS)
    for rule in rules:
        for column in (one for one in history.series if _is_about(rule, one)):
            rows = [i for i, at in enumerate(column.at.tolist()) if history.runs[at].ref == (branch or None)]
            alarms, runs = false_alarms(rule, column, rows[-_RUNS:])
            if runs:
                low, high = rate_bounds(alarms, runs)
                names = (rule.name, str(column.name), f"{history.suite}/{history.environment}", branch)
                yield FalseAlarms(*names, alarms, runs, low, high, until if low > MOST_FALSE else None)


def _is_about(rule: Rule, column: HistoryColumn) -> bool:
    """Return whether a rule judges a series by its statistic on its rank."""
    sentence, name = rule.sentence, column.name
    statistic = sentence.statistic or ("median" if column.kind in ("samples", "summary") else "mean")
    rank = "worst" if sentence.rank in (None, "each") else str(sentence.rank)
    names = is_named(sentence.subject, sentence.subject_text, name.key)
    return names and (name.statistic, name.rank) == (statistic, rank)
