"""The outermost level of a trace: an object whose key `traceEvents` stands anywhere, or a bare list of events.

Values of other keys are skipped as bytes, however long they are; only those of `events.HEADER` are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from perfgate.readers.torch_trace.chunks import Chunk, Chunks
from perfgate.readers.torch_trace.events import HEADER, NOT_DISTRIBUTED, Device, Distributed
from perfgate.readers.torch_trace.repair import Fault
from perfgate.readers.torch_trace.window import Window

_SPACE = re.compile(rb"[\s,:]+")
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rb"[\s,:]+|" + _STRING + rb'|[\[\]{}]|[^\s"\[\]{},:]+', re.DOTALL)
_MAX_KEPT = 4 << 20
_TOO_MANY = "too many events are broken: reading stops here"
_TOO_LARGE = "an event of more than 32 MiB: reading stops here"
_CUT = "the trace is cut off here: what follows is missing"


@dataclass(slots=True)
class Layout:
    """A trace while it is walked: its events in chunks, and what the header says."""

    window: Window
    distributed: Distributed = NOT_DISTRIBUTED
    devices: tuple[Device, ...] = ()
    cuda: int | None = None
    #: What was wrong with the text so far.
    faults: list[Fault] = field(default_factory=list)
    #: How many lists of events there were, and whether one had no end.
    lists: int = 0
    _is_cut: bool = False

    def chunks(self) -> Iterator[Chunk]:
        """The events. What the header says is known at the end, for it may stand behind them."""
        opening = self._next()
        if opening == b"[":
            yield from self._events()
        elif opening == b"{":
            yield from self._members()
        if not self._is_cut and self._next():
            self._fault("error", "more follows after the end of the trace, and is not read")

    def _members(self) -> Iterator[Chunk]:
        while True:
            key = self._next()
            if key == b"}":
                return
            if not key.startswith(b'"'):
                self._fault("error", "this is not JSON: a key should stand here" if key else _CUT)
                self.window.skip(self.window.end)
                return
            name = key[1:-1].decode("utf-8", "replace")
            if name == "traceEvents" and self._peek(b"["):
                yield from self._events()
                if self._is_cut:
                    return
            else:
                self._read(name)

    def _events(self) -> Iterator[Chunk]:
        """The events of a list, whose opening bracket comes next or has just been consumed."""
        self.lists += 1
        events = Chunks(self.window, self.faults)
        if self.lists == 1:
            yield from events
        else:
            self._fault("error", "traceEvents stands twice: the second list is not read")
            for _ in events:
                pass
        if not events.closed:
            full = _TOO_LARGE if self.window.is_full else _CUT
            self._fault("error", _TOO_MANY if events.has_too_many_faults else full)
            self._is_cut = True

    def _read(self, name: str) -> None:
        """The value of a key: decoded if it is one of `HEADER`."""
        line = self.window.line
        value = self._value(keep=name in HEADER)
        if name not in HEADER:
            return
        try:
            found = HEADER[name].decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self.faults.append(("warning", f"{name} cannot be read", line, ""))
            return
        if isinstance(found, Distributed):
            self.distributed = found
        elif isinstance(found, list):
            self.devices = tuple(found)
        elif isinstance(found, int):
            self.cuda = found

    def _value(self, *, keep: bool) -> bytes:
        """The bytes of the value that comes next, of any depth; none of one that is not to be kept, or too large."""
        depth, kept, size = 0, [], 0
        while True:
            token = self._token()
            if keep and size < _MAX_KEPT:
                kept.append(token)
                size += len(token)
            depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
            if not token or (depth <= 0 and not _SPACE.fullmatch(token)):
                return b"".join(kept).strip(b" \t\r\n,:")

    def _next(self) -> bytes:
        """The next token that is no space, comma or colon; nothing at the end."""
        token = self._token()
        while token and _SPACE.fullmatch(token):
            token = self._token()
        return token

    def _peek(self, byte: bytes) -> bool:
        """Whether the next token is this one, which then is consumed."""
        window = self.window
        while True:
            space = _SPACE.match(window.data, window.start, window.end)
            at = space.end() if space else window.start
            if at < window.end:
                break
            if not window.more():
                return False
        if window.data[at : at + 1] != byte:
            return False
        window.skip(at + 1)
        return True

    def _token(self) -> bytes:
        """The next token, consumed; nothing at the end of the text, nor for a string that never ends."""
        window = self.window
        while True:
            match = _TOKEN.match(window.data, window.start, window.end)
            if match and (match.end() < window.end or window.ended or match[0] in (b"{", b"}", b"[", b"]")):
                token = bytes(match[0])
                window.skip(match.end())
                return token
            if not window.more():
                window.skip(match.end() if match else window.end)
                return bytes(match[0]) if match else b""

    def _fault(self, severity: str, what: str) -> None:
        self.faults.append(("error" if severity == "error" else "warning", what, self.window.line, ""))
