"""The command `perfgate report`."""

from __future__ import annotations

import click
from msgspec.structs import replace

from perfgate.cli.completion import files
from perfgate.cli.printing import publish
from perfgate.cli.shared import OUTPUT_FILE, Publication, report_options


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT.json...", shell_complete=files)
@click.option(
    "--expect", type=click.IntRange(min=1), metavar="N", help="The number of reports; any other number is exit 3."
)
@click.option(
    "--untrusted-comment",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="Write a comment from unreviewed reports: without their sentences and commands.",
)
@report_options
def report(
    reports: tuple[str, ...], expect: int | None, untrusted_comment: str | None, publication: Publication
) -> int:
    """Show stored reports in any form. Of several, the worst outcome wins.

    \b
    Example: perfgate report h100.json a100.json --expect 2 --markdown summary.md
    """
    from perfgate.commands.report import merged

    if untrusted_comment is not None:
        outputs = {**publication.outputs, "untrusted-comment": untrusted_comment}
        publication = replace(publication, outputs=outputs)
    with publication.replaced_if_refused(reports):
        return publish(merged(reports, expect), publication)
