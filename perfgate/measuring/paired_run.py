"""`perfgate run --paired`: base and new take steps by turns, in fresh processes for every pair.

They cannot take turns without a `perfgate.Recorder` on both sides, or if both programs together need more memory than a
device has. Then whole runs alternate, in the order base, new, new, base, and the report says so.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from socket import socket

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Key, Report, Run, Series
from perfgate.core.file_mappings import FileMapping
from perfgate.core.runs import OF_BASE, WRITTEN_AS
from perfgate.judge.pairs import Pairing, base_goes_first
from perfgate.measuring.command_cost import cost_beside
from perfgate.measuring.kept_runs import NewRun, ProgramSide, build, fair_environment, new_folder, new_run
from perfgate.measuring.lockstep import NO_HOOK, SIDES, listening, play
from perfgate.measuring.programs import Program, RunFailed, Stopped, end_all, finish, ran_out_of_memory
from perfgate.measuring.short_processes import Split, short_processes, split_of
from perfgate.measuring.until_settled import JudgeRuns, MeasuringOptions, Tell, until_settled
from perfgate.measuring.worktrees import checked_out
from perfgate.recorder.process import SIDE, TURN
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.output_files import replace_file


class PairRequest(Struct, frozen=True):
    """The two sides of pairs: their commands, and how pairs are made of them."""

    base: tuple[str, ...]
    new: tuple[str, ...]
    #: The ref that the code of base is checked out from; None for the working directory.
    base_ref: str | None = None
    #: A command that builds each side; empty for none.
    build: tuple[str, ...] = ()
    #: How long both programs have for their first step, in seconds.
    hook_timeout: float = 60.0
    #: The most processes of a side in one pair.
    processes: int = 8
    #: How to read what the sides write; None to detect it.
    format: str | None = None
    #: The mappings of files of the team's own tools.
    mappings: Sequence[FileMapping] = ()
    #: The commands that run another one in the old and in the new environment; None for pairs in one environment.
    environments: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    #: False for sides that must not run at once.
    by_turns: bool = True


def run_pairs(options: MeasuringOptions, pairs: PairRequest, judge_runs: JudgeRuns, tell: Tell) -> Report:
    """Run pairs until every verdict is final. Raises Refused for usage errors, and if the base cannot be read."""
    folder = new_folder(options.keep)
    with ExitStack() as stack:
        base, new = ProgramSide(pairs.base), ProgramSide(pairs.new, environment=options.environment, cpus=options.cpus)
        if pairs.base_ref is not None:
            base = stack.enter_context(checked_out(pairs.base_ref, pairs.base))
        base = replace(base, cpus=options.cpus, environment={**base.environment, **options.environment})
        listener = stack.enter_context(listening())
        maker = _PairMaker(options, pairs, folder, {"base": base, "new": new}, listener, tell, by_turns=pairs.by_turns)
        return until_settled(options, maker.measure, judge_runs, "pair", tell)


#: Several short processes are only worth their starts if the first pair took more than this many times its start.
_STARTS = 2


class NoTurns(Exception):
    """The sides cannot take steps by turns."""


class SideFailed(RunFailed):
    """The program of one side failed. `why` follows the name of the side in the message."""

    def __init__(self, side: str, why: object) -> None:
        super().__init__(f"the {side} side{why}")
        self.side, self.why = side, str(why).lstrip(": ")


class _PairMaker(Struct):
    """Makes pairs. If the programs could not take turns once, whole runs alternate from then on."""

    options: MeasuringOptions
    pairs: PairRequest
    folder: Path
    sides: dict[str, ProgramSide]
    listener: socket
    tell: Tell
    made: list[Path] = field(default_factory=list)
    by_turns: bool = True
    #: The seconds of the start and of all of the first pair, from its end until `split` is decided.
    first_pair: tuple[float, float] | None = None
    #: The short processes of which the pairs after the first are made; None for long ones.
    split: Split | None = None

    def measure(self, number: int) -> list[Path]:
        """Make the pair of a number; return the files of all pairs so far. Raises RunFailed."""
        if number == 1 and self.pairs.build:
            self._build()
        path = self.folder / f"pair-{number:03d}.json"
        if self.by_turns:
            try:
                found = self._steps_by_turns(number)
            except NoTurns as why:
                self.by_turns = False
                self.tell(f"{why}; whole runs of both sides alternate instead")
        if not self.by_turns:
            order = SIDES if base_goes_first(str(number)) else SIDES[::-1]
            sides = {name: self.sides[name] for name in order}
            found = whole_runs(self.folder / f"pair-{number:03d}-whole", sides, number, self.options, self.tell)
        pairing: Pairing = "in-turn" if self.by_turns else "whole-runs"
        runs = read_sides(found, self.pairs.format, self.pairs.mappings)
        if self.first_pair is not None:  # further pairs are made of short processes, if they suit the program
            start, seconds = self.first_pair
            self.split, self.first_pair = split_of([*runs.values()], start, seconds, self.pairs.processes), None
            if self.split is not None:
                words = f"{self.split.processes} processes of {self.split.steps} steps a side"
                self.tell(f"further pairs have {words}, so that the memory layout averages out")
        for line in write_pair(path, runs, number, pairing):
            self.tell(line)
        self.made.append(path)
        return self.made

    def _build(self) -> None:
        for name, side in self.sides.items():
            try:
                command = ProgramSide(self.pairs.build, side.folder, side.environment)
                build(self.folder / f"build-{name}", command, self.options.timeout)
            except Stopped:
                raise
            except RunFailed as error:
                raise RunFailed(f"the {name} side {error}; see build-{name}.log") from None

    def _steps_by_turns(self, number: int) -> dict[str, Path]:
        """Run both sides at once, by turns; return the results of each. Raises NoTurns and RunFailed."""
        top, globs = self.folder / f"pair-{number:03d}", self.options.results
        longest = self.pairs.hook_timeout, self.options.timeout
        if self.split is not None:

            def make(place: int, base_first: bool, steps: int) -> Mapping[str, Path]:
                inside = top / f"process-{place}"
                return steps_by_turns(self.listener, inside, self.sides, number, globs, longest, steps, base_first)

            return short_processes(top, self.split, number, make)
        began, starts = time.monotonic(), list[float]()
        found = steps_by_turns(self.listener, top, self.sides, number, globs, longest, note_start=starts.append)
        took, start = time.monotonic() - began, max(starts, default=0.0)
        # a given format prevents short processes: they are read without one
        if number == 1 and self.pairs.processes > 1 and self.pairs.format is None and took > _STARTS * start:
            self.first_pair = start, took
        return found


def whole_runs(
    top: Path, sides: Mapping[str, ProgramSide], number: int, options: MeasuringOptions, tell: Tell
) -> dict[str, Path]:
    """Run one side after the other, in this order; return the results of each. Raises SideFailed, and Stopped."""
    found = {}
    for name, side in sides.items():
        try:
            with new_run(top / name, side, number, options.results) as run:
                with cost_beside(run.results):
                    finish(run.start(fair_environment(side.environment)), options.timeout)
                found[name] = run.collect(tell)
        except RunFailed as error:
            raise _of_side(name, error) from None
    return found


def _of_side(name: str, error: RunFailed) -> RunFailed:
    """Return an error as a SideFailed; a signal stays as it is, because it belongs to no side."""
    return error if isinstance(error, Stopped) else SideFailed(name, f": {error}")


def steps_by_turns(
    listener: socket,
    top: Path,
    sides: Mapping[str, ProgramSide],
    number: int,
    globs: Sequence[str],
    times: tuple[float, float],
    most_steps: int | None = None,
    base_first: bool | None = None,
    note_start: Callable[[float], None] = lambda seconds: None,
) -> dict[str, Path]:
    """Run all sides at once, by turns; return the results of each. Raises NoTurns and RunFailed.

    Parameters:
        top: the new folder of the pair.
        number: the number of the pair.
        globs: the files that the programs write.
        times: how long they have for their first step, and for any step, in seconds.
        most_steps: the number of steps by turns after which the programs are ended; None for all.
        base_first: whether base goes first in even steps; None if that follows from the number.
        note_start: called with the seconds until both programs had started.
    """
    base_first = base_goes_first(str(number)) if base_first is None else base_first
    with ExitStack() as stack:
        runs = {name: stack.enter_context(new_run(top / name, side, number, globs)) for name, side in sides.items()}
        programs: dict[str, Program] = {}
        stack.callback(lambda: end_all(programs.values()))
        for name, run in runs.items() if base_first else reversed(runs.items()):
            own = fair_environment(run.side.environment)
            programs[name] = run.start({**own, TURN: listener.getsockname(), SIDE: name})
        # The order of the starts alternates between pairs; `play` gets base before new and alternates by `base_first`.
        in_order = {name: programs[name] for name in sides}
        by_turns, fault = play(listener, in_order, base_first, *times, most_steps)
        if not by_turns and fault in (None, NO_HOOK):
            raise NoTurns(NO_HOOK)
        if fault is not None:
            raise _as_error(fault, runs)
        note_start(max(program.starting for program in programs.values()))
        end_all(programs.values())  # also the processes that they started, which may still write
        found = {}
        for name, run in runs.items():
            try:
                found[name] = run.collect()
            except RunFailed as error:
                raise _of_side(name, error) from None
        return found


def _as_error(fault: str, runs: Mapping[str, NewRun]) -> Exception:
    """Return the error for a fault of `play`: NoTurns if memory was too small for all sides, else RunFailed."""
    if any(ran_out_of_memory(run.log) for run in runs.values()):
        return NoTurns(f"the sides do not fit into memory at once ({fault})")
    for name in runs:
        if fault.startswith(f"the {name} side "):
            return SideFailed(name, fault.removeprefix(f"the {name} side"))
    return RunFailed(fault)


def read_sides(found: Mapping[str, Path], format: str | None, mappings: Sequence[FileMapping] = ()) -> dict[str, Run]:
    """Return the run of each side. Raises SideFailed if a side cannot be read."""
    sides = {}
    for side, path in found.items():
        runs = read_runs([str(path)], format, mappings=mappings)
        if len(runs) != 1:
            raise SideFailed(side, f" wrote {len(runs)} runs: one process is one run")
        bad = [problem for problem in runs[0].problems if problem.severity == "error"]
        if bad or not runs[0].series:
            raise SideFailed(side, " wrote nothing that can be read" + (f": {bad[0]}" if bad else ""))
        sides[side] = runs[0]
    return sides


def write_pair(path: Path, runs: Mapping[str, Run], number: int, pairing: Pairing) -> list[str]:
    """Write a pair as one `perfgate.results/1` document with the labels side, pair and pairing; return warnings.

    If the sides took turns, each series is cut to the length that both sides have: further steps were not interleaved.
    """
    lengths: dict[Key, int] = {}  # of the shorter side, if the sides took turns
    for series in (series for run in runs.values() for series in run.series if pairing == "in-turn"):
        lengths[series.key] = min(lengths.get(series.key, len(series.values)), len(series.values))
    rows = []
    lines = [f"pair {number}: {problem}" for run in runs.values() for problem in run.problems]
    for side, run in runs.items():
        labels = {"side": side, "pair": str(number), "pairing": pairing}
        rows += [_row(series, labels, lengths.get(series.key)) for series in run.series]
        longer = [series for series in run.series if len(series.values) > lengths.get(series.key, math.inf)]
        if longer:
            counts = f"{len(longer[0].values)} steps of {longer[0].key.metric}, the other side {lengths[longer[0].key]}"
            lines.append(f"pair {number}: the {side} side took {counts}: using as many steps as both have")
    base, new = (runs[side] for side in SIDES)
    facts = dict(new.environment)
    facts |= {f"{OF_BASE}{name}": fact for name, fact in base.environment.items() if facts.get(name) != fact}
    if base.format == new.format and base.format != "perfgate":
        facts[WRITTEN_AS] = base.format
    document = {"schema": "perfgate.results/1", "environment": facts, "series": rows}
    replace_file(str(path), (json.dumps(document) + "\n").encode())
    return lines


def _row(series: Series, labels: Mapping[str, str], end: int | None) -> dict[str, object]:
    """Return a series with more labels as a document has it, with `end` of its values at most; None for all."""
    row = {"metric": series.key.metric, "labels": {**dict(series.key.labels), **labels}, "unit": series.unit}
    if series.kind == "aggregate":
        return {**row, "aggregate": dict(series.aggregate)}
    if series.kind == "value":
        return {**row, "value": float(series.values[0])}
    steps = {} if series.steps is None else {"steps": series.steps[:end].tolist()}
    return {**row, "values": series.values[:end].tolist(), **steps}
