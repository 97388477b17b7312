"""The causes of a change between two sides of traces, and the part without a cause."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: The kind of a cause. `sync` is a new wait for the device; `exposed` is communication that no longer overlaps work.
CauseKind = Literal[
    "appeared",
    "vanished",
    "replaced",
    "slower",
    "faster",
    "more calls",
    "fewer calls",
    "moved",
    "sync",
    "exposed",
    "slow rank",
    "stall",
    "memory",
    "machine",
]
#: The quantity that a cause changes: the time of the step in s, or the memory at its peak in B.
CauseMetric = Literal["time", "memory"]


class Cause(Struct, frozen=True):
    """One change of the program, the machine or its data, and what it costs."""

    kind: CauseKind
    #: The path of the place: ranges, operators, and the kernel or call.
    where: tuple[str, ...]
    metric: CauseMetric
    #: New minus base, in s per step or B, and its 95 % confidence interval.
    change_per_step: float
    low: float
    high: float
    #: The change as a share of the change of the step (of the peak for memory); None if that did not change.
    share: float | None
    #: The ranks that caused it, if not all did; the other ranks waited.
    ranks: tuple[str, ...] = ()
    #: The calls at this place now and before: names with their number of calls a step.
    gone: tuple[tuple[str, float], ...] = ()
    come: tuple[tuple[str, float], ...] = ()
    #: All places of the same change, `where` first, and the line of the program, if the trace has stacks.
    places: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    #: The verdicts that it explains, by their names; see `verdict_ids`.
    verdicts: tuple[str, ...] = ()


class PlaceTime(Struct, frozen=True):
    """One place of the call tree: its time with all that it calls on each side, in s per step, the mean over ranks."""

    #: Empty for a pool of small places.
    name: str
    #: The index of the place that calls it, -1 for the step; parents are before their children.
    parent: int
    base: float
    new: float
    #: The number of small places that are pooled here; 0 for a single place.
    pooled: int = 0


class RankTime(Struct, frozen=True):
    """The step of one rank in s: its own work, and its communication, which includes waiting for other ranks."""

    rank: str
    base_work: float
    base_communication: float
    new_work: float
    new_communication: float


class CauseReport(Struct, frozen=True):
    """The causes, the largest first, and how they sum to the change of the step.

    All times in s: the causes of time and `rest` sum to `new_step` - `base_step`. `rest` is the sum of changes that are
    too small to tell from noise.
    """

    causes: tuple[Cause, ...]
    base_step: float
    new_step: float
    rest: float
    #: The largest change of the step that would not be told from noise.
    noise: float
    base_runs: int
    new_runs: int
    #: The parts that could not be compared, in words.
    notes: tuple[str, ...] = ()
    #: The call tree of both sides without its small places, and the ranks of a job; for pictures.
    tree: tuple[PlaceTime, ...] = ()
    ranks: tuple[RankTime, ...] = ()
