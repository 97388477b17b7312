"""The command `perfgate init`."""

from __future__ import annotations

import click

from perfgate.cli.printing import screen
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
@click.option("--paired", is_flag=True, help="Write a gate that measures base and new in pairs, for a noisy machine.")
@click.option(
    "--command",
    "measure",
    metavar="TEXT",
    help="With --paired: the command that measures, for the workflow. {results} is the folder for its files.",
)
@click.option("--without-step", is_flag=True, help="Write a gate although no rule sees the time of a step.")
@click.option("--add", "added", multiple=True, metavar="METRIC", help="Add a rule for METRIC to rules/ (repeatable).")
@click.option("--dry-run", is_flag=True, help="Print everything, and write nothing.")
def init(
    options: CommandOptions,
    paired: bool,
    measure: str | None,
    without_step: bool,
    added: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Propose rules for first runs, and write them with baselines and a workflow. No file is ever overwritten.

    A table shows the smallest change that each rule will see, and which metrics have no rule and why. If the noise
    hides the time of a step, nothing is written: choose `--paired`.

    `--add` adds a rule to the rule file of the suite, which keeps its comments. The tolerance is chosen from the given
    runs, or else from the stored ones.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log
    """
    from perfgate.commands.init import InitChoices
    from perfgate.commands.init import init as command
    from perfgate.reporters.init import render

    choices = InitChoices(paired, without_step, dry_run, measure)
    if added:
        from perfgate.commands.add_rule import add_rule

        gate = add_rule(options, added, choices)
    else:
        gate = command(options, choices)
    seen = screen()
    click.echo(render(gate, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return gate.exit_code
