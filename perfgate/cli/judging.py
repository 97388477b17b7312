"""The commands that read runs: check, compare and inspect."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.completion import files
from perfgate.cli.options import (
    NewSide,
    collect,
    format_option,
    judging_options,
    policy_options,
    runs_argument,
    trace_mode_option,
)
from perfgate.cli.publishing import Publication, publish, report_options
from perfgate.cli.terminal import ascii_only, hint, progress


@click.command()
@runs_argument
@judging_options
@policy_options
@click.option("--propose", metavar="DIR", shell_complete=files, help="Write the files that an approval would add.")
@report_options
def check(
    runs: tuple[str, ...],
    missing_baseline: Any,
    propose: str | None,
    only: tuple[str, ...],
    strict: bool,
    **arguments: Any,
) -> int:
    """Judge new runs by the rules and the stored baseline; the exit code is the answer.

    \b
    Example: perfgate check train.log --junit perfgate.xml
    """
    from perfgate.commands import check as command
    from perfgate.workspace.output_files import check_outputs

    publication = Publication.of(arguments)
    read = (*runs, *arguments["rules"], arguments["baselines"], *arguments["env"])
    check_outputs(publication.outputs, read)
    options, shown = collect(runs, arguments), not {"json", "html"}.isdisjoint(publication.outputs)
    request = command.CheckRequest(options, missing_baseline, only, strict, with_evidence=shown)
    with progress():
        report = command.check(request)
    code = publish(report, publication)
    if propose is not None:
        from perfgate.baselines.approvals import propose as write

        hint(write(options, propose, report.inputs))
    return code


@click.command()
@runs_argument
@format_option
@trace_mode_option
@click.option("--json", "json_", is_flag=True, help="Print JSON (perfgate.inspect/1).")
@click.option("--values", is_flag=True, help="With --json, print the values themselves, too.")
def inspect(runs: tuple[str, ...], format_: str | None, trace_mode: Any, json_: bool, values: bool) -> int:
    """Show what was read: every metric with its statistics, and every problem.

    \b
    Example: perfgate inspect train.log
    """
    from perfgate.commands.inspect import inspect as command
    from perfgate.reporters.inspection import render_json, render_text

    with progress():
        summaries, code = command(runs, format_, trace_mode, with_values=values and json_)
    click.echo(render_json(summaries) if json_ else render_text(summaries, ascii_only=ascii_only()), nl=False)
    return code


@click.command(cls=NewSide)
@click.argument("base", nargs=-1, required=True, metavar="BASE...", shell_complete=files)
@click.option("--new", multiple=True, metavar="RUN...", shell_complete=files, help="The new runs: every path after it.")
@click.option("--paired", is_flag=True, help="Every path holds pairs, as `run --paired` leaves them; without --new.")
@click.option("--statistic", metavar="NAME", help="median, mean, p95, ... [default: median; of aggregates mean]")
@click.option("--tolerance", default="5%", metavar="T", help="How much worse is accepted. [default: 5%]")
@format_option
@trace_mode_option
@report_options
def compare(
    base: tuple[str, ...],
    new: tuple[str, ...],
    paired: bool,
    statistic: str | None,
    tolerance: str,
    format_: str | None,
    trace_mode: Any,
    **arguments: Any,
) -> int:
    """Compare two sets of runs without rules; the exit codes are those of check.

    \b
    Example: perfgate compare main-1.log main-2.log --new change.log
    """
    from perfgate.commands.compare import compare as command
    from perfgate.commands.compare import compare_pairs
    from perfgate.workspace.output_files import check_outputs

    if paired == bool(new):
        raise click.UsageError("give the new runs after --new, or pairs with --paired and without --new")
    publication = Publication.of(arguments)
    check_outputs(publication.outputs, (*base, *new))
    how = statistic, tolerance, format_, trace_mode
    with progress():
        report = compare_pairs(base, *how) if paired else command(base, new, *how)
    return publish(report, publication)
