"""Events as numpy columns: appended chunk by chunk while a trace is read, and taken as whole tables at the end.

A kernel costs 65 bytes, a copy 41, a runtime call 31 and a host range 23. Each name is stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.torch_trace import event_fields as fields
from perfgate.readers.torch_trace import tables
from perfgate.readers.torch_trace.chunks import Chunk
from perfgate.readers.torch_trace.event_fields import Args, Event, Int64, Names, decimals, whole_numbers
from perfgate.readers.torch_trace.flops import COUNTED, flop_of

#: No machine has more devices; a trace with more is an attack on memory.
MOST_DEVICES = 256
#: The same for threads: the events of all others look as if they were of one thread.
MOST_THREADS = 10_000
#: Allocations that are kept to tell what the memory at the peak was allocated for.
MOST_ALLOCATIONS = 2_000_000


class _TimedEvents(NamedTuple):
    """Events that have a duration, with their times in ns, (n,). `refused` are those with impossible times."""

    events: list[Event]
    start: Int64
    duration: Int64
    refused: list[Event]


def _with_times(events: Sequence[Event]) -> _TimedEvents:
    """Return the events that have a duration, with their times. Raises Inexact."""
    lasting = [event for event in events if event.ph == "X"]
    start = fields.nanoseconds([event.ts for event in lasting])
    duration = fields.nanoseconds([event.dur for event in lasting])
    sound = (start != fields.ABSENT) & (duration >= 0)
    if sound.all():
        return _TimedEvents(lasting, start, duration, [])
    possible = [event for event, good in zip(lasting, sound, strict=True) if good]
    refused = [event for event, good in zip(lasting, sound, strict=True) if not good]
    return _TimedEvents(possible, start[sound], duration[sound], refused)


class EventTables:
    """The events of a trace that metrics need; `finish` sets the tables after the last chunk."""

    host: tables.Host
    runtime: tables.Runtime
    device: tables.Device
    kernels: tables.Kernels
    frames: tables.Frames
    allocations: tables.Allocations
    #: Matrix products and the like: their starts in ns and their FLOP, NaN if unknown; (n,) each.
    flop_starts: Int64
    flop: fields.Float64

    def __init__(self) -> None:
        self.host_names, self.kernel_names, self.frame_names = Names(), Names(), Names()
        self.threads, self.call_names = Names(MOST_THREADS), Names(MOST_THREADS)
        # the devices of kernels and copies, and those of memory, with "cpu"
        self.devices, self.places = Names(MOST_DEVICES), Names(MOST_DEVICES)
        in_thread, on_device = {"thread": self.threads}, {"name": self.kernel_names, "device": self.devices}
        self.pieces = {
            "host": tables.Pieces("name kind thread start duration", name=self.host_names, **in_thread),
            "runtime": tables.Pieces("name kind thread correlation start duration", name=self.call_names, **in_thread),
            "device": tables.Pieces("name kind correlation device amount start duration", **on_device),
            # more columns of the kernels among the device events, in the same order
            "kernel": tables.Pieces("external_id blocks occupancy"),
            "frame": tables.Pieces("name thread start duration", name=self.frame_names, **in_thread),
            "flop": tables.Pieces("start flop"),
            "allocation": tables.Pieces("device thread time address size", device=self.places, **in_thread),
        }
        self.collectives: list[tables.Collective] = []
        #: (number of the name, External id) of each collective range of the host: its kernels have this id, too.
        self.collective_ids: list[tuple[int, int]] = []
        #: Peaks in bytes, by field (`allocated`, `reserved`) and device.
        self.memory: dict[tuple[str, str], int] = {}
        #: (line, description) of the first impossible events, and the number of all of them.
        self.refused: list[tuple[int, str]] = []
        self.refused_count = 0
        #: By category: how many events with a duration are not kept.
        self.left: Counter[str] = Counter()
        self.allocation_count = self.kernel_count = 0
        #: The numbers of the names of collective ranges and of operators with FLOP, among the names seen so far.
        self._collective_names: list[int] = []
        self._counted_names: list[int] = []
        self._names_seen = 0
        #: True after a chunk had times that float64 cannot represent.
        self._exact = False

    def add(self, chunk: Chunk) -> None:
        """Append the events of a chunk."""
        try:
            self._add(chunk, chunk.exact() if self._exact else chunk.events)
        except fields.Inexact:
            self._exact = True
            self._add(chunk, chunk.exact())

    def _add(self, chunk: Chunk, events: Sequence[Event]) -> None:
        sorter = tables.EventsByCategory()
        by_kind = sorter.sort(events)
        instants = by_kind.pop(("instant", 0), ())
        # all times are converted before any event is stored: Inexact must leave the tables unchanged
        timed = {kind: _with_times(found) for kind, found in by_kind.items()}
        self._add_memory(instants)
        self.left += sorter.left
        for (table, kind), spans in timed.items():
            if table == "frame":
                self._add_frames(spans)
                continue
            kinds = np.full(len(spans.events), kind)
            self.pieces[table].add(start=spans.start, duration=spans.duration, kind=kinds)
            if table == "host":
                self._add_host(spans, is_op=kind == tables.OP)
            elif table == "runtime":
                self._add_runtime(spans.events)
            else:
                self._add_device(spans.events, is_kernel=kind == tables.KERNEL)
        for spans in timed.values():
            for event in spans.refused:
                self._refuse(chunk, events, event)

    def _threads_of(self, events: Sequence[Event]) -> list[int]:
        threads = self.threads
        return [threads[event.tid] for event in events]

    def _add_host(self, spans: _TimedEvents, *, is_op: bool) -> None:
        events, names = spans.events, self.host_names
        found = np.array([names[event.name] for event in events], np.int32)
        self.pieces["host"].add(name=found, thread=self._threads_of(events))
        new = range(self._names_seen, len(names.texts))
        self._collective_names += [number for number in new if fields.is_collective_range(names.texts[number])]
        self._counted_names += [number for number in new if names.texts[number] in COUNTED]
        self._names_seen = len(names.texts)
        if self._collective_names:
            rows = np.flatnonzero(np.isin(found, self._collective_names))
            ids = _external_ids([events[row].args for row in rows.tolist()])
            self.collective_ids += zip(found[rows].tolist(), ids.tolist(), strict=True)
        if self._counted_names and is_op:
            rows = np.flatnonzero(np.isin(found, self._counted_names))
            self.pieces["flop"].add(start=spans.start[rows], flop=flop_of(events[row] for row in rows.tolist()))

    def _add_runtime(self, events: Sequence[Event]) -> None:
        names = self.call_names
        self.pieces["runtime"].add(
            name=[names[event.name] for event in events],
            thread=self._threads_of(events),
            correlation=whole_numbers([event.args.correlation for event in events]),
        )

    def _add_frames(self, spans: _TimedEvents) -> None:
        """Keep the calls of the program's own functions, without those of libraries."""
        own = [row for row, event in enumerate(spans.events) if fields.is_own_function(event.name)]
        events, names = [spans.events[row] for row in own], self.frame_names
        self.pieces["frame"].add(
            name=[names[event.name] for event in events],
            thread=self._threads_of(events),
            start=spans.start[own],
            duration=spans.duration[own],
        )

    def _add_device(self, events: Sequence[Event], *, is_kernel: bool) -> None:
        args = [event.args for event in events]
        names, devices = self.kernel_names, self.devices
        self.pieces["device"].add(
            name=[names[event.name] for event in events],
            device=[devices[one.device] for one in args],
            correlation=whole_numbers([one.correlation for one in args]),
            amount=fields.blocks([one.grid for one in args]) if is_kernel else decimals([one.copied for one in args]),
        )
        if not is_kernel:
            return
        self.pieces["kernel"].add(
            external_id=_external_ids(args),
            blocks=decimals([one.blocks_per_sm for one in args]),
            occupancy=decimals([one.occupancy for one in args]),
        )
        for row, event in enumerate(events, self.kernel_count):
            if event.args.collective is not None:
                group = f"{event.args.group} {event.args.group_ranks}"
                self.collectives.append(tables.Collective(row, str(event.args.collective), group, event))
        self.kernel_count += len(events)

    def _add_memory(self, instants: Iterable[Event]) -> None:
        """Keep peaks, and allocations with their addresses until there are too many."""
        events = [event for event in instants if event.name == "[memory]"]
        args = [event.args for event in events]
        types = whole_numbers([one.device_type for one in args]).tolist()  # 0 is the host
        numbers = whole_numbers([one.device_id for one in args]).tolist()
        places = ["cpu" if type_ == 0 else str(number) for type_, number in zip(types, numbers, strict=True)]
        time = fields.nanoseconds([event.ts for event in events])
        known = np.array([one.size is not None and one.address is not None for one in args], bool)
        rows = np.flatnonzero((time != fields.ABSENT) & known).tolist()
        self.allocation_count += len(rows)
        if rows and self.allocation_count <= MOST_ALLOCATIONS:
            self.pieces["allocation"].add(
                time=time[rows],
                thread=self._threads_of([events[row] for row in rows]),
                device=[self.places[places[row]] for row in rows],
                address=whole_numbers([args[row].address for row in rows]),
                size=whole_numbers([args[row].size for row in rows], 0),
            )
        self._keep_peaks("allocated", places, whole_numbers([one.allocated for one in args]))
        self._keep_peaks("reserved", places, whole_numbers([one.reserved for one in args]))

    def _keep_peaks(self, which: str, places: Sequence[str], totals: Int64) -> None:
        """Keep the largest of these totals in bytes for each place; new places only while there is room."""
        for place, total in zip(places, totals.tolist(), strict=True):
            is_room = (which, place) in self.memory or len(self.memory) < 2 * MOST_DEVICES
            if is_room and total > self.memory.get((which, place), -1):
                self.memory[which, place] = total

    def _refuse(self, chunk: Chunk, events: Sequence[Event], refused: Event) -> None:
        """Count an impossible event; describe the first ones with their lines, which are slow to find."""
        self.refused_count += 1
        if self.refused_count <= MAX_FAULTS:
            index = next(at for at, other in enumerate(events) if other is refused)
            ts, dur = ("some text" if isinstance(time, str) else str(time)[:40] for time in (refused.ts, refused.dur))
            self.refused.append((chunk.line(index), f"{str(refused.name)[:80]!r}: ts {ts}, dur {dur}"))

    def append(self, part: EventTables) -> None:
        """Append the events of the next part of the trace, whose names have other numbers; none was refused."""
        for pieces, own in zip(self.pieces.values(), part.pieces.values(), strict=True):
            pieces.extend(own)
        self.collectives += [replace(one, row=one.row + self.kernel_count) for one in part.collectives]
        names = part.host_names.texts
        self.collective_ids += [(self.host_names[names[name]], external) for name, external in part.collective_ids]
        self.kernel_count += part.kernel_count
        self.left += part.left
        self.allocation_count += part.allocation_count
        for peak, size in part.memory.items():
            self.memory[peak] = max(size, self.memory.get(peak, size))

    def finish(self) -> None:
        """Join the pieces of each table, and make the tables of them."""
        taken = {table: pieces.take() for table, pieces in self.pieces.items()}
        self.host = tables.Host(names=self.host_names, **taken["host"])
        self.runtime = tables.Runtime(names=self.call_names, **taken["runtime"])
        self.frames = tables.Frames(names=self.frame_names, **taken["frame"])
        self.flop_starts, self.flop = taken["flop"].values()
        # all or none: the sum of the allocations up to a moment needs every one before
        most = MOST_ALLOCATIONS if self.allocation_count <= MOST_ALLOCATIONS else 0
        made = {name: column[:most] for name, column in taken["allocation"].items()}
        self.allocations = tables.Allocations(devices=self.places, **made)
        self.device = tables.Device(names=self.kernel_names, devices=self.devices, **taken["device"])
        rows = np.flatnonzero(self.device.kind == tables.KERNEL)
        shared = {name: getattr(self.device, name)[rows] for name in ("name", "start", "end", "device")}
        self.kernels = tables.Kernels(names=self.kernel_names, **shared, **taken["kernel"])


def _external_ids(args: Sequence[Args]) -> Int64:
    """Return the ids of the operators of events; -1 if unknown. The field had a small first letter until 2022."""
    found = whole_numbers([one.external_id for one in args])
    if (found >= 0).all():
        return found
    return np.maximum(found, whole_numbers([one.external_id_before_2022 for one in args]))
