"""What to measure next: each place of each change counted on its own, and the information integrated plainly."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from made_posterior import made
from msgspec.structs import replace
from scipy.special import entr
from scipy.stats import norm

from perfgate.bisect import choose
from perfgate.bisect.posterior import Posterior

#: The gaps of each cell of `made`; a gap is named after the position with the new level.
GAPS = {0: (1, 2), 1: (3,), 2: (4, 5, 6, 7)}


def by_gaps(found: Posterior, position: int) -> dict[tuple[int, float, float], float]:
    """The probability of each place of the largest change with the mean and variance of the value, gap by gap."""
    weights: dict[tuple[int, float, float], float] = defaultdict(float)
    rows = found.hypotheses
    for number, cells in enumerate(rows.cells.tolist()):
        choices = [(0, 0)]  # the gaps of both changes
        if cells[0] >= 0:
            others = GAPS[cells[1]] if cells[1] >= 0 else (0,)
            choices = [(first, second) for first in GAPS[cells[0]] for second in others if first != second]
        for gaps in choices:
            factor = np.zeros(2)
            for change, (cell, gap) in enumerate(zip(cells, gaps, strict=True)):
                factor[change] = (gap <= position) - found.next.pull[cell] if cell >= 0 else 0
            mean = found.next.centre + factor @ rows.mean[number]
            variance = found.next.variance + factor @ rows.covariance[number] @ factor
            place = cells[0] + 1
            if cells[0] >= 0 and gaps[0] <= position and not set(GAPS[cells[0]]) <= {*range(position + 1)}:
                place = len(GAPS) + 1  # the position is inside the cell, and the change before it
            weights[place, round(mean, 12), round(variance, 12)] += rows.weight[number] / len(choices)
    return weights


@pytest.mark.parametrize("position", range(8))
def test_the_outcomes_are_those_of_each_gap(position: int) -> None:
    found: dict[tuple[int, float, float], float] = defaultdict(float)
    for mean, variance, weight, place in zip(*choose._outcomes(made(), position), strict=True):
        found[int(place), round(mean, 12), round(variance, 12)] += weight
    wanted = by_gaps(made(), position)
    assert {key: one for key, one in found.items() if one} == pytest.approx(wanted)


def on_a_grid(found: Posterior, position: int, count: int = 48, reach: float = 4.0) -> float:
    """The uncertainty of the place and that of the value, less that of both together, in bits, on a grid of values."""
    outcomes = by_gaps(found, position)
    centre = sum(weight * mean for (_, mean, _), weight in outcomes.items())
    square = sum(weight * (variance + (mean - centre) ** 2) for (_, mean, variance), weight in outcomes.items())
    values = np.linspace(centre - reach * math.sqrt(square), centre + reach * math.sqrt(square), count)
    joint = np.zeros((len(GAPS) + 2, count))
    for (place, mean, variance), weight in outcomes.items():
        density = norm.pdf(values, mean, math.sqrt(variance))
        joint[place] += weight * density / density.sum()
    return float((entr(joint.sum(axis=0)).sum() + entr(joint.sum(axis=1)).sum() - entr(joint).sum()) / math.log(2))


def test_the_information_is_that_of_48_values_within_4_standard_deviations() -> None:
    wanted = [on_a_grid(made(), position) for position in range(8)]
    assert choose.information(made(), range(8)) == pytest.approx(wanted, rel=1e-9)
    assert wanted == pytest.approx([on_a_grid(made(), position, 5001, 9.0) for position in range(8)], rel=0.01)


def test_values_between_two_of_the_grid_are_lost_and_harm_nothing() -> None:
    """A value that is known much better than the distance of the grid: no density there, and no NaN."""
    rows = made().hypotheses
    found = made(replace(rows, covariance=rows.covariance * 0))
    sure = replace(found, next=replace(found.next, variance=1e-12))
    bits = choose.information(sure, [5])
    assert 0 <= bits[0] < math.log2(5)


ENTROPIES: list[tuple[Sequence[int], float]] = [
    ((), 0.3 * 1 + 0.15 * 0 + 0.45 * 2),  # two gaps are one bit more than one, four are two more
    ((1,), 0.45 * 2),
    ((0, 2, 3, 7), 0.3 * 1 + 0.45 * 2),  # measured positions divide no gaps
    ((1, 4, 6), 0.45 * 1),
    ((4, 5, 6), 0.3),
]


@pytest.mark.parametrize(("skipped", "inside"), ENTROPIES)
def test_the_uncertainty_is_that_of_the_cells_and_of_the_gaps_in_them(skipped: Sequence[int], inside: float) -> None:
    of_cells = -sum(p * math.log2(p) for p in (0.1, 0.3, 0.15, 0.45))
    assert choose.entropy(made(), skipped) == pytest.approx(of_cells + inside)


def test_what_is_certain_has_no_uncertainty() -> None:
    found = replace(made(), nothing=0.0, cells=np.array([0.0, 1.0, 0.0]))
    assert choose.entropy(found) == 0


@pytest.mark.parametrize(
    ("skipped", "wanted"),
    [
        ((), [0, 2, 3, 7, 1, 5]),
        ((5,), [0, 2, 3, 7, 1, 4]),
        ((4, 5), [0, 2, 3, 7, 1, 6]),
        ((1, 4, 5, 6), [0, 2, 3, 7]),
        ((2,), [0, 3, 7, 1, 5]),
    ],
)
def test_candidates_are_what_was_measured_and_each_middle(skipped: Sequence[int], wanted: list[int]) -> None:
    assert choose.candidates(made(), skipped) == wanted


NEAREST: list[tuple[int, int, Sequence[int], int | None]] = [
    (10, 20, (), 15),
    (10, 21, (), 15),  # of two in the middle, the first one
    (10, 20, (15,), 14),
    (10, 20, (14, 15), 16),
    (10, 20, range(12, 20), 11),
    (10, 20, range(11, 19), 19),
    (10, 20, range(11, 20), None),
    (10, 11, (), None),
    (10, 12, (), 11),
    (0, 3, (1,), 2),
]


@pytest.mark.parametrize(("low", "high", "skipped", "wanted"), NEAREST)
def test_the_nearest_to_the_middle(low: int, high: int, skipped: Sequence[int], wanted: int | None) -> None:
    assert choose.nearest_to_middle(low, high, skipped) == wanted


def test_the_best_tells_most_for_its_cost() -> None:
    positions = [0, 5, 2]
    bits = dict(zip(positions, (on_a_grid(made(), position) for position in positions), strict=True))
    assert max(bits, key=bits.__getitem__) == 5
    assert choose.best(made(), positions, lambda _: 2.0)[0] == 5
    for share, wanted in ((1.01, 2), (0.99, 5)):
        cost = {0: 2.0, 2: 1.0, 5: share * bits[5] / bits[2]}
        place, told = choose.best(made(), positions, cost.__getitem__)
        assert place == wanted
        assert told == pytest.approx(bits[wanted])


# --- the sides of two changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (2, 1), (3, 4), (0, 3)])
def test_the_shares_of_the_sides_are_those_of_all_pairs_of_gaps(before: int, after: int) -> None:
    count = before + after
    sides = np.array([(one, other) for one in (False, True) for other in (False, True)])
    pairs = [(one < before, other < before) for one in range(count) for other in range(count) if one != other]
    both = [pairs.count((bool(one), bool(other))) / len(pairs) for one, other in sides]
    assert choose._shares(np.full((4, 2), True), sides, before, after) == pytest.approx(both)
    part = {True: before / count, False: after / count}
    for column in (0, 1):
        here = np.array([[column == 0, column == 1]] * 4)
        alone = [part[bool(side)] for side in sides[:, column]]
        assert choose._shares(here, sides, before, after) == pytest.approx(alone)
    assert choose._shares(np.full((4, 2), False), sides, before, after).tolist() == [1.0] * 4


def test_one_gap_has_no_second_change() -> None:
    sides = np.array([[True, True], [False, False]])
    assert choose._shares(np.full((2, 2), True), sides, 1, 0).tolist() == [0, 0]
    assert choose._shares(np.array([[True, False]] * 2), sides, 1, 0).tolist() == [1, 0]
