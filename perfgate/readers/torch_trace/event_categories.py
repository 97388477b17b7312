"""The category of an event in a trace -> the table and the kind that it belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from perfgate.readers.torch_trace.event_fields import Event
from perfgate.readers.torch_trace.tables import ANNOTATION, KERNEL, MEMCPY, MEMSET, NAMED, OP, PLAIN, PYTHON

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


class EventsByCategory(dict[Any, Callable[[Event], object] | None]):
    """Maps a category to the function that stores its events; None for a category that is not kept."""

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
        """The kept events, by table and kind."""
        for event in events:
            if put := self[event.cat]:
                put(event)
        return self.sorted
