"""Printed decimals at known places of a text -> float64, many at once.

The eight bytes that end with a number are one integer: up to seven digits and the point. The eight bytes before them
have the other digits of a longer number. Three multiplications add the digits in the bytes of such a word (D. Lemire,
"Quickly parsing eight digits", 2018; simdjson `parse_eight_digits_unrolled`).

A number has at most 15 digits, so its digits as an integer are exact, and so is the power of ten that divides them: the
quotient is that of `float` to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Words = npt.NDArray[np.uint64]
#: Where a number ends in a line, and how many digits it has before and behind its point.
Number = tuple[int, int, int]

WORD_BYTES = 8
#: Of the digits of a number, the last ones are in the word with the point.
_WITH_POINT = WORD_BYTES - 1
_MOST_DIGITS = 15
#: A digit is the lower half of its byte.
_DIGIT = 0x0F


def words_of(text: bytes) -> Words:
    """Return the eight bytes from each place of a text on as integers, (len(text) - 7,), without a copy."""
    words: Words = np.ndarray((max(len(text) - WORD_BYTES + 1, 0),), np.dtype("<u8"), text, strides=(1,))
    return words


def can_read(number: Number) -> bool:
    """Return whether a number is read here."""
    _, whole, fraction = number
    return whole + fraction <= _MOST_DIGITS and fraction <= _WITH_POINT


class Decimals(Struct, frozen=True):
    """The decimals of a line: where their words begin, and how words become numbers."""

    #: (words,) The place of each word in the line. A long number has two words, its last digits first.
    places: Sequence[int]
    #: (words,) The digits that stay in their bytes, and those before the point, which move to the next byte.
    _behind: Words
    _before: Words
    #: (words,) The power of ten that multiplies the digits of the word.
    _factors: Words
    #: (numbers,) The first word of each number, and the power of ten that divides it.
    _firsts: Sequence[int]
    _divisors: npt.NDArray[np.float64]

    @classmethod
    def at(cls, numbers: Sequence[Number]) -> Decimals:
        """Return the decimals of a line with these numbers."""
        words: list[tuple[int, int, int, int]] = []
        firsts = []
        for end, whole, fraction in numbers:
            firsts.append(len(words))
            before = min(whole, _WITH_POINT - fraction)
            words.append((end - WORD_BYTES, _last_bytes(fraction), _last_bytes(fraction + before, fraction), 1))
            if whole > before:
                words.append((end - 2 * WORD_BYTES, _last_bytes(whole - before), 0, 10**_WITH_POINT))
        places, *parts = zip(*words, strict=True)
        behind, in_front, factors = (np.array(part, np.uint64) for part in parts)
        return cls(places, behind, in_front, factors, firsts, np.array([10.0 ** number[2] for number in numbers]))

    def read(self, words: Words) -> npt.NDArray[np.float64]:
        """Return the numbers of lines, (lines, numbers), from their words, (lines, words or more)."""
        words = words[:, : len(self.places)]
        digits = (words & self._behind) | (words << 8 & self._before)
        digits = (digits * 0xA_01 >> 8) & 0x00FF_00FF_00FF_00FF
        digits = (digits * 0x64_0001 >> 16) & 0x0000_FFFF_0000_FFFF
        digits = digits * 0x2710_0000_0001 >> 32
        if len(self.places) > len(self._firsts):
            digits = np.add.reduceat(digits * self._factors, self._firsts, axis=1)
        return digits / self._divisors


def _last_bytes(end: int, begin: int = 0) -> int:
    """Return the mask of the digits in the last `end` bytes of a word, without the last `begin` bytes."""
    return sum(_DIGIT << 8 * (WORD_BYTES - 1 - at) for at in range(begin, end))
