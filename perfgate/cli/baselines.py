"""The commands of the stored baselines: approve, add, list and show."""

from __future__ import annotations

from typing import Any

import click

from perfgate.cli.options import Group, baselines_option, collect, judging_options, runs_argument
from perfgate.cli.terminal import ascii_only, complain, say


@click.group(cls=Group)
def baseline() -> None:
    """The stored baselines: approve, add, list, show."""


@baseline.command()
@runs_argument
@click.option("--reason", required=True, metavar="TEXT", help="Why this is the new normal.")
@click.option("--by", metavar="WHO", help="Who approves. [default: the Actions user, git's user]")
@click.option("--pr", type=int, metavar="N", help="The pull request that the approval belongs to.")
@click.option("--all", "keep_all", is_flag=True, help="Keep every series, not only those that rules name.")
@judging_options
def approve(
    runs: tuple[str, ...], reason: str, by: str | None, pr: int | None, keep_all: bool, **arguments: Any
) -> int:
    """Open a new level with these runs: an approved change, or the first baseline.

    \b
    Example: perfgate baseline approve train.log --reason "first baseline"
    """
    from perfgate.app.approvals import approve as command

    return say(command(collect(runs, arguments), reason, by, pr, keep_all))


@baseline.command()
@runs_argument
@click.option("--by", metavar="WHO", help="Who adds. [default: the Actions user, git's user]")
@click.option("--rotate", is_flag=True, help="Replace the oldest runs of a full level.")
@click.option("--all", "keep_all", is_flag=True, help="Keep every series, not only those that rules name.")
@judging_options
def add(runs: tuple[str, ...], by: str | None, rotate: bool, keep_all: bool, **arguments: Any) -> int:
    """Add unchanged runs to the current level; refused when they fail their own rules.

    \b
    Example: perfgate baseline add train.log
    """
    from perfgate.app.approvals import add as command

    return say(command(collect(runs, arguments), by, rotate, keep_all))


@baseline.command("list")
@baselines_option
def list_(baselines: str) -> int:
    """List every level: its runs, who approved it, and why.

    \b
    Example: perfgate baseline list
    """
    from perfgate.app.stored import levels, priors
    from perfgate.reporters.stored import render_levels, render_priors

    found, problems = levels(baselines)
    noise, damaged = priors(baselines)
    say([render_levels(found), *render_priors(noise)])
    return complain([*problems, *damaged])


@baseline.command()
@click.argument("place", required=False, metavar="[SUITE[/ENVIRONMENT[/LEVEL[/RUN]]]]")
@baselines_option
def show(place: str | None, baselines: str) -> int:
    """Show stored runs: their environment, their decision, and their metrics.

    \b
    Example: perfgate baseline show gpt-small
    """
    from perfgate.app.stored import priors, runs
    from perfgate.reporters.stored import render_priors, render_runs

    found, problems = runs(baselines, place)
    noise, damaged = priors(baselines, place)
    say([render_runs(found, ascii_only=ascii_only()), *render_priors(noise, in_full=True)])
    return complain([*problems, *damaged])


COMMANDS = (baseline,)
