"""How commands print: lines, problems, and what the terminal can show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perfgate.cli.options import NOT_JUDGED

if TYPE_CHECKING:
    from perfgate.model import Problem


def say(lines: Sequence[str]) -> int:
    """Print lines to stdout; the exit code of a command that succeeded."""
    from perfgate.reporters.text import without_commands

    for line in lines:
        click.echo(without_commands(line), nl=not line.endswith("\n"))
    return 0


def hint(lines: Sequence[str]) -> None:
    """Print lines beside the report, to stderr."""
    from perfgate.reporters.text import without_commands

    for line in lines:
        click.echo(without_commands(line), err=True)


def complain(problems: Sequence[Problem]) -> int:
    """Print problems to stderr; the exit code that they lead to."""
    for problem in problems:
        tell(str(problem))
    return NOT_JUDGED if problems else 0


def tell(message: str) -> None:
    """Print to stderr, where what names a file or a metric must not be a command for a terminal or a job's log."""
    from perfgate.reporters.text import one_line, without_commands

    for line in message.split("\n"):
        click.echo(without_commands(one_line(line)), err=True)


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
