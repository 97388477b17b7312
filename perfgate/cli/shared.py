"""The options that several commands take, as typed values, and how commands print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perfgate.cli.completion import files, rules_and_metrics
from perfgate.workspace.options import CommandOptions

if TYPE_CHECKING:
    from perfgate.core import Problem, Report

F = TypeVar("F", bound=Callable[..., Any])

USAGE, NOT_JUDGED = 2, 3


class SuggestingGroup(click.Group):
    """A group of commands that answers a misspelt name with the nearest one."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None for a name like an option. Raises UsageError with the nearest name.

        A shell that completes a line (`resilient_parsing`) gets None, too.
        """
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name[:1].isalnum() and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(cmd_name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {cmd_name!r}.{hint}", ctx)
        return found


def command_options(
    *options: Callable[[F], F], name: str = "options", build: Callable[..., object] = CommandOptions
) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, which gets them as one typed argument.

    Parameters
        options: click's decorators. Options that `build` does not take become arguments of their own.
        name: the argument of the command.
        build: makes its value. It takes those options that have the names of its parameters.
    """

    def decorate(function: F) -> F:
        taken = signature(build).parameters

        @wraps(function)
        def call(**values: Any) -> Any:
            own = {option: values.pop(option) for option in taken if option in values}
            return function(**values, **{name: build(**own)})

        decorated: Any = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


runs_argument = click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=files)
optional_runs_argument = click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=files)
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
head_option = click.option("--head", metavar="SHA", help="The commit that was measured. [default: git's HEAD]")
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
#: More of them for `check`, and for `run`, which measures first.
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
    click.option("--strict", is_flag=True, help="A suspect result is a failure."),
)


@dataclass(frozen=True, slots=True)
class Publication:
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
        """Write reports of the error if the block ends with one: a report of yesterday must not be taken for today's.

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
    return Publication(
        outputs, os.environ.get("GITHUB_ACTIONS") == "true" if github is None else github, quiet, verbose
    )


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
    *(
        click.option(f"--{name}", metavar="FILE", shell_complete=files, help=f"Write {what}; - is stdout.")
        for name, what in _REPORTS.items()
    ),
    click.option(
        "--github/--no-github",
        default=None,
        help="Annotate the rules in GitHub Actions, and write the step summary. [default: on if GITHUB_ACTIONS is set]",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only the last line."),
    click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict, run by run."),
    name="publication",
    build=_publication,
)


def say(lines: Sequence[str]) -> int:
    """Print lines to stdout; return the exit code of success."""
    from perfgate.core.wording import without_commands

    for line in lines:
        click.echo(without_commands(line), nl=not line.endswith("\n"))
    return 0


def write_document(text: str) -> None:
    """Write a document to stdout in UTF-8, whatever the encoding of stdout is: the document says that it is UTF-8."""
    is_binary = hasattr(sys.stdout, "buffer")  # not if a program replaced stdout by a StringIO
    click.echo(text.encode("utf-8", "backslashreplace") if is_binary else text, nl=False)


def tell(message: str) -> None:
    """Print to stderr. Names of files and metrics never act as commands of a terminal or of a job's log."""
    from perfgate.core.wording import one_line, without_commands

    for line in message.split("\n"):
        click.echo(without_commands(one_line(line)), err=True)


def complain(problems: Sequence[Problem]) -> int:
    """Print problems to stderr; return the exit code that they cause."""
    for problem in problems:
        tell(str(problem))
    return NOT_JUDGED if problems else 0


@dataclass(frozen=True, slots=True)
class Screen:
    """What stdout can show: its width in columns, colours, and characters beyond ASCII."""

    width: int
    colour: bool
    ascii_only: bool


def screen() -> Screen:
    """Return what stdout can show: 60 to 200 columns, or 100 without a terminal; NO_COLOR and FORCE_COLOR decide first.

    https://no-color.org, https://force-color.org
    """
    import shutil

    width = max(60, min(200, shutil.get_terminal_size((100, 24)).columns))
    is_capable = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    is_forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    colour = not os.environ.get("NO_COLOR") and (is_forced or is_capable)
    return Screen(width, colour, not encoding.startswith(("utf", "cp65001")))


@contextmanager
def progress() -> Iterator[None]:
    """Show on a terminal how much of a file has been read, if that takes over a second."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("CI"):
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
            line = one_line(f"{part} of {name}", ascii_only=seen.ascii_only)[: seen.width - 9]
            click.echo(f"\rreading {line}\x1b[K", err=True, nl=False, color=True)

    with watched_by(show):
        try:
            yield
        finally:
            if is_shown:
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
        from perfgate.reporters.terminal_table import render

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
    """Print workflow commands, and append to the step summary; a failure there is only a warning.

    The commands go to stderr if stdout is a report: the runner reads both.
    """
    from perfgate.reporters.github import render
    from perfgate.reporters.markdown import LIMIT
    from perfgate.reporters.markdown import render as render_markdown
    from perfgate.workspace.output_files import append_summary

    click.echo(render(report), nl=False, err=beside_a_report)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    for failure in append_summary(summary, LIMIT, lambda room: render_markdown(report, limit=room)) if summary else ():
        tell(f"warning: {failure}")
