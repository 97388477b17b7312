"""Events -> numpy columns, chunk by chunk: what is kept of a trace while it is read.

A device event costs 57 bytes, a call of the runtime 25, a range of the host 21; their text is kept once a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.torch_trace.chunks import Chunk
from perfgate.readers.torch_trace.events import Args, Event
from perfgate.readers.torch_trace.names import Names, is_collective_range
from perfgate.readers.torch_trace.numbers import ABSENT, Inexact, Int64, decimals, nanoseconds, whole_numbers

OP, ANNOTATION, PYTHON = 0, 1, 2
KERNEL, MEMCPY, MEMSET = 0, 1, 2
#: Calls of the runtime as torch named them until 2021, and all others.
PLAIN, NAMED = 0, 1

#: The table and kind of each category, in lower case. Categories of a runtime or driver have many names.
_CATEGORIES = {
    "cpu_op": ("host", OP),
    "operator": ("host", OP),
    "user_annotation": ("host", ANNOTATION),
    "python": ("host", PYTHON),
    "kernel": ("device", KERNEL),
    "gpu_memcpy": ("device", MEMCPY),
    "memcpy": ("device", MEMCPY),
    "gpu_memset": ("device", MEMSET),
    "memset": ("device", MEMSET),
    "runtime": ("runtime", PLAIN),
    "": ("instant", 0),
    "cpu_instant_event": ("instant", 0),
}
_Kind = tuple[str, int]

#: No machine has more devices; a trace that names more was made to fill the memory.
MOST_DEVICES = 256


class _Sorter(dict[Any, Callable[[Event], object] | None]):
    """From category to where its events go; None for those that are not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted: dict[_Kind, list[Event]] = defaultdict(list)

    def __missing__(self, category: Any) -> Callable[[Event], object] | None:
        name = category.lower() if isinstance(category, str) else ""
        kind = _CATEGORIES.get(name) or (("runtime", NAMED) if name.endswith(("_runtime", "_driver")) else None)
        put = self.sorted[kind].append if kind else None
        if len(self) < 1000:
            self[category] = put
        return put

    def sort(self, events: Iterable[Event]) -> dict[_Kind, list[Event]]:
        """The events that are kept, by table and kind."""
        for event in events:
            put = self[event.cat]
            if put:
                put(event)
        return self.sorted


class Table:
    """Columns of one kind of event, in pieces until they are taken."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Any]] = defaultdict(list)

    def add(self, **columns: Any) -> None:
        """One more piece of every column."""
        for name, values in columns.items():
            self._pieces[name].append(values)

    def take(self, name: str, dtype: Any = np.int64) -> Any:
        """One column as a whole, (n,); its pieces are forgotten."""
        pieces = self._pieces.pop(name, [])
        return np.concatenate(pieces) if pieces else np.empty(0, dtype)


@dataclass(frozen=True, slots=True)
class Collective:
    """The arguments of one NCCL kernel; `row` is its place among the kernels, `group` its process group."""

    row: int
    name: str
    group: str
    event: Event


@dataclass(slots=True)
class Columns:
    """What is kept of the events."""

    host: Table = field(default_factory=Table)
    runtime: Table = field(default_factory=Table)
    device: Table = field(default_factory=Table)
    host_names: Names = field(default_factory=Names)
    kernel_names: Names = field(default_factory=Names)
    devices: Names = field(default_factory=lambda: Names(MOST_DEVICES))
    collectives: list[Collective] = field(default_factory=list)
    #: (number of the name, External id) of each collective that the host began.
    collective_ids: list[tuple[int, int]] = field(default_factory=list)
    #: Peaks in bytes by (field, device).
    memory: dict[tuple[str, str], int] = field(default_factory=dict)
    #: (line, what) of the first events that cannot be true, and the number of all that are left out.
    refused: list[tuple[int, str]] = field(default_factory=list)
    refused_count: int = 0
    _collective_names: list[int] = field(default_factory=list)
    _names_seen: int = 0
    _kernels: int = 0
    _exact: bool = False

    def take(self, chunk: Chunk) -> None:
        """Keep what is needed of some events."""
        try:
            self._take(chunk, chunk.exact() if self._exact else chunk.events)
        except Inexact:
            self._exact = True
            self._take(chunk, chunk.exact())

    def _take(self, chunk: Chunk, events: Sequence[Event]) -> None:
        kinds = _Sorter().sort(events)
        self._remember_memory(kinds.pop(("instant", 0), ()))
        rows = {kind: [event for event in found if event.ph == "X"] for kind, found in kinds.items()}
        times = {kind: self._times(found) for kind, found in rows.items()}  # all, before anything is kept
        refused: list[Event] = []
        for kind, found in rows.items():
            start, duration = times[kind]
            sound = (start != ABSENT) & (duration >= 0)
            if not sound.all():
                refused += [event for event, good in zip(found, sound, strict=True) if not good]
                found = [event for event, good in zip(found, sound, strict=True) if good]  # noqa: PLW2901
                start, duration = start[sound], duration[sound]
            keep = {"host": self._keep_host, "runtime": self._keep_runtime, "device": self._keep_device}[kind[0]]
            keep(kind[1], found, start, duration)
        if refused:
            self._refuse(chunk, events, refused)

    @staticmethod
    def _times(events: Sequence[Event]) -> tuple[Int64, Int64]:
        return nanoseconds([event.ts for event in events]), nanoseconds([event.dur for event in events])

    def _keep_host(self, kind: int, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        names = self.host_names
        found = np.array([names[event.name] for event in events], np.int32)
        new = range(self._names_seen, len(names.texts))
        self._collective_names += [number for number in new if is_collective_range(names.texts[number])]
        self._names_seen = len(names.texts)
        self.host.add(start=start, duration=duration, name=found, kind=np.full(len(found), kind, np.int8))
        if self._collective_names:
            rows = np.flatnonzero(np.isin(found, self._collective_names))
            ids = _external_ids([events[row].args for row in rows.tolist()])
            self.collective_ids += zip(found[rows].tolist(), ids.tolist(), strict=True)

    def _keep_runtime(self, kind: int, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        correlation = whole_numbers([event.args.correlation for event in events])
        kinds = np.full(len(correlation), kind, np.int8)
        self.runtime.add(start=start, duration=duration, correlation=correlation, kind=kinds)

    def _keep_device(self, kind: int, events: Sequence[Event], start: Int64, duration: Int64) -> None:
        args = [event.args for event in events]
        names, devices = self.kernel_names, self.devices
        self.device.add(
            start=start,
            duration=duration,
            kind=np.full(len(events), kind, np.int8),
            correlation=whole_numbers([one.correlation for one in args]),
            device=np.array([devices[one.device] for one in args], np.int32),
        )
        if kind == KERNEL:
            self.device.add(
                name=np.array([names[event.name] for event in events], np.int32),
                external_id=_external_ids(args),
                blocks=decimals([one.blocks_per_sm for one in args]),
                occupancy=decimals([one.occupancy for one in args]),
            )
            self.collectives += [
                Collective(self._kernels + at, str(one.collective), f"{one.group} {one.group_ranks}", event)
                for at, (one, event) in enumerate(zip(args, events, strict=True))
                if one.collective is not None
            ]
            self._kernels += len(events)

    def _remember_memory(self, events: Iterable[Event]) -> None:
        for event in events:
            args = event.args
            if event.name != "[memory]" or (args.allocated is None and args.reserved is None):
                continue
            kind, device, *totals = whole_numbers(
                [args.device_type, args.device_id, args.allocated, args.reserved]
            ).tolist()
            place = "cpu" if kind == 0 else str(device)
            for total, peak in zip(totals, (("allocated", place), ("reserved", place)), strict=True):
                if total > self.memory.get(peak, -1) and len(self.memory) < 2 * MOST_DEVICES:
                    self.memory[peak] = total

    def _refuse(self, chunk: Chunk, events: Sequence[Event], refused: Iterable[Event]) -> None:
        """Say what cannot be true; the first ones with their lines, which are costly to find."""
        for event in refused:
            self.refused_count += 1
            if self.refused_count <= MAX_FAULTS:
                index = next(at for at, other in enumerate(events) if other is event)
                what = f"{str(event.name)[:80]!r}: ts {_shown(event.ts)}, dur {_shown(event.dur)}"
                self.refused.append((chunk.line(index), what))


def _shown(time: object) -> str:
    """A time that cannot be; of text only that it is some, for it may be anything."""
    return "some text" if isinstance(time, str) else str(time)[:40]


def _external_ids(args: Sequence[Args]) -> Int64:
    """The operators that events belong to; -1 where unknown. The field had a small letter until 2022."""
    found = whole_numbers([one.external_id for one in args])
    return (
        found if (found >= 0).all() else np.maximum(found, whole_numbers([one.external_id_before_2022 for one in args]))
    )
