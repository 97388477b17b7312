"""The lines of a log that are one usual record of timers and nothing else, found many at once.

    [2024-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] [Rank 0] rank=0 time (ms) | forward: 359.87 | step: 161.82

Lines that differ only in digits have one shape, which is looked up by the text with 0 for each digit. Their values are
at the same places. Lines of one shape whose rank and timers have the same digits, too, have one form.

All other lines are left to `log`: values of another form (`nan`, `-1.00`), text behind a record, several records, the
word of another kind of line, or a timer that is a part of the time of the job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from msgspec import Struct

from perfgate.readers.builder import Ints
from perfgate.readers.decimals import Decimals, Words, can_read, words_of
from perfgate.readers.deepspeed.timers import RANK, RANK_LENGTH, WORD

_WORD = WORD.encode()
_RECORD = re.compile(rb"(?: \| [^|:()\[\]]+: [0-9]{1,12}\.[0-9]+)+\r?")
_FIELD = re.compile(rb" \| ([^|:]+): ([0-9]+)\.([0-9]+)")
_DIGIT = re.compile(rb"[0-9]")
#: What makes several lines or another text of a line: `text.clean` and `InputFile.lines` read these.
_SPECIAL = re.compile(rb"[\0\x1b]|\r.")
_ZERO = np.uint8(ord("0"))
#: The digits of a rank and of timers make one number, which fits in an int64 together with a shape.
_MOST_DIGITS = 15
#: Lines of further shapes are read one by one.
_MOST_SHAPES = 2048
_LONGEST_LINE = 4000


class Form(Struct, frozen=True):
    """The record in all lines that differ only in values, and in digits before the rank."""

    #: The text in which the rank is.
    before: str
    names: tuple[str, ...]
    decimals: Decimals


class FoundLines(Struct, frozen=True):
    """The usual lines of a text, and the others; lines are numbered from 0."""

    #: (usual,) The numbers of the usual lines, and the form of each.
    usual: Ints
    forms: Ints
    #: (usual, words) What the decimals of each form read; a form may have fewer words than there are columns.
    words: Words
    #: (others,) The numbers of the other lines, and their text.
    others: Ints
    rest: bytes


class LineShapes:
    """The shapes and forms of a log so far."""

    def __init__(self, words: Sequence[str]) -> None:
        """Lines with one of these words are not usual."""
        self._words = [word.encode() for word in words if word not in ("", WORD)]
        self.forms: list[Form] = []
        self._shapes: dict[bytes, int] = {}
        #: By shape: the decimals, and the places of their words.
        self._decimals: list[Decimals] = []
        self._places = np.zeros((0, 1), np.int64)
        #: By shape: the places of the digits of rank and timers, and powers of ten that make them one number.
        self._digits = self._powers = np.zeros((0, 1), np.int64)
        #: Those numbers with their shapes, of all forms and in order, and the forms; the last is larger than any other.
        self._numbers: Ints = np.array([np.iinfo(np.int64).max])
        self._forms: Ints = np.array([-1])

    def find(self, text: bytes) -> FoundLines:
        """Return the usual lines of a text: whole lines without the last line end."""
        texts = _with_zeros(text).split(b"\n")
        begins = np.zeros(len(texts) + 1, np.int64)
        begins[1:-1] = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        begins[-1] = len(text) + 1
        shapes = np.fromiter(map(self._shapes.get, texts, repeat(-1)), np.int64, len(texts))
        others = np.flatnonzero(shapes < 0)
        for index in others.tolist():
            if _WORD in texts[index]:
                shapes[index] = self._learn(text[begins[index] : begins[index + 1] - 1], texts[index])
        others = others[shapes[others] < 0]
        usual = np.flatnonzero(shapes >= 0)
        rest = b"\n".join([text[begins[index] : begins[index + 1] - 1] for index in others.tolist()])
        own, at = shapes[usual], begins[usual]
        words = words_of(text)[at[:, None] + self._places[own]]
        return FoundLines(usual, self._forms_of(text, own, at), words, others, rest)

    def _learn(self, line: bytes, text: bytes) -> int:
        """Return the shape of a line, maybe a new one; -1 if the line is not usual."""
        if text in self._shapes:
            return self._shapes[text]
        start = line.find(_WORD)
        odd = line.count(_WORD) > 1 or len(line) > _LONGEST_LINE or _SPECIAL.search(line)
        if odd or any(word in line for word in self._words) or len(self._shapes) == _MOST_SHAPES:
            return -1
        if not _RECORD.fullmatch(line, start + len(_WORD)):
            return -1
        fields = _fields(line)
        numbers = [(field.end(), len(field[2]), len(field[3])) for field in fields]
        places = _name_digits(line, fields)
        if not all(_names(fields)) or not all(map(can_read, numbers)) or len(places) > _MOST_DIGITS:
            return -1
        self._decimals.append(Decimals.at(numbers))
        self._places = _with_row(self._places, self._decimals[-1].places)
        self._digits = _with_row(self._digits, places)
        self._powers = _with_row(self._powers, [10**power for power in range(len(places))])
        self._shapes[text] = len(self._shapes)
        return self._shapes[text]

    def _forms_of(self, text: bytes, shapes: Ints, begins: Ints) -> Ints:
        """Return the form of each line, from its shape and the place where it begins."""
        digits = np.frombuffer(text, np.uint8)[begins[:, None] + self._digits[shapes]] - _ZERO
        numbers = (digits * self._powers[shapes]).sum(axis=1) * _MOST_SHAPES + shapes
        at = np.searchsorted(self._numbers, numbers)
        new = np.flatnonzero(self._numbers[at] != numbers)
        if len(new):
            added, first = np.unique(numbers[new], return_index=True)
            known = np.concatenate([self._numbers, added])
            forms = np.concatenate([self._forms, len(self.forms) + np.arange(len(added))])
            order = np.argsort(known)
            self._numbers, self._forms = known[order], forms[order]
            for index in new[first].tolist():
                self.forms.append(_form(text[begins[index] :].partition(b"\n")[0], self._decimals[shapes[index]]))
            at = np.searchsorted(self._numbers, numbers)
        forms_of: Ints = self._forms[at]
        return forms_of


def _with_zeros(text: bytes) -> bytes:
    """Return the text with 0 for each digit, in half of the time of `bytes.translate`."""
    letters = np.frombuffer(text, np.uint8)
    digits = letters - _ZERO  # over 9 for any other letter: what is below 0 wraps around
    digits *= digits < 10
    zeros: bytes = np.subtract(letters, digits, out=digits).tobytes()
    return zeros


def _fields(line: bytes) -> list[re.Match[bytes]]:
    return [*_FIELD.finditer(line, line.find(_WORD))]


def _names(fields: Sequence[re.Match[bytes]]) -> tuple[str, ...]:
    return tuple(field[1].decode("utf-8", "replace").strip() for field in fields)


def _before(line: bytes) -> str:
    return line[: line.find(_WORD)].decode("utf-8", "replace")[-RANK_LENGTH:]


def _name_digits(line: bytes, fields: Sequence[re.Match[bytes]]) -> list[int]:
    """Return the places of the digits in the rank and the timers of a line."""
    rank = RANK.search(_before(line))
    count = len(_DIGIT.findall(rank[0].encode())) if rank else 0
    places = [found.start() for found in _DIGIT.finditer(line, 0, line.find(_WORD))]
    inside = [found.start() for field in fields for found in _DIGIT.finditer(line, *field.span(1))]
    return places[len(places) - count :] + inside


def _form(line: bytes, decimals: Decimals) -> Form:
    """Return the form of a usual line."""
    return Form(_before(line), _names(_fields(line)), decimals)


def _with_row(table: Ints, row: Sequence[int]) -> Ints:
    """Return a table with one more row; rows that are shorter than others end in zeros."""
    grown = np.zeros((len(table) + 1, max(table.shape[1], len(row))), np.int64)
    grown[:-1, : table.shape[1]] = table
    grown[-1, : len(row)] = row
    return grown
