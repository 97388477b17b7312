"""Attacks on rules: runs that a rule fails are hidden from it, for example under another name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.distortions import TELLING, reading, ways
from perfgate.analysis.plan import PAIRS
from perfgate.core import Key, Location, Run, Series, read_only
from perfgate.core.results import LOOKS
from perfgate.judge.doubts.copies import measured_twice
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.syntax.sentence import ChangeClause


class Attack(Struct, frozen=True):
    """An attack that would work, in words, and the place in the workflow or the rule that allows it."""

    what: str
    at: Location


#: Returns the replacement of a series that the rule reads; None to remove it.
_Hide = Callable[[Series], Series | None]


def _filled(series: Series, value: float) -> Series:
    """Return the series with this value in place of every number."""
    numbers = dict.fromkeys(series.aggregate, value)
    return replace(series, values=read_only(np.full(len(series.values), value)), aggregate=numbers)


#: The attacks that change a series, by their words.
_HIDDEN: Mapping[str, _Hide] = {
    "a run without the metric passes": lambda series: None,
    "a run with the metric under another name passes": lambda series: replace(
        series, key=Key.of(f"{series.key.metric}.hidden", **dict(series.key.labels))
    ),
    "a run with values that are not numbers passes": lambda series: _filled(series, float("nan")),
    "a run with infinite values passes": lambda series: _filled(series, float("inf")),
    "a run with no values passes": lambda series: replace(
        series, values=read_only(np.array([])), steps=None, aggregate={}
    ),
    "a run with another unit passes": lambda series: replace(series, unit="B" if series.unit != "B" else "s"),
}
_COPY = "a copy of a stored run passes as a new one"
_CLAIM = "a run that claims another `{}` passes: give the true one with --env, as the action does"


def rule_attacks(case: Case) -> tuple[list[Attack], int]:
    """Return the attacks on the rules that would work, and the number of those that were tried.

    `case.new` are runs that should pass. Only rules that fail on worse runs are attacked; the command `rules` names
    those that never fail.
    """
    found, count = list[Attack](), 0
    # as many runs or pairs as a gate measures before it gives up; base and new run i are a pair, so both are repeated
    times = LOOKS if case.baseline.pairing is None else math.ceil(PAIRS / max(len(case.new), 1))
    stored = case.baseline.runs if case.baseline.pairing is None else case.baseline.runs * times
    case = replace(case, new=case.new * times, baseline=replace(case.baseline, runs=stored))
    for rule in case.ruleset.rules:
        own = replace(case, ruleset=replace(case.ruleset, rules=(rule,)))
        red = _red(own)
        if red is None:
            continue
        for what, attacked in _attacks(replace(own, new=red)):
            count += 1
            verdicts = judge(attacked)
            # an attack works if nothing blocks: no verdict, and no error that says that a run is a copy
            copies = measured_twice(attacked, verdicts, stored=()) if what == _COPY else []
            if not any(verdict.exit_code for verdict in verdicts) and not any(p.severity == "error" for p in copies):
                found.append(Attack(what, rule.at))
    return found, count


def _red(case: Case) -> tuple[Run, ...] | None:
    """Return worse runs that the only rule of the case fails; None if it fails none."""
    (rule,), unchanged = case.ruleset.rules, judge(case)
    for way in ways(rule, case.ruleset, case.new, unchanged):
        for amount in TELLING:  # a way that can make a rule fail does so at one of these
            worse = tuple(way.applied(run, amount) for run in case.new)
            if any(verdict.exit_code == 1 for verdict in judge(replace(case, new=worse))):
                return worse
    return None


def _attacks(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield each attack on the only rule of a case, with the case that hides its failing runs in this way."""
    (rule,) = case.ruleset.rules
    reads = reading(rule, case.ruleset)
    for what, hide in _HIDDEN.items():
        yield what, replace(case, new=tuple(_hidden(run, reads, hide) for run in case.new))
    is_change = any(isinstance(clause.asks, ChangeClause) for clause in rule.clauses)
    # a copy that was written again has files with other hashes, so only its measurements show it
    if is_change and case.baseline.place is not None and case.baseline.pairing is None:
        yield _COPY, replace(case, new=(replace(case.baseline.runs[0], source="copy", files=()),))
    # a run can claim a fact that only the judged files state, or nobody
    for fact in sorted({one.fact for one in rule.when} - (case.facts.keys() - case.claimed)):
        facts = {**case.facts, fact: "another"}
        claimed = tuple(replace(run, environment={**run.environment, fact: "another"}) for run in case.new)
        yield _CLAIM.format(fact), replace(case, new=claimed, facts=facts)


def _hidden(run: Run, reads: Callable[[Key], bool], hide: _Hide) -> Run:
    """Return the run in which the series that the rule reads are hidden."""
    series = (hide(one) if reads(one.key) else one for one in run.series)
    return replace(run, series=tuple(one for one in series if one is not None))
