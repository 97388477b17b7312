"""`perfgate run --paired`: base and new take steps by turns, in fresh processes for every pair.

A program without a `perfgate.Recorder` on either side takes no turns, and two that do not fit into the memory of a
device cannot; then whole runs alternate instead, in the order base, new, new, base, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.core import Report
from perfgate.judge.pairs import base_goes_first
from perfgate.measuring.lockstep import NO_HOOK, Patience, Referee
from perfgate.measuring.one_run import Place, Side, Unfinished, Written, kept, run_once, start
from perfgate.measuring.pair_files import write_pair
from perfgate.measuring.programs import Program, end_all, ran_out_of_memory
from perfgate.measuring.until_settled import RunRequest, Stopped, Tell, folder_of, signals, until_settled
from perfgate.measuring.worktrees import checked_out
from perfgate.recorder.turns import SIDE, TURN
from perfgate.workspace.errors import Refused


@dataclass(frozen=True, slots=True)
class PairRequest:
    """What makes the sides: commands, the ref that base is checked out from, and a command that builds each side."""

    base: tuple[str, ...]
    new: tuple[str, ...]
    base_ref: str | None = None
    build: tuple[str, ...] = ()
    #: How long both programs have to say that they take turns, in seconds.
    hook_timeout: float = 60.0


def run_pairs(request: RunRequest, pairs: PairRequest, tell: Tell) -> Report:
    """Run pairs until the verdicts are settled. Raises Refused for usage errors, and where the base cannot be had."""
    folder = folder_of(request)
    request = replace(request, check=replace(request.check, own_pairs=True))
    try:
        with signals(), _sides(pairs) as sides, Referee() as referee:
            measuring = _Measuring(request, pairs, folder, sides, referee, tell)
            return until_settled(request, measuring.pair, "pair", tell)
    except Stopped as stopped:  # before the first pair, or while the base was cleared away
        raise Refused(str(stopped), 3) from None


@contextmanager
def _sides(pairs: PairRequest) -> Iterator[dict[str, Side]]:
    """Both sides; the base of a ref has a worktree of its own."""
    with ExitStack() as stack:
        base = Side(pairs.base)
        if pairs.base_ref is not None:
            tree = stack.enter_context(checked_out(pairs.base_ref))
            base = Side(pairs.base, tree.folder, tree.environment)
        yield {"base": base, "new": Side(pairs.new)}


class _NoTurns(Exception):
    """Why both sides cannot take steps by turns."""


class _Measuring:
    """Pairs as they are made; once a program has taken no turns, it is not asked again."""

    def __init__(
        self,
        request: RunRequest,
        pairs: PairRequest,
        folder: Path,
        sides: dict[str, Side],
        referee: Referee,
        tell: Tell,
    ) -> None:
        self._request = request
        self._pairs = pairs
        self._folder = folder
        self._sides = sides
        self._referee = referee
        self._tell = tell
        self._by_turns = True
        self._built = not pairs.build

    def pair(self, number: int) -> Path:
        """Make the pair of a number, and write it. Raises Unfinished."""
        self._build()
        if self._by_turns:
            try:
                return self._written(number, self._steps_by_turns(number), by_turns=True)
            except _NoTurns as why:
                self._by_turns = False
                self._tell(f"{why}; whole runs of both sides alternate instead")
        return self._written(number, self._whole_runs(number), by_turns=False)

    def _build(self) -> None:
        """Build each side where it runs, once."""
        for name, side in self._sides.items() if not self._built else ():
            place = Place.made(self._folder / f"build-{name}")
            try:
                run_once(
                    Side(self._pairs.build, side.folder, side.environment).command(place, 0), self._request.timeout
                )
            except Unfinished as error:
                raise Unfinished(f"the {name} side does not build: {error}; see {place.log.name}") from None
        self._built = True

    def _steps_by_turns(self, number: int) -> dict[str, Path]:
        """Both sides at once, by turns: where each wrote. Raises _NoTurns where they cannot, and Unfinished."""
        places = self._places(number, "")
        with ExitStack() as stack:
            for place in places.values():
                stack.enter_context(kept(place))
            written = {name: self._before(side) for name, side in self._sides.items()}
            programs: dict[str, Program] = {}
            stack.callback(lambda: end_all(list(programs.values())))
            for name, side in self._sides.items():
                turns = {TURN: self._referee.address, SIDE: name}
                told = Side(side.words, side.folder, {**side.environment, **turns})
                programs[name] = start(told.command(places[name], number))
            patience = Patience(self._pairs.hook_timeout, self._request.timeout)
            played = self._referee.play(programs, base_goes_first(str(number)), patience)
            if not played.by_turns and played.fault in (None, NO_HOOK):
                raise _NoTurns(NO_HOOK)
            if played.fault is not None and any(ran_out_of_memory(place.log) for place in places.values()):
                raise _NoTurns(f"both sides do not fit into memory at once ({played.fault})")
            if played.fault is not None:
                raise Unfinished(played.fault)
            end_all(list(programs.values()))  # what they left behind may still write
            return {name: _collected(name, written[name], places[name]) for name in places}

    def _whole_runs(self, number: int) -> dict[str, Path]:
        """One side after the other: where each wrote."""
        places = self._places(number, "-whole")
        found = {}
        order = ("base", "new") if base_goes_first(str(number)) else ("new", "base")
        for name in order:
            with kept(places[name]):
                written = self._before(self._sides[name])
                try:
                    run_once(self._sides[name].command(places[name], number), self._request.timeout)
                except Unfinished as error:
                    raise Unfinished(f"the {name} side: {error}") from None
                found[name] = _collected(name, written, places[name])
        return found

    def _places(self, number: int, suffix: str) -> dict[str, Place]:
        return {name: Place.made(self._folder / f"pair-{number:03d}{suffix}" / name) for name in self._sides}

    def _before(self, side: Side) -> Written:
        return Written.before_run(self._request.results, side.folder)

    def _written(self, number: int, found: dict[str, Path], *, by_turns: bool) -> Path:
        path = self._folder / f"pair-{number:03d}.json"
        way = "in-turn" if by_turns else "whole-runs"
        format = self._request.check.options.format
        for line in write_pair(path, found["base"], found["new"], number, way, format):  # type: ignore[arg-type]
            self._tell(line)
        return path


def _collected(name: str, written: Written, place: Place) -> Path:
    try:
        return written.collect(place)
    except Unfinished as error:
        raise Unfinished(f"the {name} side: {error}") from None
