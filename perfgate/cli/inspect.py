"""The command `perfgate inspect`."""

from __future__ import annotations

import click

from perfgate.cli.printing import progress, screen, write_document
from perfgate.cli.shared import command_options, format_option, rules_option, runs_argument, trace_mode_option
from perfgate.workspace.options import CommandOptions


@click.command()
@command_options(runs_argument, rules_option, format_option, trace_mode_option)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.inspect/1).")
@click.option("--values", is_flag=True, help="With --json: print the values, too.")
@click.option("--each-rank", is_flag=True, help="A row for each rank, also if there are more than 8.")
@click.option("-v", "--verbose", is_flag=True, help="Say what was searched for in a file of an unknown format.")
@click.option("--suggest", is_flag=True, help="Propose a mapping (rules/perfgate.yaml) for files of an unknown format.")
def inspect(options: CommandOptions, as_json: bool, values: bool, each_rank: bool, verbose: bool, suggest: bool) -> int:
    """Show what was read: every metric with its statistics, and every problem.

    \b
    Example: perfgate inspect train.log
    """
    if suggest:
        from perfgate.commands.suggest import suggestions
        from perfgate.reporters.suggestions import render_suggestions

        proposed, code = suggestions(options)
        write_document(render_suggestions(proposed))
        return code
    from perfgate.commands.inspect import inspect as command
    from perfgate.reporters.inspection import render_json, render_text

    with progress():
        found, code = command(options, with_values=values and as_json, each_rank=each_rank)
    if as_json:
        write_document(render_json(found))
    else:
        click.echo(render_text(found, ascii_only=screen().ascii_only, verbose=verbose), nl=False)
    return code
