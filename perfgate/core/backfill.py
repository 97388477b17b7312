"""The plan of a backfill: the commits that may contain a change, and those to measure."""

from __future__ import annotations

from msgspec import Struct

from perfgate.core.branch import CommitNote
from perfgate.core.run_history import HistoryChange, HistorySeries

#: A change has a commit if it is that one with this probability.
SETTLED = 0.95


class BackfillCommit(Struct, frozen=True):
    """A commit that may be measured.

    `before` is the probability that the change is in this commit or an older one, `here` that it is in this one.
    `bits` is what a measurement adds to those of the commits that are listed before this one. `runs` were made already.
    """

    commit: CommitNote
    before: float
    here: float
    bits: float
    runs: int


class BackfillPlan(Struct, frozen=True):
    """The commits that may contain a change, and those to measure, the most informative first."""

    series: HistorySeries
    change: HistoryChange
    suspects: tuple[BackfillCommit, ...]
    wanted: tuple[BackfillCommit, ...]

    @property
    def most_likely(self) -> BackfillCommit:
        """The commit that the change is in most likely."""
        return max(self.suspects, key=lambda one: one.here)

    @property
    def is_settled(self) -> bool:
        """True if the change is in one commit for all practical purposes."""
        return self.most_likely.here >= SETTLED
