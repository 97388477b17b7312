"""The call trees of both sides without stalled steps, so that causes and the head of a report have no stalls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.causes.merged import Floats, RunTrees
from perfgate.core.units import format_value
from perfgate.core.wording import listed, plural
from perfgate.stats.distributions import BoolArray
from perfgate.stats.stalled_steps import StepsOfRun, stalled_steps

_Sides: TypeAlias = tuple[Sequence[RunTrees], Sequence[RunTrees]]


def without_stalls(sides: _Sides) -> tuple[_Sides, tuple[str, ...]]:
    """Return the trees of both sides without stalled steps, and a line about these steps."""
    kept, notes = [], []
    found = stalled_steps(*([_steps(run) for run in side] for side in sides))
    for name, runs, marks in zip(("base", "new"), sides, found, strict=True):
        pairs = [(run, mark) for run, mark in zip(runs, marks, strict=True)]
        times = [float(time) for run, mark in pairs if mark.any() for time in _times(run)[mark]]
        kept.append([_without(run, mark) for run, mark in pairs])
        if times:
            steps = plural(sum(map(len, marks)), f"{name} step")
            shown = listed([format_value(time, "s", "ms") for time in sorted(times, reverse=True)])
            notes.append(f"stalled and left out: {len(times)} of {steps} ({shown})")
    return (kept[0], kept[1]), tuple(notes)


def _times(run: RunTrees) -> Floats:
    """The time of each step: the longest of its ranks."""
    return np.asarray(np.max([tree.step_times for tree in run], axis=0))


def _steps(run: RunTrees) -> StepsOfRun:
    """The steps of a run; none if its columns are groups of steps, or differ between ranks."""
    columns = {tree.wall.shape[1] if tree.has_steps and tree.steps in (0, tree.wall.shape[1]) else -1 for tree in run}
    if len(columns) > 1 or -1 in columns:
        return StepsOfRun()
    return StepsOfRun(_times(run), np.array([tree.counts.sum(axis=0) for tree in run]))


def _without(run: RunTrees, stalled: BoolArray) -> RunTrees:
    if not stalled.any():
        return run
    return tuple(
        replace(
            tree,
            counts=tree.counts[:, ~stalled],
            busy=tree.busy[:, ~stalled],
            wall=tree.wall[:, ~stalled],
            steps=0,
            rank_wall=tree.rank_wall if len(tree.ranks) > 1 else None,
        )
        for tree in run
    )
