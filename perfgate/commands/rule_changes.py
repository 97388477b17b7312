"""The changes of a pull request to the rules and baselines that judge it, and their effect."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.places import UnsafeName, kind_of
from perfgate.baselines.repository import StoredBaselines
from perfgate.baselines.stores import Store, open_store
from perfgate.core import OUTCOMES, ChangeKind, Location, Outcome, PolicyChange, Report, Verdict
from perfgate.core.wording import plural
from perfgate.judge.evidence import Case
from perfgate.judge.report import with_outcome
from perfgate.judge.verdicts import judge
from perfgate.rules.difference import differences
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import WORKING_TREE, read_rules


class OwnPolicy(Struct, frozen=True):
    """The rules and baselines of the working tree, when those of a ref judge."""

    #: The baselines, with the rules; None if the rules cannot be used.
    baselines: StoredBaselines | None
    #: The differences from the ref that are known without any runs.
    changes: tuple[PolicyChange, ...]


def own_policy(ref: str, store: Store, options: CommandOptions) -> OwnPolicy:
    """Read the rules and baselines of the working tree.

    `ref`: the ref that judges. `store`: its baselines. Rules that cannot be used are one of the differences,
    because nothing here may change the answer. Raises Refused for a folder of baselines that cannot be opened.
    """
    own_store = open_store(options.baselines)
    stored = _of_baselines(store, own_store, ref)
    try:
        own, problems, _ = read_rules(WORKING_TREE, options.rules, options.suite)
        why = "" if own else str(problems[0])
    except Refused as error:
        own, why = None, str(error)
    if own is not None:
        return OwnPolicy(StoredBaselines(own_store, own), tuple(stored))
    message = f"the working tree's own rules cannot be used: {why}"
    change = PolicyChange("changes", rule=None, own_rule=None, message=message, at=Location(options.rules[0]))
    return OwnPolicy(None, (change, *stored))


def policy_changes(
    policy: OwnPolicy, options: CommandOptions, case: Case, verdicts: Sequence[Verdict]
) -> tuple[tuple[PolicyChange, ...], Outcome | None]:
    """Return how the working tree's rules and baselines differ from those of the ref, and the outcome that they give.

    The outcome is None if they do not differ. `case`, `verdicts`: what the rules of the ref judged, and the result.
    """
    if policy.baselines is None:
        return policy.changes, "error"
    own, stored = policy.baselines.ruleset, policy.changes
    changes = differences(case.ruleset, own)
    if not changes and not stored:
        return (), None
    # Pairs keep their base. The allowances, and the noise from the history, are those of the ref, too.
    loaded = policy.baselines.load(dict(case.facts), acceptance(options))
    learned = (one for one in case.baseline.priors if one.learned_from is not None)
    priors = (*loaded.baseline.priors, *learned)
    own_baseline = replace(loaded.baseline, allowances=case.baseline.allowances, priors=priors)
    baseline = own_baseline if case.baseline.pairing is None else case.baseline
    own_verdicts = judge(replace(case, ruleset=own, baseline=baseline))
    outcome = with_outcome(Report(verdicts=own_verdicts, problems=tuple(loaded.problems))).outcome
    return (*(_with_effect(change, verdicts, own_verdicts) for change in changes), *stored), outcome


def _with_effect(change: PolicyChange, base: Sequence[Verdict], own: Sequence[Verdict]) -> PolicyChange:
    """Return a change of a rule with the worst outcome of the rule under the base's rules and under its own."""

    def worst(rule: str | None, verdicts: Sequence[Verdict]) -> Outcome | None:
        found = {one.outcome for one in verdicts if one.rule == rule}
        return next((outcome for outcome in OUTCOMES if outcome in found), None)

    before, after = worst(change.rule, base), worst(change.own_rule, own)
    if change.kind == "removes" and before:
        return replace(change, effect=f"under the base's rules: {before}")
    if change.kind == "adds" and after:
        return replace(change, effect=f"by itself: {after}")
    both = f"under the base's rules: {before}; under its own: {after}"
    return replace(change, effect=both if before and after else "")


def _of_baselines(base: Store, own: Store, ref: str) -> list[PolicyChange]:
    """Return the stored files that the working tree adds, alters or lacks."""
    # Without the history, which decides nothing by itself: the store of a commit is read without it, too.
    before, after = ([path for path in store.paths()[0] if kind_of(path) != "history"] for store in (base, own))
    altered = [path for path in before if path in after and _read(base, path) != _read(own, path)]
    return [
        *(_stored("changes", f"alters {own.location(path)}", own, path) for path in altered),
        *(_stored("removes", f"lacks {path}, which is in {ref}", base, path) for path in sorted({*before} - {*after})),
        *_added(own, sorted({*after} - {*before})),
    ]


def _read(store: Store, path: str) -> bytes | None:
    """Return the bytes of a stored file; None if it is refused or cannot be read."""
    try:
        return store.read(path)
    except (OSError, UnsafeName):
        return None


def _added(own: Store, paths: Sequence[str]) -> list[PolicyChange]:
    """Return a change for each folder, such as a level, with files that the ref lacks: it did not approve them."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(path.rpartition("/")[0], []).append(path)
    found = []
    for folder, files in groups.items():
        run = STORED_RUN.decode(files[0], _read(own, files[0]) or b"")[0] if kind_of(files[0]) == "run" else None
        why = f": {run.level.reason}" if run else ""
        found.append(_stored("adds", f"adds {plural(len(files), 'file')} to {folder}{why}", own, files[0]))
    return found


def _stored(kind: ChangeKind, message: str, store: Store, path: str) -> PolicyChange:
    effect = "not used: the base's baselines decide"
    return PolicyChange(kind, rule=None, own_rule=None, message=message, at=store.location(path), effect=effect)
