"""The options that several commands take, as typed values, and the words that a shell offers for them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from perfgate.workspace.options import CommandOptions

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return click's item of the type `file`: the shell then completes file names by itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def rules_and_metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids and metrics of rules that begin with `incomplete`; nothing if the rules cannot be read."""
    from click.shell_completion import CompletionItem

    from perfgate.rules.load import readable_rulesets
    from perfgate.workspace.options import Refused
    from perfgate.workspace.rule_source import WORKING_TREE
    from perfgate.workspace.surroundings import limits

    with suppress(Refused, OSError):  # a shell asks at every keystroke, and cannot show an error
        given = WORKING_TREE.rule_files(context.params.get("rules") or ("rules",))
        found = [rule for ruleset in readable_rulesets(given, limits()) for rule in ruleset.rules]
        names = {name for rule in found for name in (rule.name, rule.sentence.subject_text)}
        # Only names that need no quotes: a shell would split one with blanks into several words.
        words = (name for name in sorted(names) if shlex.quote(name) == name)
        return [CompletionItem(name) for name in words if name.startswith(incomplete)]
    return []


def command_options(
    *options: Callable[[F], F], name: str = "options", build: Callable[..., object] = CommandOptions
) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, which gets them as one typed argument.

    `options`: click's decorators. `build`: makes the typed argument from the options that have the names of its
    parameters; the command gets the other options one by one. `name`: the name of the typed argument.
    """

    def decorate(function: F) -> F:
        taken = getattr(build, "__struct_fields__", None) or tuple(signature(build).parameters)

        @wraps(function)
        def call(**values: Any) -> Any:
            fields = {option: values.pop(option) for option in taken if option in values}
            return function(**values, **{name: build(**fields)})

        decorated: Any = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def duration(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `1h`. Raises BadParameter."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|m|h)", text, re.ASCII)
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a time: write 90s, 10m or 1h")
    return float(found[1]) * {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}[found[2]]


def words(text: str) -> tuple[str, ...]:
    """Return the words of a command, split as a shell would. Raises BadParameter."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    if not found:
        raise click.BadParameter("the command is empty")
    return found


#: Decorators for options whose value is a number, a time or a command.
number_option = partial(click.option, metavar="N")
time_option = partial(click.option, type=duration, metavar="TIME")
words_option = partial(click.option, type=words, metavar="COMMAND")


class OutputFile(click.types.StringParamType):
    """The name of a file to write, or `-` for stdout. `--` is refused, because it ends the options."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises UsageError for `--`."""
        if value == "--":
            option = param.opts[0] if param else "the option"
            raise click.UsageError(f"{option} needs a file; - is stdout", ctx)
        return value


#: An option that names a file to write.
output_option = partial(click.option, type=OutputFile(), metavar="FILE", shell_complete=files)


def _read_with(context: click.Context, option: click.Parameter, value: int | str | None) -> None:
    """Let a number of processes (an int) or a cluster read runs until the command ends. Raises BadParameter."""
    if value is None:
        return
    from perfgate.workspace.parallel import SCHEDULER, WORKERS

    if isinstance(value, int):
        context.call_on_close(partial(WORKERS.reset, WORKERS.set(value)))
        return
    from perfgate.workspace.cluster import scheduler_of

    try:
        context.call_on_close(partial(SCHEDULER.reset, SCHEDULER.set(scheduler_of(value))))
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


workers_option = click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    expose_value=False,
    callback=_read_with,
    help="Read large runs with N processes; 1 is this one alone. [default: one for each processor]",
)
executor_option = click.option(
    "--executor",
    metavar="dask://HOST:PORT",
    expose_value=False,
    callback=_read_with,
    help="Read runs of several files on this Dask cluster; tls://HOST:PORT with TLS.",
)
_READING = (workers_option, executor_option)
#: The runs, and how they are read.
RUNS = (click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=files), *_READING)
OPTIONAL_RUNS = (click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=files), *_READING)
format_option = click.option("--format", metavar="NAME", help="Read every run as this format; do not detect it.")
rules_option = click.option(
    "--rules",
    multiple=True,
    default=("rules",),
    metavar="PATH",
    shell_complete=files,
    help="A rule file or a folder of them (repeatable). [default: rules]",
)
baselines_option = click.option(
    "--baselines",
    default="baselines",
    metavar="DIR",
    shell_complete=files,
    help="The folder or bucket of the stored baselines. [default: baselines]",
)
suite_option = click.option("--suite", metavar="NAME", help="The suite, if the rules have several.")
env_option = click.option(
    "--env",
    multiple=True,
    metavar="FILE|KEY=VALUE",
    shell_complete=files,
    help="Facts of the environment that the runs do not contain (repeatable).",
)


def commit(text: str) -> str:
    """Return the whole hash of a commit. A hash unknown to git is kept as it is; another word raises BadParameter."""
    if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text):
        return text
    from perfgate.workspace.surroundings import known_to_git

    found = known_to_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if found is None and not re.fullmatch("[0-9a-fA-F]{4,64}", text):
        raise click.BadParameter(f"git knows no commit {text!r}: give its hash")
    return found or text


head_option = click.option(
    "--head", type=commit, metavar="SHA", help="The commit that was measured. [default: git's HEAD]"
)
who_option = click.option("--by", metavar="WHO", help="Who decides. [default: the Actions user, or git's user]")
all_option = click.option(
    "--all", "keep_all", is_flag=True, help="Keep the samples of every series, not only a summary."
)
trace_mode_option = click.option(
    "--trace-mode",
    type=click.Choice(["corrected", "tensorboard"]),
    default="corrected",
    help="How to divide a trace's step: as it is, or like torch_tb_profiler. [default: corrected]",
)
#: The options of every command that judges runs.
JUDGING = (rules_option, baselines_option, suite_option, env_option, format_option, trace_mode_option, head_option)
#: More of them for `check` and `run`: which rules count, and what fails.
POLICY = (
    click.option(
        "--missing-baseline",
        type=click.Choice(["error", "warn", "skip"]),
        default="error",
        help="The effect of a missing baseline. [default: error]",
    ),
    click.option(
        "--policy-ref", metavar="GITREF", help="Read rules and baselines from this commit: refs/remotes/origin/main."
    ),
    click.option(
        "--policy-commit",
        metavar="SHA",
        help="The commit of --policy-ref, if you resolved it before code of a pull request ran.",
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="GLOB",
        shell_complete=rules_and_metrics,
        help="Judge only the rules with this id or metric (repeatable).",
    ),
    click.option("--strict", is_flag=True, help="Count a probable regression as a failure."),
)


class Publication(Struct, frozen=True):
    """The destinations of a report: one file for each reporter (`-` is stdout), and how it is printed."""

    outputs: dict[str, str]
    github: bool
    quiet: bool
    verbose: bool

    @property
    def with_details(self) -> bool:
        """True if a report is written that shows the runs behind the verdicts."""
        return not {"json", "html"}.isdisjoint(self.outputs)

    @contextmanager
    def replaced_if_refused(self, inputs: Sequence[str]) -> Iterator[None]:
        """Write the error into the report files if the block ends with one: an old report must not look new.

        Raises Refused, before the block runs, if a report cannot be written, or would replace an input.
        """
        if not self.outputs:
            yield
            return
        from perfgate.cli.refusals import replacing

        with replacing(self.outputs, inputs):
            yield


def _publication(
    json: str | None, junit: str | None, markdown: str | None, comment: str | None, sarif: str | None,
    html: str | None, github: bool | None, quiet: bool, verbose: bool,
) -> Publication:  # fmt: skip
    given = {"json": json, "junit": junit, "markdown": markdown, "comment": comment, "sarif": sarif, "html": html}
    outputs = {name: path for name, path in given.items() if path is not None}
    is_github = os.environ.get("GITHUB_ACTIONS") == "true" if github is None else github
    return Publication(outputs, is_github, quiet, verbose)


#: The options that name a file, and what they write to it.
_REPORTS = {
    "json": "the report as JSON",
    "junit": "a JUnit report",
    "markdown": "a Markdown summary",
    "comment": "the Markdown for one sticky comment on a pull request",
    "sarif": "SARIF for code scanning",
    "html": "the report as one page that works offline",
}
#: The options of every command that prints a report; the command gets them as `publication`.
report_options = command_options(
    *(output_option(f"--{name}", help=f"Write {what}; - is stdout.") for name, what in _REPORTS.items()),
    click.option(
        "--github/--no-github",
        default=None,
        help="Annotate the rules in GitHub Actions, and write the step summary. [default: on if GITHUB_ACTIONS is set]",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only the last line."),
    click.option("-v", "--verbose", is_flag=True, help="Print every verdict with its numbers, run by run."),
    name="publication",
    build=_publication,
)
