"""The events of a trace as tables of numpy columns, and the table of each category; all times are in ns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.readers.text import TraceMode
from perfgate.readers.torch_trace.event_fields import Event, Float64, Int64, Mask, Names

Ids = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.int8]
Threads = npt.NDArray[np.int16]

#: The kinds of host ranges, and those of device events. PYTHON is the category `python` of torch_tb_profiler; the
#: calls of Python functions are `Frames`.
OP, ANNOTATION, PYTHON = 0, 1, 2
KERNEL, MEMCPY, MEMSET = 0, 1, 2
#: The kinds of runtime calls: in the category that torch wrote until 2021, and all others.
PLAIN, NAMED = 0, 1

#: The name of a table, and a kind in it.
_Kind = tuple[str, int]
#: The table and kind of each category, in lower case; kind 0 in a table without kinds. Categories of a runtime or
#: driver have many names: `_runtime` and `_driver` at the end.
_CATEGORIES = {
    **dict.fromkeys(("cpu_op", "operator"), ("host", OP)),
    "user_annotation": ("host", ANNOTATION),
    "python": ("host", PYTHON),
    "python_function": ("frame", 0),
    "kernel": ("device", KERNEL),
    **dict.fromkeys(("gpu_memcpy", "memcpy"), ("device", MEMCPY)),
    **dict.fromkeys(("gpu_memset", "memset"), ("device", MEMSET)),
    "runtime": ("runtime", PLAIN),
    **dict.fromkeys(("", "cpu_instant_event"), ("instant", 0)),  # of these, `[memory]` events become `Allocations`
}


class Spans(Struct, frozen=True, kw_only=True):
    """Events with a name and a duration; all arrays (n,), times in ns. `name` is the index of each name in `names`."""

    names: Names
    name: Ids
    start: Int64
    end: Int64


class Host(Spans, frozen=True, kw_only=True):
    """Host ranges; `kind` is OP, ANNOTATION or PYTHON."""

    kind: Kinds
    thread: Threads


class Runtime(Spans, frozen=True, kw_only=True):
    """Calls of the runtime and the driver; `kind` is PLAIN or NAMED."""

    kind: Kinds
    thread: Threads
    correlation: Int64

    def known_to(self, mode: TraceMode) -> Mask:
        """Return which calls a mode uses: torch_tb_profiler knows only PLAIN."""
        return self.kind == PLAIN if mode == "tensorboard" else np.ones(len(self.kind), bool)


class Frames(Spans, frozen=True, kw_only=True):
    """Calls of Python functions of the program itself, not of libraries."""

    thread: Threads


class Device(Spans, frozen=True, kw_only=True):
    """Kernels and copies; `kind` is KERNEL, MEMCPY or MEMSET.

    `amount` is the number of thread blocks of a kernel, or the bytes of a copy; NaN if absent.
    """

    devices: Names
    kind: Kinds
    correlation: Int64
    device: Ids
    amount: Float64


class Kernels(Spans, frozen=True, kw_only=True):
    """The kernels of `Device` in the same order, with blocks per multiprocessor and percent of occupancy, or NaN.

    `external_id` is that of the operator that launched the kernel; -1 if unknown.
    """

    device: Ids
    external_id: Int64
    blocks: Float64
    occupancy: Float64


class Allocations(Struct, frozen=True, kw_only=True):
    """Changes of allocated memory, (n,); `size` in bytes is negative where memory is freed."""

    devices: Names
    device: Ids
    thread: Threads
    time: Int64
    address: Int64
    size: Int64


class Collective(Struct, frozen=True):
    """The arguments of one NCCL kernel; `row` is its index in `Kernels`, `group` its process group."""

    row: int
    name: str
    group: str
    event: Event


#: The types of columns while a table grows; all others are int64.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("name", "device"), np.int32),
    **dict.fromkeys(("amount", "blocks", "occupancy", "flop"), np.float64),
    "kind": np.int8,
    "thread": np.int16,
}


class Pieces:
    """The columns of a table while it grows. `names` has the texts of each column of indices."""

    def __init__(self, columns: str, **names: Names) -> None:
        self._pieces: dict[str, list[Any]] = {name: [] for name in columns.split()}
        self.names = names

    def add(self, **columns: Any) -> None:
        """Append values to each of these columns."""
        for name, values in columns.items():
            self._pieces[name].append(np.asarray(values, _TYPES.get(name, np.int64)))

    def extend(self, part: Pieces) -> None:
        """Append the columns of a part, whose names have other numbers."""
        numbers = {
            name: np.array([self.names[name][text] for text in own.texts], np.int64) for name, own in part.names.items()
        }
        for name, arrays in part._pieces.items():
            for array in arrays:
                self.add(**{name: numbers[name][array] if name in numbers else array})

    def take(self) -> dict[str, Any]:
        """Remove and return the whole columns, (n,), with `end` instead of `duration`."""
        found = {}
        for name, pieces in self._pieces.items():
            found[name] = np.concatenate(pieces) if pieces else np.empty(0, _TYPES.get(name, np.int64))
            pieces.clear()
        if "duration" in found:
            found["end"] = found["start"] + found.pop("duration")
        return found


#: Categories that measure the profiler, or show ranges of the host once more.
_BESIDE = ("trace", "gpu_user_annotation", "overhead")
#: The most categories that are remembered, and the most whose events are counted although they are not kept.
_MOST_CATEGORIES = 1000


class EventsByCategory(dict[Any, list[Event] | None]):
    """Maps a category to the list of its table and kind; None for a category that is not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted: dict[_Kind, list[Event]] = defaultdict(list)
        #: The number of events with a duration that are not kept, by category, without those of `_BESIDE`.
        self.left: Counter[str] = Counter()

    def __missing__(self, category: Any) -> list[Event] | None:
        name = category.lower() if isinstance(category, str) else ""
        kind = _CATEGORIES.get(name)
        if name.endswith(("_runtime", "_driver")):
            kind = ("runtime", NAMED)
        kept = self.sorted[kind] if kind else None
        if len(self) < _MOST_CATEGORIES:
            self[category] = kept
        return kept

    def sort(self, events: Iterable[Event]) -> dict[_Kind, list[Event]]:
        """Return the kept events of all calls so far, by table and kind."""
        for event in events:
            kept = self[event.cat]
            if kept is not None:
                kept.append(event)
            elif event.ph == "X" and event.dur:
                self._leave(str(event.cat))
        return self.sorted

    def _leave(self, category: str) -> None:
        """Count an event that is not kept, unless it is of `_BESIDE` or there are too many categories."""
        is_room = category in self.left or len(self.left) < _MOST_CATEGORIES
        if is_room and category.lower() not in _BESIDE:
            self.left[category] += 1
