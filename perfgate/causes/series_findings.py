"""Find the changes between two trees from metrics: timers, or the rows of a table.

A tree of timers has few nodes and no calls. So a finding is a clear change of one node, or of the nodes that came and
went below one timer. A timer that only one side has is not a change if the timer around it did not change.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial

import numpy as np
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.kinds import is_sync
from perfgate.causes.nesting import NOT_TIMED
from perfgate.causes.noise import SeriesNoise
from perfgate.causes.ranks import find_slow_timers
from perfgate.core.call_trees import PAGEABLE
from perfgate.core.causes import CauseKind
from perfgate.stats.distributions import t_quantile

#: The probability of a finding where nothing changed, in one report.
_FALSE = 0.004
#: Smaller changes, as a share of the step, are not worth a line.
_WORTH = 0.005
#: A row that only one side has counts if it has this share of the step.
_LEAST_ROW = 0.002
#: If a timer came, but the time around it grew by less than this part of it, the other side did not time it.
_NEW_TIME = 0.5
#: Timers replace others if they take at least this part of the time of these, and at most 1 / this.
_ALIKE = 0.25
#: A number of calls that differs by more than this share is a change of the program.
_MORE_CALLS = 0.1
#: The machine changed if at least this many timers, with this part of the step, changed by one factor: at least this.
_FEWEST, _MOST_TIME, _LEAST_SHIFT = 3, 0.8, 0.03
#: A timer changed by this factor if its change is less than this many of its standard errors from that of the factor.
_NEAR = 2.5


def find_in_series(alignment: Alignment, noise: SeriesNoise) -> tuple[list[Finding], list[str]]:
    """Return the findings of two trees from metrics, no node in two of them, and notes for the user."""
    search = _FindingSearch(alignment, noise)
    search.leave_rest()
    slow = find_slow_timers(alignment, noise, search.claimed)
    if slow is not None:  # before the edits, because it claims the waits of other ranks
        search.keep(slow)
    search.edits()
    search.calls()
    search.one_change()
    search.all_alike()
    search.times()
    return search.findings, search.notes


class _FindingSearch:
    """Looks for one kind of finding after the other; each claims its nodes, so that later ones do not have them.

    `side` is 0 for the base, and 1 for the new runs.
    """

    def __init__(self, alignment: Alignment, noise: SeriesNoise) -> None:
        self.alignment, self.noise = alignment, noise
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.claimed: set[int] = set()
        #: By node: those inside it that only one side times, and that are compared as parts of it.
        self.joined: dict[int, list[int]] = {}
        #: The time in s and the calls of each node per step, by side.
        self.time = [side.times for side in alignment.sides]
        self.calls_of = [side.calls for side in alignment.sides]

    def add(
        self,
        kind: CauseKind,
        nodes: Collection[int],
        lead: int,
        *,
        gone: tuple[int, ...] = (),
        come: tuple[int, ...] = (),
        more_error: float = 0.0,
    ) -> None:
        """Keep a finding with its change and error, to which `more_error` is added, and claim its nodes."""
        change, error = self.noise.change(nodes)
        parents, error = (self.alignment.nodes[lead].parent,), math.hypot(error, more_error)
        self.keep(Finding(kind, frozenset(nodes), lead, parents, gone=gone, come=come, change=change, error=error))

    def keep(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.claimed |= finding.nodes

    def limit(self, freedom: float, tests: int) -> float:
        """The number of standard errors beyond which one change of `tests` is not noise."""
        return t_quantile(freedom, 1 - _FALSE / 2 / tests)

    def leave_rest(self) -> None:
        """Claim the rest of the step if only one side has it: the other side did not time the whole step."""
        for node in self.alignment.children[0]:
            in_base, in_new = (bool(calls[node] > 0) for calls in self.calls_of)
            if self.alignment.nodes[node].name == NOT_TIMED and in_base != in_new:
                self.claimed.add(node)
                side = "base" if in_base else "new"
                self.notes.append(f"only the {side} side times the whole step: its part without timers is left out")

    def edits(self) -> None:
        """Find timers that only one side has, below a node that both sides have, from the step down."""
        for parent, below in enumerate(self.alignment.children):
            if parent and min(side[parent] for side in self.calls_of) <= 0:
                continue
            gone, come = (self._only_on(side, below) for side in (0, 1))
            if (gone or come) and not self._was_not_timed(parent, gone, come):
                self._edit(gone, come)

    def _only_on(self, side: int, nodes: Collection[int]) -> tuple[int, ...]:
        """The nodes that only this side has, without claimed ones."""
        absent = (node for node in nodes if self.calls_of[1 - side][node] == 0 < self.calls_of[side][node])
        return tuple(node for node in absent if node not in self.claimed and self._is_sure(side, node, len(nodes)))

    def _is_sure(self, side: int, node: int, tests: int) -> bool:
        """False for a small row, and for one that may be among the rows that the other side's table left out."""
        time = self._whole(side, node)
        if time < _LEAST_ROW * self.alignment.step:
            return False
        if not self.alignment.is_cut:
            return True
        change, error, freedom = self.noise.measured([node])
        return time > 2 * self._last_row(1 - side) and abs(change) > self.limit(freedom, tests) * error

    def _last_row(self, side: int) -> float:
        """The time of the smallest row of a side."""
        return float(self.time[side][1:][self.time[side][1:] > 0].min(initial=math.inf))

    def _sum(self, side: int, nodes: Collection[int]) -> float:
        return float(self.time[side][sorted(nodes)].sum())

    def _whole(self, side: int, *nodes: int) -> float:
        """The time of nodes with all that they call."""
        return self._sum(side, self.alignment.subtree(nodes))

    def _was_not_timed(self, parent: int, gone: tuple[int, ...], come: tuple[int, ...]) -> bool:
        """True if the timer around nodes that came or went took as long without them: the other side did not time them.

        Then they are compared as parts of that timer, or of the rest of the step, and a note says so.
        """
        tree = self.alignment
        # the node whose time includes theirs on the other side: the timer, or the rest of the step
        rest = parent or next((node for node in tree.children[0] if tree.nodes[node].name == NOT_TIMED), 0)
        if not rest or (gone and come):  # no node includes their time; or some replace others
            return False
        nodes = tree.subtree(gone or come)
        change = self._whole(1, parent) - self._whole(0, parent)
        if abs(change) >= _NEW_TIME * self._sum(0 if gone else 1, nodes):
            return False
        self.joined.setdefault(rest, []).extend(nodes)
        self.claimed |= nodes
        side = "base" if gone else "new"
        names = ", ".join(tree.nodes[node].name for node in gone or come)
        place = tree.nodes[parent].name if parent else "the step"
        self.notes.append(f"only the {side} side times {names}: compared as a part of {place}")
        return True

    def _edit(self, gone: tuple[int, ...], come: tuple[int, ...]) -> None:
        """Keep the finding, or findings, that nodes below one parent came and went."""
        subtree = self.alignment.subtree
        lost, gained = self._whole(0, *gone), self._whole(1, *come)
        if gone and come and _ALIKE * lost <= gained <= lost / _ALIKE:
            self.add("replaced", subtree((*gone, *come)), self._longest(1, come), gone=gone, come=come)
            return
        if self.alignment.is_cut:  # the other side may have left them out, with a time up to that of its last row
            for node in gone:
                self.add("faster", subtree([node]), node, gone=(node,), more_error=self._last_row(1))
            for node in come:
                self.add("slower", subtree([node]), node, come=(node,), more_error=self._last_row(0))
            return
        if gone:
            self.add("vanished", subtree(gone), self._longest(0, gone), gone=gone)
        if come:
            lead = self._longest(1, come)
            self.add("sync" if self._waits(lead) else "appeared", subtree(come), lead, come=come)

    def _longest(self, side: int, nodes: Collection[int]) -> int:
        """The one of these nodes that takes the most time with all that it calls."""
        return max(nodes, key=partial(self._whole, side))

    def calls(self) -> None:
        """Find nodes whose other number of calls explains their change. Those with more calls are one finding."""
        nodes = [node for node in range(1, len(self.alignment.nodes)) if self._by_calls(node)]
        more = tuple(node for node in nodes if self.calls_of[1][node] > self.calls_of[0][node])
        fewer = tuple(sorted({*nodes} - {*more}))
        changes = self.alignment.longer
        for group in (more, fewer):
            if not group or abs(float(changes[list(group)].sum())) < _WORTH * self.alignment.step:
                continue
            lead = max(group, key=lambda node: abs(float(changes[node])))
            if group is fewer:
                self.add("fewer calls", group, lead, gone=group)
            else:
                self.add("sync" if self._waits(lead) else "more calls", group, lead, come=group)

    def _waits(self, node: int) -> bool:
        """True for a call that waits for the device, or reads one number from it."""
        return is_sync(self.alignment.nodes[node].name) is not None

    def one_change(self) -> None:
        """Join the rows of a table that came, went, or have other calls: a table does not show who calls a row."""
        parts = [finding for finding in self.findings if finding.is_edit]
        if len(parts) < 2 or any(node.parent > 0 or node.kind == "range" for node in self.alignment.nodes):
            return  # a tree of timers
        gone = tuple(node for part in parts for node in part.gone)
        come = tuple(node for part in parts for node in part.come)
        largest = max(parts, key=lambda part: abs(part.change))
        kind = "replaced" if gone and come and not self.alignment.is_cut else largest.kind
        self.findings = [finding for finding in self.findings if finding not in parts]
        self.add(kind, frozenset().union(*(part.nodes for part in parts)), largest.lead, gone=gone, come=come)
        # the errors of the parts include the `more_error` of tables that are cut, which `add` did not get
        self.findings[-1] = replace(self.findings[-1], error=math.hypot(*(part.error for part in parts)))

    def _by_calls(self, node: int) -> bool:
        """True if the calls of an unclaimed node changed, and explain more than half of its change of time."""
        before, after = (float(side[node]) for side in self.calls_of)
        if node in self.claimed or min(before, after) <= 0 or abs(after - before) <= _MORE_CALLS * before:
            return False
        if self.alignment.is_cut and max(side.error[node].max() for side in self.alignment.sides) > 0:
            return False  # it has several rows, and some may not be printed: only such nodes of tables have an error
        change = float(self.alignment.longer[node])
        expected = float(self.time[0][node]) * (after / before - 1)
        is_longer_wait = after > before and self._waits(node)  # a wait takes as long as the device does
        return change * expected > 0 and (is_longer_wait or abs(expected) > abs(change) / 2)

    def all_alike(self) -> None:
        """Find that all timers changed by one factor: the machine changed, or the amount of work in every step."""
        leaves = [node for node in self._comparable() if not self.noise.is_rest(node)]
        if len(leaves) < _FEWEST or self._sum(0, leaves) < _MOST_TIME * float(self.time[0].sum()):
            return
        measured = [self.noise.measured([node]) for node in leaves]
        total, error, freedom = self.noise.measured(leaves)
        shift = total / self._sum(0, leaves)
        clear = self.limit(freedom, len(leaves) + 1)
        if abs(shift) < _LEAST_SHIFT or abs(total) < clear * error:
            return
        direction = math.copysign(1.0, total)
        # `own` is the standard error of a timer: each changed by more than that, and by about the common factor
        is_alike = all(
            direction * change > own and abs(change - shift * self.time[0][node]) < _NEAR * own
            for node, (change, own, _) in zip(leaves, measured, strict=True)
        )
        if is_alike:
            self.notes.append("all timers changed by one factor: the machine changed, or every step has more work")
            self.add("machine", leaves, max(leaves, key=lambda node: float(self.time[0][node])))

    def _comparable(self) -> list[int]:
        """The nodes, without claimed and small ones and the step."""
        large = np.flatnonzero(np.maximum(*self.time) >= _WORTH * self.alignment.step)
        return [node for node in large.tolist() if node not in self.claimed and node > 0]

    def times(self) -> None:
        """Find nodes whose own time changed, but no copies of pageable memory, whose times differ by chance."""
        nodes = [node for node in self._comparable() if not PAGEABLE.match(self.alignment.nodes[node].name)]
        for node in sorted(nodes, key=lambda node: -abs(self.alignment.longer[node])):
            group = [node, *self.joined.get(node, ())]
            change, error, freedom = self.noise.measured(group)
            least = max(_WORTH * self.alignment.step, self.limit(freedom, len(nodes)) * error)
            if math.isfinite(change) and abs(change) >= least:
                self.add("faster" if change < 0 else self._kind_of_longer(node), group, node)

    def _kind_of_longer(self, node: int) -> CauseKind:
        kinds = [self.alignment.nodes[caller].kind for caller in self.alignment.chain(node)]
        if kinds[0] == "communication":
            return "exposed"
        return "stall" if "loader" in kinds else "slower"
