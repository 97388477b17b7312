"""Compare two rulesets: which rules were added, removed, loosened or tightened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from math import inf
from typing import Any

from msgspec.structs import asdict, replace

from perfgate.core import ChangeKind, Location, PolicyChange
from perfgate.core.file_mappings import FileMapping
from perfgate.core.wording import shell_text
from perfgate.rules.model_section import TrainedModel
from perfgate.rules.ruleset import AtWorst, DatedReason, Rule, Ruleset, Settings
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause

#: One difference between two rules: its effect, and words for it.
Detail = tuple[ChangeKind, str]
#: The order of differences. If details of a rule differ in kind, the first of these is the kind of the difference.
_ORDER: tuple[ChangeKind, ...] = ("removes", "loosens", "changes", "tightens", "adds")
#: Settings whose values have an order, from the mildest to the strictest: first those of whole rulesets, then those of
#: rules. None is the default. Without `pairs`, pairs are only refused with --policy-ref. Without `on_inconclusive`, an
#: open result is treated like `warn`, or like `error` if a compared percentile has too few values.
_ORDERED_FOR_ALL: dict[str, tuple[str | None, ...]] = {
    "pairs": ("accept", None, "refuse"),
    "unread": ("ignore", "warn", "error"),
}
_ORDERED: dict[str, tuple[str | None, ...]] = {
    "severity": ("warning", "error"),
    "on_missing": ("skip", "warn", "error"),
    "on_inconclusive": ("warn", None, "error", "fail"),
    "on_improvement": ("note", "fail"),
    "on_throttled": ("note", "error"),
}
#: The settings whose values are not ordered here, such as `warmup` and `confidence`: another value is a change.
_UNORDERED = [name for name in Settings.__struct_fields__ if name not in {"budget", "lost_time", "at_worst", *_ORDERED}]


def differences(old: Ruleset, new: Ruleset) -> list[PolicyChange]:
    """Return how `new` differs from `old`, with removed and loosened rules first. `why` and `tags` are not compared."""
    pairs, removed, added = _matched(old.rules, new.rules)
    found = [PolicyChange("removes", rule.name, None, f"removes {_shown(rule)}", rule.at) for rule in removed]
    found += [change for pair in pairs if (change := _change(*pair)) is not None]
    found += [PolicyChange("adds", None, rule.name, f"adds {_shown(rule)}", rule.at) for rule in added]
    at = next((rule.at for rule in (*new.rules, *old.rules)), Location("rules"))
    found += [PolicyChange(kind, None, None, text, place or at) for kind, text, place in _beside(old, new)]
    return sorted(found, key=lambda change: _ORDER.index(change.kind))


def _beside(old: Ruleset, new: Ruleset) -> Iterator[tuple[ChangeKind, str, Location | None]]:
    """Yield differences outside the rules: the kind, the message, and the place if there is one."""
    for name in sorted({*old.metrics, *new.metrics}):
        before, after = old.metrics.get(name), new.metrics.get(name)
        if (before and before.expression) != (after and after.expression):
            sides = f"{before.text if before else 'none'} → {after.text if after else 'none'}"
            yield "changes", f"changes the metric {name}: {sides}", after.at if after else None
    for words, text in _TEXTS.items():
        if text(old) != text(new):
            yield "changes", f"changes {words}: {text(old) or 'none'} → {text(new) or 'none'}", None
    for kind, name, sides in _ordered(_ORDERED_FOR_ALL, asdict(old), asdict(new)):
        yield kind, f"{kind} {name}: {sides}", None
    if old.mappings != new.mappings:
        yield _of_mappings(old.mappings, new.mappings)
    if _command(old) != _command(new):
        sides = f"{_command(old) or 'none'} → {_command(new) or 'none'}"
        yield "changes", f"changes the command that measures: {sides}", new.command.at if new.command else None
    if _model_anywhere(old) != _model_anywhere(new):
        yield "changes", "changes the model that mfu and hfu are computed for", new.model.at if new.model else None


def _of_mappings(old: Sequence[FileMapping], new: Sequence[FileMapping]) -> tuple[ChangeKind, str, Location | None]:
    """Return the difference between two lists of mappings, which decide how files are read."""
    known, others = ({mapping.name: mapping for mapping in side} for side in (old, new))
    names = [name for name in {**known, **others} if known.get(name) != others.get(name)]
    place = next((mapping.at for mapping in new if mapping.name in names), None)
    return "changes", f"changes how files are read: the mapping {', '.join(names)}", place


def _conditions(ruleset: Ruleset) -> str:
    """Return the names of the conditions that the rule files give; those of mappings belong to the mappings."""
    labels = {name for mapping in ruleset.mappings for name in mapping.label_names}
    return ", ".join(sorted({*ruleset.conditions} - labels))


def _ordered(
    orders: Mapping[str, Sequence[str | None]], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[ChangeKind, str, str]]:
    """Yield the effect, the name and the values of each setting that differs, if its values have an order."""
    for name, order in orders.items():
        before, after = old[name], new[name]
        if before != after:
            is_looser = order.index(after) < order.index(before)
            yield _kind(is_looser=is_looser), name, f"{before or 'default'} → {after or 'default'}"


def _kind(*, is_looser: bool) -> ChangeKind:
    return "loosens" if is_looser else "tightens"


def _by_growth(growth: Sequence[float]) -> ChangeKind | None:
    """Return the kind of a change of a tolerance; None for no change.

    `growth`: how much more each part of it allows than before.
    """
    if not any(growth):
        return None
    if min(growth) >= 0:
        return "loosens"
    return "tightens" if max(growth) <= 0 else "changes"


def _growth(old: ChangeClause | AtWorst, new: ChangeClause | AtWorst) -> list[float]:
    """Return how much more each part of a tolerance allows than before; a part that is not given counts as 0."""
    before, after = (side.absolute.value if side.absolute else 0.0 for side in (old, new))
    return [(new.relative or 0.0) - (old.relative or 0.0), after - before]


def _command(ruleset: Ruleset) -> str:
    """Return the command of a ruleset with its settings in words; empty if there is none."""
    command = ruleset.command
    if command is None:
        return ""
    words = [*(f"{name}={value}" for name, value in command.env), *command.words]
    settings = (("results", command.results), ("build", command.build))
    return shell_text(words) + "".join(f", {name} {shell_text(given)}" for name, given in settings if given)


def _model_anywhere(ruleset: Ruleset) -> TrainedModel | None:
    """Return the model of a ruleset without its place in a file; None if it has none."""
    return None if ruleset.model is None else replace(ruleset.model, at=Location(""))


#: Parts of a ruleset that are compared as one text, which the message shows.
_TEXTS: dict[str, Callable[[Ruleset], str]] = {
    "the identity of an environment": lambda side: ", ".join(side.identity),
    "the conditions of a measurement": _conditions,
    "the renames of metrics": lambda side: ", ".join(f"{was} is {now}" for was, now in sorted(side.renames.items())),
}


def _shown(rule: Rule) -> str:
    return f"{rule.id}: {_sentence(rule)}" if rule.id else _sentence(rule)


def _sentence(rule: Rule) -> str:
    return " ".join(rule.sentence.text.split())


def _matched(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[list[tuple[Rule, Rule]], list[Rule], list[Rule]]:
    """Match the rules by id, then by sentence, then by subject; return the pairs and the rest of each side.

    A rule with an id is only matched by its id or its sentence.
    """
    left, right = list(old), list(new)
    pairs: list[tuple[Rule, Rule]] = []

    def subject(rule: Rule) -> object:
        sentence = rule.sentence
        return None if rule.id else (sentence.subject_text, sentence.statistic, sentence.rank)

    keys: tuple[Callable[[Rule], object], ...] = (lambda rule: rule.id, _sentence, subject)
    for key in keys:
        for rule in tuple(left):
            other = next((found for found in right if key(rule) is not None and key(found) == key(rule)), None)
            if other is not None:
                pairs.append((rule, other))
                left.remove(rule)
                right.remove(other)
    return pairs, left, right


def _change(old: Rule, new: Rule) -> PolicyChange | None:
    details = [*_of_sentence(old, new), *_of_settings(old.settings, new.settings), *_of_at_worst(old, new)]
    details += _of_conditions(old, new)
    if not details:
        return None
    kind = min((kind for kind, _ in details), key=_ORDER.index)
    message = f"{kind} {new.name}: {'; '.join(words for _, words in details)}"
    return PolicyChange(kind, old.name, new.name, message, new.at)


def _of_sentence(old: Rule, new: Rule) -> Iterator[Detail]:
    """Compare the subjects, or else the clauses one by one."""
    before, after = old.sentence, new.sentence
    whole = f"{_sentence(old)} → {_sentence(new)}"
    if (before.subject, before.statistic, before.rank) != (after.subject, after.statistic, after.rank):
        yield "changes", whole
    elif len(before.clauses) != len(after.clauses):
        fewer, more = sorted((before.clauses, after.clauses), key=len)
        # A dropped clause loosens the rule, whatever the others do; a new one tightens it only if the others stay.
        are_kept = all(any(_of_clause(one, other) is None for other in more) for one in fewer)
        is_looser = fewer is after.clauses
        yield _kind(is_looser=is_looser) if is_looser or are_kept else "changes", whole
    else:
        for one, other in zip(before.clauses, after.clauses, strict=True):
            kind = _of_clause(one, other)
            if kind is not None:
                yield kind, f"{one.text} → {other.text}"


def _of_clause(old: Clause, new: Clause) -> ChangeKind | None:
    """Return how one clause changed; None if it requires the same."""
    before, after = old.asks, new.asks
    if before == after:
        return None
    if isinstance(before, LimitClause) and isinstance(after, LimitClause):
        if before.upper != after.upper or before.bound.base != after.bound.base:
            return "changes"
        more = after.bound.value - before.bound.value
        if more:
            return _by_growth([more if before.upper else -more])
        if before.comparator == after.comparator:
            return None
        return _kind(is_looser=after.comparator in ("at most", "at least"))  # the bound itself is allowed
    if isinstance(before, ChangeClause) and isinstance(after, ChangeClause):
        units = {clause.absolute.base for clause in (before, after) if clause.absolute}
        if (before.reference, before.side) != (after.reference, after.side) or len(units) > 1:
            return "changes"
        return _by_growth(_growth(before, after))  # a change fails only beyond both tolerances
    return "changes"


def _of_at_worst(old: Rule, new: Rule) -> Iterator[Detail]:
    """Yield the change of `at_worst`, unless only its text changed, as from `10%` to `10.0%`.

    Its default depends on the tolerance, so it has no order with a written one.
    """
    before, after = (rule.settings.at_worst for rule in (old, new))
    if before == after:
        return
    kind: ChangeKind | None = "changes"
    if before is not None and after is not None and _parts(before) == _parts(after):
        growth = _growth(before, after)
        are_lower = {isinstance(one.asks, LimitClause) and not one.asks.upper for one in new.clauses}
        if are_lower == {True}:  # below a lower limit, a smaller value is the worse one
            growth = [-more for more in growth]
        kind = "changes" if any(growth) and len(are_lower) > 1 else _by_growth(growth)
    if kind is not None:
        yield kind, f"at_worst {before.text if before else 'default'} → {after.text if after else 'default'}"


def _parts(at_worst: AtWorst) -> tuple[bool, str | None]:
    """Return whether a share is written, and the unit of a written quantity. Only equal parts can be ordered."""
    return at_worst.relative is not None, at_worst.absolute.base if at_worst.absolute else None


def _of_settings(old: Settings, new: Settings) -> Iterator[Detail]:
    """Compare the settings, whether a rule or the defaults of its file give them."""
    before, after = asdict(old), asdict(new)
    for kind, name, sides in _ordered(_ORDERED, before, after):
        yield kind, f"{name} {sides}"
    for name in ("budget", "lost_time"):
        one, other = (inf if side[name] is None else side[name] for side in (before, after))
        if one != other:  # without a budget, all is allowed
            sides = " → ".join("none" if share == inf else f"{100 * share:g}%" for share in (one, other))
            yield _kind(is_looser=other > one), f"{name} {sides}"
    for name in _UNORDERED:
        if before[name] != after[name]:
            yield "changes", f"{name} {before[name]} → {after[name]}"


def _of_conditions(old: Rule, new: Rule) -> Iterator[Detail]:
    """Compare `when`, `expect_fail`, `quarantine` and `better`."""
    before, after = set(old.when), set(new.when)
    if before != after:
        is_looser, is_tighter = before < after, after < before  # with more conditions, a rule is judged less often
        kind = _kind(is_looser=is_looser) if is_looser or is_tighter else "changes"
        sides = " → ".join(" and ".join(sorted(map(str, when))) or "always" for when in (before, after))
        yield kind, f"when {sides}"
    if old.expect_fail != new.expect_fail:
        yield _of_dates("expected to fail", old.expect_fail, new.expect_fail)
    if old.quarantine != new.quarantine:
        yield _of_dates("quarantined", old.quarantine, new.quarantine)
    if old.better != new.better:
        yield "changes", f"better {old.better or 'default'} → {new.better or 'default'}"


def _of_dates(words: str, old: DatedReason | None, new: DatedReason | None) -> Detail:
    """Return how the last day changed; if both sides have the same day, how the reason changed."""
    if old and new and old.until == new.until:
        return "changes", f"{words}, because {old.reason} → {new.reason}"
    first, last = (dated.until if dated else date.min for dated in (old, new))
    sides = " → ".join("never" if until == date.min else str(until) for until in (first, last))
    return _kind(is_looser=last > first), f"{words} until {sides}"
