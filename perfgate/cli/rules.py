"""The commands about rules and schemas: rules check, rules explain, schema."""

from __future__ import annotations

import click

from perfgate.cli.options import USAGE, Group, rules_option, suite_option
from perfgate.cli.terminal import complain, say


@click.group(cls=Group)
def rules() -> None:
    """Rule files: check and explain them."""


@rules.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
def rules_check(paths: tuple[str, ...]) -> int:
    """Validate rule files; every mistake is shown with its line.

    \b
    Example: perfgate rules check rules/
    """
    from perfgate.app.rules import check_rules

    good, problems = check_rules(paths or ("rules",))
    say(good)
    complain(problems)
    return USAGE if problems else 0


@rules.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@rules_option
@suite_option
def explain(ids: tuple[str, ...], rules: tuple[str, ...], suite: str | None) -> int:
    """Say in words what rules mean and what they need.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    from perfgate.app.rules import explain_rules

    return say(["\n\n".join(explain_rules(rules, ids, suite))])


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


COMMANDS = (rules, schema)
