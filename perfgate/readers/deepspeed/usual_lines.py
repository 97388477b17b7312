"""Lines that are one usual record of timers and nothing else, read many at once.

    [2024-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] [Rank 0] rank=0 time (ms) | forward: 359.87 | step: 161.82

Nearly every line of a log of timers is such a line. Lines that differ only in digits have one shape: their values are
at the same places, and numpy reads them together. A value has at most 15 digits, so its digits as an integer are exact,
and so is the power of ten that divides them: the quotient is that of `float` to the last bit.

All other lines are left to `log`: values of another form (`nan`, `-1.00`), text behind a record, several records, the
word of another kind of line, or a timer that is a part of the time of the job.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Location
from perfgate.core.resource_limits import OverLimit
from perfgate.readers.deepspeed.timers import RANK, RANK_LENGTH, WORD, Floats, Ints, Rank, Table, Timers

_WORD = WORD.encode()
_RECORD = re.compile(rb"(?: \| [^|:()\[\]]+: [0-9]{1,12}\.[0-9]+)+\r?")
_FIELD = re.compile(rb" \| ([^|:]+): ([0-9]+)\.([0-9]+)")
_DIGIT = re.compile(rb"[0-9]")
#: What makes several lines or another text of a line: `text.clean` and `InputFile.lines` read these.
_SPECIAL = re.compile(rb"[\0\x1b]|\r.")
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
#: Whole numbers with this number of digits are exact in float64, and in an int64 together with a shape.
_EXACT_DIGITS = 15
#: Lines of further shapes are read one by one.
_MOST_SHAPES = 2048
_LONGEST_LINE = 4000
#: The number of bytes of text whose values are read together.
_PENDING_BYTES = 1 << 18
#: From this number of lines on, numpy counts steps faster than a loop.
_MANY_LINES = 50


class _Form(Struct, frozen=True):
    """The record in all lines that differ only in values, and in digits before the rank."""

    #: The text in which the rank is.
    before: str
    names: tuple[str, ...]
    #: For each value: where its digits are in the line, and the power of ten that divides them.
    values: Sequence[tuple[Sequence[int], float]]


class UsualBlock(Struct):
    """A block of a log: its lines that are not usual and their numbers, and the number of the line after it."""

    rest: bytes
    numbers: Sequence[int]
    end: int
    _lines: UsualLines
    #: For each usual line, its number in the file, the number of its form, and where it begins in the texts.
    _usual: list[int]
    _forms: Ints
    _begins: Ints
    #: How many of them are read.
    _done: int = 0

    def read_until(self, number: int) -> None:
        """Read the usual lines before this line of the file."""
        end = bisect_left(self._usual, number, self._done)
        if end > self._done:
            lines = slice(self._done, end)
            self._lines.count(self._forms[lines], self._begins[lines], self._usual[lines])
            self._done = end


class UsualLines:
    """The usual lines of a log: their forms, and the lines whose values are still to be read."""

    def __init__(self, timers: Callable[[], Timers], words: Sequence[str]) -> None:
        #: Returns the timers of the run that is being read.
        self._timers = timers
        self._words = [word.encode() for word in words if word not in ("", WORD)]
        self._shapes: dict[bytes, int] = {}
        #: By shape: where the digits of its rank and names are, and powers of ten that make them one number.
        self._places = self._powers = np.zeros((0, _EXACT_DIGITS), np.int64)
        self._forms: list[_Form] = []
        #: The number of each form, by that number of its digits and its shape.
        self._numbers: dict[int, int] = {}
        #: The texts of the last blocks, and their size.
        self._texts: list[bytes] = []
        self._size = 0
        #: Lines that are counted: their forms, where they begin, their steps and their places among all records.
        self._counted: array[int] = array("q")
        self._begins: array[int] = array("q")
        self._steps: array[int] = array("q")
        self._records: array[int] = array("q")
        self._of = timers()
        self._tables: dict[int, tuple[Rank, Table]] = {}

    def block(self, text: bytes, number: int) -> UsualBlock:
        """Return a block: whole lines without the last line end, the first of which has this number."""
        if self._size > _PENDING_BYTES:
            self.read_values()
            self._texts, self._size = [], 0
        shapes = text.translate(_ZEROS).split(b"\n")
        begins = np.zeros(len(shapes) + 1, np.int64)
        begins[1:-1] = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        begins[-1] = len(text) + 1
        found = np.array([*map(self._shapes.get, shapes, repeat(-1))])
        for index in np.flatnonzero(found < 0).tolist():
            if _WORD in shapes[index]:
                found[index] = self._learn(text[begins[index] : begins[index + 1] - 1], shapes[index])
        forms = self._forms_of(text, found, begins)
        usual, others = np.flatnonzero(forms >= 0), np.flatnonzero(forms < 0)
        rest = b"\n".join([text[begins[index] : begins[index + 1] - 1] for index in others.tolist()])
        at: list[int] = (usual + number).tolist()
        own = forms[usual], begins[usual] + self._size
        block = UsualBlock(rest, (others + number).tolist(), number + len(forms), self, at, *own)
        self._texts.append(text + b"\n")
        self._size += len(text) + 1
        return block

    def _learn(self, line: bytes, shape: bytes) -> int:
        """Return the number of a shape, maybe a new one; -1 if its lines are not usual."""
        if shape in self._shapes:
            return self._shapes[shape]
        start = line.find(_WORD)
        odd = line.count(_WORD) > 1 or len(line) > _LONGEST_LINE or _SPECIAL.search(line)
        if odd or any(word in line for word in self._words) or len(self._shapes) == _MOST_SHAPES:
            return -1
        if not _RECORD.fullmatch(line, start + len(_WORD)):
            return -1
        fields = [*_FIELD.finditer(line, start)]
        rank = RANK.search(_before(line))
        digits = len(_DIGIT.findall(rank[0].encode())) if rank else 0
        places = [found.start() for found in _DIGIT.finditer(line, 0, start)][-digits:] if digits else []
        places += [found.start() for field in fields for found in _DIGIT.finditer(line, *field.span(1))]
        if len(places) > _EXACT_DIGITS or any(len(field[2] + field[3]) > _EXACT_DIGITS for field in fields):
            return -1
        if not all(field[1].decode("utf-8", "replace").strip() for field in fields):
            return -1
        row = np.zeros((2, 1, _EXACT_DIGITS), np.int64)
        row[0, 0, : len(places)] = places
        row[1, 0, : len(places)] = [10**power for power in range(len(places))]
        self._places = np.concatenate([self._places, row[0]])
        self._powers = np.concatenate([self._powers, row[1]])
        self._shapes[shape] = len(self._shapes)
        return self._shapes[shape]

    def _forms_of(self, text: bytes, shapes: Ints, begins: Ints) -> Ints:
        """Return the form of each line, -1 for a line without shape."""
        forms = np.full(len(shapes), -1, np.int64)
        usual = np.flatnonzero(shapes >= 0)
        if not len(usual):
            return forms
        shape = shapes[usual]
        width = max(int((self._powers > 0).sum(axis=1).max()), 1)
        places = begins[usual, None] + self._places[shape, :width]
        digits = np.frombuffer(text, np.uint8)[places] - np.uint8(ord("0"))
        numbers = (digits * self._powers[shape, :width]).sum(axis=1) * _MOST_SHAPES + shape
        unique, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        for number, at in zip(unique.tolist(), usual[first].tolist(), strict=True):
            if number not in self._numbers:
                self._numbers[number] = len(self._forms)
                self._forms.append(_form(text[begins[at] :].partition(b"\n")[0]))
        forms[usual] = np.array([self._numbers[number] for number in unique.tolist()])[inverse]
        return forms

    def count(self, forms: Ints, begins: Ints, numbers: list[int]) -> None:
        """Take the next usual lines, which have these numbers in the file."""
        if (timers := self._timers()) is not self._of:
            self.read_values()
            self._of, self._tables = timers, {}
        listed: list[int] = forms.tolist()
        if not self._tables.keys() >= {*listed}:
            for form, number in zip(listed, numbers, strict=True):
                if form not in self._tables:
                    self._tables[form] = self._table(form, number)
        self._count_steps(listed)
        self._records.extend(range(timers.records, timers.records + len(listed)))
        timers.records += len(listed)
        self._counted.frombytes(forms.tobytes())
        self._begins.frombytes(begins.tobytes())

    def _count_steps(self, forms: list[int]) -> None:
        """Add the step of each of the next records."""
        tables = [self._tables[form] for form in forms]
        if len(forms) >= _MANY_LINES:
            first, *others = {id(rank): rank for rank, _ in tables}.values()
            if not others and first.names is None:
                steps = first.count_many(np.array([table.ends_step for _, table in tables]))
                self._steps.frombytes(steps.tobytes())
                return
        for record, (rank, table) in enumerate(tables, self._of.records):
            self._steps.append(rank.count(table, record))

    def _table(self, form: int, number: int) -> tuple[Rank, Table]:
        """Return the rank and the table of a form in the run that is being read. Raises OverLimit, at this line."""
        rank = self._of.rank(self._forms[form].before)
        try:
            return rank, self._of.table(rank, self._forms[form].names)
        except OverLimit as over:
            at = Location(over.problem.at.file, number)
            raise OverLimit(replace(over.problem, at=at), over.before) from None

    def read_values(self) -> None:
        """Add the lines that were counted to their tables."""
        if not self._counted:
            return
        text = np.frombuffer(b"".join(self._texts), np.uint8)
        forms, begins = np.array(self._counted), np.array(self._begins)
        steps, records = np.array(self._steps), np.array(self._records)
        for number in np.unique(forms).tolist():
            table = self._tables[number][1]
            own = forms == number
            rows = [_values(text, begins[own], *value) for value in self._forms[number].values]
            table.extend(np.stack(rows, axis=1), steps[own], records[own])
        self._counted, self._begins, self._steps, self._records = (array("q") for _ in range(4))


def _before(line: bytes) -> str:
    return line[: line.find(_WORD)].decode("utf-8", "replace")[-RANK_LENGTH:]


def _form(line: bytes) -> _Form:
    """Return the form of a usual line."""
    fields = [*_FIELD.finditer(line, line.find(_WORD))]
    names = tuple(field[1].decode("utf-8", "replace").strip() for field in fields)
    places = [(*range(*field.span(2)), *range(*field.span(3))) for field in fields]
    powers = [10.0 ** len(field[3]) for field in fields]
    return _Form(_before(line), names, [*zip(places, powers, strict=True)])


def _values(text: npt.NDArray[np.uint8], begins: Ints, places: Sequence[int], power: float) -> Floats:
    """Return the value at the same places of each line, (n,)."""
    digits = text[np.array(places)[:, None] + begins] - np.uint8(ord("0"))
    value = np.zeros(len(begins), np.int64)
    for row in digits:
        value = 10 * value + row
    return value / power
