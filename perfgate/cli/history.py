"""The commands of `perfgate history`."""

from __future__ import annotations

import click

from perfgate.cli.completion import files
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.history_backfill import backfill
from perfgate.cli.printing import NOT_JUDGED, complain, say, screen, write_document
from perfgate.cli.shared import (
    JUDGING,
    OUTPUT_FILE,
    baselines_option,
    command_options,
    env_option,
    head_option,
    rules_option,
    runs_argument,
    suite_option,
)
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused


class _History(SuggestingGroup):
    """A group of commands; any other word is a metric to show."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or `show`; None for a name like an option, and while a shell completes."""
        other = None if cmd_name.startswith("-") or ctx.resilient_parsing else self.commands["show"]
        return self.commands.get(cmd_name, other)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; `show` if it is none."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing and not args[0].startswith("-"):
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


_PLACE = (
    rules_option,
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

    return say(remember(options, Measured(_utc(time), ref, tags)))


def _utc(time: str | None) -> str | None:
    """Return a time of the command line in UTC. Raises BadParameter."""
    from perfgate.history.times import utc_time

    try:
        return None if time is None else utc_time(time)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time") from None


def _address(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return an address of a command line. Raises BadParameter."""
    if value is not None and not value.startswith(("https://", "http://")):
        raise click.BadParameter(f"{value!r} is not an address: it begins with https://")
    return value


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
@click.option(
    "--html",
    "path",
    default="history.html",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="The page; `-` is stdout. [default: history.html]",
)
@click.option("--metric", metavar="NAME", help="Only the metrics with this name, which may be a glob.")
@click.option(
    "--commit-url",
    metavar="URL",
    callback=_address,
    help="Link commits: their hash is added to this address, such as https://github.com/OWNER/REPO/commit/.",
)
@command_options(*_PLACE, name="place", build=HistoryPlace)
def report(path: str, metric: str | None, commit_url: str | None, place: HistoryPlace) -> int:
    """Write a page with the trend of every metric, the newest changes first: levels, commits, approvals, releases.

    The page is one file. It works offline, with search and zoom.

    \b
    Example: perfgate history report --html history.html
    """
    from perfgate.commands.history import show as load
    from perfgate.reporters.trends.trend_page import conclusion, render
    from perfgate.workspace.output_files import output_faults, replace_file

    for fault in output_faults({"html": path}, (place.baselines, *place.rules), {}).values():
        raise Refused(fault)
    found = load(place, metric)
    text = render(found, commit_address=commit_url)
    if path == "-":
        write_document(text)
    else:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
        say([f"wrote {path} ({len(text) / 1024:.0f} KiB): {conclusion(found)}"])
    return complain(found.problems)


@history.command()
@command_options(*_PLACE, name="place", build=HistoryPlace)
def quarantine(place: HistoryPlace) -> int:
    """Replay the rules over the remembered runs, and propose a quarantine for rules with many false alarms.

    A run is judged against the runs before it in its level, where nothing changed: if it is red, the alarm is false.
    More than 1 in 50 runs, at 95 % confidence, is many. The line to paste into the rule ends after 30 days.

    \b
    Example: perfgate history quarantine
    """
    from perfgate.commands.history_quarantine import quarantine as command
    from perfgate.reporters.history_quarantine import render_text

    found, problems = command(place)
    seen = screen()
    if found:
        click.echo(render_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return complain(problems)


@history.command("import")
@click.option("--format", "tool", metavar="NAME", help="The tool that wrote the files. [default: found out]")
@click.option("--time", metavar="TIME", help="The time of a file that has none: 2026-11-22T14:15:00Z.")
@click.option("--ref", metavar="BRANCH", help="The branch to import. [default: the one with the most runs]")
@command_options(
    click.argument("runs", nargs=-1, required=True, metavar="FILE...", shell_complete=files),
    rules_option, baselines_option, suite_option, env_option, head_option,
)  # fmt: skip
def import_(options: CommandOptions, tool: str | None, time: str | None, ref: str | None) -> int:
    """Add the history of another tool: CSV, github-action-benchmark, asv, pytest-benchmark, Megatron, Bencher.

    FILE is a file, or the folder of the tool. CSV has a header: time,commit,metric,value[,unit][,host]. Runs that were
    imported before are not added again. Of files that a mapping reads, each version in git is a run.

    \b
    Example: perfgate history import history.csv
    """
    from perfgate.commands.history_import import ImportOptions, import_history

    lines, problems = import_history(options, ImportOptions(tool, _utc(time), ref))
    say(lines)
    complain(problems)
    return NOT_JUDGED if any(problem.severity == "error" for problem in problems) else 0


@history.command()
@click.argument("metric", required=False)
@click.option(
    "--format", "tool", default="csv",
    type=click.Choice(["csv", "parquet", "openmetrics", "github-action-benchmark", "mlflow", "wandb"]),
    help="The format or the service. [default: csv]",
)  # fmt: skip
@click.option(
    "--to",
    "target",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="A file; a folder or server for a service.",
)
@click.option("--newest", is_flag=True, help="OpenMetrics: only the newest number of each series, without its time.")
@command_options(*_PLACE, name="place", build=HistoryPlace)
def export(metric: str | None, tool: str, target: str | None, newest: bool, place: HistoryPlace) -> int:
    """Write the history for another tool: a file, or runs in MLflow or Weights & Biases.

    METRIC is a name or a glob; without it, every metric is written. Without --to, a file goes to stdout. MLflow takes
    sqlite:///FILE or the address of its server, Weights & Biases a folder (offline) or `online`.

    \b
    Example: perfgate history export --format csv --to history.csv
    """
    from perfgate.commands.history import export as command
    from perfgate.commands.history import send
    from perfgate.commands.history import show as load
    from perfgate.workspace.output_files import output_faults, replace_file

    is_service = tool in ("mlflow", "wandb")
    outputs = {"to": target} if target is not None and not is_service else {}
    for fault in output_faults(outputs, (place.baselines, *place.rules), {}).values():
        raise Refused(fault)
    found = load(place, metric)
    if is_service:
        say(send(found, tool, target))
        return complain(found.problems)
    data = command(found, tool, newest_alone=newest)
    if target in (None, "-"):
        click.echo(data, nl=False)
    else:
        replace_file(target, data)
        say([f"wrote {target} ({len(data) / 1024:.0f} KiB)"])
    return complain(found.problems)


@history.command()
@click.option("--all", "is_all", is_flag=True, help="Also the month that is not over.")
@baselines_option
def compact(is_all: bool, baselines: str) -> int:
    """Write the runs of each month that is over as one file, so that a long history is small and quick to read.

    It loses nothing, whatever happens meanwhile; two compactions at once do no harm.

    \b
    Example: perfgate history compact
    """
    from perfgate.commands.history import compact_store as command

    lines, problems = command(baselines, is_all=is_all)
    say(lines)
    return complain(problems)


history.add_command(backfill)
