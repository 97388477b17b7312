"""Events as numpy columns: appended chunk by chunk while a trace is read, and taken as whole tables at the end.

A device event costs 65 bytes, a runtime call 25 and a host range 21. Each name is stored once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.torch_trace import event_fields as fields
from perfgate.readers.torch_trace.chunks import Chunk
from perfgate.readers.torch_trace.event_fields import Args, Event, Int64, Names, is_own_function, whole_numbers
from perfgate.readers.torch_trace.flops import COUNTED, flop_of
from perfgate.readers.torch_trace.tables import (
    KERNEL,
    OP,
    Allocations,
    Collective,
    Device,
    EventsByCategory,
    Frames,
    Host,
    Kernels,
    Kinds,
    Runtime,
    Threads,
)

#: No machine has more devices; a trace with more is an attack on memory.
MOST_DEVICES = 256
#: The same for threads: the events of all others look as if they were of one thread.
MOST_THREADS = 10_000
#: Allocations that are kept to tell what the memory at the peak was allocated for.
MOST_ALLOCATIONS = 2_000_000


class Pieces:
    """The columns of a table while it grows."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Any]] = defaultdict(list)

    def add(self, **columns: Any) -> None:
        """Append an array to each of these columns."""
        for name, values in columns.items():
            self._pieces[name].append(values)

    def columns(self) -> Iterable[tuple[str, Sequence[Any]]]:
        """Return the arrays of each column."""
        return self._pieces.items()

    def take(self, name: str, dtype: Any = np.int64) -> Any:
        """Remove and return a whole column, (n,)."""
        pieces = self._pieces.pop(name, [])
        return np.concatenate(pieces) if pieces else np.empty(0, dtype)

    def take_span(self) -> tuple[Int64, Int64]:
        """Remove the columns `start` and `duration`, and return the starts and the ends."""
        start = self.take("start")
        return start, start + self.take("duration")


@dataclass(slots=True)
class EventTables:
    """The events of a trace that metrics need. `finish` sets the tables after the last chunk."""

    host: Host = field(init=False)
    runtime: Runtime = field(init=False)
    device: Device = field(init=False)
    kernels: Kernels = field(init=False)
    frames: Frames = field(init=False)
    allocations: Allocations = field(init=False)
    host_names: Names = field(default_factory=Names)
    kernel_names: Names = field(default_factory=Names)
    devices: Names = field(default_factory=lambda: Names(MOST_DEVICES))
    threads: Names = field(default_factory=lambda: Names(MOST_THREADS))
    call_names: Names = field(default_factory=lambda: Names(MOST_THREADS))
    frame_names: Names = field(default_factory=Names)
    places: Names = field(default_factory=lambda: Names(MOST_DEVICES))
    #: Matrix products and the like: their starts in ns and their FLOP, NaN if unknown; (n,) each.
    flop_starts: Int64 = field(init=False)
    flop: fields.Float64 = field(init=False)
    collectives: list[Collective] = field(default_factory=list)
    #: (number of the name, External id) of each collective range of the host.
    collective_ids: list[tuple[int, int]] = field(default_factory=list)
    #: Peaks in bytes, by field and device.
    memory: dict[tuple[str, str], int] = field(default_factory=dict)
    #: (line, description) of the first impossible events, and the number of all of them.
    refused: list[tuple[int, str]] = field(default_factory=list)
    refused_count: int = 0
    left: Counter[str] = field(default_factory=Counter)
    host_pieces: Pieces = field(default_factory=Pieces)
    runtime_pieces: Pieces = field(default_factory=Pieces)
    device_pieces: Pieces = field(default_factory=Pieces)
    frame_pieces: Pieces = field(default_factory=Pieces)
    flop_pieces: Pieces = field(default_factory=Pieces)
    _counted_names: list[int] = field(default_factory=list)
    allocation_pieces: Pieces = field(default_factory=Pieces)
    allocation_count: int = 0
    _collective_names: list[int] = field(default_factory=list)
    _names_seen: int = 0
    kernel_count: int = 0
    _exact: bool = False

    def add(self, chunk: Chunk) -> None:
        """Append the events of a chunk."""
        try:
            self._add(chunk, chunk.exact() if self._exact else chunk.events)
        except fields.Inexact:
            self._exact = True
            self._add(chunk, chunk.exact())

    def _add(self, chunk: Chunk, events: Sequence[Event]) -> None:
        kinds = (sorter := EventsByCategory()).sort(events)
        self._add_memory(kinds.pop(("instant", 0), ()))
        rows = {kind: [event for event in found if event.ph == "X"] for kind, found in kinds.items()}
        # Convert all times before any event is stored: Inexact must leave the tables unchanged.
        nanoseconds = fields.nanoseconds
        times = {
            kind: (nanoseconds([event.ts for event in found]), nanoseconds([event.dur for event in found]))
            for kind, found in rows.items()
        }
        self.left += sorter.left
        refused: list[Event] = []
        for (table, kind), found in rows.items():
            start, duration = times[table, kind]
            sound = (start != fields.ABSENT) & (duration >= 0)
            if not sound.all():
                refused += [event for event, good in zip(found, sound, strict=True) if not good]
                found = [event for event, good in zip(found, sound, strict=True) if good]  # noqa: PLW2901
                start, duration = start[sound], duration[sound]
            self._adders()[table](np.full(len(found), kind, np.int8), found, start, duration)
        if refused:
            self._refuse(chunk, events, refused)

    def _adders(self) -> dict[str, Callable[[Kinds, Sequence[Event], Int64, Int64], None]]:
        return {
            "host": self._add_host,
            "runtime": self._add_runtime,
            "device": self._add_device,
            "frame": self._add_frames,
        }

    def _threads_of(self, events: Sequence[Event]) -> Threads:
        threads = self.threads
        return np.array([threads[event.tid] for event in events], np.int16)

    def _add_host(self, kind: Kinds, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        names = self.host_names
        found = np.array([names[event.name] for event in events], np.int32)
        new = range(self._names_seen, len(names.texts))
        self._collective_names += [number for number in new if fields.is_collective_range(names.texts[number])]
        self._counted_names += [number for number in new if names.texts[number] in COUNTED]
        self._names_seen = len(names.texts)
        self.host_pieces.add(start=start, duration=duration, name=found, kind=kind, thread=self._threads_of(events))
        if self._collective_names:
            rows = np.flatnonzero(np.isin(found, self._collective_names))
            ids = _external_ids([events[row].args for row in rows.tolist()])
            self.collective_ids += zip(found[rows].tolist(), ids.tolist(), strict=True)
        if self._counted_names and len(kind) and kind[0] == OP:
            rows = np.flatnonzero(np.isin(found, self._counted_names))
            self.flop_pieces.add(start=start[rows], flop=flop_of(events[row] for row in rows.tolist()))

    def _add_runtime(self, kind: Kinds, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        correlation = whole_numbers([event.args.correlation for event in events])
        names = self.call_names
        name = np.array([names[event.name] for event in events], np.int16)
        self.runtime_pieces.add(start=start, duration=duration, correlation=correlation, kind=kind)
        self.runtime_pieces.add(name=name, thread=self._threads_of(events))

    def _add_frames(self, _: Kinds, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        """Keep the calls of the program's own functions: names of others are only kept as numbers."""
        own = [at for at, event in enumerate(events) if is_own_function(event.name)]
        if not own:
            return
        names, chosen = self.frame_names, [events[at] for at in own]
        name = np.array([names[event.name] for event in chosen], np.int32)
        self.frame_pieces.add(start=start[own], duration=duration[own], name=name, thread=self._threads_of(chosen))

    def _add_device(self, kind: Kinds, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        args = [event.args for event in events]
        is_kernel, names, devices = len(kind) and kind[0] == KERNEL, self.kernel_names, self.devices
        correlation = whole_numbers([one.correlation for one in args])
        device = np.array([devices[one.device] for one in args], np.int32)
        self.device_pieces.add(start=start, duration=duration, kind=kind, correlation=correlation, device=device)
        amount = fields.blocks([one.grid for one in args]) if is_kernel else fields.decimals([o.copied for o in args])
        self.device_pieces.add(name=np.array([names[event.name] for event in events], np.int32), amount=amount)
        if is_kernel:
            self.device_pieces.add(
                external_id=_external_ids(args),
                blocks=fields.decimals([one.blocks_per_sm for one in args]),
                occupancy=fields.decimals([one.occupancy for one in args]),
            )
            self.collectives += [
                Collective(self.kernel_count + at, str(one.collective), f"{one.group} {one.group_ranks}", event)
                for at, (one, event) in enumerate(zip(args, events, strict=True))
                if one.collective is not None
            ]
            self.kernel_count += len(events)

    def _add_memory(self, events: Iterable[Event]) -> None:
        events = [event for event in events if event.name == "[memory]"]
        self._add_allocations(events)
        for event in events:
            args = event.args
            if args.allocated is None and args.reserved is None:
                continue
            numbers = whole_numbers([args.device_type, args.device_id, args.allocated, args.reserved])
            kind, device, *totals = numbers.tolist()
            place = "cpu" if kind == 0 else str(device)
            for total, peak in zip(totals, (("allocated", place), ("reserved", place)), strict=True):
                if total > self.memory.get(peak, -1) and len(self.memory) < 2 * MOST_DEVICES:
                    self.memory[peak] = total

    def _add_allocations(self, events: Sequence[Event]) -> None:
        """Keep allocations with their addresses, until there are too many."""
        time = fields.nanoseconds([event.ts for event in events])
        known = [event.args.size is not None and event.args.address is not None for event in events]
        rows = np.flatnonzero((time != fields.ABSENT) & np.array(known, bool))
        self.allocation_count += len(rows)
        if not len(rows) or self.allocation_count > MOST_ALLOCATIONS:
            return
        chosen = [events[row] for row in rows.tolist()]
        places = [self.places[_place(event.args)] for event in chosen]
        self.allocation_pieces.add(
            time=time[rows],
            thread=self._threads_of(chosen),
            device=np.array(places, np.int16),
            address=whole_numbers([event.args.address for event in chosen]),
            size=whole_numbers([event.args.size for event in chosen], 0),
        )

    def _refuse(self, chunk: Chunk, events: Sequence[Event], refused: Iterable[Event]) -> None:
        """Count impossible events; describe the first ones with their lines, which are slow to find."""
        for event in refused:
            self.refused_count += 1
            if self.refused_count <= MAX_FAULTS:
                index = next(at for at, other in enumerate(events) if other is event)
                ts, dur = ("some text" if isinstance(time, str) else str(time)[:40] for time in (event.ts, event.dur))
                self.refused.append((chunk.line(index), f"{str(event.name)[:80]!r}: ts {ts}, dur {dur}"))

    def finish(self) -> None:
        """Join the pieces of each table."""
        host, runtime, device = self.host_pieces, self.runtime_pieces, self.device_pieces
        self.host = Host(
            self.host_names,
            host.take("name", np.int32),
            host.take("kind", np.int8),
            host.take("thread", np.int16),
            *host.take_span(),
        )
        self.runtime = Runtime(
            self.call_names,
            runtime.take("name", np.int16),
            runtime.take("kind", np.int8),
            runtime.take("thread", np.int16),
            runtime.take("correlation"),
            *runtime.take_span(),
        )
        self.flop_starts, self.flop = self.flop_pieces.take("start"), self.flop_pieces.take("flop", np.float64)
        frames = self.frame_pieces
        self.frames = Frames(
            self.frame_names, frames.take("name", np.int32), frames.take("thread", np.int16), *frames.take_span()
        )
        self._finish_allocations()
        kind, on, (start, end) = device.take("kind", np.int8), device.take("device", np.int32), device.take_span()
        name, issued = (
            device.take("name", np.int32),
            (device.take("correlation"), on, device.take("amount", np.float64)),
        )
        self.device = Device(self.devices, self.kernel_names, name, kind, *issued, start, end)
        rows = np.flatnonzero(kind == KERNEL)
        own = device.take("external_id"), device.take("blocks", np.float64), device.take("occupancy", np.float64)
        self.kernels = Kernels(self.kernel_names, name[rows], on[rows], start[rows], end[rows], *own)

    def _finish_allocations(self) -> None:
        pieces = self.allocation_pieces if self.allocation_count <= MOST_ALLOCATIONS else Pieces()
        device, thread = pieces.take("device", np.int16), pieces.take("thread", np.int16)
        self.allocations = Allocations(self.places, device, thread, *map(pieces.take, ("time", "address", "size")))


def _place(args: Args) -> str:
    """The memory that an allocation is in: `cpu`, or the number of a device."""
    kind, device = whole_numbers([args.device_type, args.device_id]).tolist()
    return "cpu" if kind == 0 else str(device)


def _external_ids(args: Sequence[Args]) -> Int64:
    """The ids of the operators of events; -1 if unknown. The field had a small first letter until 2022."""
    found = whole_numbers([one.external_id for one in args])
    if (found >= 0).all():
        return found
    return np.maximum(found, whole_numbers([one.external_id_before_2022 for one in args]))
