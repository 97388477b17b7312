"""`perfgate rules check`, `explain` and `diff`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches

import click
from msgspec.structs import replace

from perfgate.analysis.tolerances import impossible_shares
from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.places import kind_of
from perfgate.baselines.stores import each_file, open_store
from perfgate.cli.completion import files, rule_names
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.printing import USAGE, complain, say
from perfgate.cli.shared import baselines_option, command_options, env_option, rules_option, suite_option
from perfgate.commands.ledger_check import records_of
from perfgate.core import PolicyChange, Problem, Verdict
from perfgate.core.wording import plural
from perfgate.reporters.init import render_difference, render_next_run
from perfgate.rules import load as loading
from perfgate.rules.difference import differences
from perfgate.rules.explain import explain
from perfgate.rules.repair import absent_metrics
from perfgate.rules.ruleset import Ruleset
from perfgate.words.ledger_words import rule_record
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import full_names
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import WORKING_TREE, check_mappings, policy_source, read_ruleset

#: The number of the newest runs of an environment that are read.
_NEWEST = 10


@click.group("rules", cls=SuggestingGroup)
def command() -> None:
    """Check, explain and compare rule files."""


@command.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=files)
@baselines_option
def rules_check(paths: tuple[str, ...], baselines: str) -> int:
    """Validate rule files, and show every mistake with its line. Warn of metrics that no stored run has.

    \b
    Example: perfgate rules check rules/
    """
    good, problems = check_rules(paths or ("rules",), baselines)
    say(good)
    complain(problems)
    return USAGE if any(problem.severity == "error" for problem in problems) else 0


@command.command("explain")
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=rule_names)
@command_options(rules_option, baselines_option, suite_option, env_option)
def rules_explain(ids: tuple[str, ...], options: CommandOptions) -> int:
    """Explain rules in words: what they mean, what they need, and what would fail with the stored runs.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    found, problems = explain_rules(options, ids)
    say(["\n\n".join(found)])
    return complain(problems)


@command.command("diff")
@click.argument("old")
@click.argument("new", required=False)
@command_options(rules_option, suite_option)
def rules_diff(old: str, new: str | None, options: CommandOptions) -> int:
    """Show what a change to the rules loosens or tightens.

    OLD and NEW are paths or git refs. Without NEW, it is the working tree.

    \b
    Example: perfgate rules diff refs/remotes/origin/main
    """
    changes, sides = rules_difference(old, new, options)
    return say([render_difference(changes, sides)])


def check_rules(paths: Sequence[str], baselines: str) -> tuple[list[str], list[Problem]]:
    """Validate rule files; return a line for each good one, and every problem of the others.

    Warnings: a metric that no stored run has, a tolerance or limit that is too large for a share, and a stored run that
    cannot be read. Raises Refused.
    """
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
    lines += [f"{name}: {what}" for name, what in mappings.items()]
    return lines, problems + wrong


def rules_difference(old: str, new: str | None, options: CommandOptions) -> tuple[list[PolicyChange], str]:
    """Return what the rules of NEW loosen or tighten against OLD, and a title for both. Raises Refused.

    Each side is a path, or a git ref with rules at `paths`. NEW is the working tree by default.
    """
    before, after = _side(old, options), _side(new, options)
    return differences(before, after), f"{old} → {new or 'the working tree'}"


def _side(name: str | None, options: CommandOptions) -> Ruleset:
    """Return the rules at a path or a git ref; None is the working tree. Raises Refused for a name that is both."""
    if name is None:
        return read_ruleset(WORKING_TREE, options.rules, options.suite)
    if not os.path.exists(name):
        return read_ruleset(policy_source(name), options.rules, options.suite)
    if surroundings.head_commit() and (meanings := full_names(name)):
        raise Refused(f"{name} is both a path and a ref: write ./{name} or {meanings[0]}", 3)
    return read_ruleset(WORKING_TREE, (name,), options.suite)


def explain_rules(options: CommandOptions, ids: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Return the rules with these ids, or all, in words, with their results on the stored runs; and the problems.

    The problems are those of the stored runs. Raises Refused for an unknown id or a file with mistakes.
    """
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    known = {rule.name: rule for rule in ruleset.rules}
    for unknown in (name for name in ids if name not in known):
        near = get_close_matches(unknown, known, n=1) or [name for name in known if name.startswith(unknown)]
        step = f"did you mean {near[0]!r}?" if near else "`perfgate rules explain` shows all of them"
        raise Refused(f"no rule is called {unknown!r}; {step}")
    chosen = replace(ruleset, rules=tuple(rule for rule in ruleset.rules if not ids or rule.name in ids))
    found, seen, problems = _on_newest_runs(options, chosen)
    records, wrong = records_of(options.baselines, ruleset.suite)
    texts = []
    for rule in chosen.rules:
        own = {place: [verdict for verdict in verdicts if verdict.at == rule.at] for place, verdicts in found.items()}
        record = [f"On main: {rule_record(records[rule.name])}."] if rule.name in records else []
        texts.append("\n".join([explain(rule, ruleset), *render_next_run(own, seen), *record]))
    return texts, [*problems, *wrong]


def _on_newest_runs(
    options: CommandOptions, ruleset: Ruleset
) -> tuple[dict[str, tuple[Verdict, ...]], dict[tuple[str, str, str], float], list[Problem]]:
    """Return the verdicts on the newest stored run of each current level, as if it were new, and what rules see."""
    from perfgate.analysis.plan import seen_changes
    from perfgate.commands.plan import stored_cases
    from perfgate.judge.verdicts import judge

    found: dict[str, tuple[Verdict, ...]] = {}
    seen: dict[tuple[str, str, str], float] = {}
    problems: list[Problem] = []
    for case, wrong in stored_cases(options, ruleset):
        problems += wrong
        if case.baseline.runs:
            seen |= seen_changes(case)
            found[case.baseline.place or ""] = judge(replace(case, new=case.baseline.runs[-1:]))
    return found, seen, list(dict.fromkeys(problems))


def stored_metrics(baselines: str) -> tuple[dict[str, dict[str, str]], list[Problem]]:
    """Return the base unit of each metric of the newest stored runs, by suite and metric; and the problems of the runs.

    Raises Refused if the store cannot be used.
    """
    store = open_store(baselines)
    paths, problems = store.paths()
    places: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        if kind_of(path) == "run":
            suite, environment, *_ = path.split("/")
            places.setdefault((suite, environment), []).append(path)
    found: dict[str, dict[str, str]] = {}
    for (suite, _), runs in places.items():
        newest = sorted(runs, key=lambda path: path.rpartition("/")[2])[-_NEWEST:]  # a name begins with the time
        for path, data in list(each_file(store, newest, "run", problems)):
            file, wrong = STORED_RUN.decode(str(store.location(path)), data)
            problems += wrong
            if file is not None:
                units = {series.key.metric: series.unit for series in file.run(path).series}
                found.setdefault(suite, {}).update(units)
    return found, problems
