"""The way in and out: the group of all commands, and the exit code of everything that may go wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import StringIO

import click

from perfgate import __version__
from perfgate.cli.completion import VARIABLE
from perfgate.cli.options import USAGE, Group
from perfgate.cli.terminal import tell

INTERNAL = 4


#: Every command: the module that holds it under its name, and what `--help` says of it.
_COMMANDS = {
    "baseline": ("baselines", "Stored baselines: who decided what is normal, and when."),
    "calibrate": ("calibration", "Measure the noise between unchanged runs, for check."),
    "check": ("judging", "Judge new runs by the rules and the stored baseline."),
    "compare": ("judging", "Compare two sets of runs, without rules."),
    "completion": ("completion", "Print the script that completes words in a shell."),
    "env": ("env", "Print the facts of this machine as JSON."),
    "init": ("starting", "Write rules, baselines and a workflow from first runs."),
    "inspect": ("judging", "Show what was read: every metric, every problem."),
    "plan": ("calibration", "Say which changes the rules would see, and what helps."),
    "report": ("report", "Show stored reports in any form, or several as one."),
    "rules": ("rules", "Rule files: check, explain and compare them."),
    "run": ("running", "Run a command until the rules have their answers."),
    "schema": ("rules", "Print the JSON Schema of a document."),
    "selftest": ("starting", "Prove that worse input fails and unchanged passes."),
}


class _Commands(Group):
    """The group of all commands; only the module of the one that is asked for is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of `--help`."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"perfgate.cli.{_COMMANDS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, which needs none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfgate")
def main() -> None:
    """A performance gate for people who train models on GPUs.

    Rules are sentences in YAML; runs are what profilers already write.

    \b
    Exit codes: 0 nothing blocks, 1 a rule failed, 2 usage or configuration,
    3 could not judge, 4 internal error.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing that goes wrong ends in 0 or 1 by accident."""
    if sys.stdout is None:  # closed by the caller: nobody would see the answer
        return USAGE
    try:
        words = None if arguments is None else list(arguments)
        code = main.main(words, "perfgate", VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit:  # click's answer to a broken pipe is an exit with 1, which would read as a regression
        return 0 if VARIABLE in os.environ else USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _failed(error: Exception) -> int:
    """The exit code of an error, and a line on stderr, if that can still be written to."""
    from perfgate.workspace.errors import Refused

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
