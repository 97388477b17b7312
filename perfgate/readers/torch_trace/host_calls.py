"""The calls of the threads of the host in the call tree, and the time of the steps that they get.

Memory is bounded: the calls are placed in slices of time. A call that outlasts its slice is carried to the next one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from perfgate.core.call_trees import LAUNCHES, NodeKind, stable_name
from perfgate.readers.torch_trace import event_fields as kinds
from perfgate.readers.torch_trace.breakdown import Intervals, complement, join, union
from perfgate.readers.torch_trace.call_nodes import CallNodes
from perfgate.readers.torch_trace.event_fields import Int64, Mask
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.nesting import Nest, nest
from perfgate.readers.torch_trace.steps import Steps
from perfgate.readers.torch_trace.tables import ANNOTATION, PYTHON, Host, Ids

#: The most slices of time, and about how many calls a slice has.
_SLICES = 16
_SLICE_CALLS = 75_000
_OUTSIDE_FIRST: tuple[NodeKind, ...] = ("range", "loader", "collective", "operator", "runtime")
#: The beginning of the names of what the thread of the backward pass runs, for the thread that called backward.
_AUTOGRAD = "autograd::engine::"


@dataclass(frozen=True, slots=True)
class Moments:
    """Times and threads for which the running call is wanted; (n,) each."""

    time: Int64
    thread: Int64


@dataclass(frozen=True, slots=True)
class HostCalls:
    """The calls that other parts need."""

    #: The node that made each call of the runtime, (runtime calls,).
    launchers: Ids
    #: The node that ran at each moment that was asked for, (moments,).
    answers: Int64


@dataclass(slots=True)
class _Calls:
    """The calls of one thread in one slice, in order of start, outer calls first; all arrays (n,)."""

    nest: Nest
    #: The node of each call; True for operators and what they call, False for ranges.
    nodes: Int64
    is_work: Mask
    #: Of calls with the same times, the one with the lower rank is outside.
    rank: Int64

    def nodes_at(self, times: Int64, outside: int) -> Int64:
        """The node of the innermost call that runs at each time; `outside` if none does."""
        if not len(self.nodes):
            return np.full(len(times), outside)
        at = self.nest.running_at(times)
        return np.where(at >= 0, self.nodes[at], outside)


@dataclass(slots=True)
class _Carried:
    """The calls of a thread that outlast a slice; all arrays (n,)."""

    start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    end: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    nodes: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    is_work: Mask = field(default_factory=lambda: np.empty(0, bool))
    rank: Int64 = field(default_factory=lambda: np.empty(0, np.int64))


def step_of(times: Int64, steps: Steps) -> Int64:
    """The index of the step in which the host did something, (n,); -1 outside of all."""
    starts, ends = (steps.starts, steps.ends) if steps.host is None else steps.host
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index < len(starts) - 1) | (times < ends[-1]), index, -1)


def add_host_calls(tables: EventTables, nodes: CallNodes, device_busy: Intervals, asked: Moments) -> HostCalls:
    """Add the calls of all threads, and share the time in which no device works among them."""
    walk = _Walk(tables, nodes, device_busy, asked)
    for low, high in _slices(tables, nodes.steps):
        walk.add(low, high)
    return HostCalls(walk.launchers, walk.answers)


def _slices(tables: EventTables, steps: Steps) -> Iterator[tuple[int, int]]:
    """Slices of time that cover all calls and steps."""
    starts = [table.start for table in (tables.host, tables.runtime) if len(table.start)] + [steps.starts]
    low = min(int(start.min()) for start in starts)
    high = max(*(int(start.max()) for start in starts), int(steps.ends.max())) + 1
    count = min(_SLICES, 1 + sum(len(table.start) for table in (tables.host, tables.runtime)) // _SLICE_CALLS)
    limits = [low + (high - low) * at // count for at in range(count + 1)]
    return pairwise(limits)


@dataclass(slots=True)
class _Walk:
    """The threads while slice after slice is placed."""

    tables: EventTables
    nodes: CallNodes
    device_busy: Intervals
    asked: Moments
    launchers: Ids = field(init=False)
    answers: Int64 = field(init=False)
    _order: list[int] = field(init=False)
    _host_names: Ids = field(init=False)
    _runtime_names: Ids = field(init=False)
    _is_range: Mask = field(init=False)
    _is_backward: Mask = field(init=False)
    _silent: frozenset[int] = field(init=False)
    _rank: Int64 = field(init=False)
    _carried: dict[int, _Carried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        runtime, nodes = self.tables.runtime, self.nodes
        self.launchers = np.zeros(len(runtime.start), np.int32)
        self.answers = np.zeros(len(self.asked.time), np.int64)
        self._order = _thread_order(self.tables)
        self._host_names = _number_names(self.tables.host, nodes)
        calls = [nodes.name(stable_name(text), "runtime") for text in runtime.names.texts]
        self._runtime_names = np.array(calls, np.int32)
        self._is_range = np.array([kind == "range" for _, kind in nodes.names], bool)
        self._rank = np.array([_rank_of(*name) for name in nodes.names], np.int64)
        self._is_backward = np.array([text.startswith(_AUTOGRAD) for text, _ in nodes.names], bool)
        is_launch = np.array([bool(LAUNCHES.fullmatch(text)) for text in runtime.names.texts], bool)
        self._silent = frozenset(runtime.thread[is_launch[runtime.name]].tolist()) - {*self.tables.host.thread.tolist()}

    def add(self, low: int, high: int) -> None:
        """Place the calls that begin in [low, high), and share its time."""
        host, runtime = self.tables.host, self.tables.runtime
        rows = [np.flatnonzero((table.start >= low) & (table.start < high)) for table in (host, runtime)]
        names = np.concatenate([self._names_of(rows[0]), self._runtime_names[runtime.name[rows[1]]]])
        start = np.concatenate([host.start[rows[0]], runtime.start[rows[1]]])
        end = np.concatenate([host.end[rows[0]], runtime.end[rows[1]]])
        thread = np.concatenate([host.thread[rows[0]], runtime.thread[rows[1]]])
        call = np.concatenate([np.full(len(rows[0]), -1), rows[1]])
        placed: list[_Calls] = []
        for number in self._order:
            chosen = np.flatnonzero((thread == number) & (names >= 0))
            if len(chosen) or number in self._carried or (number == self._order[0]):
                first = placed[0] if placed else None
                fields = names[chosen], start[chosen], end[chosen], call[chosen]
                placed.append(self._place(number, *fields, first=first))
                self._carry(number, placed[-1], high)
                self._answer(number, placed[-1], low, high)
        self._share(placed, low, high)

    def _names_of(self, rows: Int64) -> Ids:
        host = self.tables.host
        numbers: Ids = self._host_names[host.kind[rows].astype(np.int64) * len(host.names.texts) + host.name[rows]]
        return numbers

    def _place(
        self, thread: int, names: Int64, start: Int64, end: Int64, call: Int64, *, first: _Calls | None
    ) -> _Calls:
        """Find the nodes of the calls of a thread from the top down, and count those that begin here."""
        before = self._carried.get(thread, _Carried())
        count = len(before.start)
        rank = np.concatenate([before.rank, self._rank[names]])
        spans = nest(np.concatenate([before.start, start]), np.concatenate([before.end, end]), rank)
        is_new = spans.rows >= count
        own = np.maximum(spans.rows - count, 0)
        found = np.concatenate([before.nodes, np.zeros(len(start), np.int64)])[spans.rows]
        is_work = np.concatenate([before.is_work, ~self._is_range[names]])[spans.rows]
        calls = _Calls(spans, found, is_work, rank[spans.rows])
        step = step_of(spans.start, self.nodes.steps)
        for level in spans.levels:
            fresh = level[is_new[level]]
            if not len(fresh):
                continue
            above, name = spans.parent[fresh], names[own[fresh]]
            top = above < 0
            parents = np.where(top, 0, found[above])
            if first is not None and top.any():
                parents[top] = self._roots(thread, name[top], spans.start[fresh[top]], first)
            found[fresh] = self.nodes.children(parents, name)
            is_work[fresh] |= ~top & is_work[above]
            duration = end[own[fresh]] - start[own[fresh]]
            self.nodes.add_calls(found[fresh], step[fresh], spans.start[fresh], duration, thread)
            launches = call[own[fresh]]
            self.launchers[launches[launches >= 0]] = parents[launches >= 0]
        return calls

    def _roots(self, thread: int, names: Int64, times: Int64, first: _Calls) -> Int64:
        """The node above the outermost calls of another thread.

        The backward pass is below the range that waits for it, also if its thread launches kernels and names nothing,
        as in exports of Nsight Systems. What other threads do has no place in the step.
        """
        if thread not in self._silent and not self._is_backward[names].any():
            return np.full(len(names), self.nodes.child(0, self.nodes.name("(other threads)", "thread")))
        return np.array([self.nodes.range_of(node) for node in first.nodes_at(times, 0).tolist()], np.int64)

    def _carry(self, thread: int, calls: _Calls, high: int) -> None:
        over = calls.nest.end > high
        self._carried.pop(thread, None)
        if over.any():
            spans = calls.nest
            self._carried[thread] = _Carried(
                spans.start[over], spans.end[over], calls.nodes[over], calls.is_work[over], calls.rank[over]
            )

    def _answer(self, thread: int, calls: _Calls, low: int, high: int) -> None:
        asked = self.asked
        chosen = np.flatnonzero((asked.thread == thread) & (asked.time >= low) & (asked.time < high))
        if len(chosen):
            self.answers[chosen] = calls.nodes_at(asked.time[chosen], 0)

    def _share(self, placed: list[_Calls], low: int, high: int) -> None:
        """Give each moment of [low, high) in which no device works to one call.

        The operators of the thread of the steps come first, then the other threads, and then its ranges: a range that
        only waits for another thread leaves the time to what that thread does.
        """
        steps, busy = self.nodes.steps, _within(self.device_busy, low, high)
        for at, thread in enumerate(placed):
            is_work = thread.is_work if at == 0 else np.ones(len(thread.nodes), bool)
            calls, above = np.flatnonzero(is_work), thread.nest.parent
            callers = np.where((above >= 0) & is_work[above], thread.nodes[above], -1)[calls]
            start, end = thread.nest.start[calls].clip(low, high), thread.nest.end[calls].clip(low, high)
            self.nodes.add_wall(thread.nodes[calls], callers, start, end, complement(busy, low, high))
            busy = join(busy, union(start[callers < 0], end[callers < 0]))
        free, root = complement(busy, low, high), np.zeros(len(steps), np.int64)
        self.nodes.add_wall(root, root - 1, steps.starts.clip(low, high), steps.ends.clip(low, high), free)
        first = placed[0]
        ranges, above = np.flatnonzero(~first.is_work), first.nest.parent
        callers = np.where(above >= 0, first.nodes[above], 0)[ranges]
        start, end = first.nest.start[ranges].clip(low, high), first.nest.end[ranges].clip(low, high)
        self.nodes.add_wall(first.nodes[ranges], callers, start, end, free)


def _within(intervals: Intervals, low: int, high: int) -> Intervals:
    """The part of a set in [low, high)."""
    begin, end = np.searchsorted(intervals.ends, low, side="right"), np.searchsorted(intervals.starts, high)
    return Intervals(intervals.starts[begin:end].clip(low, high), intervals.ends[begin:end].clip(low, high))


def _thread_order(tables: EventTables) -> list[int]:
    """The thread of the steps (without steps: the busiest one) and the others, the busiest first."""
    host, count = tables.host, len(tables.threads.texts)
    is_step = host.names.which(kinds.is_step)[host.name]
    work = np.zeros(count)
    for table in (host, tables.runtime):
        work += np.bincount(table.thread, table.end - table.start, count)
    marked = np.bincount(host.thread[is_step], minlength=count)
    order: list[int] = np.lexsort((-work, -marked)).tolist()
    return order


def _number_names(host: Host, nodes: CallNodes) -> Ids:
    """The number of the name of each kind and name of host events, (3 * names,); -1 for steps and for unknown kinds."""
    texts = host.names.texts
    used = np.zeros(3 * len(texts), bool)
    used[host.kind.astype(np.int32) * len(texts) + host.name] = True
    numbers = np.full(len(used), -1, np.int32)
    for pair in np.flatnonzero(used).tolist():
        kind, name = divmod(pair, len(texts))
        if not kinds.is_step(texts[name]):
            numbers[pair] = nodes.name(stable_name(texts[name]), _kind_of(texts[name], kind))
    return numbers


def _rank_of(name: str, kind: NodeKind) -> int:
    """The rank of calls with the same times: ranges are outside, and the order of the file does not matter."""
    return _OUTSIDE_FIRST.index(kind) << 32 | zlib.crc32(name.encode("utf-8", "replace"))


def _kind_of(text: str, kind: int) -> NodeKind:
    if kind != PYTHON and kinds.is_loader(text):
        return "loader"
    if kinds.is_collective_range(text):
        return "collective"
    return "range" if kind == ANNOTATION else "operator"
