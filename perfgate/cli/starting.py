"""The commands of the first day: init and selftest."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.options import env_option, format_option, trace_mode_option
from perfgate.cli.terminal import say


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--suite", metavar="NAME", help="What to call what is measured. [default: training]")
@env_option
@format_option
@trace_mode_option
def init(runs: tuple[str, ...], suite: str | None, env: tuple[str, ...], format_: str | None, trace_mode: Any) -> int:
    """Write rules, baselines and a workflow from what runs hold; nothing is ever overwritten.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log
    """
    from perfgate.app.baselines import Options
    from perfgate.app.init import init as command

    return say(command(Options(runs, suite=suite, env=env, format=format_, trace_mode=trace_mode)))


COMMANDS = (init,)
