"""The command `perfgate compare`."""

from __future__ import annotations

import click

from perfgate.cli.completion import files
from perfgate.cli.printing import progress, publish
from perfgate.cli.shared import (
    Publication,
    command_options,
    executor_option,
    format_option,
    report_options,
    rules_option,
    trace_mode_option,
    workers_option,
)
from perfgate.workspace.options import CommandOptions


class NewSideCommand(click.Command):
    """A command in which every path after `--new` is new: `--new A B` means `--new A --new B`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat `--new` before each path of the new side."""
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


@click.command(cls=NewSideCommand)
@workers_option
@executor_option
@click.argument("base", nargs=-1, required=True, metavar="BASE...", shell_complete=files)
@click.option("--new", multiple=True, metavar="RUN...", shell_complete=files, help="The new runs: every path after it.")
@click.option("--paired", is_flag=True, help="Every path has pairs, from `run --paired`; without --new.")
@click.option("--statistic", metavar="NAME", help="median, mean, p95, ... [default: median; of aggregates mean]")
@click.option("--tolerance", default="5%", metavar="T", help="How much worse is accepted. [default: 5%]")
@command_options(rules_option, format_option, trace_mode_option)
@report_options
def compare(
    base: tuple[str, ...],
    new: tuple[str, ...],
    paired: bool,
    statistic: str | None,
    tolerance: str,
    options: CommandOptions,
    publication: Publication,
) -> int:
    """Compare two sets of runs without rules. The exit codes are those of check.

    For traces of torch.profiler, the report names the causes of the change.

    \b
    Example: perfgate compare main-1.log main-2.log --new change.log
    """
    from perfgate.commands.compare import compare as command

    with publication.replaced_if_refused((*base, *new)):
        if paired == bool(new):
            raise click.UsageError("give the new runs after --new, or pairs with --paired and without --new")
        with progress():
            report = command(base, new, statistic, tolerance, options.format, options.trace_mode, options.rules)
        return publish(report, publication)
