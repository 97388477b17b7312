"""The way in and out: the group of all commands, and the exit code of everything that may go wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO

import click

from perfgate import __version__
from perfgate.cli import baselines, calibration, completion, env, judging, report, rules, starting
from perfgate.cli import run as running
from perfgate.cli.options import USAGE, Group
from perfgate.cli.terminal import tell

INTERNAL = 4


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfgate")
def main() -> None:
    """A performance gate for people who train models on GPUs.

    Rules are sentences in YAML; runs are what profilers already write.

    \b
    Exit codes: 0 nothing blocks, 1 a rule failed, 2 usage or configuration,
    3 could not judge, 4 internal error.
    """


for command in (
    *judging.COMMANDS,
    *running.COMMANDS,
    *report.COMMANDS,
    *baselines.COMMANDS,
    *calibration.COMMANDS,
    *rules.COMMANDS,
    *env.COMMANDS,
    *starting.COMMANDS,
    *completion.COMMANDS,
):
    main.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing that goes wrong ends in 0 or 1 by accident."""
    if sys.stdout is None:  # closed by the caller: nobody would see the answer
        return USAGE
    try:
        words = None if arguments is None else list(arguments)
        code = main.main(words, "perfgate", completion.VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit:  # click's answer to a broken pipe is an exit with 1, which would read as a regression
        return 0 if completion.VARIABLE in os.environ else USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _failed(error: Exception) -> int:
    """The exit code of an error, and a line on stderr, if that can still be written to."""
    from perfgate.app.errors import Refused

    if isinstance(error, OSError):
        return _output_failed(error)
    if isinstance(error, Refused):
        return _tell(f"error: {error}", error.exit_code)
    if isinstance(error, click.ClickException):
        shown = StringIO()
        error.show(shown)
        return _tell(shown.getvalue().rstrip("\n"), USAGE)
    return _internal_error(error)


def _tell(message: str, code: int) -> int:
    """Say what went wrong, if that can be."""
    with suppress(OSError):
        tell(message)
    return code


def _output_failed(error: OSError) -> int:
    """A pipe that nobody reads, or a full disk behind stdout: nobody saw the answer, so it is not 0."""
    with suppress(OSError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (so that the interpreter's own flush does not fail)
    return _tell(f"error: the output could not be written: {error}", USAGE)


def _internal_error(error: Exception) -> int:
    """One line for the user; the traceback goes to a file that can be sent with a report."""
    import tempfile
    import traceback

    details = "".join(traceback.format_exception(error))
    where = "its details could not be written anywhere"
    with (
        suppress(OSError),
        tempfile.NamedTemporaryFile("w", prefix="perfgate-", suffix=".txt", delete=False, encoding="utf-8") as file,
    ):
        file.write(details.encode("utf-8", "backslashreplace").decode())
        where = f"details are in {file.name}"
    return _tell(f"internal error: {type(error).__name__}: this is a fault of perfgate; {where}", INTERNAL)
