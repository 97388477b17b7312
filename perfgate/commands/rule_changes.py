"""What a pull request changes in the policy that judges it, and what that would have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.places import UnsafeName, is_run
from perfgate.baselines.repository import LoadedBaseline, load_baseline
from perfgate.baselines.stores import Store, open_store, store_of
from perfgate.core import OUTCOMES, Location, Outcome, PolicyChange, Report, Verdict
from perfgate.judge.case import Case
from perfgate.judge.report import with_outcome
from perfgate.judge.verdicts import judge
from perfgate.rules.difference import differences
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.errors import Refused
from perfgate.workspace.options import CommandOptions, approve_command
from perfgate.workspace.rule_source import WORKING_TREE, PolicySource, read_rules


def policy_changes(
    source: PolicySource,
    options: CommandOptions,
    ruleset: Ruleset,
    case: Case,
    verdicts: Sequence[Verdict],
    load: Callable[[Ruleset], LoadedBaseline],
) -> tuple[tuple[PolicyChange, ...], Outcome | None]:
    """How the working tree's rules and baselines differ from those of the ref, and what they would have decided.

    Nothing here can change the decision: a working tree that cannot be read is one of the differences.
    """
    if source.ref is None:
        return (), None
    stored = _of_baselines(store_of(source, options.baselines), open_store(options.baselines), source.ref)
    try:
        own, problems, _ = read_rules(WORKING_TREE, options.rules, options.suite)
    except Refused as error:
        return (_unreadable(str(error), options), *stored), "error"
    if own is None:
        return (_unreadable(str(problems[0]), options), *stored), "error"
    changes = differences(ruleset, own)
    if not changes and not stored:
        return (), None
    loaded = load(own)
    own_verdicts = judge(replace(case, ruleset=own, baseline=loaded.baseline))
    outcome = with_outcome(Report(verdicts=own_verdicts, problems=tuple(loaded.problems))).outcome
    return (*(_with_effect(change, verdicts, own_verdicts) for change in changes), *stored), outcome


def own_baseline(options: CommandOptions, case: Case) -> Callable[[Ruleset], LoadedBaseline]:
    """How the baselines of the working tree are loaded; nothing that it allows itself counts."""
    store = open_store(options.baselines)

    def load(ruleset: Ruleset) -> LoadedBaseline:
        found = load_baseline(store, ruleset, dict(case.facts), approve_command(options))
        return found if case.baseline.pairing is None else replace(found, baseline=case.baseline)

    return load


def _unreadable(why: str, options: CommandOptions) -> PolicyChange:
    message = f"the working tree's own rules cannot be used: {why}"
    return PolicyChange("changes", None, None, message, Location(options.rules[0]))


def _with_effect(change: PolicyChange, base: Sequence[Verdict], own: Sequence[Verdict]) -> PolicyChange:
    """A change of a rule, with what the rule says of these runs before and after it."""
    before, after = _worst(change.rule, base), _worst(change.own_rule, own)
    if change.kind == "removes" and before:
        effect = f"under the base's rules: {before}"
    elif change.kind == "adds" and after:
        effect = f"by itself: {after}"
    elif before and after:
        effect = f"under the base's rules: {before}; under its own: {after}"
    else:
        effect = ""
    return replace(change, effect=effect)


def _worst(rule: str | None, verdicts: Iterable[Verdict]) -> Outcome | None:
    found = {verdict.outcome for verdict in verdicts if verdict.rule == rule}
    return next((outcome for outcome in OUTCOMES if outcome in found), None)


def _of_baselines(base: Store, own: Store, ref: str) -> list[PolicyChange]:
    """Which stored files the working tree adds, alters or lacks, level by level."""
    before, after = base.paths()[0], own.paths()[0]
    altered = [path for path in before if path in after and _read(base, path) != _read(own, path)]
    return [
        *(_stored("changes", f"alters {own.location(path)}", own, path) for path in altered),
        *(_stored("removes", f"lacks {path}, which {ref} holds", base, path) for path in sorted({*before} - {*after})),
        *_added(own, sorted({*after} - {*before})),
    ]


def _read(store: Store, path: str) -> bytes | None:
    """A stored file, or None for one that is refused: it differs from any that is not."""
    try:
        return store.read(path)
    except (OSError, UnsafeName):
        return None


def _added(own: Store, paths: Sequence[str]) -> list[PolicyChange]:
    """Stored files that the ref does not hold, level by level: an approval that did not pass through the base."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(path.rpartition("/")[0], []).append(path)
    found = []
    for folder, files in groups.items():
        run = STORED_RUN.decode(files[0], _read(own, files[0]) or b"")[0] if is_run(files[0]) else None
        why = f": {run.level.reason}" if run else ""
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        found.append(_stored("adds", f"adds {count} to {folder}{why}", own, files[0]))
    return found


def _stored(kind: str, message: str, store: Store, path: str) -> PolicyChange:
    effect = "not used: the base's baselines decide"
    return PolicyChange(kind, None, None, message, store.location(path), effect)  # type: ignore[arg-type]
