"""The outermost level of a trace: an object with the key `traceEvents` at any place, or a bare list of events.

Values of other keys are skipped as bytes, at any length. Only the values of the keys in `_HEADER` are decoded.

Several processes read one large trace in parts: its list of events is cut at borders between two events.

    { header, "traceEvents": [ part 1 , part 2 , the last part ], trailer }

A comma between two braces may be such a border, or be inside a string or a nested list. That is not guessed: the first
part begins where the list begins, and it can only be decoded as a list of events if it ends at a border. Then the
second part begins at a border, too, and so on. The process that reads the file itself reads the header, the last part
and the trailer. Anything unusual (broken text, an impossible event, too many names) is left to one process that reads
the whole file, because lines are counted from its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

import msgspec
from msgspec import Struct, field

from perfgate.core import Severity
from perfgate.readers.line_blocks import FileParts, NotInParts
from perfgate.readers.torch_trace.chunks import BOUNDARY, REACH, Buffer, Chunk, Chunks
from perfgate.readers.torch_trace.event_fields import OTHERS, Loose
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.repair import Fault

_SPACE = re.compile(rb"[\s,:]+")
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rb"[\s,:]+|" + _STRING + rb'|[\[\]{}]|[^\s"\[\]{},:]+', re.DOTALL)
_MAX_KEPT = 4 << 20  # bytes of a value
_CUT = "the trace is cut off here: the rest is missing"


class Distributed(Struct, frozen=True):
    """`distributedInfo`: which process of a job wrote the trace."""

    rank: Loose = None
    world_size: Loose = None
    nccl_version: Loose = None


class DeviceProperties(Struct, frozen=True):
    """One row of `deviceProperties`."""

    name: Loose = None


_NOT_DISTRIBUTED = Distributed()
#: The keys that are decoded: the attribute of `TraceFile`, and the decoder of the value.
_HEADER: dict[str, tuple[str, msgspec.json.Decoder[object]]] = {
    "distributedInfo": ("distributed", msgspec.json.Decoder(Distributed)),
    "deviceProperties": ("devices", msgspec.json.Decoder(list[DeviceProperties])),
    "cuda_runtime_version": ("cuda", msgspec.json.Decoder(int)),
}


class TraceFile(Struct):
    """A trace while it is read: its events in chunks, and its header."""

    buffer: Buffer
    distributed: Distributed = _NOT_DISTRIBUTED
    devices: Sequence[DeviceProperties] = ()
    cuda: int | None = None
    faults: list[Fault] = field(default_factory=list)
    #: True if a part of the list of events was not valid JSON as it was.
    broken: bool = False
    #: Called where the first list of events begins.
    before_events: Callable[[Buffer], None] | None = None
    #: The number of lists of events so far.
    lists: int = 0
    _is_cut: bool = False

    def chunks(self) -> Iterator[Chunk]:
        """Yield the events. The header may follow them, so it is complete only at the end."""
        opening = self._next()
        if opening == b"[":
            yield from self._events()
        elif opening == b"{":
            yield from self._members()
        if not self._is_cut and self._next():
            self._fault("error", "text after the end of the trace is not read")

    def _members(self) -> Iterator[Chunk]:
        """Yield the events of an object, and decode its header."""
        while True:
            key = self._next()
            if key == b"}":
                return
            if not key.startswith(b'"'):
                self._fault("error", "not JSON: expected a key here" if key else _CUT)
                self.buffer.skip(self.buffer.end)
                return
            name = key[1:-1].decode("utf-8", "replace")
            if name == "traceEvents" and self._takes(b"["):
                yield from self._events()
                if self._is_cut:
                    return
            else:
                self._read(name)

    def _events(self) -> Iterator[Chunk]:
        """Yield the events of a list, if it is the first one; report why it ends early."""
        self.lists += 1
        if self.before_events and self.lists == 1:
            self.before_events(self.buffer)
        events = Chunks(self.buffer, self.faults)
        if self.lists == 1:
            yield from events
        else:
            self._fault("error", "traceEvents occurs twice: the second list is not read")
            for _ in events:
                pass
        self.broken = self.broken or events.broken
        if not events.closed:
            full = "an event of more than 32 MiB: reading stops here" if self.buffer.is_full else _CUT
            broken = "too many events are broken: reading stops here"
            self._fault("error", broken if events.has_too_many_faults else full)
            self._is_cut = True

    def _read(self, name: str) -> None:
        """Consume the value of a key, and decode it if the key is in the header."""
        line = self.buffer.line
        value = self._value(keep=name in _HEADER)
        if name in _HEADER:
            attribute, decoder = _HEADER[name]
            try:
                setattr(self, attribute, decoder.decode(value))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                self._fault("warning", f"{name} cannot be read", line)

    def _value(self, *, keep: bool) -> bytes:
        """Consume the next value, at any depth; return its bytes if `keep`, without the end of a very long one."""
        depth, kept, size = 0, [], 0
        while True:
            token = self._token()
            if keep and size < _MAX_KEPT:
                kept.append(token)
                size += len(token)
            if token in (b"{", b"["):
                depth += 1
            elif token in (b"}", b"]"):
                depth -= 1
            if not token or (depth <= 0 and not _SPACE.fullmatch(token)):
                return b"".join(kept).strip(b" \t\r\n,:")

    def _next(self) -> bytes:
        """Consume and return the next token that is not space, comma or colon; empty at the end."""
        token = self._token()
        while token and _SPACE.fullmatch(token):
            token = self._token()
        return token

    def _takes(self, byte: bytes) -> bool:
        """Consume the next token if it is this one; otherwise return False, and leave it for `_read`."""
        buffer = self.buffer
        while True:
            space = _SPACE.match(buffer.data, buffer.start, buffer.end)
            at = space.end() if space else buffer.start
            if at < buffer.end:
                break
            if not buffer.more():
                return False
        if buffer.data[at : at + 1] != byte:
            return False
        buffer.skip(at + 1)
        return True

    def _token(self) -> bytes:
        """Consume and return the next token; empty at the end of the text, and for a string without an end."""
        buffer = self.buffer
        while True:
            match = _TOKEN.match(buffer.data, buffer.start, buffer.end)
            # a token at the end of the buffer may continue in the next bytes, unless it is a bracket
            if match and (match.end() < buffer.end or buffer.ended or match[0] in (b"{", b"}", b"[", b"]")):
                token = bytes(match[0])
                buffer.skip(match.end())
                return token
            if not buffer.more():
                buffer.skip(match.end() if match else buffer.end)
                return bytes(match[0]) if match else b""

    def _fault(self, severity: Severity, what: str, line: int | None = None) -> None:
        """Keep a problem, here if no line is given."""
        self.faults.append((severity, what, line or self.buffer.line, ""))


class PartsElsewhere:
    """The parts of a trace that other processes read."""

    def __init__(self, parts: FileParts) -> None:
        self._parts = parts
        self._found: Iterable[EventTables | None] = ()

    def begin(self, buffer: Buffer) -> None:
        """Let others read the list of events, which begins here, up to its last part; skip the buffer to that part."""
        borders = [buffer.position]
        for share in self._parts.shares:
            # a chunk ends before a multiple of the buffer's size, wherever reading began
            border = self._border(int(self._parts.size * share) // buffer.size * buffer.size)
            if border is not None and border > borders[-1]:
                borders.append(border)
        # a border is after the comma between two events, which belongs to no part
        self._found = self._parts.each(read_part, [(begin, end - 1) for begin, end in pairwise(borders)])
        while (left := borders[-1] - buffer.position) > 0:
            if buffer.start == buffer.end and not buffer.more():
                raise NotInParts
            buffer.skip(min(buffer.end, buffer.start + left))

    def _border(self, end: int) -> int | None:
        """Return the cut that one process would try first before this place (`chunks`: `_cuts`); None if unknown."""
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
            joined.append(part)
        every = (names for pieces in joined.pieces.values() for names in pieces.names.values())
        if any(OTHERS in names.texts for names in every) or file.broken or file.faults or last.refused_count:
            raise NotInParts
        return joined


def read_part(blocks: Iterator[bytes], begin: int) -> EventTables | None:
    """Return the events between two borders, the first of them at `begin`; None if they are not exactly a list."""
    closed = chain(blocks, [b"]"])  # so that the part is a list
    tables, buffer = EventTables(), Buffer(closed, position=begin)
    events = Chunks(buffer)
    for chunk in events:
        tables.add(chunk)
    rest = buffer.start < buffer.end or buffer.more()
    usual = events.closed and not rest and not (events.broken or events.faults or tables.refused_count)
    return tables if usual else None
