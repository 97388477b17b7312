"""The log of a run of Weights & Biases (`wandb/run-*/run-*.wandb`, also of `WANDB_MODE=offline`).

A file begins with `:W&B`, 0xBEE1 and a version, and is a log of LevelDB: blocks of 32 KiB with pieces of records, each
with a CRC32 (4 bytes), its length (2) and its kind (whole, first, middle, last). A record is a protocol buffer:

    Record: 2 history;     HistoryRecord: 1 item (repeated), 2 step {1 num}
    Record: 3 summary;     SummaryRecord: 1 update (repeated)
    Record: 7 stats;       StatsRecord: 3 item (repeated)
    HistoryItem: 1 key, 2 nested_key (repeated), 5 integer (sint64), 6 number (double), 8 or 16 a text of JSON

Source: wandb 0.31 `wandb/proto/v6/wandb_internal_pb2.py`; google/leveldb `doc/log_format.md`, with CRC32 of zlib.

Each number of the history is a sample of the metric with its key, nested keys joined by `.`; the end of the key gives
the unit (see `trackers.Scalars`), otherwise 1. `_step` is the step; other keys that begin with `_`, such as
`_runtime`, are not read. A key that only the summary has is one value. Words, images and tables are not metrics.
Metrics of the system have `machine.` before their key, and no unit.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, unit_of_name
from perfgate.readers.trackers import ByteStream, DamagedError, Scalars, fields, float_of, parts, signed, text_of

NAME = "wandb"
METRICS = "the key of each number of the history, with its steps; `machine.KEY` of the system"
CHECKED = "wandb 0.31.0: a file that it wrote offline; files of public repositories (2021 and 2023); generated files"
FORMAT = Format(NAME, __name__, signature=(rb":W&B\xe1\xbe", "with ':W&B'"))
MAGIC = b":W&B\xe1\xbe"
#: The bytes of a block, and of the head of a piece.
_BLOCK, _HEAD = 1 << 15, 7
#: The fields of a record with a part of the history, with the summary, and with the metrics of the system.
_HISTORY, _SUMMARY, _SYSTEM = 2, 3, 7
#: The kinds of pieces.
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    log = _Log(RunBuilder(file, NAME))
    for number, record in enumerate(_records(log.run, ByteStream(file)), 1):
        try:
            log.record(record, f"record {number}")
        except DamagedError as damage:
            log.run.say("error", f"record {number} is damaged: {damage}; left out")
    for key, measured in log.summary.items():
        if not key.startswith("_") and Key(key) not in log.run.columns:
            unit, per = unit_of_name(key)
            log.run.value(Key(key), unit, measured, None, per=per)
    return (log.run.run(),)


class _Log:
    """A log while its records are read: the samples of its run, and the summary so far."""

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        self.summary: dict[str, float | int] = {}
        self._scalars = Scalars(run)
        self._samples = 0  # the number of records with metrics of the system

    def record(self, record: bytes, where: str) -> None:
        """Read a record: all of its numbers or, if it is damaged, none. Raises DamagedError."""
        for field, value in [*fields(record)]:
            if field == _HISTORY:
                self._history(value, where)
            elif field == _SUMMARY:
                self.summary |= dict(_items(value, items=1))
            elif field == _SYSTEM:
                for key, measured in [*_items(value, items=3)]:
                    self.run.sample(Key(f"machine.{key}"), "1", measured, None, step=self._samples)
                self._samples += 1

    def _history(self, record: int | bytes, where: str) -> None:
        """Add the numbers of a record of the history at their step: `_step`, or else the field `step`."""
        found, step = dict(_items(record, items=1)), 0
        for printed in parts(record, 2):
            numbers = [value for value in parts(printed, 1) if isinstance(value, int)]
            step = signed(numbers[0]) if numbers else 0
        for key, number in found.items():
            if not key.startswith("_"):
                self._scalars.add(key, number, found.get("_step", step), where)


def _records(run: RunBuilder, stream: ByteStream) -> Iterator[bytes]:
    """Yield the records; report the first piece that is damaged or cut off, and stop there."""
    begun: list[bytes] = []  # the pieces of the open record
    size = 0
    try:
        for kind, piece in _pieces(stream):
            if kind in (_WHOLE, _FIRST):
                begun, size = [], 0
            elif not begun:
                continue  # the rest of a record whose beginning is missing
            begun.append(piece)
            size += len(piece)
            if size > run.file.limits.document_bytes:
                run.say("error", run.file.limits.beyond("document_bytes", "a record is larger"))
                return
            if kind in (_WHOLE, _LAST):
                yield b"".join(begun)
                begun = []
        if begun:
            raise EOFError
    except EOFError:
        run.say("warning", "the last record is cut off; left out")
    except DamagedError as damage:
        run.say("error", str(damage))


def _pieces(stream: ByteStream) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the bytes of each piece. Raises EOFError if one is cut off, and DamagedError."""
    stream.take(len(MAGIC) + 1)  # and the version
    while True:
        left = _BLOCK - stream.at % _BLOCK
        if left < _HEAD:
            stream.take(left)  # the end of a block is padded
            continue
        head = stream.take(_HEAD)
        if not head:
            return
        if len(head) < _HEAD:
            raise EOFError
        check, length, kind = struct.unpack("<IHB", head)
        if not kind and not length:  # the rest of the block is padded
            stream.take(left - _HEAD)
            continue
        piece = stream.take(length)
        if len(piece) < length:
            raise EOFError
        is_known = kind in (_WHOLE, _FIRST, _MIDDLE, _LAST) and length <= left - _HEAD
        if not is_known or zlib.crc32(head[6:] + piece) != check:
            raise DamagedError(f"a record before byte {stream.at} is damaged; everything behind it is missing")
        yield kind, piece


def _items(record: int | bytes, items: int) -> Iterator[tuple[str, float | int]]:
    """Yield the keys and numbers of the items in a record; `items` is the number of their field."""
    for item in parts(record, items):
        key, number = _item(item)
        if number is not None:
            yield key, number


def _item(item: int | bytes) -> tuple[str, float | int | None]:
    """Return the key of an item, and its number; None if its value is not a number."""
    key, nested = "", []
    number: float | int | None = None
    for field, value in fields(item):
        if field == 1:
            key = text_of(value)
        elif field == 2:
            nested.append(text_of(value))
        elif field == 5 and isinstance(value, int):
            number = value >> 1 ^ -(value & 1)  # zigzag
        elif field == 6:
            number = float_of(value)
        elif field in (8, 16):
            number = _json_number(text_of(value))
    return key or ".".join(nested), number


def _json_number(text: str) -> float | int | None:
    if text.strip('"') in ("NaN", "Infinity", "-Infinity"):  # as W&B writes what JSON cannot
        return float(text.strip('"'))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) in (int, float) else None
