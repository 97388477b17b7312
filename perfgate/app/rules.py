"""`perfgate rules check`, `explain` and `diff`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches

from perfgate.app import surroundings
from perfgate.app.errors import Refused
from perfgate.app.inputs import rule_files
from perfgate.app.policy import WorkingTree, policy_source, read_rules
from perfgate.model import PolicyChange, Problem
from perfgate.rules import loading
from perfgate.rules.difference import differences
from perfgate.rules.explain import explain
from perfgate.rules.ruleset import Ruleset


def check_rules(paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Validate rule files: a line for each good one, and every problem of the others."""
    counts, problems = loading.check_rules(list(rule_files(paths)), surroundings.limits())
    return [f"{name}: {count} rule" + ("" if count == 1 else "s") for name, count in counts.items()], problems


def rules_difference(
    old: str, new: str | None, paths: Sequence[str], suite: str | None
) -> tuple[list[PolicyChange], str]:
    """What the rules of NEW loosen or tighten against those of OLD, and how the two are called. Raises Refused.

    Each side is a path, or a git ref, of which the rules at `paths` are read; NEW is the working tree by default.
    """
    before, after = _side(old, paths, suite), _side(new, paths, suite)
    return differences(before, after), f"{old} → {new or 'the working tree'}"


def _side(name: str | None, paths: Sequence[str], suite: str | None) -> Ruleset:
    is_path = name is not None and os.path.exists(name)
    source = WorkingTree() if name is None or is_path else policy_source(name)
    ruleset, problems, _ = read_rules(source, (name,) if is_path and name is not None else paths, suite)
    if ruleset is None:
        raise Refused("\n".join(map(str, problems)))
    return ruleset


def explain_rules(paths: Sequence[str], ids: Sequence[str], suite: str | None) -> list[str]:
    """The rules with these ids, or all, in words. Raises Refused for an unknown id or a file with mistakes."""
    ruleset, problems = loading.load_rules(list(rule_files(paths)), suite, surroundings.limits())
    if ruleset is None:
        raise Refused("\n".join(str(problem) for problem in problems))
    known = {rule.name: rule for rule in ruleset.rules}
    for unknown in (name for name in ids if name not in known):
        near = get_close_matches(unknown, known, n=1)
        raise Refused(f"no rule is called {unknown!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return [explain(rule, ruleset) for rule in ruleset.rules if not ids or rule.name in ids]
