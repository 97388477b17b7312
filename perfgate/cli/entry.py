"""The way in and out: the group of all commands, and the exit code of every error."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING

import click

from perfgate.cli.printing import USAGE, tell
from perfgate.version import __version__

if TYPE_CHECKING:  # only completion needs it
    from click.shell_completion import CompletionItem
#: The exit codes of Ctrl-C and of a bug in perfgate.
INTERRUPTED = 130
INTERNAL = 4
#: The environment variable with which the completion script of a shell asks for words. The name is click's own.
VARIABLE = "_PERFGATE_COMPLETE"
#: The least address space in bytes, if it is limited: Python, numpy and jsonschema take about 220 MiB.
_LEAST_MEMORY = 256 << 20
#: The message of the loader for a library that does not fit into the memory limit.
_NO_MEMORY = re.compile("failed to map segment|[Cc]annot allocate memory")
#: The variable with the number of threads of numpy's matrix library, which reads it when numpy is imported.
_THREADS = "OPENBLAS_NUM_THREADS"
#: Every command with its line in `--help`. `perfgate/commands/NAME.py` is imported if the user names it.
_COMMANDS = {
    "attack": "Attack your rules and workflows, harmlessly.",
    "baseline": "Approve, add, list and compare stored baselines.",
    "bisect": "Find the commit that changed a metric.",
    "check": "Judge new runs by the rules and the stored baseline.",
    "compare": "Compare two sets of runs, without rules.",
    "completion": "Print the script that completes words in a shell.",
    "doctor": "Measure how noisy this machine is.",
    "env": "Print the facts of this machine as JSON.",
    "explain": "Show how a verdict was computed, line by line.",
    "history": "Remember every run of main, and show what changed.",
    "init": "Write rules, baselines and a workflow from first runs.",
    "inspect": "Show what was read: every metric, every problem.",
    "lsp": "Check rules while they are typed in an editor.",
    "record": "Run a command and measure its machine.",
    "report": "Show stored reports in any form, or several as one.",
    "rules": "Show what each rule sees, proves and needs.",
    "run": "Run a command until the rules have their answers.",
    "schema": "Print the JSON Schema of a document.",
}
#: The commands of `--help`; `--help-all` shows the others, too.
_EVERYDAY = ("init", "check", "run", "compare", "inspect", "baseline", "history", "bisect", "doctor", "report")
#: Former names of commands, which work for one more release, with the words that replace them.
_EARLIER = {"calibrate": ("rules", "show", "--calibrate"), "plan": ("rules", "show"), "selftest": ("rules", "show")}
#: The commands that have commands of their own.
_GROUPS = {
    "baseline": ("add", "allow", "approve", "diff", "list", "prune", "show", "verify"),
    "history": ("add", "backfill", "compact", "events", "export", "import", "quarantine", "report", "show", "watch"),
    "rules": ("check", "diff", "explain", "show"),
}
#: The command that a message proposes for a name of other tools, or for a misspelt former name (see `_EARLIER`).
_OTHER_WORDS = {
    "accept": "baseline approve",
    "calibrate": "rules --calibrate",
    "lint": "rules check",
    "plan": "rules",
    "selftest": "rules",
    "validate": "rules check",
}
#: The options of `run` and `check` in their `--help`.
_OPTIONS = {*("--results", "--runs", "--time-budget", "--paired", "--base-ref", "--rules", "--env", "--only", "--json")}
_OPTIONS |= {"--markdown", "--html", "--quiet", "--verbose", "--help-all", "--help"}
#: The key of click's `meta` that says that `--help-all` was given.
_ALL = "perfgate.help-all"


def _help_all(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


help_all_option = click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Show the whole help."
)


class ShortHelp(click.Command):
    """A command whose `--help` shows its everyday options, and `--help-all` all of them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the everyday options, or all of them after `--help-all`."""
        shown = [one for one in self.get_params(ctx) if ctx.meta.get(_ALL) or not _OPTIONS.isdisjoint(one.opts)]
        with formatter.section("Options"):
            formatter.write_dl([record for one in shown if (record := one.get_help_record(ctx)) is not None])


class SuggestingGroup(click.Group):
    """A group of commands that answers a misspelt name with the nearest one."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None. Raises UsageError with the nearest name.

        It is None for a name that does not begin with a letter or a digit, such as an option, and for a shell that
        completes a line (`resilient_parsing`).
        """
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name[:1].isalnum() and not ctx.resilient_parsing:
            near = " or ".join(map(repr, self.near_commands(ctx, cmd_name)))
            hint = f" Did you mean {near}?" if near else ""
            raise click.UsageError(f"No such command {cmd_name!r}.{hint}", ctx)
        return found

    def near_commands(self, ctx: click.Context, word: str) -> list[str]:
        """Return the commands that a word may mean."""
        from difflib import get_close_matches

        return get_close_matches(word, self.list_commands(ctx), n=1)


class _Commands(SuggestingGroup):
    """The group of all commands. It imports only the file of the command that is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of a command and return it, or None. Raises UsageError with the nearest name.

        numpy gets one thread, unless the user set another number: no command multiplies large matrices, and each thread
        takes time to start and memory.
        """
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        is_free = _THREADS not in os.environ
        if is_free:
            os.environ[_THREADS] = "1"
        try:
            found = import_module(f"perfgate.commands.{cmd_name}").command
        finally:
            if is_free:
                del os.environ[_THREADS]  # a measured program must not get it
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and its arguments. A former name is replaced, with a message on stderr.

        A shell that completes a line gets no message.
        """
        if now := _EARLIER.get(args[0]):
            words = " ".join(word for word in now if word != "show")  # `rules` alone shows, too
            if not ctx.resilient_parsing:
                tell(f"`perfgate {args[0]}` is now `perfgate {words}`; the old name will go in the next release")
            args = [*now, *args[1:]]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a shell offers. click itself would import every command."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=line) for name, line in _COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def near_commands(self, ctx: click.Context, word: str) -> list[str]:
        """Return the commands with the nearest name: several, if groups have commands of the same name."""
        from difflib import get_close_matches

        # Each word that a user may type, with the commands that it can mean.
        meant = {name: [name] for name in _COMMANDS} | {other: [command] for other, command in _OTHER_WORDS.items()}
        for group, commands in _GROUPS.items():
            for command in commands:
                if command not in _COMMANDS:  # otherwise it means the command of that name, such as `check`
                    meant.setdefault(command, []).append(f"{group} {command}")
        near = get_close_matches(word, meant, n=1)
        return meant[near[0]] if near else []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = _COMMANDS if ctx.meta.get(_ALL) else _EVERYDAY
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in names])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@help_all_option
@click.version_option(__version__, prog_name="perfgate")
def main() -> None:
    """A performance gate for people who train models on GPUs.

    Rules are sentences in YAML. Runs are the files that profilers already write.

    \b
    Exit codes: 0 nothing blocks, 1 a rule failed, 2 usage or configuration,
    3 could not judge, 4 internal error, 130 stopped by Ctrl-C (143 by SIGTERM).
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. No error may look like a pass (0) or a regression (1)."""
    if sys.stdout is None:  # the caller closed it: nobody would see the answer
        return USAGE
    try:
        words = None if arguments is None else list(arguments)
        _prepare_process()
        code = main.main(words, "perfgate", VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit:  # the end of a completion; or click's 1 on a broken pipe, which would look like a regression
        return 0 if VARIABLE in os.environ else USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _prepare_process() -> None:
    """Let stdout print every character. Raises Refused or UsageError if numpy would crash in this environment."""
    if isinstance(sys.stdout, TextIOWrapper):
        codecs.register_error("perfgate", _in_ascii)
        sys.stdout.reconfigure(errors="perfgate")
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is not None and not epoch.strip():  # not set; numpy would read it as a number
        del os.environ["SOURCE_DATE_EPOCH"]
    elif epoch is not None and not re.fullmatch(r"-?[0-9]+", epoch.strip()):
        raise click.UsageError(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds")
    with suppress(ImportError):  # Windows has no such limit
        import resource

        room = resource.getrlimit(resource.RLIMIT_AS)[0]
        if room != resource.RLIM_INFINITY and room < _LEAST_MEMORY:
            from perfgate.workspace.options import Refused

            needed = f"perfgate needs at least {_LEAST_MEMORY >> 20} MiB"
            raise Refused(f"the memory is limited to {room >> 20} MiB (ulimit -v): {needed}", 3)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the encoding of stdout lacks: `->` for `→` under cp1252."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    from perfgate.core.wording import one_line

    return one_line(error.object[error.start : error.end], ascii_only=True), error.end


def _failed(error: Exception) -> int:
    """Print an error to stderr, if that is possible, and return its exit code."""
    from perfgate.workspace.options import Refused

    message, code = f"error: {error}", USAGE
    if isinstance(error, Refused):
        code = error.exit_code
        message = message if code else str(error)  # the code 0 says that nothing is left to do: not an error
    elif isinstance(error, click.ClickException):
        shown = StringIO()
        error.show(shown)
        message = shown.getvalue().rstrip("\n")
    elif isinstance(error, OSError):  # a pipe without a reader or a full disk behind stdout: nobody saw the answer
        message = f"error: the output could not be written: {error.strerror or error}"
        with suppress(OSError):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (so that the interpreter's own flush does not fail)
    elif isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_MEMORY.search(str(error))):
        message, code = "error: there is not enough memory: raise the limit (ulimit -v) or use a smaller input", 3
    else:
        where = _traceback_file(error)
        message, code = f"internal error: {type(error).__name__}: this is a bug in perfgate; {where}", INTERNAL
    with suppress(OSError):
        tell(message)
    return code


def _traceback_file(error: Exception) -> str:
    """Write the traceback to a file for a bug report; return where it is, in words."""
    import tempfile
    import traceback

    details = "".join(traceback.format_exception(error))
    with (
        suppress(OSError),
        tempfile.NamedTemporaryFile("w", prefix="perfgate-", suffix=".txt", delete=False, encoding="utf-8") as file,
    ):
        file.write(details.encode("utf-8", "backslashreplace").decode())
        return f"details are in {file.name}"
    return "its details could not be written anywhere"
