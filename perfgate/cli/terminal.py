"""How commands print: lines, problems, and what the terminal can show."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from perfgate.cli.options import NOT_JUDGED

if TYPE_CHECKING:
    from perfgate.core import Problem


def say(lines: Sequence[str]) -> int:
    """Print lines to stdout; the exit code of a command that succeeded."""
    from perfgate.core.wording import without_commands

    for line in lines:
        click.echo(without_commands(line), nl=not line.endswith("\n"))
    return 0


def hint(lines: Sequence[str]) -> None:
    """Print lines beside the report, to stderr."""
    from perfgate.core.wording import without_commands

    for line in lines:
        click.echo(without_commands(line), err=True)


def complain(problems: Sequence[Problem]) -> int:
    """Print problems to stderr; the exit code that they lead to."""
    for problem in problems:
        tell(str(problem))
    return NOT_JUDGED if problems else 0


def tell(message: str) -> None:
    """Print to stderr, where what names a file or a metric must not be a command for a terminal or a job's log."""
    from perfgate.core.wording import one_line, without_commands

    for line in message.split("\n"):
        click.echo(without_commands(one_line(line)), err=True)


@contextmanager
def progress() -> Iterator[None]:
    """A line on stderr that says how far reading is, if a terminal listens and it takes over a second; then none."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("CI"):
        yield
        return
    from time import monotonic

    from perfgate.core.wording import one_line
    from perfgate.workspace.progress import watched_by

    due = monotonic() + 1
    is_shown = False

    def show(name: str, read: int, size: int) -> None:
        nonlocal due, is_shown
        if monotonic() >= due:
            due, is_shown = monotonic() + 0.1, True
            far = f"{100 * read // size}%" if size else f"{read >> 20} MiB"
            line = one_line(f"{far} of {name}", ascii_only=ascii_only())[: width() - 9]
            click.echo(f"\rreading {line}\x1b[K", err=True, nl=False, color=True)

    with watched_by(show):
        try:
            yield
        finally:
            if is_shown:
                click.echo("\r\x1b[K", err=True, nl=False, color=True)


def width() -> int:
    """The terminal's width, between 60 and 200 columns; 100 where there is no terminal."""
    import shutil

    return max(60, min(200, shutil.get_terminal_size((100, 24)).columns))


def colour() -> bool:
    """NO_COLOR, then FORCE_COLOR, then whether a capable terminal listens."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def ascii_only() -> bool:
    """Whether stdout cannot show the signs of the table."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return not encoding.startswith(("utf", "cp65001"))
