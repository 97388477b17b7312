"""Shared by the readers of logged values: the parts of binary logs, and numbers with names and steps.

Sources: protobuf.dev/programming-guides/encoding (wire types 0, 1, 2 and 5; 3 and 4 are of groups, which nobody writes
here); RFC 3720, B.4 (CRC32C), with the mask of TensorFlow's `tensorflow/core/lib/hash/crc32c.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from perfgate.core.resource_limits import OverLimit
from perfgate.readers.kit import InputFile, Key, RunBuilder, checked, unit_of_name

#: That of CRC32C, its lowest bit first.
_POLYNOMIAL = 0x82F63B78


class DamagedError(Exception):
    """A fault in a message, as a protocol buffer is called."""


class ByteStream:
    """The bytes of a file, taken from its blocks in pieces."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._blocks = file.blocks()
        self._rest = b""
        #: How many bytes were taken.
        self.at = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end of the file. Raises OverLimit if they may be beyond the limit."""
        if self.at + size > self._file.limits.inflated_bytes:
            message = self._file.limits.beyond("inflated_bytes", "this log is larger")
            raise OverLimit(self._file.problem("error", message))
        parts, have = [self._rest], len(self._rest)
        while have < size and (block := next(self._blocks, b"")):
            parts.append(block)
            have += len(block)
        data = b"".join(parts)
        self._rest = data[size:]
        self.at += min(size, len(data))
        return data[:size]


def fields(value: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message. Raises DamagedError, also if `value` is a number.

    A value is an integer or bytes: a text, a message, or the 8 or 4 bytes of a number.
    """
    message, at = message_of(value), 0
    while at < len(message):
        tag, at = _integer(message, at)
        kind = tag & 7
        if kind == 0:
            number, at = _integer(message, at)
            yield tag >> 3, number
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _integer(message, at)
        if size is None or at + size > len(message):
            raise DamagedError("a field is cut off or of an unknown kind")
        yield tag >> 3, message[at : at + size]
        at += size


def _integer(message: bytes, at: int) -> tuple[int, int]:
    """Return the integer of variable length at a place, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value & (1 << 64) - 1, at
    raise DamagedError("a number is cut off or too long")


def signed(value: int) -> int:
    """Return an int64 that was written as its two's complement."""
    return value - (1 << 64) if value >> 63 else value


def parts(message: int | bytes, number: int) -> list[int | bytes]:
    """Return the values of the fields of a message with this number. Raises DamagedError."""
    return [value for field, value in fields(message) if field == number]


def message_of(value: int | bytes) -> bytes:
    """Return the bytes of a field. Raises DamagedError if it is a number."""
    if isinstance(value, bytes):
        return value
    raise DamagedError("a field is a number instead of a message")


def text_of(value: int | bytes) -> str:
    """Return the text of a field."""
    return message_of(value).decode("utf-8", "replace")


def float_of(value: int | bytes) -> float:
    """Return the float or double of a field."""
    data = message_of(value)
    if len(data) not in (4, 8):
        raise DamagedError("a number has a wrong size")
    return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])


#: The CRC32C of each byte.
_TABLE = [*range(256)]
for _ in range(8):
    _TABLE = [entry >> 1 ^ (_POLYNOMIAL if entry & 1 else 0) for entry in _TABLE]


def masked_crc32c(data: bytes) -> int:
    """Return the masked CRC32C of bytes."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Scalars:
    """Logged numbers of one run.

    The end of the name gives the unit: `time(ms)`, `tokens_per_second`, `memory/max_active(GiB)`; otherwise 1.
    """

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        #: The last step of each name.
        self._last: dict[str, int] = {}

    def add(self, name: str, value: object, step: float, where: str | int) -> None:
        """Add a number, or a problem; `where` is a line, or the words for a place such as `record 3`."""
        place = where if isinstance(where, int) else None
        detail = f" ({where})" if isinstance(where, str) else ""
        unit, per = unit_of_name(name)
        fault = checked(value, unit)[1]
        if not abs(step) < 1 << 63:  # also NaN
            fault = "the step is not a number that a program counts to; left out"
        elif step < self._last.get(name, step):
            fault = f"the step goes back from {self._last[name]} to {step}: a file with several runs is not read"
        if fault:
            self.run.refuse(Key(name), f"{fault}{detail}", place)
        else:
            self._last[name] = int(step)
            self.run.sample(Key(name), unit, value, place, per=per, step=max(int(step), 0))  # a step before 0 is 0
