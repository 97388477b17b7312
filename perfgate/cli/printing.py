"""Print the results of commands: documents, reports, problems, and how far a command is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from perfgate.cli.shared import Publication
    from perfgate.core import Problem, Report

#: Exit codes.
USAGE, NOT_JUDGED = 2, 3


def say(lines: Sequence[str]) -> int:
    """Print lines to stdout; return the exit code of success."""
    from perfgate.core.wording import without_commands

    for line in lines:
        click.echo(without_commands(line), nl=not line.endswith("\n"))
    return 0


def write_document(text: str) -> None:
    """Write a document to stdout in UTF-8, as the document itself says, and not in the encoding of stdout."""
    is_binary = hasattr(sys.stdout, "buffer")  # not if a program replaced stdout by a StringIO
    click.echo(text.encode("utf-8", "backslashreplace") if is_binary else text, nl=False)


def tell(message: str) -> None:
    """Print to stderr. Control characters and workflow commands in names of files or metrics have no effect."""
    from perfgate.core.wording import one_line, without_commands

    for line in message.split("\n"):
        click.echo(without_commands(one_line(line)), err=True)


def complain(problems: Sequence[Problem]) -> int:
    """Print problems to stderr; return 3 if there are any, also for warnings, or else 0."""
    for problem in problems:
        tell(str(problem))
    return NOT_JUDGED if problems else 0


@dataclass(frozen=True, slots=True)
class Screen:
    """The abilities of stdout: its width in columns, colours, and characters beyond ASCII."""

    width: int
    colour: bool
    ascii_only: bool


def screen() -> Screen:
    """Return what stdout can show. The width is COLUMNS or the terminal's, between 60 and 200; without both it is 100.

    NO_COLOR (https://no-color.org) wins over FORCE_COLOR (https://force-color.org), and both win over the terminal;
    FORCE_COLOR=0 has no effect.
    """
    import shutil

    width = max(60, min(200, shutil.get_terminal_size((100, 24)).columns))
    is_capable = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    is_forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    colour = not os.environ.get("NO_COLOR") and (is_forced or is_capable)
    return Screen(width, colour, ascii_only=not encoding.startswith(("utf", "cp65001")))  # cp65001: UTF-8 of Windows


def is_watched() -> bool:
    """Return whether a person watches stderr: it is a terminal, and not that of a CI job."""
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("CI")


@contextmanager
def progress() -> Iterator[None]:
    """Show on a terminal how much of a file has been read, if that takes over a second."""
    if not is_watched():
        yield
        return
    from time import monotonic

    from perfgate.core.wording import one_line
    from perfgate.workspace.inputs import watched_by

    due, seen = monotonic() + 1, screen()
    is_shown = False

    def show(name: str, read: int, size: int) -> None:
        nonlocal due, is_shown
        if monotonic() >= due:
            due, is_shown = monotonic() + 0.1, True
            part = f"{100 * read // size}%" if size else f"{read >> 20} MiB"
            # 9 columns: `reading ` and a free one at the end, so that the line does not wrap.
            line = one_line(f"{part} of {name}", ascii_only=seen.ascii_only)[: seen.width - 9]
            click.echo(f"\rreading {line}\x1b[K", err=True, nl=False, color=True)

    with watched_by(show):
        try:
            yield
        finally:
            if is_shown:
                click.echo("\r\x1b[K", err=True, nl=False, color=True)


#: The seconds between two updates of the line that `shown` draws.
_EVERY_S = 1.0


def line(head: str, spent: float, left: float | None) -> str:
    """Return the line about a running measurement: `run 2 of at most 5: 12 s so far, at most 3 min left`.

    `head`: the name of the run. `spent`: the seconds since the run began. `left`: the seconds from then that this run
    and all later runs take at most; None if unknown.
    """

    def words(seconds: float) -> str:
        if seconds < 100:
            return f"{seconds:.0f} s"
        minutes = round(seconds / 60)
        return f"{minutes} min" if minutes < 100 else f"{seconds / 3600:.1f} h"

    rest = "" if left is None else f", at most {words(max(left - spent, 0.0))} left"
    return f"{head}: {words(spent)} so far{rest}"


@contextmanager
def shown(head: str, left: float | None) -> Iterator[None]:
    """Show on stderr the `line` about the measurement that the block makes (from a thread); remove it at the end."""
    from threading import Event, Thread
    from time import monotonic

    began, ended = monotonic(), Event()

    def show() -> None:
        while True:
            click.echo(f"\r{line(head, monotonic() - began, left)}\x1b[K", err=True, nl=False, color=True)
            if ended.wait(_EVERY_S):
                return

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        click.echo("\r\x1b[K", err=True, nl=False, color=True)


def publish(report: Report, publication: Publication) -> int:
    """Write the reports, print the answer, and return the exit code: 2 if a report cannot be written."""
    failures: list[str] = []
    printed = [name for name, path in publication.outputs.items() if path == "-"]
    if publication.outputs:
        from perfgate.reporters import RENDERERS
        from perfgate.workspace.output_files import write_reports

        failures = write_reports(publication.outputs, lambda name: RENDERERS[name](report))
        for name in printed:
            write_document(RENDERERS[name](report))
    if not printed:
        from perfgate.reporters.terminal import render

        seen = screen()
        text = render(
            report,
            width=seen.width,
            colour=seen.colour,
            ascii_only=seen.ascii_only,
            verbose=publication.verbose,
            quiet=publication.quiet,
        )
        click.echo(text, nl=not text.endswith("\n"), color=True)
    if publication.github:
        _annotate(report, beside_a_report=bool(printed))
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else report.exit_code


def _annotate(report: Report, *, beside_a_report: bool) -> None:
    """Print the workflow commands that annotate a job in GitHub Actions, and append the report to the step summary.

    The commands go to stderr if stdout is a report: the runner reads both. A failed summary is only a warning.
    """
    from perfgate.reporters.github import render
    from perfgate.reporters.markdown import LIMIT
    from perfgate.reporters.markdown import render as render_markdown
    from perfgate.workspace.output_files import append_summary

    click.echo(render(report), nl=False, err=beside_a_report)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    for failure in append_summary(summary, LIMIT, lambda room: render_markdown(report, limit=room)) if summary else ():
        tell(f"warning: {failure}")
