"""The command `perfgate calibrate`."""

from __future__ import annotations

import click

from perfgate.cli.printing import say
from perfgate.cli.shared import JUDGING, command_options, optional_runs_argument
from perfgate.workspace.options import CommandOptions


@click.command()
@command_options(optional_runs_argument, *JUDGING)
def calibrate(options: CommandOptions) -> int:
    """Measure the noise between five or more runs of the same code, and store it for check.

    Files of pairs (`run --paired`) show the noise between pairs. Without RUN, the stored runs of each level show it.

    \b
    Example: perfgate calibrate main-*.log
    """
    from perfgate.commands.calibrate import calibrate_runs

    return say(calibrate_runs(options))
