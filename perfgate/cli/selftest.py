"""The command `perfgate selftest`."""

from __future__ import annotations

import click

from perfgate.cli.printing import complain, screen, write_document
from perfgate.cli.shared import JUDGING, command_options, runs_argument
from perfgate.workspace.options import CommandOptions


@click.command()
@command_options(runs_argument, *JUDGING)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.selftest/1).")
def selftest(options: CommandOptions, as_json: bool) -> int:
    """Prove on your own rules and runs that unchanged input passes and worse input fails. Nothing is written.

    \b
    Example: perfgate selftest main-1.log main-2.log
    """
    from perfgate.commands.selftest import selftest as command
    from perfgate.reporters.selftest import render_json, render_text

    done = command(options)
    shown = (done.proofs, done.against, done.exit_code, done.time_seen)
    if as_json:
        write_document(render_json(*shown))
    else:
        seen = screen()
        text = render_text(*shown, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only)
        click.echo(text, nl=False, color=True)
    complain(done.problems)
    return done.exit_code
