"""The command line: parse, call the command's function in `perfgate.app`, write, and choose the exit code.

Only click is imported here at start-up; everything else when a command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perfgate import __version__

if TYPE_CHECKING:
    from perfgate.app.baselines import Options
    from perfgate.model import Problem, Report

F = TypeVar("F", bound=Callable[..., Any])

USAGE, NOT_JUDGED, INTERNAL = 2, 3, 4


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing that goes wrong ends in 0 or 1 by accident."""
    if sys.stdout is None:  # closed by the caller: nobody would see the answer
        return USAGE
    try:
        code = main.main(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit:  # click's answer to a broken pipe is an exit with 1, which would read as a regression
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, OSError) as error:
        return _output_failed(error)
    except Exception as error:
        return _internal_error(error)
    return code if isinstance(code, int) else 0


def _output_failed(error: OSError) -> int:
    """A pipe that nobody reads, or a full disk behind stdout: nobody saw the answer, so it is not 0."""
    try:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (so that the interpreter's own flush does not fail)
        click.echo(f"error: the output could not be written: {error}", err=True)
    except OSError:
        pass
    return USAGE


def _internal_error(error: Exception) -> int:
    """One line for the user; the traceback goes to a file that can be sent with a report."""
    import tempfile
    import traceback

    from perfgate.app.errors import Refused

    if isinstance(error, Refused):
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    with tempfile.NamedTemporaryFile("w", prefix="perfgate-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    click.echo(
        f"internal error: {type(error).__name__}: this is a fault of perfgate; details are in {file.name}",
        err=True,
    )
    return INTERNAL


class _Group(click.Group):
    """A group that suggests the command that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near and "Did you mean" not in error.message else ""
            raise click.UsageError(error.message + hint, ctx) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfgate")
def main() -> None:
    r"""A performance gate for people who train models on GPUs.

    Rules are sentences in YAML; runs are what profilers already write.

    \b
    Exit codes: 0 nothing blocks, 1 a rule failed, 2 usage or configuration,
    3 could not judge, 4 internal error.
    """


# --- options that several commands share -------------------------------------------------------------------------


def _options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


_runs = click.argument("runs", nargs=-1, required=True, metavar="RUN...")
_format = click.option(
    "--format", "format_", metavar="NAME", help="Read every run as this format, whatever it looks like."
)
_rules = click.option(
    "--rules", multiple=True, default=("rules",), metavar="PATH", help="A rule file or a folder. [default: rules]"
)
_baselines = click.option(
    "--baselines", default="baselines", metavar="DIR", help="Where baselines are kept. [default: baselines]"
)
_suite = click.option("--suite", metavar="NAME", help="Which suite, where the rules hold several.")
_env = click.option(
    "--env", multiple=True, metavar="FILE|KEY=VALUE", help="Facts of the environment that the runs do not hold."
)
_head = click.option("--head", metavar="SHA", help="The commit that was measured. [default: git's HEAD]")
_judging = _options(_rules, _baselines, _suite, _env, _format, _head)


def _collect(runs: Sequence[str], arguments: dict[str, Any]) -> Options:
    from perfgate.app.baselines import Options

    return Options(
        runs=tuple(runs),
        rules=tuple(arguments["rules"]),
        baselines=arguments["baselines"],
        suite=arguments["suite"],
        env=tuple(arguments["env"]),
        format=arguments["format_"],
        head=arguments["head"],
    )


# --- check and inspect -------------------------------------------------------------------------------------------


@main.command()
@_runs
@_judging
@click.option(
    "--missing-baseline",
    type=click.Choice(["error", "warn", "skip"]),
    default="error",
    help="What a missing baseline means. [default: error]",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only rules with this id or metric.")
@click.option("--strict", is_flag=True, help="A suspicion is a failure.")
@click.option("--junit", metavar="FILE", help="Write a JUnit report.")
@click.option("--json", "json_", metavar="FILE", help="Write the report as JSON; - is stdout.")
@click.option("--markdown", metavar="FILE", help="Write a Markdown summary.")
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict.")
def check(
    runs: tuple[str, ...], missing_baseline: Any, only: tuple[str, ...], strict: bool,
    junit: str | None, json_: str | None, markdown: str | None, quiet: bool, verbose: bool, **arguments: Any,
) -> int:  # fmt: skip
    r"""Judge new runs by the rules and the stored baseline; the exit code is the answer.

    \b
    Example: perfgate check train.log --junit perfgate.xml
    """
    from perfgate.app import check as command
    from perfgate.app.outputs import check_outputs

    written = {"junit": junit, "json": json_, "markdown": markdown}
    outputs = {name: path for name, path in written.items() if path is not None}
    check_outputs(outputs, runs)
    report = command.check(command.CheckRequest(_collect(runs, arguments), missing_baseline, only, strict))
    return _publish(report, outputs, quiet, verbose)


def _publish(report: Report, outputs: dict[str, str], quiet: bool, verbose: bool) -> int:
    """Write the reports, print the answer, and return the exit code; a report that cannot be written is usage."""
    from perfgate.app.outputs import write_reports

    failures = write_reports(report, outputs)
    _print_report(report, outputs, quiet, verbose)
    for failure in failures:
        click.echo(f"error: {failure}", err=True)
    return USAGE if failures and report.exit_code != INTERNAL else report.exit_code


def _print_report(report: Report, outputs: dict[str, str], quiet: bool, verbose: bool) -> None:
    from perfgate.reporters import RENDERERS
    from perfgate.reporters.table import render

    on_stdout = [name for name, path in outputs.items() if path == "-"]
    for name in on_stdout:
        click.echo(RENDERERS[name](report), nl=False)
    if not on_stdout:
        text = render(report, width=_width(), colour=_colour(), ascii_only=_ascii_only(), verbose=verbose, quiet=quiet)
        click.echo(text, nl=not text.endswith("\n"), color=True)


@main.command()
@_runs
@_format
@click.option("--json", "json_", is_flag=True, help="Print JSON (perfgate.inspect/1).")
@click.option("--values", is_flag=True, help="With --json, print the values themselves, too.")
def inspect(runs: tuple[str, ...], format_: str | None, json_: bool, values: bool) -> int:
    r"""Show what was read: every metric with its statistics, and every problem.

    \b
    Example: perfgate inspect train.log
    """
    from perfgate.app.inspection import inspect as command
    from perfgate.reporters.inspection import render_json, render_text

    summaries, code = command(runs, format_, with_values=values and json_)
    click.echo(render_json(summaries) if json_ else render_text(summaries, ascii_only=_ascii_only()), nl=False)
    return code


class _NewSide(click.Command):
    """`--new A B` means `--new A --new B`: every path after it is new."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {option for p in self.params if getattr(p, "is_flag", False) for option in p.opts} | {"-h", "--help"}
        rewritten: list[str] = []
        is_new, waiting = False, list(args)
        while waiting:
            word = waiting.pop(0)
            if word == "--new":
                is_new = True
            elif word.startswith("-") and word != "-":
                rewritten.append(word)
                rewritten += [waiting.pop(0)] if waiting and word not in flags and "=" not in word else []
            else:
                rewritten += ["--new", word] if is_new else [word]
        return super().parse_args(ctx, rewritten)


@main.command(cls=_NewSide)
@click.argument("base", nargs=-1, required=True, metavar="BASE...")
@click.option("--new", multiple=True, required=True, metavar="RUN...", help="The new runs: every path after it.")
@click.option("--statistic", metavar="NAME", help="median, mean, p95, ... [default: median; of aggregates mean]")
@click.option("--tolerance", default="5%", metavar="T", help="How much worse is accepted. [default: 5%]")
@_format
@click.option("--json", "json_", metavar="FILE", help="Write the report as JSON; - is stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every verdict.")
def compare(
    base: tuple[str, ...],
    new: tuple[str, ...],
    statistic: str | None,
    tolerance: str,
    format_: str | None,
    json_: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    r"""Compare two sets of runs without rules; the exit codes are those of check.

    \b
    Example: perfgate compare main-1.log main-2.log --new change.log
    """
    from perfgate.app.compare import compare as command
    from perfgate.app.outputs import check_outputs

    outputs = {} if json_ is None else {"json": json_}
    check_outputs(outputs, (*base, *new))
    return _publish(command(base, new, statistic, tolerance, format_), outputs, quiet, verbose)


# --- baselines ---------------------------------------------------------------------------------------------------


@main.group(cls=_Group)
def baseline() -> None:
    """The stored baselines: approve, add, list, show."""


@baseline.command()
@_runs
@click.option("--reason", required=True, metavar="TEXT", help="Why this is the new normal.")
@click.option("--by", metavar="WHO", help="Who approves. [default: the Actions user, git's user]")
@click.option("--pr", type=int, metavar="N", help="The pull request that the approval belongs to.")
@click.option("--all", "keep_all", is_flag=True, help="Keep every series, not only those that rules name.")
@_judging
def approve(
    runs: tuple[str, ...], reason: str, by: str | None, pr: int | None, keep_all: bool, **arguments: Any
) -> int:
    r"""Open a new level with these runs: an approved change, or the first baseline.

    \b
    Example: perfgate baseline approve train.log --reason "first baseline"
    """
    from perfgate.app.baselines import approve as command

    return _say(command(_collect(runs, arguments), reason, by, pr, keep_all))


@baseline.command()
@_runs
@click.option("--by", metavar="WHO", help="Who adds. [default: the Actions user, git's user]")
@click.option("--rotate", is_flag=True, help="Replace the oldest runs of a full level.")
@click.option("--all", "keep_all", is_flag=True, help="Keep every series, not only those that rules name.")
@_judging
def add(runs: tuple[str, ...], by: str | None, rotate: bool, keep_all: bool, **arguments: Any) -> int:
    r"""Add unchanged runs to the current level; refused when they fail their own rules.

    \b
    Example: perfgate baseline add train.log
    """
    from perfgate.app.baselines import add as command

    return _say(command(_collect(runs, arguments), by, rotate, keep_all))


@baseline.command("list")
@_baselines
def list_(baselines: str) -> int:
    r"""List every level: its runs, who approved it, and why.

    \b
    Example: perfgate baseline list
    """
    from perfgate.app.stored import levels
    from perfgate.reporters.stored import render_levels

    found, problems = levels(baselines)
    _say([render_levels(found)])
    return _complain(problems)


@baseline.command()
@click.argument("place", required=False, metavar="[SUITE[/ENVIRONMENT[/LEVEL[/RUN]]]]")
@_baselines
def show(place: str | None, baselines: str) -> int:
    r"""Show stored runs: their environment, their decision, and their metrics.

    \b
    Example: perfgate baseline show gpt-small
    """
    from perfgate.app.stored import runs
    from perfgate.reporters.stored import render_runs

    found, problems = runs(baselines, place)
    _say([render_runs(found, ascii_only=_ascii_only())])
    return _complain(problems)


# --- rules and schemas -------------------------------------------------------------------------------------------


@main.group(cls=_Group)
def rules() -> None:
    """Rule files: check and explain them."""


@rules.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
def rules_check(paths: tuple[str, ...]) -> int:
    r"""Validate rule files; every mistake is shown with its line.

    \b
    Example: perfgate rules check rules/
    """
    from perfgate.app.rules import check_rules

    good, problems = check_rules(paths or ("rules",))
    _say(good)
    for problem in problems:
        click.echo(str(problem), err=True)
    return USAGE if problems else 0


@rules.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@_rules
@_suite
def explain(ids: tuple[str, ...], rules: tuple[str, ...], suite: str | None) -> int:
    r"""Say in words what rules mean and what they need.

    \b
    Example: perfgate rules explain allreduce-tail
    """
    from perfgate.app.rules import explain_rules

    return _say(["\n\n".join(explain_rules(rules, ids, suite))])


@main.command()
@click.argument("name", type=click.Choice(["rules", "results", "baseline", "report"]))
def schema(name: str) -> int:
    r"""Print the JSON Schema of a document that perfgate reads or writes.

    \b
    Example: perfgate schema rules > rules.schema.json
    """
    from perfgate.schemas import schema_text

    click.echo(schema_text(name), nl=False)
    return 0


# --- the terminal ------------------------------------------------------------------------------------------------


def _say(lines: Sequence[str]) -> int:
    for line in lines:
        click.echo(line, nl=not line.endswith("\n"))
    return 0


def _complain(problems: Sequence[Problem]) -> int:
    for problem in problems:
        click.echo(str(problem), err=True)
    return NOT_JUDGED if problems else 0


def _width() -> int:
    """The terminal's width, between 60 and 200 columns; 100 where there is no terminal."""
    import shutil

    return max(60, min(200, shutil.get_terminal_size((100, 24)).columns))


def _colour() -> bool:
    """NO_COLOR, then FORCE_COLOR, then whether a capable terminal listens."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def _ascii_only() -> bool:
    """Whether stdout cannot show the signs of the table."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return not encoding.startswith(("utf", "cp65001"))
