"""The events of a trace as whole tables of numpy columns, and the table of each category; all times are in ns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.readers.text import TraceMode
from perfgate.readers.torch_trace.event_fields import Event, Float64, Int64, Mask, Names

Ids = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.int8]
Threads = npt.NDArray[np.int16]

OP, ANNOTATION, PYTHON = 0, 1, 2
KERNEL, MEMCPY, MEMSET = 0, 1, 2
#: Runtime calls in the category that torch wrote until 2021, and all others.
PLAIN, NAMED = 0, 1

#: The name of a table, and a kind in it.
_Kind = tuple[str, int]
#: The table and kind of each category, in lower case. Categories of a runtime or driver have many names.
_CATEGORIES = {
    **dict.fromkeys(("cpu_op", "operator"), ("host", OP)),
    "user_annotation": ("host", ANNOTATION),
    "python": ("host", PYTHON),
    "python_function": ("frame", 0),
    "kernel": ("device", KERNEL),
    **dict.fromkeys(("gpu_memcpy", "memcpy"), ("device", MEMCPY)),
    **dict.fromkeys(("gpu_memset", "memset"), ("device", MEMSET)),
    "runtime": ("runtime", PLAIN),
    **dict.fromkeys(("", "cpu_instant_event"), ("instant", 0)),
}


class Host(Struct, frozen=True):
    """Host ranges; all arrays (n,), times in ns. `kind` is OP, ANNOTATION or PYTHON."""

    names: Names
    name: Ids
    kind: Kinds
    thread: Threads
    start: Int64
    end: Int64


class Runtime(Struct, frozen=True):
    """Calls of the runtime and the driver; all arrays (n,), times in ns. `kind` is PLAIN or NAMED."""

    names: Names
    name: Threads
    kind: Kinds
    thread: Threads
    correlation: Int64
    start: Int64
    end: Int64

    def known_to(self, mode: TraceMode) -> Mask:
        """True for the calls that a mode uses: torch_tb_profiler knows only the category of 2021."""
        return self.kind == PLAIN if mode == "tensorboard" else np.ones(len(self.kind), bool)


class Frames(Struct, frozen=True):
    """Calls of Python functions of the program itself, not of libraries; all arrays (n,), times in ns."""

    names: Names
    name: Ids
    thread: Threads
    start: Int64
    end: Int64


class Allocations(Struct, frozen=True):
    """Changes of allocated memory, (n,); `size` in bytes is negative where memory is freed."""

    devices: Names
    device: Threads
    thread: Threads
    time: Int64
    address: Int64
    size: Int64


class Device(Struct, frozen=True):
    """Kernels and copies; all arrays (n,), times in ns. `kind` is KERNEL, MEMCPY or MEMSET.

    `amount` is the number of thread blocks of a kernel, or the bytes of a copy; NaN if absent.
    """

    devices: Names
    names: Names
    name: Ids
    kind: Kinds
    correlation: Int64
    device: Ids
    amount: Float64
    start: Int64
    end: Int64


class Kernels(Struct, frozen=True):
    """The kernels of `Device`, with the fields that only they have; all arrays (n,)."""

    names: Names
    name: Ids
    device: Ids
    start: Int64
    end: Int64
    external_id: Int64
    #: Blocks per multiprocessor, and percent of occupancy; NaN if absent.
    blocks: Float64
    occupancy: Float64


#: Any of the tables of spans.
Table = Host | Runtime | Device | Kernels


class Collective(Struct, frozen=True):
    """The arguments of one NCCL kernel; `row` is its index in `Kernels`, `group` its process group."""

    row: int
    name: str
    group: str
    event: Event


#: Categories that measure the profiler, or show ranges of the host once more.
_BESIDE = ("trace", "gpu_user_annotation", "overhead")
#: The most categories that are not kept and are told of.
_MOST_CATEGORIES = 1000


class EventsByCategory(dict[Any, Callable[[Event], object] | None]):
    """Maps a category to the function that stores its events; None for a category that is not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted: dict[_Kind, list[Event]] = defaultdict(list)
        #: The number of events with a duration that are not kept, by category.
        self.left: Counter[str] = Counter()

    def __missing__(self, category: Any) -> Callable[[Event], object] | None:
        name = category.lower() if isinstance(category, str) else ""
        kind = _CATEGORIES.get(name) or (("runtime", NAMED) if name.endswith(("_runtime", "_driver")) else None)
        put = self.sorted[kind].append if kind else None
        if len(self) < 1000:
            self[category] = put
        return put

    def sort(self, events: Iterable[Event]) -> dict[_Kind, list[Event]]:
        """The kept events, by table and kind."""
        for event in events:
            if put := self[event.cat]:
                put(event)
            elif event.ph == "X" and event.dur and len(self.left) < _MOST_CATEGORIES:
                self.left[str(event.cat)] += str(event.cat).lower() not in _BESIDE
        return self.sorted
