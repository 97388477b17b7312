"""The command `perfgate doctor`."""

from __future__ import annotations

import click

from perfgate.cli.completion import files
from perfgate.cli.printing import USAGE, screen, tell, write_document
from perfgate.cli.run import duration
from perfgate.cli.shared import OUTPUT_FILE, command_options, rules_option, suite_option
from perfgate.workspace.options import CommandOptions, Refused


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@command_options(rules_option, suite_option)
@click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable).")
@click.option(
    "--time",
    "seconds",
    type=duration,
    default="2m",
    metavar="TIME",
    help="Measure the command for this long. [default: 2m]",
)
@click.option(
    "--json",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="Write JSON (perfgate.doctor/1); - is stdout.",
)
def doctor(
    command: tuple[str, ...], options: CommandOptions, results: tuple[str, ...], seconds: float, json: str | None
) -> int:
    """Measure how noisy this machine is, find what disturbs it, and what helps.

    Two known loads are measured for ten seconds, and COMMAND, if it is given, as with `perfgate run`. The exit code is
    0 if the machine is quiet enough for the rules, and 3 if a rule asks for more than the machine can see.

    \b
    Example: perfgate doctor -- python train.py
    """
    from perfgate.commands.doctor import DoctorRequest
    from perfgate.commands.doctor import doctor as examine
    from perfgate.doctor.command import CommandPlan
    from perfgate.reporters.doctor import render_json, render_text
    from perfgate.workspace.output_files import output_faults, write_reports

    outputs = {"json": json} if json else {}
    for fault in output_faults(outputs, options.rules, {}).values():
        raise Refused(fault)
    plan = CommandPlan(command, results, seconds) if command else None
    found = examine(DoctorRequest(options, plan), tell)
    if json == "-":
        write_document(render_json(found))
        return found.exit_code
    failures = write_reports(outputs, lambda name: render_json(found))
    seen = screen()
    click.echo(render_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else found.exit_code
