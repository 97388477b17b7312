"""Pairs of several short processes a side, in place of one long process a side.

The speed of a process depends on its memory layout, which the system chooses at random when the process starts. Two
long processes have two layouts, so that no number of steps shows the true ratio of the programs. Several short ones a
side average over layouts, with about as many steps in total. The first pair is made of two long processes: it shows how
long the start, the warm-up and a step take, and whether the program can be ended early.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perfgate.core import Key, Run
from perfgate.judge.measure import Method, NotAvailable
from perfgate.judge.pairs import base_goes_first
from perfgate.measuring.lockstep import SIDES
from perfgate.measuring.programs import RunFailed
from perfgate.recorder.recorder import STEP_TIME
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.output_files import replace_file

#: A process must have at least this many steps that count, and at least as many as its warm-up has.
_FEWEST_STEPS = 8
#: A pair of short processes may take this many times as long as the first pair.
_LONGER = 2.0
#: The seed of the order of the processes, together with the number of the pair.
_SEED = 1
#: Makes one process of each side. It gets their place in the pair, whether base goes first, and the number of turns of
#: each; it returns the file of each side.
MakeProcesses = Callable[[int, bool, int], Mapping[str, Path]]


class Split(Struct, frozen=True):
    """The number of processes a side, the steps of each that count, and the warm-up steps before them."""

    processes: int
    steps: int
    warmup: int


def split_of(runs: Sequence[Run], start: float, seconds: float, most: int) -> Split | None:
    """Return how to split further pairs of a program; None if long processes are better.

    Short processes are ended early, so the program must record samples of steps alone: single values come at its end.

    `runs`: those of the first pair. `start`, `seconds`: how long its start and all of it took. `most`: the most
    processes a side.
    """
    step_times = []
    for run in runs:
        found = next((series for series in run.series if series.key.metric == STEP_TIME), None)
        is_of_steps = all(series.kind == "samples" and series.steps is not None for series in run.series)
        if found is None or not is_of_steps:
            return None
        step_times.append(found)
    # the first step takes no turn and is in `start`
    steps, stepping = min(len(series.values) for series in step_times) - 1, max(seconds - start, 0.0)
    warmup = 0  # the number of first steps that the judge leaves out, on the side with more of them
    for series in step_times:
        with suppress(NotAvailable):
            warmup = max(warmup, Method("median", better="lower").measure(series).dropped)
    warmup += warmup % 2  # numbers of steps are even, because the sides take turns in going first
    start += warmup * stepping / max(steps, 1)  # each process warms up again
    for processes in (8, 4, 2):
        counted = steps // processes // 2 * 2
        is_short = processes * start + stepping <= _LONGER * seconds
        if processes <= most and counted >= max(_FEWEST_STEPS, warmup) and is_short:
            return Split(processes, counted, warmup)
    return None


def orders(processes: int, number: int) -> list[bool]:
    """Return, for each process of a pair, whether base goes first: it does in half of them, which are random."""
    found = [place % 2 == 0 for place in range(processes)]
    random.Random(f"{_SEED}-{number}").shuffle(found)
    return found


def short_processes(top: Path, split: Split, number: int, make: MakeProcesses) -> dict[str, Path]:
    """Make a pair of short processes; return one file of results for each side. Raises RunFailed.

    `order.json` says which side went first in each process.
    """
    found: dict[str, list[Run]] = {side: [] for side in SIDES}
    firsts = orders(split.processes, number)
    for place, base_first in enumerate(firsts):
        made = make(place, base_first, split.warmup + split.steps)
        for side in SIDES:
            found[side].append(read_runs([str(made[side])])[0])
    order = {"seed": _SEED, "first": ["base" if base_first else "new" for base_first in firsts]}
    (top / "order.json").write_text(json.dumps(order) + "\n", encoding="utf-8")
    return {side: _joined(top / f"{side}.json", found[side], split, firsts, number) for side in SIDES}


def _joined(path: Path, runs: Sequence[Run], split: Split, firsts: Sequence[bool], number: int) -> Path:
    """Write the counted steps of all processes of a side as one run, and return its file. Raises RunFailed.

    The steps are numbered so that base goes first in the even ones of pairs with odd numbers, as in other pairs. So one
    number is left out where the order changes. There are no other gaps, which would look like steps without a record.
    """
    columns: dict[Key, tuple[str, list[tuple[int, float]]]] = {}  # for each series: its unit, its steps with values
    first = 1 + split.warmup  # the first step of a process that counts; it is odd, because `warmup` is even
    free = first  # the next free number
    for run, base_first in zip(runs, firsts, strict=True):
        recorded = [(series, series.steps.tolist()) for series in run.series if series.steps is not None]
        known = sorted({step for _, steps in recorded for step in steps})
        counted = known[first : first + split.steps]
        if len(counted) < split.steps:
            raise RunFailed(f"a short process took {len(known)} steps instead of {first + split.steps}")
        is_moved = base_first != base_goes_first(str(number))  # then its even steps get odd numbers
        free += (free - first - is_moved) % 2  # odd as `first`, or even if moved: this may leave a number out
        numbers = {step: free + place for place, step in enumerate(counted)}
        free += split.steps
        for series, steps in recorded:
            pairs = zip(steps, series.values.tolist(), strict=True)
            column = columns.setdefault(series.key, (series.unit, []))[1]
            column += [(numbers[step], value) for step, value in pairs if step in numbers]
    rows = []
    for key, (unit, column) in columns.items():
        if column:  # what was measured outside the counted steps is left out
            values = {"values": [value for _, value in column], "steps": [step for step, _ in column]}
            rows.append({"metric": key.metric, "labels": dict(key.labels), "unit": unit, **values})
    document = {"schema": "perfgate.results/1", "environment": dict(runs[0].environment), "series": rows}
    replace_file(str(path), (json.dumps(document) + "\n").encode())
    return path
