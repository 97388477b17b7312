"""`perfgate run --attribute`: judge old and new as pairs, and tell the effects of code and environment apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from perfgate.core import Fact, Location, Problem, Report
from perfgate.core.attribution import MIXED
from perfgate.judge.factors import with_attributions
from perfgate.judge.report import with_problems
from perfgate.measuring.attributed_run import mixed_files, run_attributed
from perfgate.measuring.paired_run import PairRequest
from perfgate.measuring.until_settled import MeasuringOptions, Tell
from perfgate.words.attribution_words import does_not_run, nothing_to_attribute
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import shown_path

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
