"""`perfgate run`: make runs or pairs, and judge them by the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.policy_stores import held
from perfgate.commands.check import CheckRequest, check
from perfgate.core import Report
from perfgate.measuring.paired_run import PairRequest, run_pairs
from perfgate.measuring.programs import Stopped, stopped_by_signals
from perfgate.measuring.until_settled import MeasuringOptions, Tell, run_again_if_suspect, run_until_settled
from perfgate.workspace.options import Refused, typed_path
from perfgate.workspace.rule_source import policy_source, read_rules
from perfgate.workspace.surroundings import head_commit


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


def run(request: RunRequest, tell: Tell) -> tuple[Report, int]:
    """Measure until the rules have their answers; return the report and the exit code.

    After a signal, the report is about what was measured before. Raises Refused for usage errors, and if a signal came
    before the first run.
    """
    options, measuring = request.check.options, request.measuring
    source = policy_source(options.policy_ref, options.policy_commit)
    ruleset, _, _ = read_rules(source, options.rules, options.suite)
    if ruleset is None:  # nothing is run for rules with mistakes
        report = check(replace(request.check, source=source))
        return report, report.exit_code
    # The program can change refs, HEAD, and the working tree.
    source = held(source, options.rules, options.baselines, ruleset.suite)
    options = replace(options, head=options.head or head_commit())
    own = replace(request.check, looks=measuring.looks, own_pairs=request.pairs is not None, source=source)

    def judge_runs(paths: Sequence[Path]) -> Report:
        names = tuple(typed_path(str(path)) for path in paths)
        env = (*map(str, measuring.fact_files()), *options.env)
        report = check(replace(own, options=replace(options, runs=names, env=env)))
        return report if paths else replace(report, verdicts=(), problems=())

    try:
        with stopped_by_signals() as signals:
            if request.pairs is not None:
                pairs = replace(request.pairs, mappings=ruleset.mappings)
                report = run_pairs(measuring, pairs, judge_runs, tell)
            elif measuring.stop == "unless-suspect":
                report = run_again_if_suspect(measuring, request.command, request.measured, judge_runs, tell)
            else:
                report = run_until_settled(measuring, request.command, judge_runs, tell)
    except Stopped as stopped:  # before the first run, or after the last one
        raise Refused(str(stopped), stopped.exit_code) from None
    return report, signals[0].exit_code if signals else report.exit_code
