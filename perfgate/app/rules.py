"""`perfgate rules check` and `perfgate rules explain`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from perfgate.app import surroundings
from perfgate.app.errors import Refused
from perfgate.app.inputs import rule_files
from perfgate.model import Problem
from perfgate.rules import loading
from perfgate.rules.explain import explain


def check_rules(paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Validate rule files: a line for each good one, and every problem of the others."""
    counts, problems = loading.check_rules(list(rule_files(paths)), surroundings.limits())
    return [f"{name}: {count} rule" + ("" if count == 1 else "s") for name, count in counts.items()], problems


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
