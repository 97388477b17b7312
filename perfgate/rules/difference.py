"""Compare two rulesets: which rules were added, removed, loosened or tightened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from msgspec.structs import asdict, replace

from perfgate.core import ChangeKind, Location, PolicyChange
from perfgate.core.wording import shell_text
from perfgate.rules.model_section import TrainedModel
from perfgate.rules.ruleset import AtWorst, Rule, Ruleset, Settings
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause

#: One difference between two rules: its effect, and words for it.
Detail = tuple[ChangeKind, str]
#: The order of differences. If details of a rule differ in kind, the first of these is the kind of the difference.
_ORDER: tuple[ChangeKind, ...] = ("removes", "loosens", "changes", "tightens", "adds")
#: The values of `pairs` and `unread`, from the strictest to the mildest.
_PAIRS = ("refuse", None, "accept")
_UNREAD = ("error", "warn", "ignore")
#: Settings whose values have an order, from the mildest to the strictest.
_ORDERED: dict[str, tuple[str | None, ...]] = {
    "severity": ("warning", "error"),
    "on_missing": ("skip", "warn", "error"),
    "on_inconclusive": ("warn", None, "error", "fail"),
    "on_improvement": ("note", "fail"),
    "on_throttled": ("note", "error"),
}
#: The settings whose values have no order, such as `warmup`.
_UNORDERED = [name for name in Settings.__struct_fields__ if name not in {"budget", "lost_time", "at_worst", *_ORDERED}]


def differences(old: Ruleset, new: Ruleset) -> list[PolicyChange]:
    """Return how `new` differs from `old`, with removed and loosened rules first; empty if both require the same."""
    pairs, removed, added = _matched(old.rules, new.rules)
    found = [PolicyChange("removes", rule.name, None, f"removes {_shown(rule)}", rule.at) for rule in removed]
    found += [change for pair in pairs if (change := _change(*pair)) is not None]
    found += [PolicyChange("adds", None, rule.name, f"adds {_shown(rule)}", rule.at) for rule in added]
    at = next((rule.at for rule in (*new.rules, *old.rules)), Location("rules"))
    found += [PolicyChange(kind, None, None, message, place or at) for kind, message, place in _beside(old, new)]
    return sorted(found, key=lambda change: _ORDER.index(change.kind))


def _beside(old: Ruleset, new: Ruleset) -> Iterator[tuple[ChangeKind, str, Location | None]]:
    """Yield differences outside the rules: the kind, the message, and the place if there is one."""
    for name in sorted({*old.metrics, *new.metrics}):
        before, after = old.metrics.get(name), new.metrics.get(name)
        if before is None or after is None or before.expression != after.expression:
            sides = " → ".join(metric.text if metric else "none" for metric in (before, after))
            yield "changes", f"changes the metric {name}: {sides}", after.at if after else None
    texts: tuple[tuple[str, Callable[[Ruleset], str]], ...] = (
        ("the identity of an environment", lambda side: ", ".join(side.identity)),
        ("the conditions of a measurement", _conditions),
        ("the renames of metrics", lambda side: ", ".join(f"{was} is {now}" for was, now in side.renames.items())),
    )
    for words, text in texts:
        one, other = text(old), text(new)
        if one != other:
            yield "changes", f"changes {words}: {one or 'none'} → {other or 'none'}", None
    for name, order in (("pairs", _PAIRS), ("unread", _UNREAD)):
        first, last = (getattr(side, name) for side in (old, new))
        if first != last:
            kind = _kind(is_looser=order.index(last) > order.index(first))
            yield kind, f"{kind} {name}: {first or 'default'} → {last or 'default'}", None
    if old.mappings != new.mappings:  # they decide how files are read
        known, others = ({one.name: one for one in side.mappings} for side in (old, new))
        names = [name for name in {**known, **others} if known.get(name) != others.get(name)]
        place = next((one.at for one in new.mappings if one.name in names), None)
        yield "changes", f"changes how files are read: the mapping {', '.join(names)}", place
    if _command(old) != _command(new):
        sides = f"{_command(old) or 'none'} → {_command(new) or 'none'}"
        yield "changes", f"changes the command that measures: {sides}", new.command.at if new.command else None
    if _model_anywhere(old) != _model_anywhere(new):
        yield "changes", "changes the model that mfu and hfu are computed for", new.model.at if new.model else None


def _conditions(ruleset: Ruleset) -> str:
    """Return the names of the conditions that the rule files give; those of mappings belong to the mappings."""
    labels = {name for mapping in ruleset.mappings for name in mapping.label_names}
    return ", ".join(sorted({*ruleset.conditions} - labels))


def _kind(*, is_looser: bool) -> ChangeKind:
    return "loosens" if is_looser else "tightens"


def _by_rooms(rooms: Sequence[float]) -> ChangeKind:
    """Return the kind of a change of a tolerance. `rooms`: how much more each part of it allows than before."""
    return "loosens" if min(rooms) >= 0 else "tightens" if max(rooms) <= 0 else "changes"


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


def _shown(rule: Rule) -> str:
    return f"{rule.id}: {_sentence(rule)}" if rule.id else _sentence(rule)


def _sentence(rule: Rule) -> str:
    return " ".join(rule.sentence.text.split())


def _matched(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[list[tuple[Rule, Rule]], list[Rule], list[Rule]]:
    """Match the rules by id, then by sentence, then by subject; return the pairs and the rest of each side."""
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
    details = [*_of_sentence(old, new), *_of_settings(old.settings, new.settings), *_of_conditions(old, new)]
    if not details:
        return None
    kinds = {kind for kind, _ in details}
    kind: ChangeKind = next((kind for kind in _ORDER if kind in kinds), "changes")
    message = f"{kind} {new.name}: {'; '.join(words for _, words in details)}"
    return PolicyChange(kind, old.name, new.name, message, new.at)


def _of_sentence(old: Rule, new: Rule) -> Iterator[Detail]:
    """Compare the subjects, or else the clauses one by one."""
    before, after = old.sentence, new.sentence
    whole = f"{_sentence(old)} → {_sentence(new)}"
    if (before.subject, before.statistic, before.rank) != (after.subject, after.statistic, after.rank):
        yield "changes", whole
    elif len(before.clauses) != len(after.clauses):
        yield _kind(is_looser=len(after.clauses) < len(before.clauses)), whole
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
        room = after.bound.value - before.bound.value
        rooms = [room if before.upper else -room]
    elif isinstance(before, ChangeClause) and isinstance(after, ChangeClause):
        if (before.reference, before.side) != (after.reference, after.side):
            return "changes"
        # A change fails only beyond both tolerances: a tolerance that is not given counts as 0.
        absolute = [asks.absolute.value if asks.absolute else 0.0 for asks in (before, after)]
        rooms = [(after.relative or 0.0) - (before.relative or 0.0), absolute[1] - absolute[0]]
    else:
        return "changes"
    return _by_rooms(rooms) if any(rooms) else None


def _of_at_worst(old: AtWorst | None, new: AtWorst | None) -> Iterator[Detail]:
    """Yield the change of `at_worst`, unless only its text changed, as from `10%` to `10.0%`.

    Its default depends on the tolerance, so it has no order with a written one.
    """
    kind: ChangeKind = "changes"
    if old is not None and new is not None and _parts(old) == _parts(new):
        rooms = [(new.relative or 0.0) - (old.relative or 0.0)]
        rooms += [new.absolute.value - old.absolute.value] if new.absolute and old.absolute else []
        if not any(rooms):
            return
        kind = _by_rooms(rooms)
    before, after = ("default" if one is None else one.text for one in (old, new))
    yield kind, f"at_worst {before} → {after}"


def _parts(at_worst: AtWorst) -> tuple[bool, str | None]:
    """Return whether a share is written, and the unit of a written quantity. Only equal parts can be ordered."""
    return at_worst.relative is not None, at_worst.absolute.base if at_worst.absolute else None


def _of_settings(old: Settings, new: Settings) -> Iterator[Detail]:
    """Compare the settings, whether a rule or the defaults of its file give them."""
    before, after = asdict(old), asdict(new)
    for name, order in _ORDERED.items():
        one, other = before[name], after[name]
        if one != other:
            is_looser = order.index(other) < order.index(one)
            yield _kind(is_looser=is_looser), f"{name} {one or 'default'} → {other or 'default'}"
    if old.budget != new.budget:
        low, high = (inf if budget is None else budget for budget in (old.budget, new.budget))
        words = ["none" if budget is None else f"{100 * budget:g}%" for budget in (old.budget, new.budget)]
        yield _kind(is_looser=high > low), f"budget {words[0]} → {words[1]}"
    if old.lost_time != new.lost_time:
        sides = f"{100 * old.lost_time:g}% → {100 * new.lost_time:g}%"
        yield _kind(is_looser=new.lost_time > old.lost_time), f"lost_time {sides}"
    if old.at_worst != new.at_worst:
        yield from _of_at_worst(old.at_worst, new.at_worst)
    for name in _UNORDERED:
        if before[name] != after[name]:
            yield "changes", f"{name} {before[name]} → {after[name]}"


def _of_conditions(old: Rule, new: Rule) -> Iterator[Detail]:
    """Compare `when`, `expect_fail`, `quarantine` and `better`."""
    before, after = set(old.when), set(new.when)
    if before != after:
        kind: ChangeKind = "loosens" if before < after else "tightens" if after < before else "changes"
        words = [" and ".join(sorted(map(str, when))) or "always" for when in (before, after)]
        yield kind, f"when {words[0]} → {words[1]}"
    for words_of, one, other in (
        ("expected to fail", old.expect_fail, new.expect_fail),
        ("quarantined", old.quarantine, new.quarantine),
    ):
        if one != other:
            first, last = (dated.until if dated else None for dated in (one, other))
            is_looser = last is not None and (first is None or last > first)
            yield _kind(is_looser=is_looser), f"{words_of} until {first or 'never'} → {last or 'never'}"
    if old.better != new.better:
        yield "changes", f"better {old.better or 'default'} → {new.better or 'default'}"
