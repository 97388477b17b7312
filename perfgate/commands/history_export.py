"""`perfgate history export`: the history in the format of another tool."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from perfgate.cli.printing import complain, say
from perfgate.cli.shared import command_options, output_option
from perfgate.commands.history import PLACE, show
from perfgate.commands.history_events import told_events
from perfgate.core.history_events import HistoryEvent
from perfgate.core.run_history import LoadedHistory
from perfgate.history.export_services import SERVICES
from perfgate.history.exports import FILES, OPENMETRICS, render_openmetrics
from perfgate.workspace.options import HistoryPlace, Refused
from perfgate.workspace.output_files import output_faults, replace_file
from perfgate.workspace.surroundings import known_to_git


@click.command("export")
@click.argument("metric", required=False)
@click.option(
    "--format", "tool", default="csv",
    type=click.Choice(["csv", "parquet", "openmetrics", "github-action-benchmark", "mlflow", "wandb"]),
    help="The format or the service. [default: csv]",
)  # fmt: skip
@output_option("--to", "target", help="A file; a folder or server for a service.")
@click.option("--newest", is_flag=True, help="OpenMetrics: only the newest number of each series, without its time.")
@command_options(*PLACE, name="place", build=HistoryPlace)
def command(metric: str | None, tool: str, target: str | None, newest: bool, place: HistoryPlace) -> int:
    """Write the history for another tool: a file, or runs in MLflow or Weights & Biases.

    METRIC is a name or a glob; without it, every metric is written. Without --to, a file goes to stdout. MLflow takes
    sqlite:///FILE or the address of its server, Weights & Biases a folder (offline) or `online`.

    \b
    Example: perfgate history export --format csv --to history.csv
    """
    is_service = tool in ("mlflow", "wandb")
    outputs = {"to": target} if target is not None and not is_service else {}
    for fault in output_faults(outputs, (place.baselines, *place.rules)).values():
        raise Refused(fault)
    found = show(place, metric)
    if is_service:
        say(send(found, tool, target))
        return complain(found.problems)
    data = export(found, tool, told_events(place)[0] if tool == OPENMETRICS else (), newest_alone=newest)
    if target in (None, "-"):
        click.echo(data, nl=False)
    else:
        replace_file(target, data)
        say([f"wrote {target} ({len(data) / 1024:.0f} KiB)"])
    return complain(found.problems)


def export(
    found: LoadedHistory, format: str, events: Sequence[HistoryEvent] = (), *, newest_alone: bool = False
) -> bytes:
    """Return a history in the format of a file. Raises Refused if its package is not installed."""
    if format == OPENMETRICS:
        return render_openmetrics(found, events, newest_alone=newest_alone)
    if newest_alone:
        raise Refused(f"--newest is for {OPENMETRICS}; {format} has every number")
    try:
        return FILES[format](found)
    except ImportError as error:
        raise Refused(str(error)) from None


def send(found: LoadedHistory, service: str, target: str | None) -> list[str]:
    """Write a history to a service; returns the lines to print. Raises Refused."""
    if target is None:
        raise Refused(f"--format {service} needs --to: a folder, or the address of the server")
    if (service, target) == ("wandb", "online") and "WANDB_BASE_URL" not in os.environ:
        _refuse_committed_settings()
    try:
        return SERVICES[service](found, target)
    except ImportError as error:
        raise Refused(str(error)) from None
    except Exception as error:  # each service has its own exceptions
        raise Refused(f"{service}: {error}") from error


def _refuse_committed_settings() -> None:
    """Refuse settings that a pull request can commit: wandb would send its key to the server that they name."""
    for path in ("wandb/settings", ".wandb/settings"):
        if known_to_git("--literal-pathspecs", "ls-files", "--", os.path.realpath(path)):
            why = "which can name another server for the key of Weights & Biases"
            raise Refused(f"git tracks {path}, {why}: remove it from git, or set WANDB_BASE_URL")
