"""The lines of a log that are one usual record of timers and nothing else, found many at once.

    [2024-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] [Rank 0] rank=0 time (ms) | forward: 359.87 | step: 161.82

Lines that differ only in digits have one *shape*: it is looked up by the text with 0 for each digit, and has the places
of the values. Lines of one shape that also have the same rank and the same timers have one *form*.

All other lines are read one by one elsewhere: values such as `nan` or `-1.00`, text behind a record, several records,
the text that shows another kind of line, or a timer that is a part of the time of the job.

A *word* of a line is eight of its bytes as one integer. The word that ends with a number has the point and up to seven
digits; the word before it has the other digits of a longer number. `digit_runs.eight_digits` makes a number of a word.
At most 15 digits and a power of ten are exact, so their quotient is the result of `float` to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.readers.deepspeed.timers import RANK, RANK_LENGTH, WORD
from perfgate.readers.digit_runs import Ints, Words, eight_digits

#: Where a number ends in a line, and how many digits it has before and behind its point.
Number = tuple[int, int, int]

WORD_BYTES = 8
#: The most digits in the word with the point: the last ones of the number.
_WITH_POINT = WORD_BYTES - 1
#: The most digits of a value, and of the rank and the timer names of a line together.
_MOST_DIGITS = 15
#: A digit is the lower half of its byte.
_BITS_OF_DIGIT = 0x0F


def words_of(text: bytes) -> Words:
    """Return the eight bytes from each place of a text on as integers, (len(text) - 7,), without a copy."""
    words: Words = np.ndarray((max(len(text) - WORD_BYTES + 1, 0),), np.dtype("<u8"), text, strides=(1,))
    return words


def can_read(number: Number) -> bool:
    """Return whether a number is read here."""
    _, whole, fraction = number
    return whole + fraction <= _MOST_DIGITS and fraction <= _WITH_POINT


class Decimals(Struct, frozen=True):
    """The decimals of lines of one shape: where their words begin, and how words become numbers."""

    #: (words,) The place of each word in the line. A long number has two words, its last digits first.
    places: Sequence[int]
    #: (words,) Masks of the digits behind the point, and of those before it, which move one byte on, over the point.
    _fraction_mask: Words
    _whole_mask: Words
    #: (words,) The power of ten that multiplies the digits of the word.
    _factors: Words
    #: (numbers,) The first word of each number, and the power of ten that divides it.
    _firsts: Sequence[int]
    _divisors: npt.NDArray[np.float64]

    @classmethod
    def at(cls, numbers: Sequence[Number]) -> Decimals:
        """Return the decimals of a line with these numbers."""
        words: list[tuple[int, int, int, int]] = []  # place, fraction mask, whole mask, factor
        firsts = []
        for end, whole, fraction in numbers:
            firsts.append(len(words))
            near = min(whole, _WITH_POINT - fraction)  # digits before the point, in the word with the point
            words.append((end - WORD_BYTES, _last_bytes(fraction), _last_bytes(fraction + near, fraction), 1))
            if whole > near:
                words.append((end - 2 * WORD_BYTES, _last_bytes(whole - near), 0, 10**_WITH_POINT))
        places, *masks_and_factors = zip(*words, strict=True)
        fraction_mask, whole_mask, factors = (np.array(part, np.uint64) for part in masks_and_factors)
        divisors = np.array([10.0**fraction for _, _, fraction in numbers])
        return cls(places, fraction_mask, whole_mask, factors, firsts, divisors)

    def read(self, words: Words) -> npt.NDArray[np.float64]:
        """Return the numbers of lines, (lines, numbers), from their words, (lines, words or more)."""
        words = words[:, : len(self.places)]
        digits = eight_digits((words & self._fraction_mask) | (words << np.uint64(8) & self._whole_mask))
        if len(self.places) > len(self._firsts):
            digits = np.add.reduceat(digits * self._factors, self._firsts, axis=1)
        return digits / self._divisors


def _last_bytes(end: int, begin: int = 0) -> int:
    """Return the mask of the digits in the last `end` bytes of a word, without the last `begin` bytes."""
    return sum(_BITS_OF_DIGIT << 8 * (WORD_BYTES - 1 - at) for at in range(begin, end))


#: What every record begins with.
_BEGIN = WORD.encode()
_RECORD = re.compile(rb"(?: \| [^|:()\[\]]+: [0-9]{1,12}\.[0-9]+)+\r?")
_FIELD = re.compile(rb" \| ([^|:]+): ([0-9]+)\.([0-9]+)")
_DIGIT = re.compile(rb"[0-9]")
#: A line with NUL, an escape or a carriage return inside is another text, or several lines, after it was cleaned.
_SPECIAL = re.compile(rb"[\0\x1b]|\r.")
_ZERO = np.uint8(ord("0"))
#: Lines of further shapes are read one by one.
_MOST_SHAPES = 2048
_LONGEST_LINE = 4000


class Form(Struct, frozen=True):
    """The record in all lines that differ only in values, and in digits before the rank."""

    #: The end of the text before the record, with the rank.
    before: str
    names: tuple[str, ...]
    decimals: Decimals


class LineShapes:
    """The shapes and forms of a log so far. Both have numbers from 0."""

    def __init__(self, odd_texts: Sequence[str]) -> None:
        """Lines with one of these texts are not usual."""
        self._odd_texts = [text.encode() for text in odd_texts if text not in ("", WORD)]
        self.forms: list[Form] = []
        self._shapes: dict[bytes, int] = {}
        #: By shape: the decimals, and the places of their words.
        self._decimals: list[Decimals] = []
        self._places = np.zeros((0, 1), np.int64)
        #: By shape: the places of the digits of rank and timers, and powers of ten that make them one number.
        self._digits = self._powers = np.zeros((0, 1), np.int64)
        #: For a search, in ascending order: a number of each known form, made of these digits and the shape, and the
        #: form. The last number is larger than any other, so that a search always ends at one.
        self._numbers: Ints = np.array([np.iinfo(np.int64).max])
        self._forms: Ints = np.array([-1])

    def find(self, text: bytes) -> tuple[Ints, Ints, Words, Ints, bytes]:
        """Find the usual lines of a text of whole lines without the last line end; lines have numbers from 0.

        Returns five values: the numbers of the usual lines, (usual,); the form of each, (usual,); the words of each,
        (usual, words), where a form with fewer words uses only the first columns; the numbers of the other lines,
        (others,); and the text of these.
        """
        texts = _with_zeros(text).split(b"\n")
        begins = np.zeros(len(texts) + 1, np.int64)
        begins[1:-1] = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        begins[-1] = len(text) + 1
        shapes = np.fromiter(map(self._shapes.get, texts, repeat(-1)), np.int64, len(texts))
        others = np.flatnonzero(shapes < 0)
        for index in others.tolist():  # lines of new shapes, and all that are not usual
            if _BEGIN in texts[index]:
                shapes[index] = self._learn(text[begins[index] : begins[index + 1] - 1], texts[index])
        others = others[shapes[others] < 0]
        usual = np.flatnonzero(shapes >= 0)
        rest = b"\n".join([text[begins[index] : begins[index + 1] - 1] for index in others.tolist()])
        own, at = shapes[usual], begins[usual]
        words = words_of(text)[at[:, None] + self._places[own]]
        return usual, self._forms_of(text, own, at), words, others, rest

    def _learn(self, line: bytes, with_zeros: bytes) -> int:
        """Return the shape of a line, maybe a new one; -1 if the line is not usual."""
        if with_zeros in self._shapes:  # an earlier line of this text was the first of its shape
            return self._shapes[with_zeros]
        odd = line.count(_BEGIN) > 1 or len(line) > _LONGEST_LINE or _SPECIAL.search(line)
        if odd or any(text in line for text in self._odd_texts) or len(self._shapes) == _MOST_SHAPES:
            return -1
        if not _RECORD.fullmatch(line, line.find(_BEGIN) + len(_BEGIN)):
            return -1
        fields = _fields(line)
        numbers = [(field.end(), len(field[2]), len(field[3])) for field in fields]
        places = _name_digits(line, fields)
        if not all(_names(fields)) or not all(map(can_read, numbers)) or len(places) > _MOST_DIGITS:
            return -1  # the last condition: more digits would not fit into the number in `_forms_of`
        self._decimals.append(Decimals.at(numbers))
        self._places = _with_row(self._places, self._decimals[-1].places)
        self._digits = _with_row(self._digits, places)
        self._powers = _with_row(self._powers, [10**power for power in range(len(places))])
        self._shapes[with_zeros] = len(self._shapes)
        return self._shapes[with_zeros]

    def _forms_of(self, text: bytes, shapes: Ints, begins: Ints) -> Ints:
        """Return the form of each line, from its shape and the place where it begins."""
        digits = np.frombuffer(text, np.uint8)[begins[:, None] + self._digits[shapes]] - _ZERO
        # two lines have one form if this number is the same: the digits of rank and timers, then the shape
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
                line = text[begins[index] :].partition(b"\n")[0]
                self.forms.append(Form(_before(line), _names(_fields(line)), self._decimals[shapes[index]]))
            at = np.searchsorted(self._numbers, numbers)
        forms_of: Ints = self._forms[at]
        return forms_of


def _with_zeros(text: bytes) -> bytes:
    """Return the text with 0 for each digit, in half of the time of `bytes.translate`."""
    letters = np.frombuffer(text, np.uint8)
    digits = letters - _ZERO  # over 9 for any other letter, because numbers below 0 wrap around
    digits *= digits < 10
    return bytes(np.subtract(letters, digits, out=digits))


def _fields(line: bytes) -> list[re.Match[bytes]]:
    return [*_FIELD.finditer(line, line.find(_BEGIN))]


def _names(fields: Sequence[re.Match[bytes]]) -> tuple[str, ...]:
    return tuple(field[1].decode("utf-8", "replace").strip() for field in fields)


def _before(line: bytes) -> str:
    """Return the end of the text before a record, where the rank is."""
    return line[: line.find(_BEGIN)].decode("utf-8", "replace")[-RANK_LENGTH:]


def _name_digits(line: bytes, fields: Sequence[re.Match[bytes]]) -> list[int]:
    """Return the places of the digits in the rank and the timers of a line."""
    rank = RANK.search(_before(line))
    count = len(_DIGIT.findall(rank[0].encode())) if rank else 0
    before = [found.start() for found in _DIGIT.finditer(line, 0, line.find(_BEGIN))]
    in_names = [found.start() for field in fields for found in _DIGIT.finditer(line, *field.span(1))]
    return before[len(before) - count :] + in_names  # the rank is right before the record: the last digits there


def _with_row(table: Ints, row: Sequence[int]) -> Ints:
    """Return a table with one more row; rows that are shorter than others end in zeros."""
    grown = np.zeros((len(table) + 1, max(table.shape[1], len(row))), np.int64)
    grown[:-1, : table.shape[1]] = table
    grown[-1, : len(row)] = row
    return grown
