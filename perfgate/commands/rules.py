"""`perfgate rules check`, `explain` and `diff`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from perfgate.analysis.impossible_shares import impossible_shares
from perfgate.core import PolicyChange, Problem, Verdict
from perfgate.core.wording import plural
from perfgate.reporters.rule_texts import render_next_run
from perfgate.rules import load as loading
from perfgate.rules.difference import differences
from perfgate.rules.explain import explain
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.stored_names import absent_metrics
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import full_names
from perfgate.workspace.mapping_source import check_mappings
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import WORKING_TREE, policy_source, read_ruleset


def check_rules(paths: Sequence[str], baselines: str) -> tuple[list[str], list[Problem]]:
    """Validate rule files; return a line for each good one, and every problem of the others.

    A metric that no stored run has is a warning, and so are a tolerance or limit that no share reaches, and a stored
    run that cannot be read. Raises Refused.
    """
    from perfgate.commands.stored_metrics import stored_metrics

    files = WORKING_TREE.rule_files(paths)
    stored, unread = stored_metrics(baselines)
    known = {metric for metrics in stored.values() for metric in metrics}
    counts, problems = loading.check_rules(files, surroundings.limits(), known)
    for ruleset in loading.readable_rulesets(files, surroundings.limits()):
        problems += impossible_shares(ruleset)
        problems += absent_metrics(ruleset, stored.get(ruleset.suite, {}))
    problems += [replace(problem, severity="warning") for problem in unread]
    lines = [f"{name}: {plural(count, 'rule')}" for name, count in counts.items()]
    mappings, wrong = check_mappings(paths)
    lines += [f"{name}: {plural(count, 'mapping')}" for name, count in mappings.items()]
    return lines, problems + wrong


def names_of_rules(paths: Sequence[str], *, with_metrics: bool) -> list[str]:
    """Return the names of the rules of all suites, and their metrics if asked for; sorted. Raises Refused."""
    rulesets = loading.readable_rulesets(WORKING_TREE.rule_files(paths), surroundings.limits())
    found = [rule for ruleset in rulesets for rule in ruleset.rules]
    names = {rule.name for rule in found}
    return sorted(names | {rule.sentence.subject_text for rule in found} if with_metrics else names)


def rules_difference(old: str, new: str | None, options: CommandOptions) -> tuple[list[PolicyChange], str]:
    """Return what the rules of NEW loosen or tighten against OLD, and a title for both. Raises Refused.

    Each side is a path, or a git ref with rules at `paths`. NEW is the working tree by default.
    """
    before, after = _side(old, options), _side(new, options)
    return differences(before, after), f"{old} → {new or 'the working tree'}"


def _side(name: str | None, options: CommandOptions) -> Ruleset:
    is_path = name is not None and os.path.exists(name)
    if is_path and name is not None and surroundings.head_commit() and (meanings := full_names(name)):
        raise Refused(f"{name} is both a path and a ref: write ./{name} or {meanings[0]}", 3)
    source = WORKING_TREE if name is None or is_path else policy_source(name)
    return read_ruleset(source, (name,) if is_path and name is not None else options.rules, options.suite)


def explain_rules(options: CommandOptions, ids: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Return the rules with these ids, or all, in words, with their results on the stored runs.

    Also returned is what is wrong with the stored runs. Raises Refused for an unknown id or a file with mistakes.
    """
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    known = {rule.name: rule for rule in ruleset.rules}
    for unknown in (name for name in ids if name not in known):
        near = get_close_matches(unknown, known, n=1) or [name for name in known if name.startswith(unknown)]
        step = f"did you mean {near[0]!r}?" if near else "`perfgate rules explain` shows all of them"
        raise Refused(f"no rule is called {unknown!r}; {step}")
    chosen = replace(ruleset, rules=tuple(rule for rule in ruleset.rules if not ids or rule.name in ids))
    found, problems = _now(options, chosen)
    texts = []
    for rule in chosen.rules:
        own = {place: [verdict for verdict in verdicts if verdict.at == rule.at] for place, verdicts in found.items()}
        texts.append("\n".join([explain(rule, ruleset), *render_next_run(own)]))
    return texts, problems


def _now(options: CommandOptions, ruleset: Ruleset) -> tuple[dict[str, tuple[Verdict, ...]], list[Problem]]:
    """Return the verdicts on the newest stored run of each current level, as if it were new."""
    from perfgate.commands.plan import stored_cases
    from perfgate.judge.verdicts import judge

    found: dict[str, tuple[Verdict, ...]] = {}
    problems: list[Problem] = []
    for case, wrong in stored_cases(options, ruleset):
        problems += wrong
        if case.baseline.runs:
            found[case.baseline.place or ""] = judge(replace(case, new=case.baseline.runs[-1:]))
    return found, list(dict.fromkeys(problems))
