"""Tolerances and limits that no share reaches: `gpu.utilization within 2 of baseline`, `goodput at least 90`."""

from __future__ import annotations

from perfgate.core import Problem
from perfgate.judge.evidence import direction
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import ChangeClause, Clause, Selector

#: A smaller limit without a unit is probably meant: a scaling efficiency may be 1.05.
_LEAST_LIMIT = 2


def impossible_shares(ruleset: Ruleset) -> list[Problem]:
    """Return a warning for each tolerance of 100 points or more, and each limit of 200 % or more without a unit.

    Only metrics that are shares by their names are looked at.
    """
    found = []
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        if isinstance(subject, Selector) and direction(subject.pattern, "1", None) == "higher":
            texts = filter(None, map(_impossible, rule.sentence.clauses))
            found += [Problem("warning", text, rule.at) for text in texts]
    return found


def _impossible(clause: Clause) -> str | None:
    """Return why a clause about a share always has the same answer; None of any other."""
    asks, size = clause.asks, clause.quantity
    if size is None or size.base != "1":
        return None
    percent = f"{100 * size.value:g}"
    if isinstance(asks, ChangeClause) and size.value >= 1:
        step = f"write {size} pp or {size}%" if size.unit is None else "write fewer"
        return f"`{clause.text}` never fails: {percent} percentage points of a share; {step}"
    if not isinstance(asks, ChangeClause) and size.unit is None and size.value >= _LEAST_LIMIT:
        return f"`{clause.text}` is a limit of {percent} % for a share: write {size}%"
    return None
