"""The command `perfgate report`."""

from __future__ import annotations

import click

from perfgate.cli.completion import files
from perfgate.cli.shared import Publication, publish, report_options


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT.json...", shell_complete=files)
@click.option(
    "--expect", type=click.IntRange(min=1), metavar="N", help="The number of reports; any other number is exit 3."
)
@report_options
def report(reports: tuple[str, ...], expect: int | None, publication: Publication) -> int:
    """Show stored reports in any form. Of several, the worst outcome wins.

    \b
    Example: perfgate report h100.json a100.json --expect 2 --markdown summary.md
    """
    from perfgate.commands.report import merged

    publication.check_files(reports)
    return publish(merged(reports, expect), publication)
