"""The series that rules read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from perfgate.core import Key
from perfgate.core.wording import synonyms
from perfgate.judge.derived import component_names, read_by
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Selector, selectors


def naming(ruleset: Ruleset) -> Callable[[Key], bool]:
    """Return a test for series: whether any rule reads it, directly or through a derived metric."""
    exact: set[str] = set()
    by_name: dict[str, list[Selector]] = {}
    globs: list[Selector] = []
    own = [one for rule in ruleset.rules for one in selectors(rule.sentence.subject)]
    for selector in dict.fromkeys(
        [*own, *(read for one in own if one.pattern.startswith("warmup.") for read in read_by(one))]
    ):
        if selector.is_glob:
            globs.append(selector)
        else:
            for name in (selector.pattern, *synonyms(selector.pattern)):
                by_name.setdefault(name, []).append(selector)
        names = component_names(selector, ruleset.metrics) - {selector.pattern}
        for name in ruleset.metrics:
            if selector.matches_metric(name):
                names |= component_names(ruleset.metrics[name].expression, ruleset.metrics)
        exact |= names | {other for name in names for other in synonyms(name)}

    @cache
    def is_named(key: Key) -> bool:
        return (
            key.metric in exact
            or any(selector.accepts_labels(key) for selector in by_name.get(key.metric, ()))
            or any(selector.matches(key) for selector in globs)
        )

    return is_named
