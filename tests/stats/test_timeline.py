"""A drawn run keeps its peaks, and stalls are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.core import Better
from perfgate.stats.steady import kept_for_drawing, stalls


@given(st.integers(0, 2000), st.lists(st.tuples(st.integers(0, 1999), st.floats()), max_size=5), st.integers(2, 300))
def test_no_more_than_asked_for_and_the_extremes_among_them(n: int, odd: list[tuple[int, float]], most: int) -> None:
    x = np.random.default_rng(n).standard_normal(n)
    for position, value in odd:
        x[position:][:1] = value
    kept = kept_for_drawing(x, most)
    finite = x[np.isfinite(x)]
    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert np.isfinite(x[kept]).all()
    if len(finite):
        assert (x[kept].min(), x[kept].max()) == (finite.min(), finite.max())
    if len(finite) <= most:
        assert x[kept].tolist() == finite.tolist()


@pytest.mark.parametrize("n", [4, 5])
def test_as_many_as_may_be_are_all_kept(n: int) -> None:
    assert kept_for_drawing(np.ones(n), n).tolist() == list(range(n))


@pytest.mark.parametrize(
    ("values", "better", "found"),
    [
        ([1, 1, 1, 2, 1], "lower", [3]),
        ([1, 1, 1, 1.99, 1], "lower", []),
        ([10, 10, 10, 20, 19], "lower", [3]),
        ([0.1, 0.1, 0.1, 0.2, 0.19], "neither", [3]),
        ([1, 1, 1, 0.1, 1], "lower", []),  # fast is no stall
        ([10, 10, 5, 10], "higher", [2]),
        ([10, 10, 30, 10], "higher", []),
        ([1, 1, 5], "neither", [2]),
        ([0, 0, 5], "lower", []),  # nothing to compare with
        ([], "lower", []),
    ],
)
def test_a_stall_is_twice_as_slow_as_the_median(values: list[float], better: Better, found: list[int]) -> None:
    assert len(stalls(np.array(values, dtype=np.float64), better)) == len(values)
    assert np.flatnonzero(stalls(np.array(values, dtype=np.float64), better)).tolist() == found
