"""The noise floors that the rules need, beside those that the machine has.

With a command, the floor of a rule is that of its metric. Without one, it is that of the quietest known load, because
no program on this machine can be expected to have less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfgate.analysis.plan import plans
from perfgate.core import Baseline
from perfgate.core.examination import MeasuredLoad, RuleNeed
from perfgate.doctor.command import CommandRuns
from perfgate.doctor.floors import needed_floor
from perfgate.judge.case import Case
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.workspace.surroundings import today

#: Words in the names of metrics that have no noise, or none from the machine: bytes, counts, work.
_QUIET = ("memory", "bytes", "count", "instructions", "flops", "loss", "accuracy")


def change_rules(ruleset: Ruleset) -> list[tuple[Rule, ChangeClause]]:
    """Return the rules that compare with stored runs by a relative tolerance, each with its clause."""
    return [
        (rule, clause.asks)
        for rule in ruleset.rules
        for clause in rule.clauses
        if isinstance(clause.asks, ChangeClause) and clause.asks.is_stored and clause.asks.relative
    ]


def needs_of_loads(ruleset: Ruleset, loads: Sequence[MeasuredLoad]) -> Iterator[RuleNeed]:
    """Yield the floor that each rule needs, beside that of the quietest known load."""
    known = [(floor.noise, load) for load in loads if (floor := load.floor("separate")) is not None]
    if not known:
        return
    load = min(known, key=lambda one: one[0])[1]
    for rule, clause in change_rules(ruleset):
        if not any(word in rule.sentence.subject_text.lower() for word in _QUIET):
            yield _need(rule.name, str(rule.at), rule, _at_worst(rule, clause), load)


def needs_of_command(ruleset: Ruleset, runs: CommandRuns) -> Iterator[RuleNeed]:
    """Yield the floor that each rule needs, beside that of its metric in the runs of the command."""
    rules = {rule.name: rule for rule in ruleset.rules}
    asked = {rule.name for rule, _ in change_rules(ruleset)}
    for plan in plans(Case(ruleset, (), Baseline(runs=tuple(runs.separate)), today())):
        if plan.rule not in asked or (plan.trouble is not None and "without noise" in plan.trouble):
            continue
        load = runs.load(plan.metric, plan.labels, plan.statistic)
        if plan.at_worst is not None:
            yield _need(plan.rule, str(plan.at), rules[plan.rule], plan.at_worst, load)
        elif not load.floors:
            yield RuleNeed(plan.rule, str(plan.at), 0.0, None, plan.metric)


def _at_worst(rule: Rule, clause: ChangeClause) -> float:
    given = rule.settings.at_worst
    own = given.relative if given is not None else None
    return own if own is not None else 2 * (clause.relative or 0.0)


def _need(name: str, place: str, rule: Rule, at_worst: float, load: MeasuredLoad) -> RuleNeed:
    needs = needed_floor(at_worst, rule.settings.confidence, rule.settings.power)
    floor = load.floor("separate")
    quiet = [other for other in load.floors if other.way != "separate" and other.noise <= needs]
    better = min(quiet, key=lambda other: other.noise, default=None)
    return RuleNeed(name, place, needs, floor, load.name, better)
