"""The commands of `perfgate history`."""

from __future__ import annotations

import click

from perfgate.cli.printing import complain, say, screen, write_document
from perfgate.cli.shared import JUDGING, SuggestingGroup, baselines_option, command_options, runs_argument
from perfgate.workspace.options import CommandOptions, HistoryPlace


class _History(SuggestingGroup):
    """A group in which a word that is no command is a metric to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; `show` if it is none."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing and not args[0].startswith("-"):
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


_PLACE = (
    baselines_option,
    click.option("--suite", metavar="NAME", help="The history of this suite alone."),
    click.option("--environment", metavar="NAME", help="The history of this environment alone, by its folder."),
    click.option("--ref", metavar="REF", help="The branch that orders the runs. [default: that of the runs, or HEAD]"),
)


@click.group(cls=_History)
def history() -> None:
    """Remember every run of main: since when a metric is slower, in which commits, and who approved it.

    `perfgate history METRIC` is short for `perfgate history show METRIC`.
    """


@history.command()
@click.option("--time", metavar="TIME", help="When it was measured: 2026-11-22T14:15:00Z. [default: now]")
@click.option("--ref", metavar="BRANCH", help="The branch that was measured. [default: that of the job or of git]")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="A release of the commit (repeatable). [default: git's]"
)
@command_options(runs_argument, *JUDGING)
def add(options: CommandOptions, time: str | None, ref: str | None, tags: tuple[str, ...]) -> int:
    """Remember runs of main: a number with its error for each metric, and no samples.

    \b
    Example: perfgate history add train.log
    """
    from perfgate.history.remember import Measured, remember
    from perfgate.history.times import utc_time

    try:
        when = None if time is None else utc_time(time)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time") from None
    return say(remember(options, Measured(when, ref, tags)))


@history.command()
@click.argument("metric", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-series/1), with every number.")
@command_options(*_PLACE, name="place", build=HistoryPlace)
def show(metric: str | None, as_json: bool, place: HistoryPlace) -> int:
    """Show a metric since its first run: a line, its changes with their commits, who approved them.

    METRIC is a name or a glob; without it, every metric has one line, the newest changes first.

    \b
    Example: perfgate history show forward
    """
    from perfgate.commands.history import show as command
    from perfgate.reporters.history_table import render_json, render_text

    found = command(place, metric)
    if as_json:
        write_document(render_json(found))
    else:
        seen = screen()
        text = render_text(
            found, in_full=metric is not None, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only
        )
        click.echo(text, nl=False, color=True)
    return complain(found.problems)


@history.command()
@click.option("--before", metavar="YYYY-MM", help="Leave this month and later ones alone. [default: none]")
@baselines_option
def compact(before: str | None, baselines: str) -> int:
    """Write the runs of each month as one file, so that a long history is small and quick to read.

    It loses nothing, whatever happens meanwhile; two compactions at once do no harm.

    \b
    Example: perfgate history compact
    """
    from perfgate.commands.history import compact_store as command

    lines, problems = command(baselines, before)
    say(lines)
    return complain(problems)
