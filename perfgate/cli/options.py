"""What commands share: options, groups that suggest the right word, and the exit codes of usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perfgate.cli.completion import files, rules_and_metrics

if TYPE_CHECKING:
    from perfgate.workspace.options import CommandOptions

F = TypeVar("F", bound=Callable[..., Any])

USAGE, NOT_JUDGED = 2, 3


class Group(click.Group):
    """A group that suggests the command that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; of a word that is none, the nearest is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near and "Did you mean" not in error.message else ""
            raise click.UsageError(error.message + hint, ctx) from None


class NewSide(click.Command):
    """`--new A B` means `--new A --new B`: every path after it is new."""

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


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


runs_argument = click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=files)
format_option = click.option(
    "--format", "format_", metavar="NAME", help="Read every run as this format, whatever it looks like."
)
rules_option = click.option(
    "--rules",
    multiple=True,
    default=("rules",),
    metavar="PATH",
    shell_complete=files,
    help="A rule file or a folder. [default: rules]",
)
baselines_option = click.option(
    "--baselines",
    default="baselines",
    metavar="DIR",
    shell_complete=files,
    help="Where baselines are kept. [default: baselines]",
)
suite_option = click.option("--suite", metavar="NAME", help="Which suite, where the rules hold several.")
env_option = click.option(
    "--env",
    multiple=True,
    metavar="FILE|KEY=VALUE",
    shell_complete=files,
    help="Facts of the environment that the runs do not hold.",
)
head_option = click.option("--head", metavar="SHA", help="The commit that was measured. [default: git's HEAD]")
who_option = click.option("--by", metavar="WHO", help="Who decides. [default: the Actions user, git's user]")
all_option = click.option("--all", "keep_all", is_flag=True, help="Keep every series, not only those that rules name.")
trace_mode_option = click.option(
    "--trace-mode",
    type=click.Choice(["corrected", "tensorboard"]),
    default="corrected",
    help="How a trace's step is divided: as it is, or as torch_tb_profiler does. [default: corrected]",
)
judging_options = options(
    rules_option, baselines_option, suite_option, env_option, format_option, trace_mode_option, head_option
)
#: How whatever was measured is decided: for `check`, and for `run`, which measures first.
policy_options = options(
    click.option(
        "--missing-baseline",
        type=click.Choice(["error", "warn", "skip"]),
        default="error",
        help="What a missing baseline means. [default: error]",
    ),
    click.option(
        "--policy-ref", metavar="GITREF", help="Take rules and baselines from this commit, such as origin/main."
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="GLOB",
        shell_complete=rules_and_metrics,
        help="Judge only rules with this id or metric.",
    ),
    click.option("--strict", is_flag=True, help="A suspicion is a failure."),
)


def collect(runs: Sequence[str], arguments: dict[str, Any]) -> CommandOptions:
    """The values of `judging_options` as the app takes them."""
    from perfgate.workspace.options import CommandOptions

    return CommandOptions(
        runs=tuple(runs),
        rules=tuple(arguments["rules"]),
        baselines=arguments["baselines"],
        suite=arguments["suite"],
        env=tuple(arguments["env"]),
        format=arguments["format_"],
        trace_mode=arguments["trace_mode"],
        head=arguments["head"],
        policy_ref=arguments.get("policy_ref"),
    )
