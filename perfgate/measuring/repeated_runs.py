"""Run a command several times, before any rule exists: the first run shows where its results are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.measuring.command_cost import command_cost
from perfgate.measuring.files_before import EVERYTHING
from perfgate.measuring.programs import NewRun, ProgramSide, finish, new_run
from perfgate.measuring.until_settled import MeasuringOptions, Tell, noted_facts
from perfgate.recorder.watch import sampled

#: Returns the globs of the results of the first run, which began with `EVERYTHING`.
FindResults = Callable[[NewRun], Sequence[str]]


class RepeatedRuns(Struct, frozen=True):
    """The runs of one command: their files or folders, how long each took in s, and the facts of the machine."""

    paths: tuple[Path, ...]
    seconds: tuple[float, ...]
    facts: tuple[str, ...]


def repeated_runs(options: MeasuringOptions, words: tuple[str, ...], find: FindResults, tell: Tell) -> RepeatedRuns:
    """Run a command `options.most_runs` times. Raises RunFailed, Stopped after a signal, and the errors of `find`."""
    folder, globs = options.new_folder(), EVERYTHING
    side = ProgramSide(words, environment=options.environment)
    facts, paths, seconds = noted_facts(options, "before"), list[Path](), list[float]()
    for number in range(1, options.most_runs + 1):
        head = f"run {number} of {options.most_runs}"
        left = (options.most_runs - number + 1) * max(seconds) if seconds else None
        with new_run(folder / f"run-{number:03d}", side, number, globs) as run:
            began = time.monotonic()
            watch = options.watch(head, left) if options.watch else nullcontext()
            with watch, sampled(run.results) as note, command_cost(note):
                finish(run.start(), options.timeout)
            seconds.append(time.monotonic() - began)
            if number == 1:
                globs = tuple(find(run))
            paths.append(replace(run, before=replace(run.before, globs=globs)).collect(tell))
        tell(f"{head}: {seconds[-1]:.3g} s")
    facts |= noted_facts(options, "after")
    return RepeatedRuns(tuple(paths), tuple(seconds), tuple(facts))
