"""Find the changes between two trees from metrics: timers, or the rows of a table.

A tree of timers has few nodes and no calls. So a finding is a clear change of one node, or of the nodes that came and
went below one timer. A timer that only one side has is not a change if the timer around it did not change.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import chain

import numpy as np
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.kinds import is_sync, subtree
from perfgate.causes.noise import SeriesNoise
from perfgate.causes.series_ranks import find_slow_rank
from perfgate.core.call_trees import PAGEABLE
from perfgate.core.causes import CauseKind
from perfgate.stats.distributions import t_quantile

#: The probability of a finding where nothing changed, in one report.
_FALSE = 0.004
#: Smaller changes, as a share of the step, are not worth a line.
_WORTH = 0.005
#: A row that only one side has counts if it has this share of the step.
_LEAST_ROW = 0.002
#: A timer that came without this part of its time being new was not timed before.
_NEW_TIME = 0.5
#: A replacement takes at least this part of the time of what it replaced, and at most its inverse.
_ALIKE = 0.25
#: A number of calls that differs by more is a change of the program.
_MORE_CALLS = 0.1
#: All timers changed by one factor: at least this many, with this part of the step, and by this share.
_FEWEST, _MOST_TIME, _LEAST_SHIFT = 3, 0.8, 0.03


def find_in_series(alignment: Alignment, noise: SeriesNoise) -> tuple[list[Finding], list[str]]:
    """Return the findings of two trees from metrics, no node in two of them, and notes in words."""
    search = _FindingSearch(alignment, noise)
    search.slow_rank()
    search.edits()
    search.calls()
    search.one_change()
    search.all_alike()
    search.times()
    return search.findings, search.notes


class _FindingSearch:
    def __init__(self, alignment: Alignment, noise: SeriesNoise) -> None:
        self.alignment, self.noise = alignment, noise
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.claimed: set[int] = set()
        #: Nodes that are compared with the timer around them.
        self.joined: dict[int, list[int]] = {}
        self.children = alignment.children()
        self.time = [side.wall.mean(axis=1) for side in alignment.sides]
        self.calls_of = [side.counts.mean(axis=1) for side in alignment.sides]

    def add(
        self,
        kind: CauseKind,
        nodes: Collection[int],
        lead: int,
        *,
        gone: tuple[int, ...] = (),
        come: tuple[int, ...] = (),
        ranks: tuple[str, ...] = (),
    ) -> None:
        """Keep a finding, and claim its nodes."""
        change, error = self.noise.change(nodes)
        parents = (max(self.alignment.nodes[lead].parent, 0),)
        self.findings.append(Finding(kind, frozenset(nodes), lead, parents, gone, come, ranks, change, error))
        self.claimed |= set(nodes)

    def limit(self, freedom: float, tests: int) -> float:
        """The number of standard errors beyond which a change is not noise."""
        return t_quantile(freedom, 1 - _FALSE / 2 / max(tests, 1))

    def slow_rank(self) -> None:
        """One rank that became slow. The waits of the others are part of it."""
        found = find_slow_rank(self.alignment, self.noise)
        if found is not None:
            self.add("slow rank", found.nodes, found.lead, ranks=found.ranks)

    def edits(self) -> None:
        """Timers that only one side has."""
        for parent, below in self.children_by_parent():
            gone = self._only_on(0, below)
            come = self._only_on(1, below)
            if (gone or come) and not self._was_not_timed(parent, gone, come):
                self._edit(gone, come)

    def _only_on(self, side: int, nodes: Collection[int]) -> tuple[int, ...]:
        """The nodes that only one side has."""
        absent = (node for node in nodes if self.calls_of[1 - side][node] == 0 < self.calls_of[side][node])
        return tuple(node for node in absent if node not in self.claimed and self._is_sure(side, node, len(nodes)))

    def _is_sure(self, side: int, node: int, tests: int) -> bool:
        """False for a row that may be below the end of the other side's table."""
        time = self._sum(side, subtree([node], self.children))
        if time < _LEAST_ROW * self.noise.step:
            return False
        if not self.alignment.is_cut:
            return True
        change, error, freedom = self.noise.measured([node])
        return time > 2 * self._last_row(1 - side) and abs(change) > self.limit(freedom, tests) * error

    def _last_row(self, side: int) -> float:
        """The time of the smallest row of a side."""
        return float(self.time[side][1:][self.time[side][1:] > 0].min(initial=math.inf))

    def children_by_parent(self) -> list[tuple[int, list[int]]]:
        """The nodes below each node that both sides have, from the step down."""
        return [
            (parent, self.children[parent])
            for parent in sorted(self.children)
            if parent == 0 or min(side[parent] for side in self.calls_of) > 0
        ]

    def _sum(self, side: int, nodes: Collection[int]) -> float:
        return float(self.time[side][sorted(nodes)].sum()) if nodes else 0.0

    def _was_not_timed(self, parent: int, gone: tuple[int, ...], come: tuple[int, ...]) -> bool:
        """True if the timer around them took as long without them; then they are compared as parts of it."""
        rest = parent
        if parent == 0:
            named = (node for node in self.children[0] if self.alignment.nodes[node].name == "not timed")
            rest = next(named, -1)
        if rest < 0 or (gone and come):
            return False
        nodes = subtree(gone or come, self.children)
        time = self._sum(0 if gone else 1, nodes)
        around = subtree([parent], self.children) if parent else set(range(len(self.alignment.nodes)))
        change = self._sum(1, around) - self._sum(0, around)
        if abs(change) >= _NEW_TIME * time:
            return False
        self.joined.setdefault(rest, []).extend(nodes)
        self.claimed |= nodes
        side = "base" if gone else "new"
        names = ", ".join(self.alignment.nodes[node].name for node in gone or come)
        place = self.alignment.nodes[parent].name if parent else "the step"
        self.notes.append(f"only the {side} side times {names}: compared as a part of {place}")
        return True

    def _edit(self, gone: tuple[int, ...], come: tuple[int, ...]) -> None:
        lost, gained = (self._sum(side, subtree(nodes, self.children)) for side, nodes in ((0, gone), (1, come)))
        if gone and come and _ALIKE <= lost / max(gained, 1e-15) <= 1 / _ALIKE:
            lead = max(come, key=lambda node: self._sum(1, subtree([node], self.children)))
            self.add("replaced", subtree((*gone, *come), self.children), lead, gone=gone, come=come)
            return
        if self.alignment.is_cut:  # the other side may have them below its last row
            for node in (*gone, *come):
                went, came = ((node,), ()) if node in gone else ((), (node,))
                self.add("faster" if went else "slower", subtree([node], self.children), node, gone=went, come=came)
                error = math.hypot(self.findings[-1].error, self._last_row(1 if went else 0))
                self.findings[-1] = replace(self.findings[-1], error=error)
            return
        if gone:
            lead = max(gone, key=lambda node: self._sum(0, subtree([node], self.children)))
            self.add("vanished", subtree(gone, self.children), lead, gone=gone)
        if come:
            lead = max(come, key=lambda node: self._sum(1, subtree([node], self.children)))
            kind: CauseKind = "sync" if is_sync(self.alignment.nodes[lead].name) else "appeared"
            self.add(kind, subtree(come, self.children), lead, come=come)

    def calls(self) -> None:
        """Nodes with another number of calls in a step, which explains their change: one change of the program."""
        nodes = [node for node in range(1, len(self.time[0])) if node not in self.claimed and self._by_calls(node)]
        more = tuple(node for node in nodes if self.calls_of[1][node] > self.calls_of[0][node])
        fewer = tuple(node for node in nodes if node not in more)
        changes = self.time[1] - self.time[0]
        for group, kind in ((more, "more calls"), (fewer, "fewer calls")):
            if not group or abs(float(changes[list(group)].sum())) < _WORTH * self.noise.step:
                continue
            lead = max(group, key=lambda node: abs(float(changes[node])))
            if kind == "fewer calls":
                self.add("fewer calls", group, lead, gone=group)
            else:
                waits = is_sync(self.alignment.nodes[lead].name)
                self.add("sync" if waits else "more calls", group, lead, come=group)

    def one_change(self) -> None:
        """Join the rows of a table that came, went, or have other calls: it does not tell which belong together."""
        parts = [one for one in self.findings if one.is_edit]
        if len(parts) < 2 or any(node.parent > 0 or node.kind == "range" for node in self.alignment.nodes):
            return
        gone, come = (tuple(chain(*pairs)) for pairs in zip(*((one.gone, one.come) for one in parts), strict=True))
        largest = max(parts, key=lambda one: abs(one.change))
        kind = "replaced" if gone and come and not self.alignment.is_cut else largest.kind
        self.findings = [one for one in self.findings if one not in parts]
        self.add(kind, frozenset().union(*(one.nodes for one in parts)), largest.lead, gone=gone, come=come)
        self.findings[-1] = replace(self.findings[-1], error=math.hypot(*(one.error for one in parts)))

    def _by_calls(self, node: int) -> bool:
        """True if the calls of a node changed, and its time with them."""
        before, after = (float(side[node]) for side in self.calls_of)
        if min(before, after) <= 0 or abs(after / before - 1) <= _MORE_CALLS:
            return False
        if self.alignment.is_cut and max(side.error[node].max() for side in self.alignment.sides) > 0:
            return False  # some of its rows may not be printed
        change = float(self.time[1][node] - self.time[0][node])
        expected = float(self.time[0][node]) * (after / before - 1)
        waits = after > before and is_sync(self.alignment.nodes[node].name)  # a wait takes as long as the device does
        return change * expected > 0 and (bool(waits) or abs(expected) > abs(change) / 2)

    def all_alike(self) -> None:
        """All timers changed by one factor: the machine, or the amount of work in every step."""
        leaves = [node for node in self._comparable() if not self.noise.is_rest(node)]
        if len(leaves) < _FEWEST or self._sum(0, leaves) < _MOST_TIME * float(self.time[0].sum()):
            return
        measured = [self.noise.measured([node]) for node in leaves]
        total, error, freedom = self.noise.measured(leaves)
        shift = total / self._sum(0, leaves)
        clear = self.limit(freedom, len(leaves) + 1)
        if abs(shift) < _LEAST_SHIFT or abs(total) < clear * error:
            return
        apart = [
            abs(change - shift * self.time[0][node]) / max(own, 1e-15)
            for node, (change, own, _) in zip(leaves, measured, strict=True)
        ]
        moved = [change * total > 0 and abs(change) > own for change, own, _ in measured]
        if max(apart) < 2.5 and all(moved):
            self.notes.append("all timers changed by one factor: the machine changed, or every step has more work")
            self.add("machine", leaves, max(leaves, key=lambda node: float(self.time[0][node])))

    def _comparable(self) -> list[int]:
        least = min(_WORTH, 1.0) * self.noise.step
        both = np.maximum(*self.time) >= least
        return [node for node in np.flatnonzero(both).tolist() if node not in self.claimed and node > 0]

    def times(self) -> None:
        """Nodes whose own time changed."""
        nodes = [node for node in self._comparable() if not PAGEABLE.match(self.alignment.nodes[node].name)]
        for node in sorted(nodes, key=lambda one: -abs(self.time[1][one] - self.time[0][one])):
            group = [node, *self.joined.get(node, ())]
            change, error, freedom = self.noise.measured(group)
            clear = self.limit(freedom, len(nodes)) * error
            if abs(change) >= max(_WORTH * self.noise.step, clear) and math.isfinite(change):
                self.add(self._kind(node, change), group, node)

    def _kind(self, node: int, change: float) -> CauseKind:
        if change < 0:
            return "faster"
        chain = (node, *self.alignment.ancestors(node))
        kinds = [self.alignment.nodes[one].kind for one in chain]
        if kinds[0] == "communication":
            return "exposed"
        return "stall" if "loader" in kinds else "slower"
