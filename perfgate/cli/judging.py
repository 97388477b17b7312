"""The commands that read runs: check, compare and inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfgate.cli.options import (
    USAGE,
    NewSide,
    collect,
    format_option,
    judging_options,
    runs_argument,
    trace_mode_option,
)
from perfgate.cli.terminal import ascii_only, colour, progress, width

if TYPE_CHECKING:
    from perfgate.model import Report


@click.command()
@runs_argument
@judging_options
@click.option(
    "--missing-baseline",
    type=click.Choice(["error", "warn", "skip"]),
    default="error",
    help="What a missing baseline means. [default: error]",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only rules with this id or metric.")
@click.option("--strict", is_flag=True, help="A suspicion is a failure.")
@click.option("--junit", metavar="FILE", help="Write a JUnit report.")
@click.option("--json", "json_", metavar="FILE", help="Write the report as JSON; - is stdout.")
@click.option("--markdown", metavar="FILE", help="Write a Markdown summary.")
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict.")
def check(
    runs: tuple[str, ...], missing_baseline: Any, only: tuple[str, ...], strict: bool,
    junit: str | None, json_: str | None, markdown: str | None, quiet: bool, verbose: bool, **arguments: Any,
) -> int:  # fmt: skip
    """Judge new runs by the rules and the stored baseline; the exit code is the answer.

    \b
    Example: perfgate check train.log --junit perfgate.xml
    """
    from perfgate.app import check as command
    from perfgate.app.outputs import check_outputs

    written = {"junit": junit, "json": json_, "markdown": markdown}
    outputs = {name: path for name, path in written.items() if path is not None}
    read = (*runs, *arguments["rules"], arguments["baselines"], *arguments["env"])
    check_outputs(outputs, read)
    with progress():
        report = command.check(command.CheckRequest(collect(runs, arguments), missing_baseline, only, strict))
    return _publish(report, outputs, quiet, verbose)


def _publish(report: Report, outputs: dict[str, str], quiet: bool, verbose: bool) -> int:
    """Write the reports, print the answer, and return the exit code; a report that cannot be written is usage."""
    from perfgate.app.outputs import write_reports

    failures = write_reports(report, outputs)
    _print_report(report, outputs, quiet, verbose)
    for failure in failures:
        click.echo(f"error: {failure}", err=True)
    return USAGE if failures else report.exit_code


def _print_report(report: Report, outputs: dict[str, str], quiet: bool, verbose: bool) -> None:
    from perfgate.reporters import RENDERERS
    from perfgate.reporters.table import render

    on_stdout = [name for name, path in outputs.items() if path == "-"]
    for name in on_stdout:
        click.echo(RENDERERS[name](report), nl=False)
    if not on_stdout:
        text = render(report, width=width(), colour=colour(), ascii_only=ascii_only(), verbose=verbose, quiet=quiet)
        click.echo(text, nl=not text.endswith("\n"), color=True)


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
    from perfgate.app.inspection import inspect as command
    from perfgate.reporters.inspection import render_json, render_text

    with progress():
        summaries, code = command(runs, format_, trace_mode, with_values=values and json_)
    click.echo(render_json(summaries) if json_ else render_text(summaries, ascii_only=ascii_only()), nl=False)
    return code


@click.command(cls=NewSide)
@click.argument("base", nargs=-1, required=True, metavar="BASE...")
@click.option("--new", multiple=True, required=True, metavar="RUN...", help="The new runs: every path after it.")
@click.option("--statistic", metavar="NAME", help="median, mean, p95, ... [default: median; of aggregates mean]")
@click.option("--tolerance", default="5%", metavar="T", help="How much worse is accepted. [default: 5%]")
@format_option
@trace_mode_option
@click.option("--json", "json_", metavar="FILE", help="Write the report as JSON; - is stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict.")
def compare(
    base: tuple[str, ...],
    new: tuple[str, ...],
    statistic: str | None,
    tolerance: str,
    format_: str | None,
    trace_mode: Any,
    json_: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Compare two sets of runs without rules; the exit codes are those of check.

    \b
    Example: perfgate compare main-1.log main-2.log --new change.log
    """
    from perfgate.app.compare import compare as command
    from perfgate.app.outputs import check_outputs

    outputs = {} if json_ is None else {"json": json_}
    check_outputs(outputs, (*base, *new))
    with progress():
        report = command(base, new, statistic, tolerance, format_, trace_mode)
    return _publish(report, outputs, quiet, verbose)


COMMANDS = (check, compare, inspect)
