"""The commands of the first day: init and selftest."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.completion import files
from perfgate.cli.options import collect, env_option, format_option, judging_options, runs_argument, trace_mode_option
from perfgate.cli.terminal import ascii_only, colour, complain, say, width


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=files)
@click.option("--suite", metavar="NAME", help="What to call what is measured. [default: training]")
@env_option
@format_option
@trace_mode_option
def init(runs: tuple[str, ...], suite: str | None, env: tuple[str, ...], format_: str | None, trace_mode: Any) -> int:
    """Write rules, baselines and a workflow from what runs hold; nothing is ever overwritten.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log
    """
    from perfgate.commands.init import init as command
    from perfgate.workspace.options import CommandOptions

    return say(command(CommandOptions(runs, suite=suite, env=env, format=format_, trace_mode=trace_mode)))


@click.command()
@runs_argument
@judging_options
@click.option("--json", "json_", is_flag=True, help="Print JSON (perfgate.selftest/1).")
def selftest(runs: tuple[str, ...], json_: bool, **arguments: Any) -> int:
    """Prove on your own rules and runs that unchanged input passes and worse input fails; nothing is written.

    \b
    Example: perfgate selftest main-1.log main-2.log
    """
    from perfgate.commands.selftest import selftest as command
    from perfgate.reporters.selftest import render_json, render_text

    done = command(collect(runs, arguments))
    shown = (done.proofs, done.against, done.exit_code)
    if json_:
        click.echo(render_json(*shown), nl=False)
    else:
        text = render_text(*shown, width=width(), colour=colour(), ascii_only=ascii_only())
        click.echo(text, nl=False, color=True)
    complain(done.problems)
    return done.exit_code
