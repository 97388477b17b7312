"""Snapshots of torch's CUDA allocator, as `torch.cuda.memory._dump_snapshot` writes them.

    torch.cuda.memory._record_memory_history()
    ...                                                     the steps
    torch.cuda.memory._dump_snapshot("snapshot.pickle")

    {"segments": [{"device": 0, "address": ..., "total_size": 2097152, "allocated_size": ..., "is_expandable": False,
                   "blocks": [{"address": ..., "size": 512, "requested_size": 400, "state": "active_allocated",
                               "frames": [{"name": "forward", "filename": "model.py", "line": 12}, ...]}, ...]}, ...],
     "device_traces": [[{"action": "alloc", "addr": ..., "size": 400, "stream": 0, "time_us": ..., "frames": [...]},
                        {"action": "free_requested", ...}, {"action": "free_completed", ...}, ...]],
     "allocator_settings": {...}, "external_annotations": [...]}

Source: pytorch/pytorch `torch/cuda/memory.py` (`_snapshot`, `_dump_snapshot`), `torch/csrc/cuda/Module.cpp`
(`THCPModule_memorySnapshot`), `torch/csrc/cuda/memory_snapshot.cpp` and `c10/cuda/CUDACachingAllocator.cpp` (torch 2.0
to 2.13). The file is a pickle; `plain_pickle` reads it, and cannot import or call anything.

| metric | unit | what |
|---|---|---|
| `memory.allocated` | B | the blocks in use when the snapshot was taken |
| `memory.reserved` | B | all segments: what the allocator got from the device |
| `memory.peak_allocated` | B | the most that was in use at once, from the history; absent without a history |

Labels: device, if the snapshot has several; rank, if the name of the file has one. The history is replayed backwards
from the blocks in use: an allocation counts from `alloc` to `free_requested`, as in torch's statistics. It has the
sizes that the program requested. `torch.cuda.max_memory_allocated()` has rounded sizes, which are larger by up to 512
bytes for each small tensor. The history is a ring: the peak is that of the events that are still in it.

The call tree has the stack of each allocation that was in use at the peak, the outermost function first, and the line
that allocates as the innermost node, with its bytes. Functions of torch are left out, so it is a line of the program.
Functions are named without line numbers and folders. The stack of `free_requested` is the place that frees, so the
stack is that of the `alloc` before it. Of stacks with C++ frames, those of Python are used; a stack without any, as of
the backward pass, has the names of its autograd nodes and operators (`NllLossBackward0`, `aten::nll_loss_backward`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.call_trees import CallNode, CallTree
from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, items
from perfgate.readers.line_blocks import rank_in_name
from perfgate.readers.plain_pickle import PickleFault, Plain, PlainPickle

NAME = "torch-snapshot"
METRICS = "`memory.peak_allocated`, `memory.allocated`, `memory.reserved`"
CHECKED = "torch 2.13: files made by hand as its source writes them, by Python's pickler and by torch's own"
#: A pickle of protocols 2 to 5 of a dict whose first key is one of a snapshot, however the pickler writes text.
_SNAPSHOT = (
    rb"\x80[\x02-\x05](?:\x95.{8})?\}(?:\x94|q\0)?\(?(?:\x8c.|X.\0\0\0)"
    rb"(?:segments|device_traces|allocator_settings|external_annotations|host_segments)"
)
FORMAT = Format(NAME, __name__, signature=(_SNAPSHOT, "as a memory snapshot of torch does"))
#: Files of torch itself.
_is_of_torch = re.compile(r".*[/\\](?:(?:site|dist)-packages|pytorch)[/\\]torch[/\\]").match
#: An operator or a node of autograd in a stack of C++; all other frames are the same for every allocation.
_OF_CPP = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\(|torch::autograd::(?:generated::)?(\w+)::apply\(")
_NO_FRAMES = ("(no Python frames)", "")
_BEFORE = ("(allocated before the history)", "")
#: The outermost functions of a stack that are kept; memory of deeper ones counts for the last of them.
_DEEPEST = 60
#: The functions of a stack from the outside in: the name of each, and its place in the program.
Stack = tuple[tuple[str, str], ...]
_Event = dict[Any, Any]


class SnapshotFault(Exception):
    """The data is not a snapshot of torch."""


class DeviceMemory(Struct):
    """The memory of one device: bytes, and the bytes by stack at the peak, or now if there is no history."""

    allocated: int = 0
    reserved: int = 0
    peak: int | None = None
    stacks: dict[Stack, int] = field(default_factory=dict)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a snapshot."""
    run = RunBuilder(file, NAME)
    rank = rank_in_name(file.name)
    if (data := file.whole_bytes()) is None:
        run.say("error", file.limits.beyond("document_bytes", "this snapshot is larger"))
        return (run.run(),)
    try:
        devices = _Snapshot(file.limits.containers).devices(PlainPickle(data, file.limits).load())
    except (PickleFault, SnapshotFault) as fault:
        run.say("error", str(fault))
        return (run.run(),)
    for number, device in devices.items():
        labels = {"rank": rank} if rank is not None else {}
        labels |= {"device": str(number)} if len(devices) > 1 else {}
        run.one_value(Key.of("memory.allocated", **labels), "B", float(device.allocated))
        run.one_value(Key.of("memory.reserved", **labels), "B", float(device.reserved))
        if device.peak is not None:
            run.one_value(Key.of("memory.peak_allocated", **labels), "B", float(device.peak))
    if devices and all(device.peak is None for device in devices.values()):
        advice = "call torch.cuda.memory._record_memory_history() before the steps"
        run.say("warning", f"the snapshot has no history, so the peak is unknown: {advice}")
    return (replace(run.run(), call_trees=(_tree_of(devices, rank or ""),)),)


class _Snapshot:
    """A snapshot while it is read; every value of it may be anything.

    `most`: how many dicts it may have, counted as often as they occur.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen = 0
        #: The stacks so far, by the id of their list of frames.
        self._stacks: dict[int, Stack] = {}

    def devices(self, data: Plain) -> dict[int, DeviceMemory]:
        """Return the memory of each device with a segment or a history, by number. Raises SnapshotFault."""
        if not isinstance(data, dict) or not isinstance(data.get("segments"), list):
            raise SnapshotFault("this pickle is not a snapshot of torch: it has no list of segments")
        found: dict[int, DeviceMemory] = defaultdict(DeviceMemory)
        # By device and address, the blocks in use: their bytes and stacks.
        live: dict[int, dict[int, tuple[int, Stack]]] = defaultdict(dict)
        for segment in self._items(data["segments"]):
            number = _whole(segment, "device", 0)
            device = found[number]
            device.reserved += _whole(segment, "total_size")
            at = _whole(segment, "address", 0)
            for block in self._items(segment.get("blocks", [])):
                size = _whole(block, "size")
                if block.get("state") == "active_allocated":
                    device.allocated += size
                    address = _whole(block, "address", at)
                    live[number][address] = (_whole(block, "requested_size", size), self._stack(block))
                at += size
        for number, trace in enumerate(items(data.get("device_traces"))):
            events = list(self._items(trace))
            if number in found or events:
                self._replay(found[number], live[number], events)
        return dict(sorted(found.items()))

    def _items(self, values: object) -> Iterator[dict[Any, Any]]:
        """Yield the dicts of a list, and count them: a list may occur many times in a pickle."""
        if not isinstance(values, list):
            raise SnapshotFault("this snapshot is damaged: something that should be a list is not")
        for value in values:
            self._seen += 1
            if not isinstance(value, dict):
                raise SnapshotFault("this snapshot is damaged: something that should be a dict is not")
            if self._seen > self._most:
                raise SnapshotFault("this snapshot repeats its parts more often than its size allows")
            yield value

    def _replay(self, device: DeviceMemory, live: dict[int, tuple[int, Stack]], events: list[_Event]) -> None:
        """Go back through the history, from the blocks in use at its end, to the blocks in use at the peak."""
        changes = _changes(events)
        now = peak = sum(size for size, _ in live.values())
        after_peak = len(changes)  # the first change after the peak
        for index in range(len(changes) - 1, -1, -1):
            event, _ = changes[index]
            size = _whole(event, "size")
            now += size if event["action"] == "free_requested" else -size
            if now > peak:
                peak, after_peak = now, index
        for event, allocation in reversed(changes[after_peak:]):
            if event["action"] == "alloc":
                live.pop(_whole(event, "addr"), None)
            else:
                stack = (_BEFORE,) if allocation is None else self._stack(allocation)
                live[_whole(event, "addr")] = (_whole(event, "size"), stack)
        device.peak = peak if changes else None
        for size, stack in live.values():
            device.stacks[stack] = device.stacks.get(stack, 0) + size

    def _stack(self, record: Mapping[Any, Any]) -> Stack:
        """Return the stack of a block or an event; it is decoded once for all that share it."""
        frames = record.get("frames")
        if not isinstance(frames, list) or not frames:
            return ()
        known = self._stacks.get(id(frames))
        if known is None:
            known = self._stacks[id(frames)] = tuple(_functions(list(self._items(frames))))
        return known


def _changes(events: Sequence[_Event]) -> list[tuple[_Event, _Event | None]]:
    """Return the events that allocate or free memory, each with the `alloc` of it; None before the history began."""
    found: list[tuple[_Event, _Event | None]] = []
    allocations: dict[int, _Event] = {}  # by address
    for event in events:
        if event.get("action") == "alloc":
            allocations[_whole(event, "addr")] = event
            found.append((event, event))
        elif event.get("action") == "free_requested":
            found.append((event, allocations.pop(_whole(event, "addr"), None)))
    return found


def _functions(frames: list[dict[Any, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the Python functions of a stack that torch gives from the inside out; its operators if there are none.

    Functions of torch are left out, unless the stack has no others.
    """
    named = [(str(one.get("name", "")), str(one.get("filename", "")), one.get("line")) for one in reversed(frames)]
    python = [one for one in named if one[1].endswith(".py")]
    own = [one for one in python if not _is_of_torch(one[1])]
    for name, path, line in (own or python)[:_DEEPEST]:
        file = path.replace("\\", "/").rpartition("/")[2]
        yield f"{name} ({file})", f"{file}({line}): {name}"
    if not python:
        matches = (_OF_CPP.match(name) for name, _, _ in named)
        operators = dict.fromkeys(match[2] or f"aten::{match[1]}" for match in matches if match)
        yield from [(name, "") for name in operators][:_DEEPEST]


def _whole(record: Mapping[Any, Any], name: str, default: int | None = None) -> int:
    """Return a whole number of a record. Raises SnapshotFault."""
    value = record.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise SnapshotFault(f"this snapshot is damaged: {name} is not a whole number of at least 0")
    return value


def _tree_of(devices: Mapping[int, DeviceMemory], rank: str) -> CallTree:
    """Return the tree of the stacks of all devices, with the bytes of each."""
    nodes = [CallNode("step", kind="step", parent=-1)]
    sizes = [0.0]
    known: dict[tuple[int, str], int] = {}

    def below(parent: int, name: str, source: str) -> int:
        """Return the node of this name below another one; it is made if there is none."""
        if (parent, name) not in known:
            known[parent, name] = len(nodes)
            nodes.append(CallNode(name, kind="range", parent=parent, source=source))
            sizes.append(0.0)
        return known[parent, name]

    for number, device in devices.items():
        top = below(0, f"device {number}", "") if len(devices) > 1 else 0
        for stack, size in sorted(device.stacks.items()):
            node = top
            for name, source in stack or (_NO_FRAMES,):
                node = below(node, name, source)
            if nodes[node].source:  # of a function's allocations, each line is a node
                node = below(node, stack[-1][1], stack[-1][1])
            sizes[node] += size
    nothing = np.zeros((len(nodes), 1))  # a snapshot has no calls and no times
    memory, peak = np.array(sizes), float(sum(sizes))
    return CallTree(rank, tuple(nodes), counts=nothing, busy=nothing, wall=nothing, memory=memory, peak=peak)
