"""The command `perfgate run`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.cli.printing import publish, tell
from perfgate.cli.shared import JUDGING, POLICY, Publication, command_options, report_options
from perfgate.workspace.options import CommandOptions

if TYPE_CHECKING:
    from perfgate.core import MissingBaseline
    from perfgate.measuring.paired_run import PairRequest
    from perfgate.measuring.pinning import Cpus
    from perfgate.measuring.until_settled import MeasuringOptions, StopRule

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `1h`. Raises BadParameter."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|m|h)", text, re.ASCII)
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a time: write 90s, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def processors(text: str) -> Cpus:
    """Return the processors of `0,2` or `4-7`. Raises BadParameter."""
    from perfgate.measuring.pinning import parse_cpus

    try:
        return parse_cpus(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def words(text: str) -> tuple[str, ...]:
    """Return the words of a command, split as a shell would. Raises BadParameter."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    if not found:
        raise click.BadParameter("the command is empty")
    return found


class _RunOptions(Struct, frozen=True):
    """The options about what is run, and how often."""

    command: tuple[str, ...]
    results: tuple[str, ...]
    most_runs: int
    every: bool
    reruns: int | None
    measured: tuple[str, ...]
    time_budget: float | None
    timeout: float
    keep: str
    paired: bool
    base_ref: str | None
    base: tuple[str, ...] | None
    new: tuple[str, ...] | None
    build: tuple[str, ...] | None
    hook_timeout: float
    cpus: Cpus | None
    processes: int

    def measuring(self) -> MeasuringOptions:
        """Return how often to measure. Raises UsageError."""
        from perfgate.measuring.until_settled import MeasuringOptions

        stop: StopRule = "never" if self.every else "final"
        most = self.most_runs
        if self.reruns is None:
            if self.measured:
                raise click.UsageError("--measured needs --reruns")
        elif self.paired or self.every or not self.results:
            raise click.UsageError("--reruns needs --results, and excludes --paired and --every")
        else:
            stop, most = "unless-suspect", 1 + self.reruns
        times = self.time_budget, self.timeout
        return MeasuringOptions(self.results, most, stop, *times, self.keep, self.cpus)

    def pairs(self, format: str | None) -> PairRequest | None:
        """Return the two sides of pairs, or None without --paired. Raises UsageError."""
        from perfgate.measuring.paired_run import PairRequest

        given = {"base-ref": self.base_ref, "base": self.base, "new": self.new, "build": self.build}
        if not self.paired:
            for name in (name for name, value in given.items() if value):
                raise click.UsageError(f"--{name} needs --paired")
            if not self.command:
                raise click.UsageError("give the command to run after --")
            return None
        if (self.base_ref is None) == (self.base is None):
            raise click.UsageError("--paired needs a base: --base-ref GITREF, or --base COMMAND")
        if bool(self.new) == bool(self.command):
            raise click.UsageError("--paired needs one new side: a command after --, or --new COMMAND")
        new = self.new or self.command
        return PairRequest(
            self.base or new, new, self.base_ref, self.build or (), self.hook_timeout, self.processes, format
        )


def _watched(measuring: MeasuringOptions) -> MeasuringOptions:
    """Return the options with a line of progress, on a terminal that does not show what the command prints itself."""
    is_watched = sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("CI")
    if measuring.stop == "unless-suspect" or not is_watched:
        return measuring
    from perfgate.cli.run_progress import shown

    return replace(measuring, watch=shown)


@click.command(context_settings={"allow_interspersed_args": False})
@command_options(
    click.argument("command", nargs=-1, metavar="-- COMMAND..."),
    click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable)."),
    click.option(
        "--runs",
        "most_runs",
        type=click.IntRange(1, 100),
        default=10,
        metavar="N",
        help="At most N runs. [default: 10]",
    ),
    click.option("--every", is_flag=True, help="Make all N runs, even if the rules have their answers earlier."),
    click.option(
        "--reruns",
        type=click.IntRange(0, 100),
        metavar="N",
        help="Make one run, and up to N more while in doubt. Each match of --results is a run, and stays in place.",
    ),
    click.option(
        "--measured", multiple=True, metavar="RUN", help="With --reruns: the first run was made already (repeatable)."
    ),
    click.option("--time-budget", type=duration, metavar="TIME", help="Start no run that would end later than this."),
    click.option(
        "--timeout", type=duration, default="10m", metavar="TIME", help="End a run that takes longer. [default: 10m]"
    ),
    click.option(
        "--keep",
        default="perfgate-runs",
        metavar="DIR",
        help="Keep the runs here, and earlier ones in earlier-001, ... below. [default: perfgate-runs]",
    ),
    click.option(
        "--cpus",
        type=processors,
        metavar="LIST",
        help="Run the command on these processors only, such as 1 or 4-7 (Linux).",
    ),
    click.option("--paired", is_flag=True, help="Interleave the steps of base and new, and judge every pair."),
    click.option("--base-ref", metavar="GITREF", help="With --paired: run COMMAND from this commit as base."),
    click.option("--base", type=words, metavar="COMMAND", help="With --paired: the command of the base."),
    click.option("--new", type=words, metavar="COMMAND", help="With --paired: the command of the new side."),
    click.option("--build", type=words, metavar="COMMAND", help="With --paired: build each side once, in its folder."),
    click.option(
        "--hook-timeout",
        type=duration,
        default="60s",
        metavar="TIME",
        help="With --paired: wait this long for the first step of a Recorder. [default: 60s]",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1, 8),
        default=8,
        metavar="N",
        help="With --paired: at most N processes a side in one pair, with fewer steps each. [default: 8]",
    ),
    name="asked",
    build=_RunOptions,
)
@command_options(*JUDGING, *POLICY)
@report_options
def run(
    asked: _RunOptions,
    options: CommandOptions,
    missing_baseline: MissingBaseline,
    only: tuple[str, ...],
    strict: bool,
    publication: Publication,
) -> int:
    """Run a command until the rules have their answers, or until --runs or --time-budget is used up.

    Each run is a fresh process. It writes to the folder $PERFGATE_RESULTS, or {results} in COMMAND; its number is
    $PERFGATE_RUN, or {run}. If it writes no file, its output is the run.

    \b
    Example: perfgate run --runs 3 --time-budget 10m -- python train.py

    \b
    Interleaved with another commit:
      perfgate run --paired --base-ref refs/remotes/origin/main -- python train.py
    """
    from perfgate.commands.preparing import CheckRequest
    from perfgate.commands.run import RunRequest
    from perfgate.commands.run import run as command

    with publication.replaced_if_refused((*options.rules, options.baselines, *options.env, asked.keep)):
        measuring, pairs = _watched(asked.measuring()), asked.pairs(options.format)
        check = CheckRequest(options, missing_baseline, only, strict, with_details=publication.with_details)
        request = RunRequest(check, measuring, asked.command, asked.measured, pairs)
        report, code = command(request, tell)
        published = publish(report, publication)
        return published if code == report.exit_code else code
