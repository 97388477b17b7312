"""The commands about noise and power: calibrate and plan."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.options import collect, judging_options, runs_argument
from perfgate.cli.terminal import say


@click.command()
@runs_argument
@judging_options
def calibrate(runs: tuple[str, ...], **arguments: Any) -> int:
    """Measure the noise between five or more runs of the same code, and store it for check.

    \b
    Example: perfgate calibrate main-*.log
    """
    from perfgate.app.calibration import calibrate_runs

    return say(calibrate_runs(collect(runs, arguments)))


COMMANDS = (calibrate,)
