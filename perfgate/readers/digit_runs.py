"""Find the lines of a text that differ only in their digits, and compute the numbers in many lines at once.

Two lines are of one kind if they are equal with one 0 instead of each run of digits. So the n-th runs of such lines
have the same meaning; `loss: 2.5e-03` has three runs.

The eight bytes that end with a run are one integer. Three multiplications add the digits in the bytes of such a word
(D. Lemire, "Quickly parsing eight digits", 2018; simdjson `parse_eight_digits_unrolled`).

Up to 15 digits are exact as a float64, and so are the powers of ten up to 22: their product or quotient is that of
`float` to the last bit (W. Clinger, "How to read floating point numbers accurately", 1990). `float` reads the others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_NUMBER = re.compile(rb"([-+]?)([0-9]+(?:,[0-9]{3})*)(\.[0-9]*)?(?:[eE]([-+]?)([0-9]+))?")
_RUN = re.compile(rb"[0-9]+")
_WORD_BYTES = 8
_MOST_DIGITS, _MOST_POWER = 15, 22
#: By the number of digits: a mask that keeps the values of the last digits of a word, the low four bits of their bytes.
_LAST = np.array([sum(0x0F << 8 * (7 - at) for at in range(digits)) for digits in range(9)], np.uint64)
_POWERS = 10.0 ** np.arange(_MOST_POWER + 1)
_WHOLE_POWERS = 10 ** np.arange(_MOST_DIGITS + 1)


class PrintedNumber(Struct, frozen=True):
    """Which runs of a line are one number: `-1,234.5e-03`."""

    #: The first run, and the number of runs before the exponent.
    first: int
    runs: int
    has_fraction: bool
    is_negative: bool
    #: The run of the exponent, and its sign; 0 without one.
    exponent: int = 0
    exponent_sign: int = 0

    @classmethod
    def at(cls, line: bytes, place: int) -> tuple[PrintedNumber, str] | None:
        """Return the number printed at a place of a line, and its text without commas; None if there is none."""
        found = _NUMBER.match(line, place)
        if found is None:
            return None
        begins = [run.start() for run in _RUN.finditer(line)]
        first = bisect_left(begins, found.start(2))
        groups = found[2].count(b",") + 1  # `1,234` has two
        if begins[first : first + 1] != [found.start(2)] or line[found.end() : found.end() + 1].isdigit():
            return None  # it begins or ends inside of a run
        has_fraction = len(found[3] or b"") > 1
        runs = groups + has_fraction
        number = cls(first, runs, has_fraction, is_negative=found[1] == b"-")
        if found[5] is not None:
            number = replace(number, exponent=first + runs, exponent_sign=-1 if found[4] == b"-" else 1)
        return number, found[0].replace(b",", b"").decode()


def runs_within(line: bytes, begin: int, end: int) -> list[int]:
    """Return which runs of a line begin in a part of it."""
    return [run for run, found in enumerate(_RUN.finditer(line)) if begin <= found.start() < end]


class DigitRuns:
    """The runs of digits in a text of whole lines."""

    def __init__(self, text: bytes) -> None:
        letters = np.frombuffer(text, np.uint8)
        is_digit = (letters - ord("0")) < 10  # below 0 wraps around
        edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
        #: (runs,) Where each begins and ends.
        self.begins, self.ends = edges[::2], edges[1::2]
        keep = ~is_digit
        keep[self.begins] = True
        kinds = letters[keep]  # of each run only the first digit
        lengths = self.ends - self.begins
        dropped = np.cumsum(lengths - 1) - (lengths - 1)  # before each run
        kinds[self.begins - dropped] = ord("0")
        #: Each line, with one 0 for each run.
        self.kinds: list[bytes] = kinds.tobytes().split(b"\n")
        #: (lines + 1,) Where each line begins.
        self._starts: Ints = np.concatenate([[0], np.flatnonzero(letters == ord("\n")) + 1, [len(text) + 1]])
        #: (lines,) The first run of each line.
        self.firsts: Ints = np.searchsorted(self.begins, self._starts[:-1])
        self.text = text
        #: What `digits` returned, by its argument.
        self._digits: dict[tuple[int, ...], Sequence[tuple[bytes, ...]]] = {}
        #: The integer of the eight bytes from each place of the text behind 16 bytes of 0: so `[end + 8]` is the word
        #: before the place `end` of the text.
        padded = bytes(2 * _WORD_BYTES) + text
        self._words: Words = np.ndarray((len(text) + 9,), np.dtype("<u8"), padded, strides=(1,))

    def line(self, line: int) -> bytes:
        """Return a line without its end."""
        return self.text[self._starts[line] : self._starts[line + 1] - 1]

    def digits(self, runs: tuple[int, ...]) -> Sequence[tuple[bytes, ...]]:
        """Return the digits of these runs for each line; for a line with fewer runs they mean nothing."""
        if not runs or not len(self.begins):
            return [()] * len(self.kinds)
        if runs not in self._digits:
            places = [np.minimum(self.firsts + run, len(self.begins) - 1) for run in runs]
            spans = [zip(self.begins[at].tolist(), self.ends[at].tolist(), strict=True) for at in places]
            columns = [[self.text[begin:end] for begin, end in span] for span in spans]
            self._digits[runs] = [*zip(*columns, strict=True)]
        return self._digits[runs]

    def whole(self, runs: Ints) -> tuple[Ints, Ints]:
        """Return the value of each run, right for up to 16 digits, and its number of digits."""
        ends, lengths = self.ends[runs], self.ends[runs] - self.begins[runs]
        found = eight_digits(self._words[ends + _WORD_BYTES] & _LAST[np.minimum(lengths, 8)])
        if len(lengths) and lengths.max() > _WORD_BYTES:
            more = _LAST[np.clip(lengths - _WORD_BYTES, 0, 8)]  # of the word before: the digits before the last 8
            found += eight_digits(self._words[ends] & more) * np.uint64(10**8)
        return found.astype(np.int64), lengths

    def numbers(self, lines: Ints, number: PrintedNumber) -> Floats:
        """Return the number of each of these lines, which are of one kind: its digits times a power of ten."""
        first = self.firsts[lines] + number.first
        found, length = self.whole(first)
        count = length  # of all digits before the exponent
        for run in range(1, number.runs):
            value, length = self.whole(first + run)
            count = count + length
            found = found * _WHOLE_POWERS[np.minimum(length, _MOST_DIGITS)] + value
        # `length` is that of the last run, which is the fraction.
        power = -length if number.has_fraction else np.zeros(len(lines), np.int64)
        if number.exponent:
            exponent, length = self.whole(self.firsts[lines] + number.exponent)
            power = power + number.exponent_sign * np.where(length > 3, 1000, exponent)  # 1000 makes it inexact
        inexact = (count > _MOST_DIGITS) | (np.abs(power) > _MOST_POWER)
        factor = _POWERS[np.minimum(np.abs(power), _MOST_POWER)]
        values: Floats = np.where(power < 0, found / factor, found * factor)
        last = self.firsts[lines] + (number.exponent or number.first + number.runs - 1)
        for at in np.flatnonzero(inexact).tolist():
            values[at] = float(self.text[self.begins[first[at]] : self.ends[last[at]]].replace(b",", b""))
        return -values if number.is_negative else values


def eight_digits(words: Words) -> Words:
    """Return the numbers of words with a digit in each byte, the first digit in the lowest byte.

    The three lines join neighbours: digits to pairs (10 * a + b), pairs to fours, and fours to eights.
    """
    words = words * np.uint64(0xA_01) >> np.uint64(8) & np.uint64(0x00FF_00FF_00FF_00FF)
    words = words * np.uint64(0x64_0001) >> np.uint64(16) & np.uint64(0x0000_FFFF_0000_FFFF)
    numbers: Words = words * np.uint64(0x2710_0000_0001) >> np.uint64(32)
    return numbers
