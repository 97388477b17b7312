"""The cause of a change that a search found: the traces of the first bad item and of the one before it.

The search measures these two items only a few times: enough to name the commit, too few for the times of single calls.
So they are measured again, one after the other or as pairs, until their traces explain the change.
"""

from __future__ import annotations

from msgspec import Struct

from perfgate.bisect.ranges import MetricValue
from perfgate.bisect.search import SearchResult
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.causes.paired import FEWEST_PAIRS
from perfgate.commands.report_details import causes_of
from perfgate.core import Run
from perfgate.core.causes import CauseReport
from perfgate.workspace import inputs
from perfgate.workspace.options import Refused

#: From this probability of a second change on, the first item of the list does not stand for the last good one.
ANOTHER = 0.2
#: The most measurements of the two items.
MOST_PAIRS = 8
#: The causes explain the change if the part without a cause is at most this share of it.
_REST = 0.5


class Neighbours(Struct, frozen=True):
    """The last good item and the first bad one of an answer, by their positions, and all measurements."""

    folder: BisectFolder
    good: int
    bad: int
    #: True if another change is improbable, so the first item has the level of the good one.
    is_alone: bool

    @classmethod
    def of(cls, folder: BisectFolder, result: SearchResult) -> Neighbours | None:
        """Return the neighbours of an answer; None if no item was found."""
        if result.outcome != "found":
            return None
        is_alone = result.posterior is not None and result.posterior.another < ANOTHER
        return cls(folder, result.blamed[0] - 1, result.blamed[-1], is_alone)

    @property
    def is_paired(self) -> bool:
        """True if the program takes turns."""
        return any(one.paired for one in self.folder.stored)

    @property
    def pairs(self) -> list[StoredMeasurement]:
        """The pairs of these two items, without pairs with the first item of the list."""
        made = [one for one in self.folder.stored if one.paired and one.skipped is None]
        return [one for one in made if (one.beside, one.position) == (self.good, self.bad)]

    def causes(self) -> CauseReport | None:
        """Return what changed between the two, as far as their traces or timers show it; None without any."""
        base, new = self._sides()
        count = min(len(base), len(new))
        if count < FEWEST_PAIRS:
            return causes_of(base, new) if count else None
        # Without pairs, the two items were measured in turn: run i of each side saw about the same machine.
        return causes_of(base[-count:], new[-count:], paired=True)

    def _sides(self) -> tuple[list[Run], list[Run]]:
        """Return the runs to compare, base and new: from pairs of the two items, or else those of each item."""
        # Without the pairs that were made only for the cause: `self.pairs` has those.
        searched = [one for one in self.folder.searched if one.skipped is None]
        good = [one for one in searched if one.position == self.good][-MOST_PAIRS:]
        bad = [one for one in searched if one.position == self.bad][-MOST_PAIRS:]
        if not self.is_paired:
            return self._read(good, ""), self._read(bad, "")
        pairs = self.pairs[-MOST_PAIRS:]
        if not pairs and not self.is_alone:  # the first item may differ from the good one, and cannot replace it
            return self._read(good, "new"), self._read(bad, "new")
        # Without pairs of the two, `bad` has the bad item beside the first one, in place of the good one.
        read = [(self._read([pair], "base"), self._read([pair], "new")) for pair in pairs or bad]
        whole = [sides for sides in read if len(sides[0]) == len(sides[1])]  # a side may be unreadable
        return [run for base, _ in whole for run in base], [run for _, new in whole for run in new]

    def _read(self, stored: list[StoredMeasurement], side: str) -> list[Run]:
        """Return the runs of measurements; `side`: that of pairs, or empty."""
        found: list[Run] = []
        for one in stored:
            path = self.folder.path / one.results
            path = path.parent / side if side else path  # a pair has a folder for each side, beside its results
            if path not in self.folder.runs:
                try:
                    self.folder.runs[path] = list(inputs.read_runs([str(path)]))
                except Refused:
                    self.folder.runs[path] = []
            found += self.folder.runs[path]
        return found

    def needs_more(self, metric: MetricValue) -> bool:
        """Return whether more measurements of the two items may name the cause, or name it better.

        They may if both have traces, the metric is a time or a rate, and the causes so far do not explain the change.
        """
        is_time = metric.run_unit == "s" or metric.run_unit.endswith("/s")
        made = self.times_measured
        if not is_time or made >= MOST_PAIRS or not all(any(run.call_trees for run in one) for one in self._sides()):
            return False
        if self.is_paired and not made:
            return True  # so far, the bad item was only paired with the first item, which may differ in more
        found = self.causes()
        if found is None:
            return False
        if all(cause.metric == "memory" for cause in found.causes):  # no cause of a time
            return True
        return abs(found.rest) > _REST * abs(found.new_step - found.base_step)

    @property
    def times_measured(self) -> int:
        """The number of pairs of the two items; without pairs, of the measurements that both have."""
        return len(self.pairs) if self.is_paired else min(self._counts())

    @property
    def less_measured(self) -> list[int]:
        """The one of the two items that has fewer runs; or both, in an order that alternates."""
        good, bad = self._counts()
        if good == bad:
            return [self.good, self.bad] if good % 2 == 0 else [self.bad, self.good]
        return [self.good if good < bad else self.bad]

    def _counts(self) -> tuple[int, int]:
        positions = [one.position for one in self.folder.stored if one.skipped is None]
        return positions.count(self.good), positions.count(self.bad)
