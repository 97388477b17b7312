"""One large trace that several processes read: its list of events is cut at borders between two events.

    { header, "traceEvents": [ part 1 , part 2 , the last part ], trailer }

A comma between two braces may be such a border, or be inside a string or a nested list. That is not guessed: the first
part begins where the list begins, and it can only be decoded as a list of events if it ends at a border. Then the
second part begins at a border, too, and so on. The process that reads the file itself reads the header, the last part
and the trailer.

Anything unusual (broken text, an impossible event, too many names) is left to one process that reads the whole file,
because lines are counted from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from perfgate.readers.line_blocks import FileParts, NotInParts
from perfgate.readers.torch_trace.chunks import BOUNDARY, REACH, Buffer, Chunks
from perfgate.readers.torch_trace.event_fields import OTHERS, Names
from perfgate.readers.torch_trace.event_tables import EventTables, Pieces
from perfgate.readers.torch_trace.trace_file import TraceFile


class PartsElsewhere:
    """The parts of a trace that other processes read."""

    def __init__(self, parts: FileParts) -> None:
        self._parts = parts
        self._found: Iterator[EventTables | None] = iter(())

    def begin(self, buffer: Buffer) -> None:
        """Let others read the list of events, which begins here, up to its last part; skip the buffer to that part."""
        borders = [buffer.position]
        for share in self._parts.shares:
            border = self._border(int(self._parts.size * share) // buffer.size * buffer.size)
            if border is not None and border > borders[-1]:
                borders.append(border)
        self._found = self._parts.each(read_part, [(begin, end - 1) for begin, end in pairwise(borders)])
        while (left := borders[-1] - buffer.position) > 0:
            if buffer.start == buffer.end and not buffer.more():
                raise NotInParts
            buffer.skip(min(buffer.end, buffer.start + left))

    def _border(self, end: int) -> int | None:
        """Return where one process would begin a chunk after the one that ends before this place; None if unknown."""
        for reach in REACH:
            begin = max(end - reach, 0)
            if found := BOUNDARY.search(self._parts.read(begin, end - begin)):
                return begin + found.end(1)
        return None

    def join(self, last: EventTables, file: TraceFile) -> EventTables:
        """Return the events of all parts in their order. Raises NotInParts if one of them is unusual."""
        joined = EventTables()
        for part in chain(self._found, [last]):
            if part is None:
                raise NotInParts
            _append(joined, part)
        names = (joined.host_names, joined.kernel_names, joined.devices, joined.threads, joined.call_names)
        full = any(OTHERS in known.texts for known in (*names, joined.frame_names, joined.places))
        if full or file.broken or file.faults or last.refused_count:
            raise NotInParts
        return joined


def read_part(blocks: Iterator[bytes], begin: int) -> EventTables | None:
    """Return the events between two borders, the first of them here; None if they are not exactly a list."""
    tables, buffer = EventTables(), Buffer(chain(blocks, [b"]"]), position=begin)
    events = Chunks(buffer)
    for chunk in events:
        tables.add(chunk)
    rest = buffer.start < buffer.end or buffer.more()
    usual = events.closed and not rest and not (events.broken or events.faults or tables.refused_count)
    return tables if usual else None


def _append(tables: EventTables, part: EventTables) -> None:
    """Append the events of the next part, whose names have numbers of their own."""
    host, kernels, threads = (
        _numbers(all_names, own)
        for all_names, own in (
            (tables.host_names, part.host_names),
            (tables.kernel_names, part.kernel_names),
            (tables.threads, part.threads),
        )
    )
    devices, calls = _numbers(tables.devices, part.devices), _numbers(tables.call_names, part.call_names)
    frames, places = _numbers(tables.frame_names, part.frame_names), _numbers(tables.places, part.places)
    _extend(tables.host_pieces, part.host_pieces, {"name": host, "thread": threads})
    _extend(tables.runtime_pieces, part.runtime_pieces, {"name": calls, "thread": threads})
    _extend(tables.device_pieces, part.device_pieces, {"name": kernels, "device": devices})
    _extend(tables.frame_pieces, part.frame_pieces, {"name": frames, "thread": threads})
    _extend(tables.flop_pieces, part.flop_pieces, {})
    _extend(tables.allocation_pieces, part.allocation_pieces, {"thread": threads, "device": places})
    tables.collectives += [replace(one, row=one.row + tables.kernel_count) for one in part.collectives]
    tables.collective_ids += [(int(host[name]), external) for name, external in part.collective_ids]
    tables.kernel_count += part.kernel_count
    tables.left += part.left
    tables.allocation_count += part.allocation_count
    for peak, size in part.memory.items():
        tables.memory[peak] = max(size, tables.memory.get(peak, size))


def _numbers(all_names: Names, own: Names) -> npt.NDArray[np.int64]:
    """Return the number among all names for each name of a part."""
    return np.array([all_names[text] for text in own.texts], np.int64)


def _extend(pieces: Pieces, part: Pieces, numbers: Mapping[str, npt.NDArray[np.int64]]) -> None:
    for name, arrays in part.columns():
        for array in arrays:
            pieces.add(**{name: numbers[name][array].astype(array.dtype) if name in numbers else array})
