"""The answer of `perfgate bisect`: which item of an ordered list changed a metric."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perfgate.core.causes import CauseReport

BisectOutcome: TypeAlias = Literal["found", "not-reproduced", "undecided"]


class SearchedItem(Struct, frozen=True):
    """An item of the list: a commit by its hash, or a word of `--over`. Only commits have the other facts."""

    name: str
    author: str = ""
    #: The day, as 2026-11-22.
    date: str = ""
    subject: str = ""
    #: ` 2 files changed, 3 insertions(+)`.
    diffstat: str = ""
    is_merge: bool = False


class ItemEstimate(Struct, frozen=True):
    """The measurements of one item.

    `value` is the geometric mean of its runs in base units, without drift; for pairs it is the ratio to the first item,
    1 for that item itself, and `unit` of the report is `1`. `low` and `high` are the ends of its two-sided interval.
    All are None if the item cannot be measured; `skipped` says why.
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
    """The answer with everything that reports show.

    `change` is relative (0.05 is +5 %) with a two-sided interval at `confidence`: of the blamed items if they were
    found, and of the last item against the first one otherwise.
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
    suspects: tuple[ItemSuspect, ...] = ()
    #: The positions of the answer: one, or several that cannot be told apart.
    blamed: tuple[int, ...] = ()
    measured: tuple[ItemEstimate, ...] = ()
    more_runs: int | None = None
    #: The merge that brought the commits, if the search went on inside of it.
    inside: SearchedItem | None = None
    notes: tuple[str, ...] = ()
    causes: CauseReport | None = None

    @property
    def exit_code(self) -> int:
        """0 if an item was found, 3 otherwise."""
        return 0 if self.outcome == "found" else 3
