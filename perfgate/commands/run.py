"""`perfgate run`: make runs or pairs, and judge them by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.commands.judging import judged
from perfgate.commands.preparing import CheckRequest, Prepared, prepare, read_new
from perfgate.core import Fact, Report
from perfgate.measuring.paired_run import PairRequest, run_pairs
from perfgate.measuring.programs import Stopped, stopped_by_signals
from perfgate.measuring.until_settled import MeasuringOptions, Tell, run_again_if_suspect, run_until_settled
from perfgate.workspace.env_facts import joined_facts
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import Refused, typed_path


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
    measuring = request.measuring
    own = replace(request.check, looks=measuring.looks, own_pairs=request.pairs is not None)
    prepared = prepare(own, hold=True)
    if isinstance(prepared, Report):  # nothing is run for rules with mistakes
        return prepared, prepared.exit_code
    judge_runs = partial(_judged, prepared, list[RunsOfPath]())
    try:
        with stopped_by_signals() as signals:
            if request.pairs is not None:
                pairs = replace(request.pairs, mappings=prepared.ruleset.mappings)
                report = run_pairs(measuring, pairs, judge_runs, tell)
            elif measuring.stop == "unless-suspect":
                report = run_again_if_suspect(measuring, request.command, request.measured, judge_runs, tell)
            else:
                report = run_until_settled(measuring, request.command, judge_runs, tell)
    except Stopped as stopped:  # before the first run, or after the last one
        raise Refused(str(stopped), stopped.exit_code) from None
    return report, signals[0].exit_code if signals else report.exit_code


def _judged(
    prepared: Prepared, earlier: list[RunsOfPath], paths: Sequence[Path], noted: Mapping[str, Mapping[str, Fact]]
) -> Report:
    """Judge the runs at the paths. Only those are read that no earlier look read.

    Parameters
    ----------
    noted: the facts of the machine, by the files that have them.
    """
    names = tuple(typed_path(str(path)) for path in paths)
    options = replace(prepared.request.options, runs=names, env=(*noted, *prepared.request.options.env))
    look = replace(
        prepared,
        request=replace(prepared.request, options=options),
        facts=lambda: joined_facts([*noted.values(), prepared.facts()]),
    )
    report = judged(look, read_new(look, names, earlier))
    return report if paths else replace(report, verdicts=(), problems=())
