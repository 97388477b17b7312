"""Event files of TensorBoard (`events.out.tfevents.*`), as TensorFlow, PyTorch, tensorboardX and JAX write them.

A file is a sequence of records: the length (8 bytes), its masked CRC32C (4), an `Event`, and the CRC32C of that (4).
All numbers are little-endian. An `Event` is a protocol buffer:

    Event: 1 wall_time (double), 2 step (int64), 3 file_version (`brain.Event:2`, the first record), 5 summary
    Summary: 1 value (repeated);    Value: 1 tag, 2 simple_value (float), 8 tensor (since TensorFlow 2)
    TensorProto: 1 dtype, 2 shape, 4 tensor_content, 5 float_val, 6 double_val, 7 int_val, 10 int64_val

Source: tensorflow/tensorboard 2.21 `tensorboard/compat/proto/event.proto`, `summary.proto`, `tensor.proto`,
`tensorboard/compat/tensorflow_stub/pywrap_tensorflow.py`. These few fields need no package: they are read by
`trackers.fields`.

Each scalar is a sample of the metric with its tag as name, at its step. The end of the tag gives the unit (see
`trackers.Scalars`), otherwise 1. Histograms, images, texts and graphs are not metrics. A summary with a wrong checksum
is an error, and nothing behind a damaged length can be read. A last record that is cut off is a warning, because a
program that was killed leaves one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from perfgate.readers.kit import Format, InputFile, Run, RunBuilder
from perfgate.readers.trackers import (
    ByteStream,
    DamagedError,
    Scalars,
    fields,
    float_of,
    masked_crc32c,
    message_of,
    parts,
    signed,
    text_of,
)

NAME = "tensorboard"
METRICS = "the tag of each scalar, with its steps"
CHECKED = "tensorboardX 2.6.5 and torch 2.13: files that they wrote; a public file of TensorFlow 2; generated files"
FORMAT = Format(
    NAME, __name__, signature=(rb".{12}\x09.{8}(?:\x10.)?\x1a.brain\.Event:\d", "as an event file of TensorBoard does")
)
#: Types of tensors (`DataType`), the layout of one number by type, and of a number in a list by the field of the list.
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
_CONTENT = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}
_LISTS = {5: "<f", 6: "<d"}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    run = RunBuilder(file, NAME)
    scalars = Scalars(run)
    for number, record in enumerate(_records(run, ByteStream(file)), 1):
        event, checksum = record[:-4], int.from_bytes(record[-4:], "little")
        try:
            if all(field != 5 for field, _ in fields(event)):
                continue  # nothing else is read, such as graphs, so its checksum is not computed
            if masked_crc32c(event) == checksum:
                _event(scalars, event, number)
            else:
                run.say("error", f"record {number} is damaged: its checksum is wrong; left out")
        except DamagedError as damage:
            run.say("error", f"record {number} is damaged: {damage}; left out")
    return (run.run(),)


def _records(run: RunBuilder, stream: ByteStream) -> Iterator[bytes]:
    """Yield the records of a file, each an event and its checksum."""
    number = 0
    while head := stream.take(12):
        number += 1
        cut = f"the last record ({number}) is cut off; left out"
        if len(head) < 12:
            run.say("warning", cut)
            return
        length, check = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != check:
            run.say("error", f"the length of record {number} is damaged; everything behind it is missing")
            return
        if length > run.file.limits.document_bytes:
            run.say("error", run.file.limits.beyond("document_bytes", f"record {number} is larger"))
            return
        record = stream.take(length + 4)
        if len(record) < length + 4:
            run.say("warning", cut)
            return
        yield record


def _event(scalars: Scalars, event: bytes, number: int) -> None:
    """Add the values of the event in record `number`, at its step: all or, if it is damaged, none."""
    printed = dict(fields(event)).get(2, 0)
    step = signed(printed) if isinstance(printed, int) else 0
    values = [_value(dict(fields(value))) for summary in parts(event, 5) for value in parts(summary, 1)]
    for tag, found, has_others in values:
        if found is not None and tag:
            scalars.add(tag, found, step, f"record {number}")
        elif tag and has_others:
            scalars.run.file.coverage.leave(tag)


def _value(value: Mapping[int, int | bytes]) -> tuple[str, float | None, bool]:
    """Return the tag of a value in a summary, its number, and whether it has other numbers, from its fields.

    Other numbers are a histogram (field 5) or a tensor with dimensions; they are not a metric.
    """
    tag, tensor = text_of(value.get(1, b"")), dict(fields(value.get(8, b"")))
    found = float_of(value[2]) if 2 in value else _number(tensor)
    return tag, found, found is None and (5 in value or tensor.get(1) in _CONTENT)


def _number(tensor: Mapping[int, int | bytes]) -> float | None:
    """Return the number of a tensor of 32 or 64 bits without dimensions (field 2 of its shape); None for any other."""
    kind, content = tensor.get(1), message_of(tensor.get(4, b""))
    layout = _CONTENT.get(kind) if isinstance(kind, int) else None
    if layout is None or parts(tensor.get(2, b""), 2):
        return None
    if len(content) == struct.calcsize(layout):
        return float(struct.unpack(layout, content)[0])
    for field, value in tensor.items():
        if field in _LISTS and len(message_of(value)) == struct.calcsize(_LISTS[field]):
            return float(struct.unpack(_LISTS[field], message_of(value))[0])
        if field in (7, 10):
            return _first_integer(value)
    return None


def _first_integer(value: int | bytes) -> float | None:
    """Return an integer, or the first one of a list; None if there is none."""
    if isinstance(value, bytes):  # integers without tags: with a byte 0 as its tag, the first one is a field
        value = next((first for _, first in fields(b"\0" + value)), b"")
    return float(signed(value)) if isinstance(value, int) else None
