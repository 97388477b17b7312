"""`perfgate run`: make runs or pairs, and judge them by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.cli import shared
from perfgate.cli.entry import ShortHelp, help_all_option
from perfgate.cli.printing import is_watched, publish, shown, tell
from perfgate.commands.check import judged
from perfgate.commands.preparing import CheckRequest, Prepared, prepare, read_new
from perfgate.core import Fact, MissingBaseline, Report
from perfgate.core.file_mappings import NO_COMMAND
from perfgate.core.runs import same_fact
from perfgate.measuring import until_settled
from perfgate.measuring.attributed_run import run_attributed
from perfgate.measuring.kept_runs import KEEP, REPORT
from perfgate.measuring.paired_run import PairRequest, run_pairs
from perfgate.measuring.programs import Cpus, Stopped, parse_cpus, stopped_by_signals
from perfgate.measuring.until_settled import JudgeRuns, MeasuringOptions, StopRule, Tell
from perfgate.measuring.worktrees import usual_base
from perfgate.reporters import RENDERERS
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import CommandOptions, Refused, typed_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.surroundings import PACKAGE_FACTS


def processors(text: str) -> Cpus:
    """Return the processors of `0,2` or `4-7`. Raises BadParameter."""
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


class RunOptions(Struct, frozen=True):
    """The options about what is run and how often, as the help of `command` says. Times are in seconds."""

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
    attribute: bool
    base_in: tuple[str, ...] | None
    new_in: tuple[str, ...] | None
    base_ref: str | None
    base: tuple[str, ...] | None
    new: tuple[str, ...] | None
    build: tuple[str, ...] | None
    hook_timeout: float
    cpus: Cpus | None
    processes: int

    def measuring(self) -> MeasuringOptions:
        """Return how often to measure, when to stop, and where to keep runs. Raises UsageError."""
        stop: StopRule = "never" if self.every else "final"
        most = self.most_runs
        if self.reruns is None:
            if self.measured:
                raise click.UsageError("--measured needs --reruns")
        elif self.paired or self.attribute or self.every or not self.results:
            raise click.UsageError("--reruns needs --results, and excludes --paired, --attribute and --every")
        else:
            stop, most = "unless-suspect", 1 + self.reruns
        # With --reruns, the terminal shows what the command prints, so there is no line about the run.
        watch = shown if stop != "unless-suspect" and is_watched() else None
        times = (self.time_budget, self.timeout)
        fewest = 2 if self.attribute else 1  # one repetition does not show the noise of the effects
        return MeasuringOptions(self.results, most, stop, *times, self.keep, self.cpus, watch=watch, fewest_runs=fewest)

    def sides(self, format: str | None) -> PairRequest:
        """Return the two sides of pairs, as far as the options name them. Raises UsageError."""
        given = {"base-ref": self.base_ref, "base": self.base, "new": self.new, "build": self.build}
        for name, value in given.items():
            if value and not self.paired and not self.attribute:
                raise click.UsageError(f"--{name} needs --paired" + ("" if name == "build" else " or --attribute"))
        option = "--attribute" if self.attribute else "--paired"
        if self.base_ref is not None and self.base is not None:
            raise click.UsageError(f"{option} has one base: --base-ref GITREF, or --base COMMAND")
        if self.new and self.command:
            raise click.UsageError(f"{option} has one new side: a command after --, or --new COMMAND")
        environments = self._environments()
        sides = self.base or (), self.new or self.command, self.base_ref, self.build or ()
        return PairRequest(*sides, self.hook_timeout, self.processes, format, environments=environments)

    def _environments(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the commands of the old and the new environment; None without --attribute. Raises UsageError."""
        has_environment = self.base_in is not None or self.new_in is not None
        if not self.attribute:
            if has_environment:
                raise click.UsageError("--base-in and --new-in need --attribute")
            return None
        if not has_environment:
            raise click.UsageError("--attribute needs the command of an environment: --base-in or --new-in")
        if self.build:
            raise click.UsageError("--attribute excludes --build: two environments use one folder; build in COMMAND")
        if self.base_in == self.new_in:
            raise click.UsageError("--base-in and --new-in are the same: name two environments, or use --paired")
        return self.base_in or (), self.new_in or ()


@click.command("run", cls=ShortHelp, context_settings={"allow_interspersed_args": False})
@shared.command_options(
    click.argument("command", nargs=-1, metavar="-- COMMAND..."),
    click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable)."),
    shared.number_option(
        "--runs", "most_runs", type=click.IntRange(1, 100), default=10, help="At most N runs. [default: 10]"
    ),
    click.option("--every", is_flag=True, help="Make all N runs, even if the rules have their answers earlier."),
    shared.number_option(
        "--reruns",
        type=click.IntRange(0, 100),
        help="Make one run, and N more if it leaves a doubt. Each match of --results is a run, and stays in place.",
    ),
    click.option(
        "--measured", multiple=True, metavar="RUN", help="With --reruns: the first run was made already (repeatable)."
    ),
    shared.time_option("--time-budget", help="Start no run that would end later than this."),
    shared.time_option("--timeout", default="10m", help="End a run that takes longer. [default: 10m]"),
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
    click.option(
        "--attribute",
        is_flag=True,
        help="Interleave old and new code in the old and the new environment: which of them changed it?",
    ),
    shared.words_option("--base-in", help="With --attribute: runs {command} in the old environment. [default: here]"),
    shared.words_option("--new-in", help="With --attribute: the same for the new one. [default: here]"),
    click.option("--base-ref", metavar="GITREF", help="With --paired: run COMMAND from this commit as base."),
    shared.words_option("--base", help="With --paired: the command of the base."),
    shared.words_option("--new", help="With --paired: the command of the new side."),
    shared.words_option("--build", help="With --paired: build each side once, in its folder."),
    shared.time_option(
        "--hook-timeout",
        default="60s",
        help="With --paired: wait this long for the first step of a Recorder. [default: 60s]",
    ),
    shared.number_option(
        "--processes",
        type=click.IntRange(1, 8),
        default=8,
        help="With --paired: at most N processes a side in one pair, with fewer steps each. [default: 8]",
    ),
    name="asked",
    build=RunOptions,
)
@shared.command_options(*shared.JUDGING, *shared.POLICY)
@shared.report_options
@help_all_option
def command(
    asked: RunOptions,
    options: CommandOptions,
    missing_baseline: MissingBaseline,
    only: tuple[str, ...],
    strict: bool,
    publication: shared.Publication,
) -> int:
    """Run a command until the rules have their answers, or until --runs or --time-budget is used up.

    Without COMMAND, it is the one that rules/perfgate.yaml remembers (`run:`).
    Each run is a fresh process. It writes to the folder $PERFGATE_RESULTS, or {results} in COMMAND; its number is
    $PERFGATE_RUN, or {run}. If it writes no file, its output is the run.

    \b
    Example: perfgate run --runs 3 --time-budget 10m -- python train.py

    \b
    Interleaved with another commit:
      perfgate run --paired --base-ref refs/remotes/origin/main -- python train.py
    """
    with publication.replaced_if_refused((*options.rules, options.baselines, *options.env, asked.keep)):
        check = CheckRequest(options, missing_baseline, only, strict, with_details=publication.with_details)
        report, code = run(asked, check, tell)
        published = publish(report, publication)
        if options.is_of_a_job:
            from perfgate.commands.ledger import record_report

            record_report(report, options, tell)
        return published if code == report.exit_code else code  # other codes are those of a signal


def run(asked: RunOptions, check: CheckRequest, tell: Tell) -> tuple[Report, int]:
    """Measure until the rules have their answers; return the report, and the exit code, which a signal decides.

    After a signal, the report is about what was measured before. Raises Refused and UsageError for usage errors, and
    Refused if a signal came before the first run or after the last one.
    """
    measuring, sides = asked.measuring(), asked.sides(check.options.format)
    pairs = sides if asked.paired or asked.attribute else None
    # Next steps need not name runs that later commands find: all but those of --reruns (`unless-suspect`).
    is_kept = measuring.keep == KEEP and measuring.stop != "unless-suspect"
    own = replace(check, options=replace(check.options, kept=is_kept), looks=measuring.looks)
    prepared = prepare(replace(own, own_pairs=pairs is not None), hold=True)
    if isinstance(prepared, Report):  # nothing is run for rules with mistakes
        return prepared, prepared.exit_code
    words, measuring, pairs = _completed(asked.command, measuring, pairs, sides, prepared, tell)
    prepared = replace(prepared, request=replace(own, own_pairs=pairs is not None))  # `_completed` may add pairs
    judge_runs: JudgeRuns = partial(_judged, prepared, list[RunsOfPath]())
    try:
        with stopped_by_signals() as signals:
            if pairs is not None and pairs.environments is not None:
                report = run_attributed(measuring, pairs, partial(_judged, prepared), tell)
            elif pairs is not None:
                report = run_pairs(measuring, pairs, judge_runs, tell)
            elif measuring.stop == "unless-suspect":
                report = until_settled.run_again_if_suspect(measuring, words, asked.measured, judge_runs, tell)
            else:
                report = until_settled.run_until_settled(measuring, words, judge_runs, tell)
            if measuring.stop != "unless-suspect":  # with --reruns, the newest run is not in that folder
                replace_file(f"{measuring.keep}/{REPORT}", RENDERERS["json"](report).encode())
    except Stopped as stopped:  # before the first run, or after the last one
        raise Refused(str(stopped), stopped.exit_code) from None
    return report, signals[0].exit_code if signals else report.exit_code


def _completed(
    words: tuple[str, ...],
    measuring: MeasuringOptions,
    pairs: PairRequest | None,
    sides: PairRequest,
    prepared: Prepared,
    tell: Tell,
) -> tuple[tuple[str, ...], MeasuringOptions, PairRequest | None]:
    """Return words, options and pairs with the remembered command and the usual base, where the user gave none.

    `sides`: the pairs, if the remembered command says `paired: true`. With `--policy-ref`, the command is that of the
    base, because a pull request must not choose how it is measured. Raises Refused.
    """
    kept = prepared.ruleset.command
    if not words and not (pairs and pairs.new):
        if kept is None:
            raise Refused(NO_COMMAND)
        words = kept.words
        if pairs is None and kept.paired and measuring.stop != "unless-suspect":  # --reruns makes no pairs
            pairs = sides
        measuring = replace(measuring, results=measuring.results or kept.results, environment=dict(kept.env))
        pairs = replace(pairs, new=words, build=pairs.build or kept.build) if pairs else None
    if pairs is not None and not pairs.base and pairs.base_ref is None:
        ref, told = usual_base(prepared.source.sha)
        tell(f"the base is {told}")
        pairs = replace(pairs, base_ref=ref)
    if pairs is not None:
        pairs = replace(pairs, base=pairs.base or pairs.new, mappings=prepared.ruleset.mappings)
    return words, measuring, pairs


def _judged(
    prepared: Prepared, earlier: list[RunsOfPath], paths: Sequence[Path], noted: Mapping[str, Mapping[str, Fact]]
) -> Report:
    """Judge the runs at the paths.

    `earlier`: the runs that an earlier look read, which are not read again; new ones are added. `noted`: the facts of
    the machine, by the files that have them. If a run states other versions of packages than these facts, the program
    has packages of its own, and its versions count.
    """
    names = tuple(typed_path(str(path)) for path in paths)
    options = replace(prepared.request.options, runs=names, env=(*noted, *prepared.request.options.env))
    look = replace(prepared, request=replace(prepared.request, options=options))
    runs = read_new(look, names, earlier)
    own = {name: fact for run in runs for name, fact in run.environment.items() if name in PACKAGE_FACTS}
    measured = [
        {name: fact for name, fact in facts.items() if name not in own or same_fact(fact, own[name])}
        for facts in noted.values()
    ]
    report = judged(replace(look, facts=lambda: read_facts([*measured, prepared.facts()])), runs)
    # Without a run, because the first one failed, the rules have nothing to say: the caller adds the failure.
    return report if paths else replace(report, verdicts=(), problems=())
