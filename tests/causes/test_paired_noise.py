"""The noise of pairs, and what they show, from numbers that are worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_alignments import Row, aligned

from perfgate.causes import paired
from perfgate.causes.paired import PairNoise, _variance, find_paired_slowdowns, in_pairs

PAIRS = (0, 1, 2)
ROWS = [
    Row("a", "operator", 0, 10, (11, 12, 13)),
    Row("b", "operator", 0, 90, 90),
    Row("c", "operator", 1, 0.30, 0.31),
    Row("d", "operator", 1, 0.31, 0.30),
]
#: The variances of the two nodes that are seen are 0.01 and 0 of their squared times; a prior of 0.03 counts as 3.
POOLED = (3 * 0.03**2 + 2 * 0.005 / (1 - 1 / 9) ** 3) / 5


def test_the_noise_of_three_pairs() -> None:
    noise = PairNoise(aligned(ROWS, PAIRS, PAIRS))
    assert noise._seen == [1, 2]
    assert noise.freedom == 5
    assert noise.reach == pytest.approx(2.570582)
    assert noise.clear == pytest.approx(4.032143)  # 99.5 %
    assert noise._pooled == pytest.approx(POOLED)
    assert noise.change([1]) == pytest.approx((2.0, math.sqrt(max(1.0, (3 * POOLED * 144 + 2 * 1) / 5) / 3)))
    assert noise.change([1, 2]) == pytest.approx((2.0, math.sqrt((3 * POOLED * 102**2 + 2 * 1) / 5 / 3)))
    assert noise.change([2, 2]) == pytest.approx((0.0, math.sqrt(3 * POOLED * 8100 / 5 / 3)))
    quiet = PairNoise(aligned([Row("a", "operator", 0, 10, 10), *ROWS[1:]], PAIRS, PAIRS))
    assert quiet._pooled == pytest.approx(0.03**2 * 3 / 5)
    noisy = PairNoise(aligned([Row("a", "operator", 0, 10, (0, 10, 20)), *ROWS[1:]], PAIRS, PAIRS))
    assert noisy.change([1]) == pytest.approx((0.0, 10 / math.sqrt(3)))  # its own variance is the larger one


def test_nodes_of_more_than_three_thousandths_show_the_noise() -> None:
    rows = [Row("a", "operator", 0, 3, 4), Row("b", "operator", 0, 997, 900), Row("c", "operator", 0, 0, 90)]
    assert PairNoise(aligned(rows, PAIRS, PAIRS))._seen == [2]
    none = PairNoise(aligned([Row("a", "operator", 0, 0, 1)], PAIRS, PAIRS))
    assert none.clear == pytest.approx(3.364930)  # 99 %


def test_the_variance_of_pairs() -> None:
    found = [
        _variance(np.array(one), np.array(other))
        for one, other in (([1.0], [9.0]), ([1, 2], [2, 5]), ([1, 2, 3], [2, 4, 6]))
    ]
    assert found == [0.0, 2.0, 1.0]


def test_each_pair_is_a_column_of_the_same_step() -> None:
    rows = [
        Row(
            "steady",
            "operator",
            0,
            (1, 2, 9, 4, 4),
            (2, 8, 27, 2, 2, 99),
            ((1,) * 5, (1,) * 6),
            ((1, 1, 4, 3, 5), (1, 1, 7, 2, 4, 6)),
        ),
        Row("varied", "operator", 0, (1, 1, 4, 6, 10), (3, 3, 9, 1, 3, 8), ((1, 2, 1, 1, 1), (1, 1, 1, 2, 3, 4))),
        Row("rare", "operator", 0, (0, 1, 2, 0, 0), (1, 1, 1, 0, 0, 0)),
        Row("gone", "operator", 0, (1, 1, 1, 4, 4), (0, 3, 0, 6, 0, 9)),
    ]
    found = in_pairs(aligned(rows, (0, 0, 0, 1, 1), (0, 0, 0, 1, 1, 1)))
    # pair 0: ratios 2, 4 and 3; pair 1: the first two steps of each side
    base = np.array([[0, 0], [2, 4], [2, 8], [1, 0], [1, 4]])
    new = np.array([[0, 0], [6, 2], [5, 2], [1, 0], [1, 3]])
    scale = 11 / np.array([6, 16])
    assert found.base.wall == pytest.approx(base * scale)
    assert found.new.wall == pytest.approx(new * scale)
    assert (found.base.run.tolist(), found.new.run.tolist()) == ([0, 1], [0, 1])
    assert found.base.counts[2] == pytest.approx([4 / 3, 1])
    assert found.new.counts[2] == pytest.approx([1, 3])
    assert found.base.busy[1] == pytest.approx([2, 4] * scale)
    assert found.new.busy[1] == pytest.approx([3, 4] * scale)


def test_a_pair_more_on_one_side_is_left_out() -> None:
    rows = [Row("a", "operator", 0, (0.01, 0.02), (0.03, 0.05, 0.07))]
    found = in_pairs(aligned(rows, (0, 1), (0, 1, 2)))
    assert found.base.wall[1] == pytest.approx([0.015, 0.015])
    assert found.new.wall[1] == pytest.approx([0.045, 0.0375])


def slowdowns(*rows: Row, runs: tuple[int, ...] = PAIRS, claimed: tuple[int, ...] = ()) -> list[tuple[str, int, float]]:
    alignment = aligned(rows, runs, runs)
    noise = PairNoise(alignment)
    found = find_paired_slowdowns(alignment, noise, {*claimed})
    for one in found:
        assert (set(one.nodes), one.parents) == ({one.lead}, (max(alignment.nodes[one.lead].parent, 0),))
        assert (one.change, one.error) == noise.change([one.lead])
    return [(one.kind, one.lead, one.change) for one in found]


def test_clear_changes_are_found_the_largest_first() -> None:
    rows = [Row("a", "operator", 0, 100, 130), Row("b", "operator", 1, 100, 10), Row("c", "operator", 0, 100, 100.1)]
    assert slowdowns(*rows) == [("faster", 2, -90.0), ("slower", 1, 30.0)]
    assert slowdowns(*rows, claimed=(2,)) == [("slower", 1, 30.0)]
    assert slowdowns(*rows, runs=(0, 1)) == []
    assert paired.FEWEST_PAIRS == 3
    # noise hides 4.2 % of a node: 4.03 errors of 3 % * sqrt(3 / 5 * 3 / 5 / 3)
    assert slowdowns(Row("a", "operator", 0, 100, 104), Row("b", "operator", 0, 100, 100)) == []
    assert slowdowns(Row("a", "operator", 0, 100, 105), Row("b", "operator", 0, 100, 100)) == [("slower", 1, 5.0)]
    # less than 1.2 % of the step is not worth a line
    assert slowdowns(Row("a", "operator", 0, 4, 16), Row("b", "operator", 0, 984, 984)) == [("slower", 1, 12.0)]
    assert slowdowns(Row("a", "operator", 0, 4, 15.5), Row("b", "operator", 0, 1000, 1000)) == []
