"""The call tree of a trace: ranges and operators as they call each other, and below them runtime calls and kernels.

A kernel is below the operator that launched it. Each moment of a step belongs to one node: to the kernel that runs, or
the copy, or the collective; if the device does nothing, to the innermost call on the thread of the steps; if that
thread is in no operator, to the innermost call on another thread; or else to the range, or to the step itself. So the
times of the nodes sum to the time of the step exactly.

Memory is bounded: the calls of the host are placed in slices of time. A call that outlasts its slice is carried to the
next one.
"""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from perfgate.core import read_only
from perfgate.core.call_trees import LAUNCHES, CallNode, CallTree, NodeKind, stable_name
from perfgate.readers.torch_trace.breakdown import NOTHING, Intervals, collective_kernels, complement, join, union
from perfgate.readers.torch_trace.call_nodes import NOT_CARRIED, CallNodes, CarriedCalls, ThreadCalls, nest
from perfgate.readers.torch_trace.event_fields import Float64, Int64, Mask, is_step
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.steps import Steps, index_at, step_of
from perfgate.readers.torch_trace.tables import KERNEL, MEMCPY, MEMSET, Allocations, Frames, Ids, Threads

_SECOND = 1e9
#: The most slices of time, and about how many calls a slice has.
_SLICES = 16
_SLICE_CALLS = 75_000
#: Of two calls with the same times, that of the earlier kind is outside.
_OUTSIDE_FIRST: tuple[NodeKind, ...] = ("range", "loader", "collective", "operator", "runtime")
#: The beginning of names on the thread of the backward pass, which works for the thread that called backward.
_AUTOGRAD = "autograd::engine::"


def call_tree(tables: EventTables, steps: Steps, rank: str) -> CallTree:
    """Return the call tree of one rank."""
    nodes, device = CallNodes(steps), tables.device
    live = _live_at_peak(tables.allocations)
    made = tables.allocations
    # asked of the calls: which node made each allocation that is live at the peak (`calls.answers`)
    calls = _HostCalls(tables, nodes, union(device.start, device.end), (made.time[live], made.thread[live]))
    blocks = _add_device(tables, nodes, calls.launchers)
    count = len(nodes.nodes)
    first = np.where(nodes.has_calls, nodes.first_offset[:count] / _SECOND, np.inf)
    # The sum of the peaks of all devices, or that of the host if no device has one.
    peaks = {place: size for (which, place), size in tables.memory.items() if which == "allocated"}
    on_devices = [size for place, size in peaks.items() if place != "cpu"]
    live_bytes = np.bincount(calls.answers, made.size[live].astype(np.float64), count).astype(np.float64)
    return CallTree(
        rank,
        _with_sources(nodes, tables.frames),
        counts=read_only(nodes.table("counts")),
        busy=read_only(nodes.table("busy") / _SECOND),
        wall=read_only(nodes.table("wall") / _SECOND),
        memory=read_only(live_bytes) if len(made.time) else None,
        peak=float(sum(on_devices)) if on_devices else peaks.get("cpu"),
        blocks=blocks,
        first=read_only(first),
        has_steps=steps.are_marked,
    )


def _add_device(tables: EventTables, nodes: CallNodes, launchers: Ids) -> Float64 | None:
    """Put kernels and copies below the calls that launched them; return the mean thread blocks of a step by node.

    Time in which the device works counts for its kernels and copies, not for the host. `launchers`: the node that made
    each call of the runtime, (runtime calls,). None without device events, or if the blocks of a kernel are unknown.
    """
    device, steps = tables.device, nodes.steps
    # an event without a launch is below the step, and belongs to the step in which it ran
    parents, step = np.zeros(len(device.start), np.int64), index_at(device.start, steps.starts, steps.ends)
    is_launched = steps.calls >= 0  # the row of the call that launched each event, or -1
    parents[is_launched] = launchers[steps.calls[is_launched]]
    step[is_launched] = step_of(steps.issued[is_launched], steps)
    names: tuple[NodeKind, ...] = ("kernel", "communication", "copy")
    node_kind = np.full(len(device.start), 2)  # an index of these names
    node_kind[device.kind == KERNEL] = collective_kernels(tables, "corrected")  # 0 or 1
    texts = [stable_name(text) for text in device.names.texts]
    width = max(len(texts), 1)
    pairs, inverse = np.unique(node_kind * width + device.name, return_inverse=True)  # of a kind and a name
    numbers = [nodes.name(texts[pair % width], names[pair // width]) for pair in pairs.tolist()]
    if not numbers:
        return None
    found = nodes.children(parents, np.array(numbers, np.int64)[inverse])
    nodes.add_calls(found, step, device.start, device.end - device.start, thread=-1)
    # a moment counts for the first of these kinds that runs, and there for the event that began first
    covered = NOTHING  # the times of the kinds before: of kernels first, then copies, memsets and collectives
    for chosen in (node_kind == 0, device.kind == MEMCPY, device.kind == MEMSET, node_kind == 1):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(device.start[rows], kind="stable")]
        start, end = device.start[rows], device.end[rows]
        before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        low = np.maximum(start, before)  # an event counts from the end of all earlier ones of its kind
        own = low < end
        free = complement(covered, *steps.window)
        nodes.add_wall(found[rows[own]], callers=np.full(own.sum(), -1), low=low[own], high=end[own], free=free)
        covered = join(covered, union(start, end))
    rows = np.flatnonzero((device.kind == KERNEL) & (step >= 0))  # the `amount` of a kernel is its thread blocks
    blocks = np.bincount(found[rows], device.amount[rows], len(nodes.nodes)) / len(steps)
    return None if np.isnan(blocks).any() else read_only(blocks)


def _live_at_peak(made: Allocations) -> Int64:
    """Return the rows of the allocations in use at the peak of the devices, or else of the host, (n,)."""
    if not len(made.time):
        return np.empty(0, np.int64)
    on_host = np.array([text == "cpu" for text in made.devices.texts], bool)[made.device]
    rows = np.flatnonzero(~on_host if not on_host.all() else on_host)
    rows = rows[np.argsort(made.time[rows], kind="stable")]
    rows = rows[: int(np.argmax(np.cumsum(made.size[rows]))) + 1]  # up to the peak
    # in use is an address whose last change up to the peak is an allocation
    by_address = rows[np.lexsort((np.arange(len(rows)), made.address[rows], made.device[rows]))]
    address, device = made.address[by_address], made.device[by_address]
    is_last = np.append((address[1:] != address[:-1]) | (device[1:] != device[:-1]), True)
    live: Int64 = by_address[is_last & (made.size[by_address] > 0)]
    return live


def _with_sources(nodes: CallNodes, frames: Frames) -> tuple[CallNode, ...]:
    """Return the nodes with the line of the program's own function that first called each, if the trace has stacks."""
    found = list(nodes.nodes)
    for thread in np.unique(frames.thread).tolist():
        rows = np.flatnonzero(frames.thread == thread)
        spans = nest(frames.start[rows], frames.end[rows], frames.name[rows].astype(np.int64))
        called = np.flatnonzero(nodes.has_calls & (nodes.first_thread[: len(found)] == thread))
        at = spans.running_at(nodes.first_time[called])
        for node, position in zip(called.tolist(), at.tolist(), strict=True):
            if position >= 0:
                name = int(frames.name[rows[spans.rows[position]]])
                found[node] = replace(found[node], source=frames.names.texts[name])
    return tuple(found)


class _HostCalls:
    """The calls of all threads of the host: they are added to nodes, and share the time in which no device works.

    Parameters:
        asked: times in ns and threads, (n,) each, for which the running call is wanted.
    """

    def __init__(
        self, tables: EventTables, nodes: CallNodes, device_busy: Intervals, asked: tuple[Int64, Threads]
    ) -> None:
        self._tables, self._nodes, self._device_busy, self._asked = tables, nodes, device_busy, asked
        host, runtime = tables.host, tables.runtime
        #: The node that made each call of the runtime, (runtime calls,).
        self.launchers = np.zeros(len(runtime.start), np.int32)
        #: The node that ran at each asked time, (n,); 0, the step, if none did.
        self.answers = np.zeros(len(asked[0]), np.int64)
        self._order = _thread_order(tables)
        #: The numbers in `nodes` of the names of host ranges, by kind and name, and of runtime calls, by name.
        self._host_names = nodes.names_of(host)
        calls = [nodes.name(stable_name(text), "runtime") for text in runtime.names.texts]
        self._runtime_names = np.array(calls, np.int32)
        #: By such a number: if it is a range, its rank in `nest` (not that of a process), and if it is of the backward
        #: pass.
        self._is_range = np.array([kind == "range" for _, kind in nodes.names], bool)
        # of calls with the same times, ranges are outside; then the name decides, not the order of the file
        # (all names so far are of the host; those of the device, which are not nested, come later)
        texts = [text for text, _ in nodes.names]
        outside = np.array([_OUTSIDE_FIRST.index(kind) for _, kind in nodes.names], np.int64)
        self._rank = outside << 32 | np.array([zlib.crc32(text.encode("utf-8", "replace")) for text in texts], np.int64)
        self._is_backward = np.array([text.startswith(_AUTOGRAD) for text in texts], bool)
        is_launch = np.array([bool(LAUNCHES.fullmatch(text)) for text in runtime.names.texts], bool)
        #: The threads that launch kernels and have no ranges.
        self._silent = frozenset(runtime.thread[is_launch[runtime.name]].tolist()) - {*host.thread.tolist()}
        #: By thread: the calls that began in an earlier slice and outlast it.
        self._carried: dict[int, CarriedCalls] = {}
        starts = [table.start for table in (host, runtime) if len(table.start)] + [nodes.steps.starts]
        low = min(int(start.min()) for start in starts)
        high = max(*(int(start.max()) for start in starts), int(nodes.steps.ends.max())) + 1
        count = min(_SLICES, 1 + (len(host.start) + len(runtime.start)) // _SLICE_CALLS)
        for limits in pairwise(low + (high - low) * at // count for at in range(count + 1)):
            self._add(*limits)

    def _add(self, low: int, high: int) -> None:
        """Place the calls that begin in [low, high), answer what was asked of it, and share its time."""
        host, runtime = self._tables.host, self._tables.runtime
        rows, calls = (np.flatnonzero((table.start >= low) & (table.start < high)) for table in (host, runtime))
        own = self._host_names[host.kind[rows].astype(np.int64) * len(host.names.texts) + host.name[rows]]
        names = np.concatenate([own, self._runtime_names[runtime.name[calls]]])
        start = np.concatenate([host.start[rows], runtime.start[calls]])
        end = np.concatenate([host.end[rows], runtime.end[calls]])
        thread = np.concatenate([host.thread[rows], runtime.thread[calls]])
        call = np.concatenate([np.full(len(rows), -1), calls])  # the row of a runtime call
        placed: list[ThreadCalls] = []
        for number in self._order:
            chosen = np.flatnonzero((thread == number) & (names >= 0))
            # the thread of the steps, even without calls: `placed[0]` is that thread
            if len(chosen) or number in self._carried or (number == self._order[0]):
                fields = names[chosen], start[chosen], end[chosen], call[chosen]
                placed.append(found := self._place(number, *fields, first=placed[0] if placed else None))
                self._carried[number] = found.carried(high)
                if not len(self._carried[number].start):
                    del self._carried[number]
                time, of_thread = self._asked
                asked = np.flatnonzero((of_thread == number) & (time >= low) & (time < high))
                if len(asked):
                    self.answers[asked] = found.nodes_at(time[asked])
        self._share(placed, low, high)

    def _place(
        self, thread: int, names: Int64, start: Int64, end: Int64, call: Int64, *, first: ThreadCalls | None
    ) -> ThreadCalls:
        """Find the nodes of a thread's calls in a slice, and count the new ones: those that begin in it.

        Parameters:
            names, start, end, call: the new calls, (n,): name, times, row in `tables.runtime` (-1: it is of `host`).
            first: the calls of the thread of the steps; None for this thread itself.
        """
        before = self._carried.get(thread, NOT_CARRIED)
        count = len(before.start)
        rank = np.concatenate([before.rank, self._rank[names]])
        spans = nest(np.concatenate([before.start, start]), np.concatenate([before.end, end]), rank)
        is_new = spans.rows >= count
        own = np.maximum(spans.rows - count, 0)  # the place of each new span in `names`, `start`, `end` and `call`
        found = np.concatenate([before.nodes, np.zeros(len(start), np.int64)])[spans.rows]
        is_work = np.concatenate([before.is_work, ~self._is_range[names]])[spans.rows]
        step = step_of(spans.start, self._nodes.steps)
        for level in spans.levels:  # from the top down, because a node is found below that of its caller
            fresh = level[is_new[level]]
            if not len(fresh):
                continue
            above, name = spans.parent[fresh], names[own[fresh]]
            top = above < 0
            parents = np.where(top, 0, found[above])
            if first is not None and top.any():
                parents[top] = self._roots(thread, name[top], spans.start[fresh[top]], first)
            found[fresh] = self._nodes.children(parents, name)
            is_work[fresh] |= ~top & is_work[above]
            duration = end[own[fresh]] - start[own[fresh]]
            self._nodes.add_calls(found[fresh], step[fresh], spans.start[fresh], duration, thread)
            launches = call[own[fresh]]
            self.launchers[launches[launches >= 0]] = parents[launches >= 0]
        return ThreadCalls(spans, found, is_work, rank[spans.rows])

    def _roots(self, thread: int, names: Int64, times: Int64, first: ThreadCalls) -> Int64:
        """Return the node above each of the outermost calls of another thread.

        The backward pass is below the range that waits for it, also if its thread launches kernels and names nothing,
        as in exports of Nsight Systems. What other threads do is below `(other threads)`, not at a place in the step.
        """
        if thread not in self._silent and not self._is_backward[names].any():
            others = np.full(len(names), self._nodes.name("(other threads)", "thread"))
            return self._nodes.children(np.zeros(len(names), np.int64), others)
        return np.array([self._nodes.range_of(node) for node in first.nodes_at(times).tolist()], np.int64)

    def _share(self, placed: list[ThreadCalls], low: int, high: int) -> None:
        """Give each moment of [low, high) in which no device works to one call.

        The operators of the thread of the steps come first, then the other threads, and then its ranges: a range that
        only waits for another thread leaves the time to what that thread does. `add_wall` gives a call its part of the
        free time and takes it from its caller, which had it before; -1 takes it from none.
        """
        steps, devices = self._nodes.steps, self._device_busy
        begin, last = np.searchsorted(devices.ends, low, side="right"), np.searchsorted(devices.starts, high)
        busy = Intervals(devices.starts[begin:last].clip(low, high), devices.ends[begin:last].clip(low, high))
        for at, thread in enumerate(placed):  # the first is the thread of the steps, whose ranges come last
            is_work = thread.is_work if at == 0 else np.ones(len(thread.nodes), bool)
            above = thread.nest.parent
            is_inner = (above >= 0) & is_work[above]
            callers = np.where(is_inner, thread.nodes[above], -1)
            self._give(thread, is_work, callers, complement(busy, low, high), low, high)
            outer = is_work & ~is_inner
            busy = join(busy, union(thread.nest.start[outer].clip(low, high), thread.nest.end[outer].clip(low, high)))
        # the rest goes to the step, and its ranges take their parts of it
        free, root = complement(busy, low, high), np.zeros(len(steps), np.int64)
        no_caller = np.full(len(steps), -1)
        self._nodes.add_wall(root, no_caller, steps.starts.clip(low, high), steps.ends.clip(low, high), free)
        first = placed[0]
        above = first.nest.parent
        self._give(first, ~first.is_work, np.where(above >= 0, first.nodes[above], 0), free, low, high)

    def _give(self, thread: ThreadCalls, chosen: Mask, callers: Int64, free: Intervals, low: int, high: int) -> None:
        """Give the chosen calls of a thread their parts of the free time in [low, high); `callers` are of all calls."""
        start, end = thread.nest.start[chosen].clip(low, high), thread.nest.end[chosen].clip(low, high)
        self._nodes.add_wall(thread.nodes[chosen], callers[chosen], start, end, free)


def _thread_order(tables: EventTables) -> list[int]:
    """Return the thread of the steps (without steps: the busiest one) and the others, the busiest first."""
    host, count = tables.host, len(tables.threads.texts)
    work = np.zeros(count)
    for table in (host, tables.runtime):
        work += np.bincount(table.thread, table.end - table.start, count)
    marked = np.bincount(host.thread[host.names.which(is_step)[host.name]], minlength=count)
    order: list[int] = np.lexsort((-work, -marked)).tolist()
    return order
