"""The command `perfgate plan`."""

from __future__ import annotations

import click

from perfgate.cli.printing import complain, screen, write_document
from perfgate.cli.shared import baselines_option, command_options, env_option, rules_option, suite_option
from perfgate.workspace.options import CommandOptions


@click.command()
@command_options(rules_option, baselines_option, suite_option, env_option)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.plan/1), with the points of a curve.")
def plan(options: CommandOptions, as_json: bool) -> int:
    """Show the smallest change that each rule would detect with the stored runs, and how to detect a smaller one.

    \b
    Example: perfgate plan
    """
    from perfgate.commands.plan import plan as command
    from perfgate.reporters.plan import render_json, render_text

    found, problems = command(options)
    if as_json:
        write_document(render_json(found, problems))
    else:
        seen = screen()
        click.echo(render_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return complain(problems)
