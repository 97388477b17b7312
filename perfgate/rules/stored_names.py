"""The metrics of rules beside those of the stored runs: a warning for each metric that no stored run has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

from perfgate.core import Problem
from perfgate.core.wording import listed
from perfgate.rules.repair import known_name
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import Expression, Selector, selectors

#: The number of names that are compared, and of absent metrics that get the nearest names.
_MOST_COMPARED, _MOST_ABSENT = 5_000, 50


def absent_metrics(ruleset: Ruleset, names: Collection[str]) -> list[Problem]:
    """Return a warning for each metric of a rule that no stored run has; none if no metric is stored.

    Rules that accept a missing metric (`on_missing`) are left out, and so are metrics of the warm-up, which `check`
    computes itself.
    """
    found: list[Problem] = []
    for rule in ruleset.rules if names else ():
        if rule.settings.on_missing == "error":
            for selector in dict.fromkeys(_read(rule.sentence.subject, ruleset)):
                if not any(selector.matches_metric(name) for name in names):
                    found.append(_absent(rule, selector, names, is_hinted=len(found) < _MOST_ABSENT))
    return found


def _read(expression: Expression, ruleset: Ruleset, depth: int = 10) -> Iterator[Selector]:
    """Yield the selectors that an expression reads, those of derived metrics in their place."""
    for selector in selectors(expression):
        derived = ruleset.metrics.get(selector.pattern)
        if derived is not None and depth:
            yield from _read(derived.expression, ruleset, depth - 1)
        elif ruleset.model is not None and selector.pattern in ("mfu", "hfu"):
            continue  # computed by `check`
        elif not selector.pattern.startswith("warmup.") and not (
            selector.is_glob and _matches_derived(selector, ruleset)
        ):
            yield selector


def _matches_derived(selector: Selector, ruleset: Ruleset) -> bool:
    return any(selector.matches_metric(name) for name in ruleset.metrics)


def _absent(rule: Rule, selector: Selector, names: Collection[str], *, is_hinted: bool) -> Problem:
    name, words = selector.pattern, [word for word in re.split(r"[^a-z0-9]+", selector.pattern.lower()) if word]
    close = get_close_matches(name, sorted(names)[:_MOST_COMPARED], n=3, cutoff=0.5) if is_hinted else []
    same = known_name(words, names) if words and is_hinted else None
    near = list(dict.fromkeys([*([same] if same else []), *close]))
    hint = f"the nearest names are {listed(near)}" if near else f"the stored runs have {listed(sorted(names))}"
    return Problem("warning", f"no stored run has {name}: {hint}", rule.at)
