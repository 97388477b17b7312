"""The command `perfgate init`."""

from __future__ import annotations

import click

from perfgate.cli.printing import say
from perfgate.cli.shared import command_options, env_option, format_option, optional_runs_argument, trace_mode_option
from perfgate.workspace.options import CommandOptions


@click.command()
@command_options(
    optional_runs_argument,
    click.option("--suite", metavar="NAME", help="The name of the new suite. [default: training]"),
    env_option,
    format_option,
    trace_mode_option,
)
def init(options: CommandOptions) -> int:
    """Write rules, baselines and a workflow from first runs. No file is ever overwritten.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log
    """
    from perfgate.commands.init import init as command

    return say(command(options))
