"""The long lists of numbers in a results document, `"values": [...]` and `"steps": [...]`, as arrays.

A document is nearly all numbers. Here its lists are decoded by type, and each is replaced by its place among them, so
that the rest is small and is read as strictly as any document. A string cannot be taken for a list, because the quotes
in it have a backslash. If a list has anything but numbers (NaN, a string, a number beyond float64), the whole document
is read item by item, and that shows the place.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]
AnyDecoder = msgspec.json.Decoder[list[float]] | msgspec.json.Decoder[list[int]]
LARGEST_STEP = 2**63 - 1
_LIST = re.compile(r'"(values|steps)"([ \t\n\r]*:[ \t\n\r]*\[)([0-9eE+\-., \t\n\r]*)\]')
#: The characters that are decoded at once: not all, because a Python number needs four times the memory of an array's.
_PIECE = 1 << 20
#: `"\u0076alues"` is `"values"`, too: a list that is not found, so its first number would be taken for an index.
ESCAPED_LETTER = re.compile(r"\\u00[67]")
_VALUES = msgspec.json.Decoder(list[float])
_STEPS = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=LARGEST_STEP)]])


def without_lists(text: str) -> tuple[str, list[Numbers]] | None:
    """Return the document with the index of each list in its brackets, and the lists; None if anything is unusual."""
    lists: list[Numbers] = []
    parts: list[str] = []
    end = 0
    for found in _LIST.finditer(text):
        try:
            lists.append(_numbers(text, *found.span(3), _VALUES if found[1] == "values" else _STEPS))
        except msgspec.MsgspecError:
            return None
        parts += text[end : found.start(3)], str(len(lists) - 1)
        end = found.end(3)
    rest = "".join([*parts, text[end:]])
    return None if ESCAPED_LETTER.search(rest) else (rest, lists)


def _numbers(text: str, start: int, end: int, decoder: AnyDecoder) -> Numbers:
    """Return the numbers between two brackets. Raises MsgspecError if there are none, or anything else."""
    pieces = []
    while start <= end:
        comma = text.find(",", start + _PIECE, end)
        stop = comma if comma >= 0 else end
        pieces.append(np.array(decoder.decode("[" + text[start:stop] + "]")))
        if not len(pieces[-1]):  # also behind a last comma, as in [1, 2,]
            raise msgspec.DecodeError("a list or a part of it is empty")
        start = stop + 1
    return np.concatenate(pieces)
