"""`perfgate rules`: the table of the rules, and `check`, `explain` and `diff`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import chain

import click
from msgspec.structs import replace

from perfgate.analysis.tolerances import impossible_shares
from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.places import kind_of
from perfgate.baselines.stores import each_file, open_store
from perfgate.cli import shared
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.printing import NOT_JUDGED, USAGE, complain, say, screen, write_document
from perfgate.commands.ledger import records_of
from perfgate.core import PolicyChange, Problem, Verdict
from perfgate.core.summaries import Plan
from perfgate.core.verdicts import verdict_ids
from perfgate.core.wording import one_line, plural, series_name
from perfgate.rules import load as loading
from perfgate.rules.difference import differences
from perfgate.rules.explain import explain
from perfgate.rules.repair import absent_metrics
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import selectors
from perfgate.words.history_words import rule_record
from perfgate.words.numbers import what
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import full_names
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import WORKING_TREE, parse_mappings, policy_source, read_ruleset

#: The number of newest runs of an environment whose metrics are listed.
_NEWEST = 10


class _Rules(SuggestingGroup):
    """The group `rules`. If its first word is not a command, but an option or a run, the command is `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the word `show` if no command is given."""
        first = args[0] if args else "--"  # without any word, the command is `show`, as if an option came first
        is_run = os.path.exists(first) or "://" in first or any(mark in first for mark in "*?[")
        is_show = first not in self.commands and (first.startswith("-") or is_run)
        if is_show and first not in ctx.help_option_names and not ctx.resilient_parsing:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("rules", cls=_Rules)
def command() -> None:
    """Show what each rule sees, proves and needs; check, explain and compare rule files.

    \b
    `perfgate rules` alone is `perfgate rules show`.
    """


@command.command("show")
@shared.command_options(*shared.OPTIONAL_RUNS, *shared.JUDGING)
@click.option("--calibrate", is_flag=True, help="Measure the noise between five or more unchanged RUNs; store it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.rules/1).")
def rules_show(options: CommandOptions, calibrate: bool, as_json: bool) -> int:
    """Show what each rule sees, whether it can fail, and what it needs. The exit code is 1 if one cannot fail.

    Unchanged runs must pass, and the same runs, made worse on purpose, must fail. Without RUN, they are the newest
    stored run of each environment, or the runs that `perfgate run` kept. With --calibrate, they are all stored runs,
    each level by itself; files of pairs show the noise between pairs.

    \b
    Example: perfgate rules show
    """
    if calibrate:
        from perfgate.commands.rules_table import calibrate_runs

        return say(calibrate_runs(options))
    from perfgate.commands.rules_table import rules_tables
    from perfgate.reporters.rules_table import rules_json, rules_text

    tables, problems, code = rules_tables(options)
    code = code or (NOT_JUDGED if any(one.severity == "error" for one in problems) else 0)
    if as_json:
        write_document(rules_json(tables, problems, code))
    else:
        seen = screen()
        text = rules_text(tables, code, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only)
        click.echo(text, nl=False, color=True)
    complain(problems)
    return code


@command.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=shared.files)
@shared.baselines_option
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
@click.argument("names", nargs=-1, metavar="[NAME|METRIC...]", shell_complete=shared.rules_and_metrics)
@shared.command_options(shared.rules_option, shared.baselines_option, shared.suite_option, shared.env_option)
def rules_explain(names: tuple[str, ...], options: CommandOptions) -> int:
    """Explain rules in words: what they mean, what they need, and what would fail with the stored runs.

    A name is a rule or a metric, as a report prints it. `perfgate explain` shows how one verdict was computed.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    found, problems = explain_rules(options, names)
    say(["\n\n".join(found)])
    return complain(problems)


@command.command("diff")
@click.argument("old")
@click.argument("new", required=False)
@shared.command_options(shared.rules_option, shared.suite_option)
def rules_diff(old: str, new: str | None, options: CommandOptions) -> int:
    """Show what a change to the rules loosens or tightens.

    OLD and NEW are paths or git refs. Without NEW, it is the working tree.

    \b
    Example: perfgate rules diff refs/remotes/origin/main
    """
    from perfgate.reporters.rules_table import render_difference

    changes, sides = rules_difference(old, new, options)
    return say([render_difference(changes, sides)])


def check_rules(paths: Sequence[str], baselines: str) -> tuple[list[str], list[Problem]]:
    """Validate rule files and files with mappings; return a line for each good one, and all problems.

    Warnings are about a metric that no stored run has, a tolerance or limit that a share (0 to 100 %) cannot break, and
    a stored run that cannot be read. Raises Refused.
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
    for file in WORKING_TREE.mapping_files(paths):
        found = parse_mappings([file])
        problems += found.problems
        if not found.problems:
            command = ", a command" if found.command else ""
            lines.append(f"{file[0]}: {plural(len(found.mappings), 'mapping')}{command}")
    return lines, problems


def rules_difference(old: str, new: str | None, options: CommandOptions) -> tuple[list[PolicyChange], str]:
    """Return what the rules of `new` loosen or tighten against `old`, and a title for both. Raises Refused.

    Each side is a path, or a git ref with rules at `options.rules`. If `new` is None, it is the working tree.
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


def explain_rules(options: CommandOptions, names: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Return the rules with these names, or all, in words, with their results on the stored runs.

    Also returns the problems of the stored runs. Raises Refused for an unknown name or a file with mistakes.
    """
    from perfgate.reporters.rules_table import render_next_run

    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    by_level, planned, problems = _on_newest_runs(options, ruleset)
    # By the place of each rule: its verdicts by level, and the names by which a user may mean it.
    verdicts = {rule.at: _of_rule(rule, by_level) for rule in ruleset.rules}
    known = {rule.at: rule_names_of(rule, [*chain(*verdicts[rule.at].values())]) for rule in ruleset.rules}
    _refuse_unknown(names, set().union(*known.values()))
    records, wrong = records_of(options.baselines, ruleset)
    texts = []
    for rule in ruleset.rules:
        if names and known[rule.at].isdisjoint(names):
            continue
        blocks = [explain(rule, ruleset), *render_next_run(verdicts[rule.at], planned)]
        if rule.name in records:
            blocks.append(f"On main: {rule_record(records[rule.name])}.")
        texts.append("\n".join(map(one_line, "\n".join(blocks).split("\n"))))
    return texts, [*problems, *wrong]


def _of_rule(rule: Rule, by_level: Mapping[str, Sequence[Verdict]]) -> dict[str, list[Verdict]]:
    return {level: [one for one in verdicts if one.at == rule.at] for level, verdicts in by_level.items()}


def _refuse_unknown(names: Sequence[str], known: set[str]) -> None:
    """Raise Refused for the first name that is not known, with the nearest one."""
    for name in names:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1) or sorted(one for one in known if one.startswith(name))
            step = f"did you mean {near[0]!r}?" if near else "`perfgate rules` shows all of them"
            raise Refused(f"no rule and no metric of a rule is called {name!r}; {step}")


def rule_names_of(rule: Rule, verdicts: Sequence[Verdict]) -> set[str]:
    """Return every name that a report prints for a rule with these verdicts."""
    names = {rule.name, rule.sentence.text, rule.sentence.subject_text}
    names |= {selector.pattern for selector in selectors(rule.sentence.subject)}
    for one in verdicts:
        about = what(one)
        names |= {one.metric, series_name(one.metric, one.labels), about, f"{about} {one.asks}"}
    return names | set(verdict_ids(verdicts))


def _on_newest_runs(
    options: CommandOptions, ruleset: Ruleset
) -> tuple[dict[str, tuple[Verdict, ...]], dict[tuple[str, str, str], Plan], list[Problem]]:
    """Return, from the newest stored run of each current level, what it would get as a new run.

    The results are the verdicts by level, the plans by clause (how large a change each rule sees), and problems. The
    newest run is among the base runs, too, so its verdicts are an example and decide nothing.
    """
    from perfgate.analysis.plan import plans
    from perfgate.commands.rules_table import newest_run, stored_cases
    from perfgate.judge.verdicts import judge
    from perfgate.reporters.rules_table import clause_of

    verdicts: dict[str, tuple[Verdict, ...]] = {}
    planned: dict[tuple[str, str, str], Plan] = {}
    problems: list[Problem] = []
    for case, wrong in stored_cases(options, ruleset):
        problems += wrong
        if case.baseline.runs:
            planned |= {clause_of(plan): plan for plan in plans(case)}
            verdicts[case.baseline.place or ""] = judge(replace(case, new=newest_run(case.baseline.runs)))
    return verdicts, planned, list(dict.fromkeys(problems))


def stored_metrics(baselines: str) -> tuple[dict[str, dict[str, str]], list[Problem]]:
    """Return the metrics of the newest stored runs, by suite, with their base units; and the problems of the runs.

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
