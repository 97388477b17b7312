"""What one ruleset asks for and another does not: which rules were added, removed, loosened or tightened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from perfgate.core import ChangeKind, PolicyChange
from perfgate.rules.ruleset import Rule, Ruleset, Settings
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause

#: A detail of a rule that differs: what that does to the rule, and words for it.
Detail = tuple[ChangeKind, str]

#: Settings whose values go from the mildest to the strictest.
_STRICTER = {
    "severity": ("warning", "error"),
    "on_missing": ("skip", "warn", "error"),
    "on_inconclusive": ("warn", None, "error", "fail"),
    "on_improvement": ("note", "fail"),
    "on_throttled": ("note", "error"),
}
#: Settings that say how a rule is judged: more is neither milder nor stricter.
_NEUTRAL = ("warmup", "confidence", "power", "min_runs", "min_samples")


def differences(old: Ruleset, new: Ruleset) -> list[PolicyChange]:
    """How `new` differs from `old`, what loosens it first; empty where they ask for the same."""
    pairs, removed, added = _pairs(old.rules, new.rules)
    found = [PolicyChange("removes", rule.name, None, f"removes {_called(rule)}", rule.at) for rule in removed]
    found += [change for pair in pairs if (change := _change(*pair)) is not None]
    found += [PolicyChange("adds", None, rule.name, f"adds {_called(rule)}", rule.at) for rule in added]
    found += _of_metrics(old, new)
    if old.identity != new.identity:
        words = f"changes what tells environments apart: {', '.join(old.identity)} → {', '.join(new.identity)}"
        found.append(PolicyChange("changes", None, None, words, new.rules[0].at if new.rules else old.rules[0].at))
    found += _of_pairs(old, new)
    order: tuple[ChangeKind, ...] = ("removes", "loosens", "changes", "tightens", "adds")
    return sorted(found, key=lambda change: order.index(change.kind))


def _of_pairs(old: Ruleset, new: Ruleset) -> Iterator[PolicyChange]:
    """Whether results may bring their own base along."""
    if old.pairs != new.pairs:
        order = ("refuse", None, "accept")
        kind: ChangeKind = "loosens" if order.index(new.pairs) > order.index(old.pairs) else "tightens"
        words = f"{kind} pairs: {old.pairs or 'default'} → {new.pairs or 'default'}"
        yield PolicyChange(kind, None, None, words, new.rules[0].at if new.rules else old.rules[0].at)


def _called(rule: Rule) -> str:
    """A rule by its id and its sentence, which is the name of a rule without an id."""
    return f"{rule.id}: {_asks(rule)}" if rule.id else _asks(rule)


def _asks(rule: Rule) -> str:
    return " ".join(rule.sentence.text.split())


def _pairs(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[list[tuple[Rule, Rule]], list[Rule], list[Rule]]:
    """Which rule became which: by id, then by the sentence, then by what it is about; and the rest of each side."""
    left, right = list(old), list(new)
    pairs: list[tuple[Rule, Rule]] = []
    keys: tuple[Callable[[Rule], object], ...] = (lambda rule: rule.id, _asks, _about)
    for key in keys:
        for rule in tuple(left):
            other = next((found for found in right if key(rule) is not None and key(found) == key(rule)), None)
            if other is not None:
                pairs.append((rule, other))
                left.remove(rule)
                right.remove(other)
    return pairs, left, right


def _about(rule: Rule) -> object:
    """The metric, the statistic and the rank of a rule that has no id."""
    sentence = rule.sentence
    return None if rule.id else (sentence.subject_text, sentence.statistic, sentence.rank)


def _change(old: Rule, new: Rule) -> PolicyChange | None:
    """How a rule differs, in one word and in all words; None where it does not."""
    details = [*_of_sentence(old, new), *_of_settings(old.settings, new.settings), *_of_conditions(old, new)]
    if not details:
        return None
    kinds = {kind for kind, _ in details}
    kind: ChangeKind = next((k for k in ("loosens", "changes", "tightens") if k in kinds), "changes")
    return PolicyChange(
        kind, old.name, new.name, f"{kind} {new.name}: {'; '.join(words for _, words in details)}", new.at
    )


def _of_sentence(old: Rule, new: Rule) -> Iterator[Detail]:
    before, after = old.sentence, new.sentence
    whole = f"{_asks(old)} → {_asks(new)}"
    if (before.subject, before.statistic, before.rank) != (after.subject, after.statistic, after.rank):
        yield "changes", whole
    elif len(before.clauses) != len(after.clauses):
        yield ("loosens" if len(after.clauses) < len(before.clauses) else "tightens"), whole
    else:
        for one, other in zip(before.clauses, after.clauses, strict=True):
            kind = _of_clause(one, other)
            if kind is not None:
                yield kind, f"{one.text} → {other.text}"


def _of_clause(old: Clause, new: Clause) -> ChangeKind | None:
    """What one clause became; None where it asks for the same."""
    before, after = old.asks, new.asks
    if before == after:
        return None
    if isinstance(before, LimitClause) and isinstance(after, LimitClause):
        comparable = before.upper == after.upper and before.bound.base == after.bound.base
        room = after.bound.value - before.bound.value if comparable else 0.0
        return _kind([room if before.upper else -room]) if comparable else "changes"
    if isinstance(before, ChangeClause) and isinstance(after, ChangeClause):
        if (before.reference, before.side) != (after.reference, after.side):
            return "changes"
        # A change fails only beyond both tolerances: one that is not written allows nothing by itself.
        relative = (after.relative or 0.0) - (before.relative or 0.0)
        absolute = (after.absolute.value if after.absolute else 0.0) - (
            before.absolute.value if before.absolute else 0.0
        )
        return _kind([relative, absolute])
    return "changes"


def _kind(room: Sequence[float]) -> ChangeKind | None:
    """What more room in each respect amounts to."""
    if not any(room):
        return None
    if min(room) >= 0:
        return "loosens"
    return "tightens" if max(room) <= 0 else "changes"


def _of_settings(old: Settings, new: Settings) -> Iterator[Detail]:
    for name, order in _STRICTER.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            milder = order.index(after) < order.index(before)
            yield ("loosens" if milder else "tightens"), f"{name} {before or 'default'} → {after or 'default'}"
    if old.budget != new.budget:
        before, after = (float("inf") if budget is None else budget for budget in (old.budget, new.budget))
        words = [("none" if budget is None else f"{100 * budget:g}%") for budget in (old.budget, new.budget)]
        yield ("loosens" if after > before else "tightens"), f"budget {words[0]} → {words[1]}"
    for name in _NEUTRAL:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield "changes", f"{name} {before} → {after}"


def _of_conditions(old: Rule, new: Rule) -> Iterator[Detail]:
    """`when`, `expect_fail` and `better`: whether the rule is judged at all, and which way is bad."""
    before, after = set(old.when), set(new.when)
    if before != after:
        kind: ChangeKind = "loosens" if before < after else "tightens" if after < before else "changes"
        words = [" and ".join(sorted(map(str, when))) or "always" for when in (before, after)]
        yield kind, f"when {words[0]} → {words[1]}"
    if old.expect_fail != new.expect_fail:
        until = [rule.expect_fail.until if rule.expect_fail else None for rule in (old, new)]
        eased = until[1] is not None and (until[0] is None or until[1] > until[0])
        yield (
            ("loosens" if eased else "tightens"),
            f"expected to fail until {until[0] or 'never'} → {until[1] or 'never'}",
        )
    if old.better != new.better:
        yield "changes", f"better {old.better or 'default'} → {new.better or 'default'}"


def _of_metrics(old: Ruleset, new: Ruleset) -> Iterator[PolicyChange]:
    """Derived metrics that are computed otherwise; one that rules no longer use harms nobody."""
    for name in sorted({*old.metrics} & {*new.metrics}):
        before, after = old.metrics[name], new.metrics[name]
        if before.expression != after.expression:
            words = f"changes the metric {name}: {before.text} → {after.text}"
            yield PolicyChange("changes", None, None, words, after.at)
