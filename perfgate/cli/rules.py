"""The commands about rules and schemas: rules check, rules explain, rules diff, schema."""

from __future__ import annotations

import click

from perfgate.cli.completion import files, rule_names
from perfgate.cli.options import USAGE, Group, baselines_option, env_option, rules_option, suite_option
from perfgate.cli.terminal import complain, say


@click.group(cls=Group)
def rules() -> None:
    """Rule files: check, explain and compare them."""


@rules.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=files)
def rules_check(paths: tuple[str, ...]) -> int:
    """Validate rule files; every mistake is shown with its line.

    \b
    Example: perfgate rules check rules/
    """
    from perfgate.commands.rules import check_rules

    good, problems = check_rules(paths or ("rules",))
    say(good)
    complain(problems)
    return USAGE if problems else 0


@rules.command()
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=rule_names)
@rules_option
@baselines_option
@suite_option
@env_option
def explain(
    ids: tuple[str, ...], rules: tuple[str, ...], baselines: str, suite: str | None, env: tuple[str, ...]
) -> int:
    """Say in words what rules mean, what they need, and what would fail with the runs that are stored.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    from perfgate.commands.rules import explain_rules
    from perfgate.workspace.options import CommandOptions

    found, problems = explain_rules(CommandOptions(rules=rules, baselines=baselines, suite=suite, env=env), ids)
    say(["\n\n".join(found)])
    return complain(problems)


@rules.command()
@click.argument("old")
@click.argument("new", required=False)
@rules_option
@suite_option
def diff(old: str, new: str | None, rules: tuple[str, ...], suite: str | None) -> int:
    """Say what a change to the rules loosens or tightens.

    OLD and NEW are paths or git refs; NEW is the working tree if it is left out.

    \b
    Example: perfgate rules diff origin/main
    """
    from perfgate.commands.rules import rules_difference
    from perfgate.reporters.rule_texts import render_difference

    changes, sides = rules_difference(old, new, rules, suite)
    return say([render_difference(changes, sides)])


@click.command()
@click.argument("name", type=click.Choice(["rules", "results", "baseline", "report"]))
def schema(name: str) -> int:
    """Print the JSON Schema of a document that perfgate reads or writes.

    \b
    Example: perfgate schema rules > rules.schema.json
    """
    from perfgate.schemas import schema_text

    click.echo(schema_text(name), nl=False)
    return 0
