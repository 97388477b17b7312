"""Decimals at known places of a text: the same numbers as `float`, to the last bit."""

import random

import numpy as np
import pytest

from perfgate.readers.deepspeed.line_shapes import Decimals, can_read, words_of

TEXTS = [
    "0.5",
    "9.99",
    "359.87",
    "1026.01",
    "99999.99",
    "123456.78",
    "0.1234567",
    "12345678.1234567",
    "99999999999999.9",
]


def numbers_in(line: str, texts: list[str]) -> list[tuple[int, int, int]]:
    found, at = [], 0
    for text in texts:
        at = line.index(f": {text}", at) + 2 + len(text)
        whole, _, fraction = text.partition(".")
        found.append((at, len(whole), len(fraction)))
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_a_number_is_that_of_float(text: str) -> None:
    line = f"1234567890 time (ms) | 77: {text} | step: 1.25\r"
    decimals = Decimals.at(numbers_in(line, [text, "1.25"]))
    words = words_of(line.encode())[np.array([decimals.places])]
    assert decimals.read(words).tolist() == [[float(text), 1.25]]


def test_lines_with_numbers_at_the_same_places_are_read_together() -> None:
    rng = random.Random(1)
    rows = [[f"{rng.uniform(1e2, 1e3):.2f}", f"{rng.uniform(1e8, 1e9):.5f}"] for _ in range(500)]
    lines = ["time (ms) | fwd: {} | step: {}\n".format(*row) for row in rows]
    decimals = Decimals.at(numbers_in(lines[0], rows[0]))
    places = np.arange(len(lines))[:, None] * len(lines[0]) + np.array(decimals.places)
    assert decimals.read(words_of("".join(lines).encode())[places]).tolist() == [[*map(float, row)] for row in rows]


@pytest.mark.parametrize(("whole", "fraction"), [(9, 7), (1, 8), (14, 2)])
def test_numbers_that_may_be_rounded_are_left_to_float(whole: int, fraction: int) -> None:
    assert not can_read((40, whole, fraction))
