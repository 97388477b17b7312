"""The causes of a change between two sides of traces, and the answer of `bisect`: the commit that changed a metric."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

#: The kind of a cause. `sync`: a new wait for the device. `exposed`: communication that no longer overlaps work.
#: `host`, `machine`: the host, or the device, has another speed as a whole. `allocator`: more allocations of device
#: memory. `zeroed`: gradients are set to zero instead of None. `repeated`: the backward pass computes the forward pass
#: again (checkpointing). `larger`, `smaller`: the same operators on inputs of another size. `moved`: calls went at one
#: place and came at another.
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
    "host",
    "allocator",
    "zeroed",
    "repeated",
    "larger",
    "smaller",
]
#: The quantity that a cause changes: the time of a step in s, the time of a whole table that does not count steps in s,
#: or the memory at its peak in B.
CauseMetric = Literal["time", "total time", "memory"]


class Cause(Struct, frozen=True):
    """One change of the program, the machine or its data, and what it costs."""

    kind: CauseKind
    #: The path of the place: ranges, operators, and the kernel or call.
    where: tuple[str, ...]
    metric: CauseMetric
    #: New minus base, in s (per step, if the metric is `time`) or B, and its 95 % confidence interval.
    change_per_step: float
    low: float
    high: float
    #: The change as a share of the change of the step (of the peak for memory); None if that is 0 or hidden by noise.
    share: float | None
    #: The ranks that caused it, if not all did; the other ranks waited.
    ranks: tuple[str, ...] = ()
    #: The calls that went from this place and those that came to it: names with their number of calls a step.
    gone: tuple[tuple[str, float], ...] = ()
    come: tuple[tuple[str, float], ...] = ()
    #: All places of the same change, `where` first, and the line of the program, if the trace has stacks.
    places: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    #: The verdicts that it explains, by their names: `verdict_ids` of `core.verdicts`.
    verdicts: tuple[str, ...] = ()
    #: The ratio new/base of the number of thread blocks (`larger`, `smaller`), or of the host's own time (`host`).
    factor: float | None = None
    #: The type of matrix products before and now, if it is wider: `bf16`, `tf32`.
    types: tuple[str, str] | None = None


class PlaceTime(Struct, frozen=True):
    """One place of the call tree: on each side its time with all that it calls, in s per step, the mean over ranks."""

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

    All times are in s. `new_step` - `base_step` is the sum of the causes of time and of `rest`, the changes that are
    too small to distinguish from noise.
    """

    causes: tuple[Cause, ...]
    base_step: float
    new_step: float
    rest: float
    #: The largest change of the step that cannot be distinguished from noise.
    noise: float
    base_runs: int
    new_runs: int
    #: The parts that could not be compared, in words.
    notes: tuple[str, ...] = ()
    #: Metrics that no rule looks at and that follow from a cause.
    explained: tuple[str, ...] = ()
    #: The call tree of both sides without its small places, and the ranks of a job; for pictures.
    tree: tuple[PlaceTime, ...] = ()
    ranks: tuple[RankTime, ...] = ()


BisectOutcome: TypeAlias = Literal["found", "not-reproduced", "undecided"]


class SearchedItem(Struct, frozen=True):
    """An item of the list that `bisect` searches: a commit by its hash, or a word of `--over` with no other facts."""

    name: str
    author: str = ""
    #: The day, as 2026-11-22.
    date: str = ""
    subject: str = ""
    #: As git prints it: ` 2 files changed, 3 insertions(+)`.
    diffstat: str = ""
    is_merge: bool = False


class ItemEstimate(Struct, frozen=True):
    """The measurements of one item.

    `value` is the geometric mean of its runs in base units, after the drift of the machine was subtracted. For pairs it
    is the ratio to the first item, and `unit` of the report is `1`. `low` and `high` are the ends of its two-sided
    interval. All three are None if the item cannot be measured; `skipped` says why.
    """

    position: int
    name: str
    runs: int
    value: float | None
    low: float | None
    high: float | None
    skipped: str | None = None


class ItemSuspect(Struct, frozen=True):
    """An item that may have changed the metric, and the probability that it did."""

    position: int
    item: SearchedItem
    probability: float
    #: Its measurements, if there are any.
    estimate: ItemEstimate | None = None


class BisectReport(Struct, frozen=True):
    """The answer of `bisect` with everything that reports show.

    `change` is relative (0.05 is +5 %), with a two-sided interval at `confidence`. It is the change by the blamed items
    if they were found, and otherwise that of the last item against the first one.
    """

    outcome: BisectOutcome
    message: str
    next_step: str
    metric: str
    statistic: str | None
    unit: str
    #: True if larger values are worse, False if they are better; None if that is unknown.
    larger_is_worse: bool | None
    #: `commit` or `item`.
    noun: str
    first: SearchedItem
    last: SearchedItem
    #: The number of items, with `first` and `last`.
    positions: int
    tolerance: float
    confidence: float
    change: float | None
    low: float | None
    high: float | None
    runs: int
    #: True if the runs were pairs: each item by turns with the first one.
    paired: bool
    #: The standard deviation of one run, relative; None if too little was measured.
    noise: float | None
    drift_per_hour: float | None
    #: The probability of another change in the list.
    another: float
    #: The most probable items. Their probabilities, `others` and `no_change` add up to 1.
    suspects: tuple[ItemSuspect, ...] = ()
    #: The probability that nothing changed; 0 without suspects.
    no_change: float = 0.0
    #: The positions of the answer: one, or several that cannot be told apart.
    blamed: tuple[int, ...] = ()
    measured: tuple[ItemEstimate, ...] = ()
    #: About how many more runs are needed, if the search ended too early.
    more_runs: int | None = None
    #: The merge that brought the commits, if the search went on inside of it.
    inside: SearchedItem | None = None
    notes: tuple[str, ...] = ()
    causes: CauseReport | None = None

    @property
    def others(self) -> float:
        """The probability that an item outside of `suspects` changed the metric; 0 without suspects."""
        named = sum(one.probability for one in self.suspects)
        return max(1 - self.no_change - named, 0.0) if self.suspects else 0.0

    @property
    def exit_code(self) -> int:
        """0 if an item was found, 3 otherwise."""
        return 0 if self.outcome == "found" else 3
