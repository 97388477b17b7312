"""Attacks on rules: runs that a rule fails, hidden in ways that a pull request can use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.analysis.distortions import TELLING, reading, ways
from perfgate.analysis.workflow_attacks import Attack
from perfgate.core import Key, Run, Series, read_only
from perfgate.judge.doubts.copies import measured_twice
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.syntax.sentence import ChangeClause

#: Returns the replacement of a series that the rule reads; None to remove it.
_Hide = Callable[[Series], Series | None]
_NAN = float("nan")


def _filled(value: float) -> _Hide:
    def hide(series: Series) -> Series:
        numbers = dict.fromkeys(series.aggregate, value)
        return replace(series, values=read_only(np.full(len(series.values), value)), aggregate=numbers)

    return hide


#: The attacks, in words that say what passes.
HIDDEN: Mapping[str, _Hide] = {
    "a run without the metric passes": lambda series: None,
    "a run with the metric under another name passes": lambda series: replace(
        series, key=Key.of(f"{series.key.metric}.hidden", **dict(series.key.labels))
    ),
    "a run with values that are not numbers passes": _filled(_NAN),
    "a run with infinite values passes": _filled(float("inf")),
    "a run with no values passes": lambda series: replace(
        series, values=read_only(np.array([])), steps=None, aggregate={}
    ),
    "a run with another unit passes": lambda series: replace(series, unit="B" if series.unit != "B" else "s"),
}
_COPY = "a copy of a stored run passes as a new one"
_CLAIM = "a run that claims another `{}` passes: give the true one with --env, as the action does"


def rule_attacks(case: Case) -> tuple[list[Attack], int]:
    """Return the attacks on the rules that would work, and how many were tried.

    `case.new` are runs that should pass. Only rules that fail on worse runs are attacked: `rules` names the others.
    """
    found, count = list[Attack](), 0
    for rule in case.ruleset.rules:
        own = replace(case, ruleset=replace(case.ruleset, rules=(rule,)))
        red = _red(own)
        if red is None:
            continue
        for what, attacked in _attacks(replace(own, new=red)):
            count += 1
            verdicts = judge(attacked)
            copies = measured_twice(attacked, verdicts, ()) if what == _COPY else []
            if not any(verdict.exit_code for verdict in verdicts) and not any(p.severity == "error" for p in copies):
                found.append(Attack(what, rule.at))
    return found, count


def _red(case: Case) -> tuple[Run, ...] | None:
    """Return runs that the only rule fails, if it fails any."""
    (rule,), unchanged = case.ruleset.rules, judge(case)
    for way in ways(rule, case.ruleset, case.new, unchanged):
        for amount in TELLING:
            worse = tuple(way.applied(run, amount) for run in case.new) * 3
            if any(verdict.exit_code == 1 for verdict in judge(replace(case, new=worse))):
                return worse
    return None


def _attacks(case: Case) -> Iterator[tuple[str, Case]]:
    (rule,) = case.ruleset.rules
    reads = reading(rule, case.ruleset)
    for what, hide in HIDDEN.items():
        yield what, replace(case, new=tuple(_hidden(run, reads, hide) for run in case.new))
    is_change = any(isinstance(clause.asks, ChangeClause) for clause in rule.clauses)
    if is_change and case.baseline.place is not None and case.baseline.pairing is None:
        yield _COPY, replace(case, new=(replace(case.baseline.runs[0], source="copy", files=()),))
    for fact in sorted({one.fact for one in rule.when} - (case.facts.keys() - case.claimed)):
        facts = {**case.facts, fact: "another"}
        claimed = tuple(replace(run, environment={**run.environment, fact: "another"}) for run in case.new)
        yield _CLAIM.format(fact), replace(case, new=claimed, facts=facts)


def _hidden(run: Run, reads: Callable[[Key], bool], hide: _Hide) -> Run:
    changed: Sequence[Series | None] = [hide(one) if reads(one.key) else one for one in run.series]
    return replace(run, series=tuple(one for one in changed if one is not None))
