"""Tolerances in percentage points that no share can exceed: `gpu.utilization within 2 of baseline` means 200 points."""

from __future__ import annotations

from perfgate.core import Problem
from perfgate.judge.inquiry import direction
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import ChangeClause, Selector


def wide_tolerances(ruleset: Ruleset) -> list[Problem]:
    """Return a warning for each tolerance of 100 points or more of a metric that is a share by its name."""
    found = []
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        if not isinstance(subject, Selector) or direction(subject.pattern, "1", None) != "higher":
            continue
        for clause in rule.sentence.clauses:
            size = clause.asks.absolute if isinstance(clause.asks, ChangeClause) else None
            if size is not None and size.base == "1" and size.value >= 1:
                step = f"write {size} pp or {size}%" if size.unit is None else "write fewer"
                message = f"`{clause.text}` never fails: {100 * size.value:g} percentage points of a share"
                found.append(Problem("warning", f"{message}; {step}", rule.at))
    return found
