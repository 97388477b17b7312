"""`perfgate history report`: the page of trends."""

from __future__ import annotations

import click

from perfgate.cli.printing import complain, say, write_document
from perfgate.cli.shared import command_options, output_option
from perfgate.commands.history import PLACE, rule_files, show
from perfgate.commands.history_events import told_events
from perfgate.commands.ledger_records import records_of
from perfgate.reporters.trends.trend_page import conclusion, render
from perfgate.rules.load import readable_rulesets
from perfgate.workspace.options import HistoryPlace, Refused
from perfgate.workspace.output_files import output_faults, replace_file


def _address(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return an address of a command line. Raises BadParameter."""
    if value is not None and not value.startswith(("https://", "http://")):
        raise click.BadParameter(f"{value!r} is not an address: it begins with https://")
    return value


@click.command("report")
@output_option("--html", "path", default="history.html", help="The page; `-` is stdout. [default: history.html]")
@click.option("--metric", metavar="NAME", help="Only the metrics with this name, which may be a glob.")
@click.option(
    "--commit-url",
    metavar="URL",
    callback=_address,
    help="Link commits: their hash is added to this address, such as https://github.com/OWNER/REPO/commit/.",
)
@command_options(*PLACE, name="place", build=HistoryPlace)
def command(path: str, metric: str | None, commit_url: str | None, place: HistoryPlace) -> int:
    """Write a page with the trend of every metric, the newest changes first: levels, commits, approvals, releases.

    The page is one file. It works offline, with search and zoom.

    \b
    Example: perfgate history report --html history.html
    """
    for fault in output_faults({"html": path}, (place.baselines, *place.rules)).values():
        raise Refused(fault)
    events, found = told_events(place)
    whole = found
    if (metric, place.suite, place.environment) != (None, None, None):
        found = show(place, metric)
    suites = {one.suite for one in found.environments}
    rulesets = [one for one in readable_rulesets(rule_files(place.rules)) if one.suite in suites]
    records = {one.suite: records_of(place.baselines, one, lambda: whole)[0] for one in rulesets}
    text = render(found, events, commit_address=commit_url, records=records)
    if path == "-":
        write_document(text)
    else:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
        say([f"wrote {path} ({len(text) / 1024:.0f} KiB): {conclusion(found, events)}"])
    return complain(found.problems)
