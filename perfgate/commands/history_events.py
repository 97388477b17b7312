"""`perfgate history events`, `export` and `report`: the changes of main, each once, for people and for other tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import click
from msgspec.structs import replace

from perfgate.baselines.levels import StoredRun
from perfgate.baselines.repository import read_stored_runs
from perfgate.baselines.stores import open_store
from perfgate.cli.printing import complain, say, screen, write_document
from perfgate.cli.shared import command_options, output_option
from perfgate.commands.history import PLACE, rule_files, show
from perfgate.commands.ledger import records_of, rules_of
from perfgate.core import Run
from perfgate.core.history_events import EventChange, HistoryEvent, RuleRecord
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import EnvironmentHistory, LoadedHistory
from perfgate.core.wording import one_line, without_commands
from perfgate.history.events import events_of
from perfgate.reporters.history_events import render_json, render_text
from perfgate.rules.load import readable_rulesets
from perfgate.rules.ruleset import Ruleset
from perfgate.words import cause_words
from perfgate.words.event_words import is_open
from perfgate.words.history_words import rule_record
from perfgate.workspace.options import HistoryPlace, Refused
from perfgate.workspace.output_files import output_faults, replace_file
from perfgate.workspace.services import sent_apart
from perfgate.workspace.surroundings import known_to_git

#: Weights & Biases sends no reports about itself.
_QUIET = {"WANDB_ERROR_REPORTING": "false"}
#: The most stored runs on each side of an event that are searched for causes, and the most causes that are named.
_RUNS, _CAUSES = 5, 3


@click.command("events")
@click.option("--all", "every", is_flag=True, help="Also changes for the better, approved ones, and past ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-events/1), with every event.")
@command_options(*PLACE, name="place", build=HistoryPlace)
def events(place: HistoryPlace, every: bool, as_json: bool) -> int:
    """Show the changes of main: all metrics that moved in the same commits are one change, on all machines.

    Each has its commits, its largest metrics, what changed of the machine, the causes that stored traces show, and
    the owner of the rules. Its id stays the same when more runs are added.

    \b
    Example: perfgate history events
    """
    told, found = told_events(place)
    if as_json:
        write_document(render_json(told, found.problems))
    else:
        seen = screen()
        text = render_text(
            told, found.line, every=every, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only
        )
        click.echo(text, nl=False, color=True)
    return complain(found.problems)


def told_events(place: HistoryPlace) -> tuple[list[HistoryEvent], LoadedHistory]:
    """Return the events of a suite and environment, or of all, with owners and causes; and the whole history.

    Raises Refused (3) if nothing is remembered.
    """

    def is_here(one: EnvironmentHistory | EventChange) -> bool:
        return place.suite in (None, one.suite) and place.environment in (None, one.environment)

    history = show(replace(place, suite=None, environment=None))  # the id of an event depends on all of them
    if not any(map(is_here, history.environments)):
        show(place)  # raises Refused, with what is missing
    rulesets = readable_rulesets(rule_files(place.rules))
    # How often each rule was wrong, by suite.
    records = {ruleset.suite: records_of(place.baselines, ruleset, history)[0] for ruleset in rulesets}
    store = open_store(place.baselines)
    stored_runs = cache(lambda suite, environment: read_stored_runs(store, suite, environment)[0])
    told = []
    for event in events_of(history):
        if any(map(is_here, event.changes)):
            causes: tuple[str, ...] = ()
            if is_open(event) and event.kind == "code":
                causes = _causes(event, history.line, stored_runs)
            told.append(replace(_with_rules(event, rulesets, records), causes=causes))
    return told, history


def _with_rules(
    event: HistoryEvent, rulesets: Sequence[Ruleset], records: Mapping[str, Mapping[str, RuleRecord]]
) -> HistoryEvent:
    """Return the event with the owners of the rules that name its metrics, and how often these rules were wrong."""
    owners: dict[str, None] = {}
    said = []
    for ruleset in rulesets:
        keys = {change.name.key for change in event.changes if change.suite == ruleset.suite}
        for rule in rules_of(ruleset, keys):
            if rule.settings.owner:
                owners[rule.settings.owner] = None
            record = records[ruleset.suite].get(rule.name)
            if record is not None:
                said.append(f"{rule.name}: {rule_record(record)}")
    return replace(event, owners=tuple(owners), rules=tuple(said))


def _causes(
    event: HistoryEvent, line: CommitLine | None, stored_runs: Callable[[str, str], Sequence[StoredRun]]
) -> tuple[str, ...]:
    """Return the causes in the stored runs on both sides of an event, from the first environment that shows any.

    `stored_runs`: returns the stored runs of a suite and an environment.
    """
    from perfgate.commands.report_details import causes_of

    for suite, environment in dict.fromkeys((change.suite, change.environment) for change in event.changes):
        base, new = _sides(event, line, stored_runs(suite, environment))
        report = causes_of(base, new) if base and new else None
        if report is not None and report.causes:
            return tuple(cause_words.line(cause) for cause in report.causes[:_CAUSES])
    return ()


def _sides(event: HistoryEvent, line: CommitLine | None, stored: Iterable[StoredRun]) -> tuple[list[Run], list[Run]]:
    """Return the nearest stored runs before and after an event: by commit, or by time if `line` is None."""
    runs = sorted(stored, key=lambda run: run.age)  # the oldest first
    if line is None:
        before = [run for run in runs if run.head.time <= event.last_good.time]
        return _nearest(before, [run for run in runs if run.head.time >= event.first_bad.time])
    good, bad = line.place(event.last_good.commit), line.place(event.first_bad.commit)
    on_line = [(place, run) for run in runs if (place := line.place(run.head.commit)) is not None]
    on_line.sort(key=lambda pair: pair[0])
    before = [run for place, run in on_line if good is not None and place <= good]
    return _nearest(before, [run for place, run in on_line if bad is not None and place >= bad])


def _nearest(before: Sequence[StoredRun], after: Sequence[StoredRun]) -> tuple[list[Run], list[Run]]:
    return [one.run for one in before[-_RUNS:]], [one.run for one in after[:_RUNS]]  # only these are read


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
def export(metric: str | None, tool: str, target: str | None, newest: bool, place: HistoryPlace) -> int:
    """Write the history for another tool: a file, or runs in MLflow or Weights & Biases.

    METRIC is a name or a glob; without it, every metric is written. Without --to, a file goes to stdout. MLflow takes
    sqlite:///FILE or the address of its server, Weights & Biases a folder (offline) or `online`.

    \b
    Example: perfgate history export --format csv --to history.csv
    """
    if newest and tool != "openmetrics":
        raise Refused(f"--newest is for openmetrics; {tool} has every number")
    is_service = tool in ("mlflow", "wandb")
    outputs = {"to": target} if target is not None and not is_service else {}
    for fault in output_faults(outputs, (place.baselines, *place.rules)).values():
        raise Refused(fault)
    found = show(place, metric)
    if is_service:
        say(send(found, tool, target))
        return complain(found.problems)
    data = _exported(found, tool, place, is_newest=newest)
    if target in (None, "-"):
        if tool == "csv":  # a terminal and the log of a job can show its texts
            data = "\n".join(without_commands(one_line(line)) for line in data.decode().split("\n")).encode()
        click.echo(data, nl=False)
    else:
        replace_file(target, data)
        say([f"wrote {target} ({len(data) / 1024:.0f} KiB)"])
    return complain(found.problems)


def _exported(found: LoadedHistory, format: str, place: HistoryPlace, *, is_newest: bool) -> bytes:
    """Return a history in the format of a file. Raises Refused if its package is not installed."""
    from perfgate.history.exports import FILES, OPENMETRICS, render_openmetrics

    if format == OPENMETRICS:
        return render_openmetrics(found, told_events(place)[0], newest_alone=is_newest)
    try:
        return FILES[format](found)
    except ImportError as error:
        raise Refused(str(error)) from None


def send(found: LoadedHistory, service: str, target: str | None) -> list[str]:
    """Write a history to a service; returns the lines to print. Raises Refused."""
    from perfgate.history.exports import LOST, SERVICES

    if target is None:
        raise Refused(f"--format {service} needs --to: a folder, or the address of the server")
    if (service, target) == ("wandb", "online") and "WANDB_BASE_URL" not in os.environ:
        # A pull request can commit settings that let wandb send its key to another server.
        for path in ("wandb/settings", ".wandb/settings"):
            if known_to_git("--literal-pathspecs", "ls-files", "--", os.path.realpath(path)):
                why = "which can name another server for the key of Weights & Biases"
                raise Refused(f"git tracks {path}, {why}: remove it from git, or set WANDB_BASE_URL")
    try:
        return sent_apart(SERVICES[service], (found, target), _QUIET, LOST.get(service))
    except ImportError as error:
        raise Refused(str(error)) from None
    except Refused as error:
        raise Refused(f"{service}: {error}", error.exit_code) from None


def address(text: str) -> str:
    """Return an address of the command line. Raises BadParameter."""
    if not text.startswith(("https://", "http://")):
        raise click.BadParameter(f"{text!r} is not an address: it begins with https://")
    return text


@click.command("report")
@output_option("--html", "path", default="history.html", help="The page; `-` is stdout. [default: history.html]")
@click.option("--metric", metavar="NAME", help="Only the metrics with this name, which may be a glob.")
@click.option(
    "--commit-url",
    metavar="URL",
    type=address,
    help="Link commits: their hash is added to this address, such as https://github.com/OWNER/REPO/commit/.",
)
@command_options(*PLACE, name="place", build=HistoryPlace)
def report(path: str, metric: str | None, commit_url: str | None, place: HistoryPlace) -> int:
    """Write a page with the trend of every metric, the newest changes first: levels, commits, approvals, releases.

    The page is one file. It works offline, with search and zoom.

    \b
    Example: perfgate history report --html history.html
    """
    from perfgate.reporters.html.trend_page import conclusion, render

    for fault in output_faults({"html": path}, (place.baselines, *place.rules)).values():
        raise Refused(fault)
    told, whole = told_events(place)
    is_whole = (metric, place.suite, place.environment) == (None, None, None)
    found = whole if is_whole else show(place, metric)
    suites = {one.suite for one in found.environments}
    rulesets = [one for one in readable_rulesets(rule_files(place.rules)) if one.suite in suites]
    records = {one.suite: records_of(place.baselines, one, whole)[0] for one in rulesets}
    text = render(found, told, commit_address=commit_url, records=records)
    if path == "-":
        write_document(text)
    else:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
        say([f"wrote {path} ({len(text) / 1024:.0f} KiB): {conclusion(found, told)}"])
    return complain(found.problems)
