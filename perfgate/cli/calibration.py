"""The commands about noise and power: calibrate and plan."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.completion import files
from perfgate.cli.options import baselines_option, collect, env_option, judging_options, rules_option, suite_option
from perfgate.cli.terminal import ascii_only, complain, say, width


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=files)
@judging_options
def calibrate(runs: tuple[str, ...], **arguments: Any) -> int:
    """Measure the noise between five or more runs of the same code, and store it for check.

    Files of pairs (`run --paired`) show the noise between pairs. Without runs, the stored ones are taken, each level by
    itself.

    \b
    Example: perfgate calibrate main-*.log
    """
    from perfgate.commands.calibrate import calibrate_runs

    return say(calibrate_runs(collect(runs, arguments)))


@click.command()
@rules_option
@baselines_option
@suite_option
@env_option
@click.option("--json", "json_", is_flag=True, help="Print JSON (perfgate.plan/1), with the points of a curve.")
def plan(rules: tuple[str, ...], baselines: str, suite: str | None, env: tuple[str, ...], json_: bool) -> int:
    """Say which change each rule would see with the stored runs, and what would let it see more.

    \b
    Example: perfgate plan
    """
    from perfgate.commands.plan import plan as command
    from perfgate.reporters.plan import render_json, render_text
    from perfgate.workspace.options import CommandOptions

    found, problems = command(CommandOptions(rules=rules, baselines=baselines, suite=suite, env=env))
    text = render_json(found, problems) if json_ else render_text(found, width=width(), ascii_only=ascii_only())
    click.echo(text, nl=False)
    return complain(problems)
