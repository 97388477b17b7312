"""`perfgate run --attribute`: how much of a change is caused by the code, and how much by the environment.

A repetition has a fresh process for each of four combinations (cells), which take steps by turns: `base` is old code
in the old environment, `new` is new code in the new environment, and the mixed cells `new-code` and `new-environment`
have one new part. `new` and both mixed cells make a pair with `base`: `pair-001.json` (base and new) is judged as every
pair; `new-code-001.json` and `new-environment-001.json` show the effect of one part. A mixed cell that does not run is
left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Fact, Location, Problem, Report, Run
from perfgate.core.calculations import MIXED
from perfgate.judge.factors import with_attributions
from perfgate.judge.pairs import Pairing
from perfgate.judge.report import with_problems
from perfgate.measuring import paired_run
from perfgate.measuring.kept_runs import ProgramSide, new_folder
from perfgate.measuring.lockstep import listening
from perfgate.measuring.until_settled import MeasuringOptions, Tell, until_settled
from perfgate.measuring.worktrees import checked_out
from perfgate.words.numbers import does_not_run, nothing_to_attribute
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import shown_path

#: The order of whole runs in four repetitions. A linear drift of the machine cancels within each repetition for one
#: part (the code in the first two, the environment in the last two), and over two repetitions for the other part.
ORDERS = (
    ("base", "new-code", "new", "new-environment"),
    ("new-environment", "new", "new-code", "base"),
    ("base", "new-environment", "new", "new-code"),
    ("new-code", "new", "new-environment", "base"),
)
#: The placeholder of the user's command in the command of an environment.
_COMMAND = "{command}"
#: The name of the pair of `base` and `new`, as a file begins with it.
_PAIR = "pair"


def in_environment(prefix: Sequence[str], side: ProgramSide) -> ProgramSide:
    """Return a side that runs in an environment: `docker run IMAGE`, or `sh -c '. old/bin/activate && {command}'`.

    The side's command replaces {command} in `prefix`, inside a longer word as one quoted text, or else follows it. The
    side's folder replaces {folder}.
    """
    line, words = shlex.join(side.words), list[str]()
    for word in prefix if any(_COMMAND in word for word in prefix) else (*prefix, _COMMAND):
        named = word.replace("{folder}", str(side.folder))
        words += side.words if named == _COMMAND else [named.replace(_COMMAND, line)]
    return replace(side, words=tuple(words))


#: Judges pairs. It gets a list in which it keeps the pairs that it read, all files, and the machine's facts by file.
JudgePairs: TypeAlias = Callable[[list[RunsOfPath], Sequence[Path], Mapping[str, Mapping[str, Fact]]], Report]


def run_attributed(
    options: MeasuringOptions, pairs: paired_run.PairRequest, judge_pairs: JudgePairs, tell: Tell
) -> Report:
    """Repeat until every verdict and the effects of code and environment are clear; return the report with the effects.

    The outcome and the exit code are those of the whole change. Raises Refused for usage errors and a missing base.
    """
    earlier: dict[str, list[RunsOfPath]] = {cell: [] for cell in ("new", *MIXED)}

    def judge(paths: Sequence[Path], noted: Mapping[str, Mapping[str, Fact]]) -> Report:
        mixed = {cell: found for cell in MIXED if (found := mixed_files(paths, cell))}
        judged = {cell: judge_pairs(earlier[cell], found, noted) for cell, found in mixed.items()}
        return with_attributions(judge_pairs(earlier["new"], paths, noted), judged, options.most_runs)

    folder = new_folder(options.keep)
    assert pairs.environments is not None
    old, new = pairs.environments
    with ExitStack() as stack:
        old_code, new_code = ProgramSide(pairs.base), ProgramSide(pairs.new)
        if pairs.base_ref is not None:
            old_code = stack.enter_context(checked_out(pairs.base_ref, pairs.base))
        sides = {
            "base": in_environment(old, old_code),
            "new-code": in_environment(old, new_code),
            "new": in_environment(new, new_code),
            "new-environment": in_environment(new, old_code),
        }
        for name, side in sides.items():
            sides[name] = replace(side, cpus=options.cpus, environment={**side.environment, **options.environment})
        listener = stack.enter_context(listening())
        maker = _RepetitionMaker(options, pairs, folder, sides, listener, tell)
        report = until_settled(options, maker.measure, judge, "repetition", tell)
    at, failed = Location(shown_path(options.keep)), maker.failed
    problems = [Problem("warning", does_not_run(cell, why, alone=len(failed) == 1), at) for cell, why in failed.items()]
    if report.verdicts and not any(verdict.kind == "change" for verdict in report.verdicts):
        problems.append(Problem("warning", nothing_to_attribute(), at))
    return with_problems(report, problems) if problems else report


def mixed_files(paths: Sequence[Path], cell: str) -> list[Path]:
    """Return the files of a mixed combination beside the pairs `paths`; empty if it does not run."""
    found = [path.with_name(path.name.replace(_PAIR, cell)) for path in paths]
    return found if all(path.exists() for path in found) else []


class _RepetitionMaker(Struct):
    """Makes repetitions. If the programs could not take turns once, whole runs alternate from then on."""

    options: MeasuringOptions
    pairs: paired_run.PairRequest
    folder: Path
    sides: dict[str, ProgramSide]
    listener: socket
    tell: Tell
    made: list[Path] = field(default_factory=list)
    #: The combinations that do not run, with the reasons.
    failed: dict[str, str] = field(default_factory=dict)
    by_turns: bool = True

    def measure(self, number: int) -> list[Path]:
        """Make a repetition; return the pairs of old and new so far. Raises RunFailed."""
        if self.options.results and number == 1:
            self.by_turns = False
            self.tell("--results: both environments run the code in one folder, so whole runs alternate")
        runs = self._readable(number)
        pairing: Pairing = "in-turn" if self.by_turns else "whole-runs"
        base = runs.pop("base")
        for cell, run in runs.items():
            path = self.folder / f"{_PAIR if cell == 'new' else cell}-{number:03d}.json"
            for line in paired_run.write_pair(path, {"base": base, "new": run}, number, pairing):
                self.tell(line)
        self.made.append(self.folder / f"{_PAIR}-{number:03d}.json")
        return self.made

    def _readable(self, number: int) -> dict[str, Run]:
        """Make a run of each combination. A mixed one that fails the first time is left out. Raises RunFailed."""
        while True:
            try:
                return paired_run.read_sides(self._run_all(number), self.pairs.format, self.pairs.mappings)
            except paired_run.SideFailed as error:
                if number > 1 or error.side not in MIXED:
                    raise
                del self.sides[error.side]
                self.failed[error.side] = error.why.removeprefix("the command ")
                for path in [*self.folder.glob(f"{_PAIR}-001*")]:  # keep what it wrote
                    path.rename(path.with_name(path.name.replace(f"{_PAIR}-001", f"failed-{len(self.failed):03d}")))

    def _run_all(self, number: int) -> dict[str, Path]:
        """Run all combinations; return the results of each. Raises RunFailed."""
        top = self.folder / f"{_PAIR}-{number:03d}"
        if self.by_turns:
            times = self.pairs.hook_timeout, self.options.timeout
            try:
                return paired_run.steps_by_turns(self.listener, top, self.sides, number, self.options.results, times)
            except paired_run.NoTurns as why:
                self.by_turns = False
                self.tell(f"{why}; whole runs alternate instead")
        order = [name for name in ORDERS[(number - 1) % len(ORDERS)] if name in self.sides]
        whole = top.with_name(f"{top.name}-whole")
        return paired_run.whole_runs(whole, {name: self.sides[name] for name in order}, number, self.options, self.tell)
