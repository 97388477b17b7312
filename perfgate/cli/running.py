"""The command that runs the user's program: run."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click

from perfgate.cli.options import collect, judging_options, policy_options
from perfgate.cli.publishing import Publication, publish, report_options
from perfgate.cli.terminal import tell

if TYPE_CHECKING:
    from perfgate.measuring.paired_run import PairRequest

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """The seconds of `90s`, `10m` or `1h`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|m|h)", text, re.ASCII)
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is no time: write 90s, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def words(text: str) -> tuple[str, ...]:
    """A command in one option, split as a shell would."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    if not found:
        raise click.BadParameter("the command is empty")
    return found


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="-- COMMAND...")
@click.option("--results", multiple=True, metavar="GLOB", help="What the command writes, beside $PERFGATE_RESULTS.")
@click.option("--runs", type=click.IntRange(1, 100), default=10, metavar="N", help="At most N runs. [default: 10]")
@click.option("--every", is_flag=True, help="Make all N runs, even where the rules have their answers before.")
@click.option("--time-budget", type=duration, metavar="TIME", help="Begin no run that would end later than this.")
@click.option("--timeout", type=duration, default="10m", metavar="TIME", help="When a run hangs. [default: 10m]")
@click.option("--keep", default="perfgate-runs", metavar="DIR", help="Where runs are kept. [default: perfgate-runs]")
@click.option("--paired", is_flag=True, help="Base and new take steps by turns, and every pair is judged.")
@click.option("--base-ref", metavar="GITREF", help="With --paired: the commit that COMMAND is run from as base.")
@click.option("--base", type=words, metavar="COMMAND", help="With --paired: the command of the base.")
@click.option("--new", type=words, metavar="COMMAND", help="With --paired: the command of the new side.")
@click.option("--build", type=words, metavar="COMMAND", help="With --paired: builds a side, in its folder, once.")
@click.option(
    "--hook-timeout",
    type=duration,
    default="60s",
    metavar="TIME",
    help="With --paired: how long a program has to say that it takes turns. [default: 60s]",
)
@judging_options
@policy_options
@report_options
def run(command: tuple[str, ...], **arguments: Any) -> int:
    """Run a command until the rules have their answers, or runs or time are spent.

    Each run is a fresh process. $PERFGATE_RUN, or {run} in COMMAND, is its number; $PERFGATE_RESULTS, or {results}, is
    the folder to write to. Without any file, what it prints is the run.

    \b
    Example: perfgate run --runs 3 --time-budget 10m -- python train.py

    \b
    In turn with another commit:
      perfgate run --paired --base-ref origin/main -- python train.py
    """
    from perfgate.commands.check import CheckRequest
    from perfgate.measuring.paired_run import run_pairs
    from perfgate.measuring.until_settled import RunRequest
    from perfgate.measuring.until_settled import run as run_command
    from perfgate.workspace.output_files import check_outputs

    pairs = _pairs(command, arguments)
    publication = Publication.of(arguments)
    read = (*arguments["rules"], arguments["baselines"], *arguments["env"], arguments["keep"])
    check_outputs(publication.outputs, read)
    request = RunRequest(
        check=CheckRequest(
            collect((), arguments),
            arguments["missing_baseline"],
            arguments["only"],
            arguments["strict"],
            with_evidence=not {"json", "html"}.isdisjoint(publication.outputs),
        ),
        results=arguments["results"],
        runs=arguments["runs"],
        every=arguments["every"],
        time_budget=arguments["time_budget"],
        timeout=arguments["timeout"],
        keep=arguments["keep"],
    )
    report = run_command(request, command, tell) if pairs is None else run_pairs(request, pairs, tell)
    return publish(report, publication)


def _pairs(command: tuple[str, ...], arguments: dict[str, Any]) -> PairRequest | None:
    """What makes the sides of pairs, or None where runs are asked for; options that do not fit are usage errors."""
    from perfgate.measuring.paired_run import PairRequest

    base_ref, base, build = arguments["base_ref"], arguments["base"], arguments["build"]
    new = arguments["new"] or command
    if not arguments["paired"]:
        given = [name for name in ("base_ref", "base", "new", "build") if arguments[name]]
        if given:
            raise click.UsageError(f"--{given[0].replace('_', '-')} needs --paired")
        if not command:
            raise click.UsageError("give the command to run after --")
        return None
    if (base_ref is None) == (base is None):
        raise click.UsageError("--paired needs a base: --base-ref GITREF, or --base COMMAND")
    if bool(arguments["new"]) == bool(command):
        raise click.UsageError("--paired needs one new side: a command after --, or --new COMMAND")
    return PairRequest(base or new, new, base_ref, build or (), arguments["hook_timeout"])
