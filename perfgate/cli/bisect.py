"""The command `perfgate bisect`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from perfgate.cli.completion import files
from perfgate.cli.printing import USAGE, screen, tell, write_document
from perfgate.cli.run import duration, words
from perfgate.cli.shared import (
    OUTPUT_FILE,
    baselines_option,
    command_options,
    env_option,
    format_option,
    rules_option,
    suite_option,
    trace_mode_option,
)
from perfgate.workspace.options import CommandOptions, Refused

if TYPE_CHECKING:
    from perfgate.commands.bisect_request import BisectRequest
    from perfgate.core.bisection import BisectReport


class OverCommand(click.Command):
    """A command in which `--over A B C` means `--over A --over B --over C`, up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat `--over` before each of its items; the words after `--` are the user's command."""
        end = args.index("--") if "--" in args else len(args)
        rewritten: list[str] = []
        is_over = False
        for word in args[:end]:
            if word.startswith("-"):
                is_over = word == "--over"
                rewritten += [] if is_over else [word]
            else:
                rewritten += ["--over", word] if is_over else [word]
        return super().parse_args(ctx, [*rewritten, *args[end:]])


class _BisectOptions(Struct, frozen=True):
    """The options about what is searched and how it is measured."""

    command: tuple[str, ...]
    good: str | None
    bad: str | None
    from_history: str | None
    change: str | None
    environment: str | None
    over: tuple[str, ...]
    full: bool
    rule: str | None
    metric: str | None
    statistic: str | None
    tolerance: str | None
    build: tuple[str, ...] | None
    results: tuple[str, ...]
    most_runs: int
    time_budget: float | None
    timeout: float
    keep: str
    whole_runs: bool
    hook_timeout: float

    def request(self, options: CommandOptions) -> BisectRequest:
        """Return the request. Raises UsageError for options that contradict each other."""
        from perfgate.commands.bisect_request import BisectRequest
        from perfgate.measuring.items import ItemProgram

        if not self.command:
            raise click.UsageError("give the command to run after --")
        self._check_range()
        if self.statistic is not None and self.rule is not None:
            raise click.UsageError("--statistic needs --metric: a rule has its own statistic")
        if self.over and self.full:
            raise click.UsageError("--full is about merges of commits, and --over is a list")
        program = ItemProgram(
            self.command, self.build or (), self.results, self.timeout, self.hook_timeout, options.format
        )
        return BisectRequest(
            options, program, self.good, self.bad, self.over, self.full, self.rule, self.metric, self.statistic,
            self.tolerance, self.most_runs, self.time_budget, self.keep, self.whole_runs, self.from_history,
            self.change, self.environment,
        )  # fmt: skip

    def _check_range(self) -> None:
        """Raise UsageError unless there is one range and one metric."""
        if self.from_history is not None:
            if self.over or self.rule is not None or self.metric is not None:
                raise click.UsageError("--from-history gives metric and range: leave out --metric, --rule and --over")
            return
        if self.change is not None or self.environment is not None:
            raise click.UsageError("--change and --environment need --from-history METRIC")
        if (self.good is None) == (not self.over):
            start = "or --from-history METRIC, or a list with --over ITEM..."
            raise click.UsageError(f"give --good REF (and --bad REF), {start}")
        if (self.rule is None) == (self.metric is None):
            raise click.UsageError("give the metric to measure: --rule ID, or --metric NAME")


@click.command(cls=OverCommand, context_settings={"allow_interspersed_args": False})
@command_options(
    click.argument("command", nargs=-1, metavar="-- COMMAND..."),
    click.option("--good", metavar="REF", help="A commit with the old level."),
    click.option("--bad", metavar="REF", help="A later commit with the new level. [default: HEAD]"),
    click.option(
        "--from-history", metavar="METRIC", help="Search the commits of the newest change of this metric that is worse."
    ),
    click.option(
        "--change", metavar="N", help="With --from-history: the Nth change of `perfgate history METRIC`, or its commit."
    ),
    click.option("--environment", metavar="NAME", help="With --from-history: the environment, by its folder."),
    click.option("--over", multiple=True, metavar="ITEM...", help="Search this list instead of commits, good to bad."),
    click.option("--full", is_flag=True, help="If a merge is found, search the commits that it brought, too."),
    click.option("--rule", metavar="ID", help="Measure what this rule judges; its tolerance is the default."),
    click.option("--metric", metavar="NAME", help="Measure this metric."),
    click.option("--statistic", metavar="NAME", help="With --metric: median, mean, p95, ... [default: median]"),
    click.option(
        "--tolerance", metavar="T", help="Search for a change larger than this. [default: that of --rule, or 2%]"
    ),
    click.option("--build", type=words, metavar="COMMAND", help="Build each commit or item once, in its folder."),
    click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable)."),
    click.option(
        "--max-runs", "most_runs", type=click.IntRange(2, 1000), default=50, metavar="N", help="[default: 50]"
    ),
    click.option("--time-budget", type=duration, metavar="TIME", help="Start no run that would end later than this."),
    click.option(
        "--timeout", type=duration, default="10m", metavar="TIME", help="End a run that takes longer. [default: 10m]"
    ),
    click.option(
        "--keep",
        default="perfgate-bisect",
        metavar="DIR",
        help="Keep the measurements here, to go on after an interruption. [default: perfgate-bisect]",
    ),
    click.option("--whole-runs", is_flag=True, help="Do not interleave the steps with those of the first commit."),
    click.option(
        "--hook-timeout",
        type=duration,
        default="60s",
        metavar="TIME",
        help="Wait this long for the first step of a Recorder. [default: 60s]",
    ),
    name="asked",
    build=_BisectOptions,
)
@command_options(rules_option, baselines_option, suite_option, env_option, format_option, trace_mode_option)
@click.option(
    "--json", type=OUTPUT_FILE, metavar="FILE", shell_complete=files, help="Write the answer as JSON; - is stdout."
)
@click.option(
    "--markdown",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="Write the answer for an issue; - is stdout.",
)
@click.option(
    "--html",
    type=OUTPUT_FILE,
    metavar="FILE",
    shell_complete=files,
    help="Write the answer as a page with plots; - is stdout.",
)
def bisect(
    asked: _BisectOptions, options: CommandOptions, json: str | None, markdown: str | None, html: str | None
) -> int:
    """Find the commit that changed a metric: measure few commits, several times, until one is 95 % probable.

    COMMAND runs in a worktree of each commit, as with `perfgate run`: it writes to $PERFGATE_RESULTS or {results}, or
    prints its results. The name of the commit or item is $PERFGATE_ITEM or {item}.
    The exit code is 0 if a commit is found, and 3 if the change is not reproduced or undecided.

    \b
    Example: perfgate bisect --good v1.4 --bad main --metric step_time -- python bench.py

    \b
    A change that `perfgate history` shows:
      perfgate bisect --from-history step_time -- python bench.py

    \b
    Package versions instead of commits:
      perfgate bisect --over torch==2.11.0 torch==2.12.0 torch==2.13.0 \\
        --build 'sh make-env.sh {item}' --metric step_time -- sh in-env.sh {item} bench.py
    """
    outputs = {name: path for name, path in (("json", json), ("markdown", markdown), ("html", html)) if path}
    from perfgate.commands.bisect import bisect as command
    from perfgate.workspace.output_files import output_faults

    request = asked.request(options)
    extras = {"html": ("jinja2",)}
    for fault in output_faults(outputs, (*options.rules, options.baselines, asked.keep), extras).values():
        raise Refused(fault)
    return _publish(command(request, tell), outputs)


def _publish(report: BisectReport, outputs: dict[str, str]) -> int:
    """Write and print the answer; return the exit code: 2 if a file cannot be written."""
    from perfgate.reporters import bisect_text
    from perfgate.workspace.output_files import write_reports

    def rendered(name: str) -> str:
        renderers: dict[str, Callable[[BisectReport], str]] = {
            "json": bisect_text.json,
            "markdown": bisect_text.markdown,
        }
        if name == "html":
            from perfgate.reporters.html.bisect_page import render

            return render(report)
        return renderers[name](report)

    failures = write_reports(outputs, rendered)
    printed = [name for name, path in outputs.items() if path == "-"]
    for name in printed:
        write_document(rendered(name))
    if not printed:
        seen = screen()
        text = bisect_text.terminal(report, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only)
        click.echo(text, nl=not text.endswith("\n"), color=True)
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else report.exit_code
