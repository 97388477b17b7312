"""Steps that stalled: several times as long as their neighbours, without more work. Causes are found without them.

One stalled step of twelve moves the mean of a step by more than most changes do, and says nothing of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.merged import Floats, RunTrees
from perfgate.core.call_trees import CallTree
from perfgate.core.units import format_value
from perfgate.core.wording import listed, plural

_Marks: TypeAlias = npt.NDArray[np.bool_]
#: The times of the stalled steps of both sides in s.
StallTimes: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
#: A stalled step is longer than the median of its side by this share, and by this many robust standard deviations.
_LONGER, _CLEAR = 0.25, 10.0
#: More calls than the median step, as a share: then it is other work, not a stall.
_MORE_CALLS = 0.001
#: Fewer steps than this do not show what is usual.
_FEWEST_STEPS = 3


class Settled(Struct, frozen=True):
    """The trees of both sides without stalled steps, and what was left out."""

    sides: tuple[Sequence[RunTrees], Sequence[RunTrees]]
    stalled: StallTimes = ((), ())
    #: A line for each side with stalls: `2 of 12 base steps stalled: 93 ms and 43 ms`.
    notes: tuple[str, ...] = ()


def without_stalls(sides: tuple[Sequence[RunTrees], Sequence[RunTrees]]) -> Settled:
    """Return the trees of both sides without stalled steps."""
    kept, stalled, notes = [], [], []
    for name, runs in zip(("base", "new"), sides, strict=True):
        marks = [_stalled(run, runs) for run in runs]
        times = [float(time) for run, mark in zip(runs, marks, strict=True) for time in _times(run)[mark]]
        kept.append([_without(run, mark) for run, mark in zip(runs, marks, strict=True)] if times else runs)
        stalled.append(tuple(times))
        if times:
            steps = plural(sum(len(_times(run)) for run in runs), f"{name} step")
            shown = listed([format_value(time, "s", "ms") for time in sorted(times, reverse=True)])
            notes.append(f"{len(times)} of {steps} stalled: {shown}")
    return Settled((kept[0], kept[1]), (stalled[0], stalled[1]), tuple(notes))


def _times(run: RunTrees) -> Floats:
    """The time of each step: the longest of its ranks."""
    return np.asarray(np.max([tree.step_times for tree in run], axis=0))


def _stalled(run: RunTrees, side: Sequence[RunTrees]) -> _Marks:
    """Return which steps of a run stalled; none if its columns are not steps."""
    times = _times(run) if len({tree.wall.shape[1] for tree in run}) == 1 else np.zeros(0)
    none = np.zeros(len(times), dtype=np.bool_)
    if not all(map(_has_single_steps, run)):
        return none
    usual = np.concatenate([_times(one) for one in side if _has_single_steps(one[0])])
    if len(usual) < _FEWEST_STEPS:
        return none
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))
    found = times > middle + max(_LONGER * middle, _CLEAR * spread)
    for tree in run:
        calls = tree.counts.sum(axis=0)
        found &= calls <= np.median(calls) * (1 + _MORE_CALLS)
    return none if bool(found.all()) else np.asarray(found)


def _has_single_steps(tree: CallTree) -> bool:
    """True if each column of a tree is one step, not a group of them."""
    return tree.has_steps and tree.steps in (0, tree.wall.shape[1])


def _without(run: RunTrees, stalled: _Marks) -> RunTrees:
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
