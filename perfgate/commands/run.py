"""`perfgate run`: make runs or pairs, and judge them by the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.cli.entry import ShortHelp, help_all_option
from perfgate.cli.printing import is_watched, publish, shown, tell
from perfgate.cli.shared import JUDGING, POLICY, Publication, command_options, duration, report_options, words
from perfgate.commands.check import judged
from perfgate.commands.preparing import CheckRequest, Prepared, prepare, read_new
from perfgate.commands.run_options import RunOptions, processors
from perfgate.core import Fact, Location, MissingBaseline, Problem, Report
from perfgate.core.calculations import MIXED
from perfgate.core.file_mappings import NO_COMMAND
from perfgate.core.runs import same_fact
from perfgate.judge.factors import with_attributions
from perfgate.judge.report import with_problems
from perfgate.measuring.attributed_run import mixed_files, run_attributed
from perfgate.measuring.kept_runs import KEEP, REPORT
from perfgate.measuring.paired_run import PairRequest, run_pairs
from perfgate.measuring.programs import Stopped, stopped_by_signals
from perfgate.measuring.until_settled import JudgeRuns, MeasuringOptions, Tell, run_again_if_suspect, run_until_settled
from perfgate.measuring.worktrees import usual_base
from perfgate.reporters import RENDERERS
from perfgate.words.numbers import does_not_run, nothing_to_attribute
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import CommandOptions, Refused, shown_path, typed_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.surroundings import PACKAGE_FACTS


@click.command("run", cls=ShortHelp, context_settings={"allow_interspersed_args": False})
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
    click.option(
        "--attribute",
        is_flag=True,
        help="Interleave old and new code in the old and the new environment: which of them changed it?",
    ),
    click.option(
        "--base-in",
        type=words,
        metavar="COMMAND",
        help="With --attribute: runs {command} in the old environment. [default: here]",
    ),
    click.option(
        "--new-in", type=words, metavar="COMMAND", help="With --attribute: the same for the new one. [default: here]"
    ),
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
    build=RunOptions,
)
@command_options(*JUDGING, *POLICY)
@report_options
@help_all_option
def command(
    asked: RunOptions,
    options: CommandOptions,
    missing_baseline: MissingBaseline,
    only: tuple[str, ...],
    strict: bool,
    publication: Publication,
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
        measuring, pairs = asked.measuring(), asked.pairs(options.format)
        if measuring.stop != "unless-suspect" and is_watched():  # else the terminal shows what the command prints
            measuring = replace(measuring, watch=shown)
        check = CheckRequest(options, missing_baseline, only, strict, with_details=publication.with_details)
        sides = asked.sides(options.format)
        request = RunRequest(check, measuring, asked.command, asked.measured, pairs, sides)
        report, code = run(request, tell)
        published = publish(report, publication)
        if options.is_of_a_job:
            from perfgate.commands.ledger import record_report

            record_report(report, options, tell)
        return published if code == report.exit_code else code


class RunRequest(Struct, frozen=True):
    """A request to measure and judge."""

    check: CheckRequest
    measuring: MeasuringOptions
    #: The words of the command.
    command: tuple[str, ...] = ()
    #: The results of a first run that was made already.
    measured: tuple[str, ...] = ()
    #: The two sides, to make pairs instead of runs.
    pairs: PairRequest | None = None
    #: The same for a remembered command that says `paired: true`.
    sides: PairRequest | None = None


def run(request: RunRequest, tell: Tell) -> tuple[Report, int]:
    """Measure until the rules have their answers; return the report and the exit code.

    After a signal, the report is about what was measured before. Raises Refused for usage errors, and if a signal came
    before the first run.
    """
    is_kept = request.measuring.keep == KEEP and request.measuring.stop != "unless-suspect"
    options = replace(request.check.options, kept=is_kept)
    own = replace(request.check, options=options, looks=request.measuring.looks, own_pairs=request.pairs is not None)
    prepared = prepare(own, hold=True)
    if isinstance(prepared, Report):  # nothing is run for rules with mistakes
        return prepared, prepared.exit_code
    request = _completed(request, prepared, tell)
    prepared = replace(prepared, request=replace(own, own_pairs=request.pairs is not None))
    measuring = request.measuring
    judge_runs: JudgeRuns = partial(_judged, prepared, list[RunsOfPath]())
    try:
        with stopped_by_signals() as signals:
            if request.pairs is not None:
                pairs = replace(request.pairs, mappings=prepared.ruleset.mappings)
                if pairs.environments is not None:
                    report = attributed(measuring, pairs, partial(_judged, prepared), tell)
                else:
                    report = run_pairs(measuring, pairs, judge_runs, tell)
            elif measuring.stop == "unless-suspect":
                report = run_again_if_suspect(measuring, request.command, request.measured, judge_runs, tell)
            else:
                report = run_until_settled(measuring, request.command, judge_runs, tell)
            if measuring.stop != "unless-suspect":
                replace_file(f"{measuring.keep}/{REPORT}", RENDERERS["json"](report).encode())
    except Stopped as stopped:  # before the first run, or after the last one
        raise Refused(str(stopped), stopped.exit_code) from None
    return report, signals[0].exit_code if signals else report.exit_code


def _completed(request: RunRequest, prepared: Prepared, tell: Tell) -> RunRequest:
    """Return the request with the remembered command and the usual base, where the user gave none. Raises Refused.

    With `--policy-ref`, the command is that of the base: a pull request must not choose how it is measured.
    """
    pairs, measuring, kept = request.pairs, request.measuring, prepared.ruleset.command
    if not request.command and not (pairs and pairs.new):
        if kept is None:
            raise Refused(NO_COMMAND)
        words = replace(request, command=kept.words)
        results = measuring.results or kept.results
        if pairs is None and kept.paired and measuring.stop != "unless-suspect":
            pairs = request.sides
        request = replace(words, measuring=replace(measuring, results=results, environment=dict(kept.env)))
        pairs = replace(pairs, new=kept.words, build=pairs.build or kept.build) if pairs else None
    if pairs is None:
        return request
    if not pairs.base and pairs.base_ref is None:
        ref, told = usual_base(prepared.source.sha)
        tell(f"the base is {told}")
        pairs = replace(pairs, base_ref=ref)
    return replace(request, pairs=replace(pairs, base=pairs.base or pairs.new))


def _judged(
    prepared: Prepared, earlier: list[RunsOfPath], paths: Sequence[Path], noted: Mapping[str, Mapping[str, Fact]]
) -> Report:
    """Judge the runs at the paths. Only those are read that no earlier look read.

    `noted`: the facts of the machine, by the files that have them. A program that states other versions of packages has
    an environment of its own.
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
    return report if paths else replace(report, verdicts=(), problems=())


#: Judges pairs; it gets the list that keeps those which were read, their files, and the facts of the machine.
JudgePairs: TypeAlias = Callable[[list[RunsOfPath], Sequence[Path], Mapping[str, Mapping[str, Fact]]], Report]


def attributed(options: MeasuringOptions, pairs: PairRequest, judge_pairs: JudgePairs, tell: Tell) -> Report:
    """Measure until the rules have their answers, with the effects of both. Raises Refused for usage errors.

    The outcome and the exit code are those of the whole change.
    """
    earlier: dict[str, list[RunsOfPath]] = {cell: [] for cell in ("new", *MIXED)}

    def judge(paths: Sequence[Path], noted: Mapping[str, Mapping[str, Fact]]) -> Report:
        mixed = {cell: found for cell in MIXED if (found := mixed_files(paths, cell))}
        judged = {cell: judge_pairs(earlier[cell], found, noted) for cell, found in mixed.items()}
        return with_attributions(judge_pairs(earlier["new"], paths, noted), judged, options.most_runs)

    report, failed = run_attributed(options, pairs, judge, tell)
    at = Location(shown_path(options.keep))
    problems = [Problem("warning", does_not_run(cell, why, alone=len(failed) == 1), at) for cell, why in failed.items()]
    if report.verdicts and not any(verdict.kind == "change" for verdict in report.verdicts):
        problems.append(Problem("warning", nothing_to_attribute(), at))
    return with_problems(report, problems) if problems else report
