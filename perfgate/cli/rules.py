"""The commands of `perfgate rules`: check, explain and diff."""

from __future__ import annotations

import click

from perfgate.cli.completion import files, rule_names
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.printing import USAGE, complain, say
from perfgate.cli.shared import baselines_option, command_options, env_option, rules_option, suite_option
from perfgate.workspace.options import CommandOptions


@click.group(cls=SuggestingGroup)
def rules() -> None:
    """Check, explain and compare rule files."""


@rules.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=files)
@baselines_option
def rules_check(paths: tuple[str, ...], baselines: str) -> int:
    """Validate rule files, and show every mistake with its line. Warn of metrics that no stored run has.

    \b
    Example: perfgate rules check rules/
    """
    from perfgate.commands.rules import check_rules

    good, problems = check_rules(paths or ("rules",), baselines)
    say(good)
    complain(problems)
    return USAGE if any(problem.severity == "error" for problem in problems) else 0


@rules.command()
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=rule_names)
@command_options(rules_option, baselines_option, suite_option, env_option)
def explain(ids: tuple[str, ...], options: CommandOptions) -> int:
    """Explain rules in words: what they mean, what they need, and what would fail with the stored runs.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    from perfgate.commands.rules import explain_rules

    found, problems = explain_rules(options, ids)
    say(["\n\n".join(found)])
    return complain(problems)


@rules.command()
@click.argument("old")
@click.argument("new", required=False)
@command_options(rules_option, suite_option)
def diff(old: str, new: str | None, options: CommandOptions) -> int:
    """Show what a change to the rules loosens or tightens.

    OLD and NEW are paths or git refs. Without NEW, it is the working tree.

    \b
    Example: perfgate rules diff refs/remotes/origin/main
    """
    from perfgate.commands.rules import rules_difference
    from perfgate.reporters.rule_texts import render_difference

    changes, sides = rules_difference(old, new, options)
    return say([render_difference(changes, sides)])
