"""The command `perfgate history backfill`."""

from __future__ import annotations

import click

from perfgate.cli.printing import NOT_JUDGED, screen, tell, write_document
from perfgate.cli.run import duration, words
from perfgate.cli.shared import baselines_option, command_options, env_option, format_option, rules_option, suite_option
from perfgate.workspace.options import CommandOptions, HistoryPlace


@click.command()
@click.argument("metric")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--change", metavar="COMMIT", help="The commit of the change to settle. [default: the newest change]")
@click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable).")
@click.option("--build", type=words, metavar="COMMAND", help="Build each commit once, in its folder.")
@click.option(
    "--runs", "most_runs", type=click.IntRange(1, 100), default=10, metavar="N", help="At most N runs. [default: 10]"
)
@click.option(
    "--timeout", type=duration, default="10m", metavar="TIME", help="End a run that takes longer. [default: 10m]"
)
@click.option("--keep", default="perfgate-runs", metavar="DIR", help="Keep the runs here. [default: perfgate-runs]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-backfill/1).")
@click.option("--environment", metavar="NAME", help="The history of this environment, by its folder.")
@click.option("--ref", metavar="REF", help="The branch that orders the runs. [default: that of the runs, or HEAD]")
@command_options(rules_option, baselines_option, suite_option, env_option, format_option)
def backfill(
    options: CommandOptions, metric: str, command: tuple[str, ...], change: str | None, results: tuple[str, ...],
    build: tuple[str, ...] | None, most_runs: int, timeout: float, keep: str, as_json: bool, environment: str | None,
    ref: str | None,
) -> int:  # fmt: skip
    """Show which commits to measure, so that a change has one commit; with a command, measure them.

    The most telling commit is first. Each is checked out in a worktree of its own, and its run is remembered. It writes
    as under `perfgate run`. Measuring ends when the change has its commit.

    \b
    Example: perfgate history backfill load_time
    """
    from perfgate.commands.history_backfill import BackfillRequest, plan
    from perfgate.commands.history_backfill import backfill as measure
    from perfgate.measuring.until_settled import MeasuringOptions
    from perfgate.reporters.history_backfill import render_json, render_text

    place = HistoryPlace(options.baselines, options.suite, environment, ref, options.rules)
    request = BackfillRequest(metric, place, change, command, build or ())
    if command:
        found = measure(request, options, MeasuringOptions(results, most_runs, timeout=timeout, keep=keep), tell)
    else:
        found = plan(request)
    if as_json:
        write_document(render_json(found))
    else:
        seen = screen()
        click.echo(render_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return 0 if found.is_settled or not command else NOT_JUDGED
