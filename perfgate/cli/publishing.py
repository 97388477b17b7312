"""How the commands that judge show their report: options, files, standard output, and GitHub Actions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from perfgate.cli.completion import files
from perfgate.cli.options import USAGE, options
from perfgate.cli.terminal import ascii_only, colour, tell, width

if TYPE_CHECKING:
    from perfgate.core import Report

#: The options that name a file, and what they write to it.
_FILES = {
    "json": "the report as JSON",
    "junit": "a JUnit report",
    "markdown": "a Markdown summary",
    "comment": "the Markdown for one sticky comment on a pull request",
    "sarif": "SARIF for code scanning",
    "html": "the report as one page that works offline",
}

report_options = options(
    *(
        click.option(f"--{name}", f"{name}_", metavar="FILE", shell_complete=files, help=f"Write {what}; - is stdout.")
        for name, what in _FILES.items()
    ),
    click.option(
        "--github/--no-github",
        default=None,
        help="Annotate the rules in GitHub Actions, and write the step summary. [default: where GITHUB_ACTIONS is set]",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print the last line only."),
    click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict, run by run."),
)


@dataclass(frozen=True, slots=True)
class Publication:
    """Where a report goes: files by the name of their reporter, and how it is printed."""

    outputs: dict[str, str]
    github: bool
    quiet: bool
    verbose: bool

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> Publication:
        """The values of `report_options`."""
        outputs = {name: arguments[f"{name}_"] for name in _FILES if arguments[f"{name}_"] is not None}
        given = arguments["github"]
        github = os.environ.get("GITHUB_ACTIONS") == "true" if given is None else bool(given)
        return cls(outputs, github, arguments["quiet"], arguments["verbose"])

    @property
    def on_stdout(self) -> list[str]:
        """The reports that are printed instead of the table."""
        return [name for name, path in self.outputs.items() if path == "-"]


def publish(report: Report, publication: Publication) -> int:
    """Write the reports, print the answer, and return the exit code; a report that cannot be written is usage."""
    from perfgate.workspace.output_files import write_reports

    failures = write_reports(report, publication.outputs)
    _print(report, publication)
    if publication.github:
        _annotate(report, publication)
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else report.exit_code


def _print(report: Report, publication: Publication) -> None:
    from perfgate.reporters import RENDERERS
    from perfgate.reporters.terminal_table import render

    for name in publication.on_stdout:
        click.echo(RENDERERS[name](report), nl=False)
    if not publication.on_stdout:
        shown = {"verbose": publication.verbose, "quiet": publication.quiet}
        text = render(report, width=width(), colour=colour(), ascii_only=ascii_only(), **shown)
        click.echo(text, nl=not text.endswith("\n"), color=True)


def _annotate(report: Report, publication: Publication) -> None:
    """Workflow commands after the report, or on stderr beside one on stdout: the runner reads both.

    A step summary that cannot be written is said, and changes nothing.
    """
    from perfgate.reporters.github import render
    from perfgate.workspace.output_files import append_summary

    click.echo(render(report), nl=False, err=bool(publication.on_stdout))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    for failure in append_summary(report, summary) if summary else ():
        tell(f"warning: {failure}")
