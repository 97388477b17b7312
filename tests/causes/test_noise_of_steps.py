"""The noise of nodes, from numbers that are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from made_alignments import Row, Steps, aligned

from perfgate.causes import noise
from perfgate.causes.align import TreeSide
from perfgate.causes.noise import (
    Noise,
    SeriesNoise,
    centre_and_scatter,
    classes,
    difference_error,
    measure_noise,
    standard_error,
    standard_errors,
    time_errors,
    weighted_median,
    with_prior,
)
from perfgate.core.call_trees import NodeKind

#: The 97.5 % quantiles of Student's t by degrees of freedom, from a table.
T = {4: 2.776445, 5: 2.570582, 8: 2.306004, 20: 2.085963}


def side(runs: Sequence[int], *walls: Steps) -> TreeSide:
    """The base side with these times."""
    return aligned([Row("op", "operator", 0, wall) for wall in walls], runs).base


# --- errors of means -------------------------------------------------------------------------------------------------

ERRORS: list[tuple[list[float], list[int], float]] = [
    ([5.0], [0], 0.0),
    ([1.0, 3.0], [0, 0], 1.0),
    ([1.0, 3.0, 5.0], [0, 0, 0], math.sqrt(4 / 3)),
    ([1.0, 1.0, 4.0, 4.0], [0, 0, 1, 1], 1.5),
    ([1.0, 5.0, 1.0, 5.0], [0, 0, 1, 1], math.sqrt(4 / 3)),
    ([1.0, 4.0, 7.0], [0, 1, 2], math.sqrt(3)),
    ([1.0, 1.0, 1.0, 7.0], [0, 0, 0, 1], 3.0),
]


@pytest.mark.parametrize(("values", "runs", "error"), ERRORS)
def test_the_error_of_a_mean_is_that_within_or_between_runs(values: list[float], runs: list[int], error: float) -> None:
    assert standard_error(np.array(values), side(runs, values)) == pytest.approx(error)
    assert standard_errors(np.array([values, values]), side(runs, values)) == pytest.approx([error, error])


UP, DOWN = [1.0, 2.0, 3.0, 4.0, 6.0], [6.0, 4.0, 3.0, 2.0, 1.0]
NEAR = [1.5, 2.5, 3.5, 4.5, 7.0]  # the differences are 0.5 four times, and once 1
ALONE = math.sqrt(3.7 / 5)  # the error of UP, and of DOWN; the variance of NEAR is 4.45
PAIRS: list[tuple[list[float], list[int], list[float], list[int], float]] = [
    (UP, [0] * 5, NEAR, [0] * 5, 0.1),
    (UP[:4], [0] * 4, NEAR[:4], [0] * 4, math.sqrt(2 * 5 / 3 / 4)),
    (UP, [0] * 5, DOWN, [0] * 5, math.sqrt(2) * ALONE),
    (UP, [0] * 5, [3.0] * 5, [0] * 5, ALONE),
    ([3.0] * 5, [0] * 5, UP, [0] * 5, ALONE),
    (UP, [0] * 5, [*NEAR, 4.0], [0] * 6, math.hypot(ALONE, math.sqrt(np.var([*NEAR, 4.0], ddof=1) / 6))),
    (UP, [0, 0, 0, 0, 1], NEAR, [0, 0, 0, 0, 1], math.hypot(3.5 / 2, 4.0 / 2)),
    (UP, [0] * 5, NEAR, [0, 0, 0, 0, 1], math.hypot(ALONE, 4.0 / 2)),
    ([one / 100 for one in UP], [0] * 5, [one / 100 for one in NEAR], [0] * 5, 0.001),
]


@pytest.mark.parametrize(("base", "base_runs", "new", "new_runs", "error"), PAIRS)
def test_steps_are_pairs_if_they_rise_and_fall_together(
    base: list[float], base_runs: list[int], new: list[float], new_runs: list[int], error: float
) -> None:
    one, other = side(base_runs, base), side(new_runs, new)
    assert difference_error(np.array(base), np.array(new), one, other) == pytest.approx(error)
    assert time_errors(one, other)[1:] == pytest.approx([error])


def test_every_node_has_an_error_of_its_own() -> None:
    found = time_errors(side([0, 0], [1.0, 3.0], 1.0), side([0, 0], 2.0, [2.0, 8.0]))
    assert found == pytest.approx([0.0, 1.0, 3.0])


MEDIANS: list[tuple[list[float], list[float], float]] = [
    ([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 2.0),
    ([3.0, 1.0, 2.0], [5.0, 1.0, 1.0], 3.0),
    ([3.0, 1.0, 2.0], [1.0, 5.0, 1.0], 1.0),
    ([1.0, 2.0], [1.0, 1.0], 1.0),
    ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 2.0, 2.0], 3.0),
    ([1.0, 2.0, 3.0], [3.0, 3.0, 1.0], 2.0),
    ([1.0, 2.0, 3.0], [2.0, 2.0, 5.0], 3.0),
]


@pytest.mark.parametrize(("values", "weights", "median"), MEDIANS)
def test_half_of_the_weight_is_on_each_side_of_the_median(
    values: list[float], weights: list[float], median: float
) -> None:
    assert weighted_median(np.array(values), np.array(weights)) == median


def test_the_scatter_is_around_the_median() -> None:
    found = centre_and_scatter(np.array([7.0, 9.0, 10.0, 12.0, 20.0]), np.ones(5))
    assert found == pytest.approx((10.0, 1.4826 * 2))


# --- traces ----------------------------------------------------------------------------------------------------------

KINDS: dict[NodeKind, str] = {
    "step": "host",
    "thread": "host",
    "range": "host",
    "loader": "host",
    "operator": "host",
    "runtime": "host",
    "kernel": "device",
    "copy": "device",
    "communication": "communication",
    "collective": "communication",
}


def test_every_kind_of_node_is_in_one_class() -> None:
    found = classes(aligned([Row(kind, kind, 0) for kind in KINDS]))
    names = [name for at in range(1, len(KINDS) + 1) for name, chosen in found.items() if chosen[at]]
    assert names == [*KINDS.values()]
    assert sorted(found) == ["communication", "device", "host"]


@pytest.mark.parametrize(("steps", "freedom"), [((3, 4), 5), ((3, 3), 4), ((2, 3), 4), ((1, 1), 4)])
def test_the_reach_of_an_interval_is_that_of_its_steps(steps: tuple[int, int], freedom: int) -> None:
    of_steps = aligned([], [0] * steps[0], [0] * steps[1])
    assert Noise(of_steps, np.zeros(1), np.zeros(1)).reach == pytest.approx(T[freedom], abs=1e-6)


@pytest.mark.parametrize(("ratio", "effect"), [(1.1, 0.5), (0.9, 0.5), (1.0, 0.0)])
def test_only_kernels_and_copies_count_in_the_effect_of_the_device(ratio: float, effect: float) -> None:
    rows = [Row("op", "operator", 0, 9.0), Row("gemm", "kernel", 1, 3.0), Row("copy", "copy", 1, 2.0)]
    shift = np.log([2.0, 2.0, ratio, ratio])
    assert Noise(aligned(rows), np.zeros(4), shift).device_effect == pytest.approx(effect)


def test_the_error_of_a_change_has_the_noise_of_steps_and_of_runs() -> None:
    rows = [
        Row("one", "operator", 0, [1.0, 1.0, 4.0, 4.0], 3.0),
        Row("two", "operator", 0, 2.0, 3.0),
        Row("other", "operator", 0, 50.0, 90.0),
    ]
    of_runs = aligned(rows, [0, 0, 1, 1], [0, 1, 2])
    change, error = Noise(of_runs, np.array([0.0, 0.1, 0.2, 0.9]), np.zeros(4)).change({2, 1})
    between = 1.5**2  # the means of the base's runs are 3 and 6
    base, new = 0.25**2 + 0.4**2, 0.3**2 + 0.6**2  # 10 % and 20 % of the times
    assert change == pytest.approx(6.0 - 4.5)
    assert error == pytest.approx(math.sqrt(between + base / 2 / 2 + new / 2 / 3))


def operators(
    *logs: float, base: float = 0.1, kind: NodeKind = "operator", ends: Sequence[float] = (0, 0)
) -> list[Row]:
    """Nodes with these logarithms of new / base, whose two steps differ from their mean by shares on each side."""
    one, other = ends
    rows = []
    for log in logs:
        new = base * math.exp(log)
        steps = [base * (1 - one), base * (1 + one)], [new * (1 - other), new * (1 + other)]
        rows.append(Row(f"op {log}", kind, 0, *steps))
    return rows


def measured(rows: Sequence[Row], node: int = 1) -> tuple[float, float]:
    found = measure_noise(aligned(rows, [0, 0], [0, 0]))
    return float(found.relative[node]), float(found.shift[node])


FIVE = (-0.3, 0.0, 0.1, 0.2, 0.5)  # the median is 0.1, and the median distance from it 0.1
SCATTER = 0.14826
BASE = 1000.0
NOISES: list[tuple[list[Row], float, float]] = [
    (operators(*FIVE), SCATTER, 0.1),
    (operators(*FIVE, ends=(0.03, 0.04)), math.sqrt(SCATTER**2 - 0.05**2), 0.1),
    (operators(*FIVE, ends=(0.04, 0.0)), math.sqrt(SCATTER**2 - 0.04**2), 0.1),
    (operators(*FIVE, ends=(0.0, 0.04)), math.sqrt(SCATTER**2 - 0.04**2), 0.1),
    (operators(*FIVE, ends=(0.2, 0.2)), 0.04, 0.1),
    (operators(0.4, 0.4, 0.4, 0.4), 0.04, 0.4),
    (operators(0.4, 0.4, 0.4), 0.04, 0.0),
    (operators(*FIVE, kind="kernel"), SCATTER, 0.1),
    (operators(0.4, 0.4, 0.4, 0.4, kind="kernel"), 0.006, 0.4),
    (operators(0.4, 0.4, 0.4, 0.4, kind="communication"), 0.03, 0.4),
    # the larger nodes have more weight: the root of 20 and 24 is above half of all
    ([*operators(0.1, 0.2, 0.3), *operators(0.0, base=10.0), *operators(0.2)], 0.04, 0.0),
    # other classes show nothing
    ([*operators(0.1, 0.1, 0.1), *operators(0.9, 0.9, 0.9, 0.9, kind="kernel")], 0.04, 0.0),
]


@pytest.mark.parametrize(("rows", "relative", "shift"), NOISES)
def test_the_noise_is_the_scatter_that_steps_do_not_explain(rows: list[Row], relative: float, shift: float) -> None:
    assert measured(rows) == pytest.approx((relative, shift))


THREE = [Row(f"op {log}", "operator", 0, 100.0, 100.0 * math.exp(log)) for log in (0.2, 0.2, 0.2)]
REST = Row("thread", "thread", 0)
FOURTHS: list[tuple[Row, float, bool]] = [
    # a fourth node, the step of the base, and if it counts
    (Row("op", "operator", 0, 2.1, 2.1 * math.exp(0.2)), BASE, True),
    (Row("op", "operator", 0, 2.0, 2.0 * math.exp(0.2)), BASE, False),
    (Row("op", "operator", 0, 2.0 * math.exp(0.2), 2.0), BASE, False),
    (Row("op", "operator", 0, 100.0, 122.0, calls=(1.0, 2.0)), BASE, False),
    (Row("op", "operator", 0, 100.0, 122.0, calls=(1.0, 1.5)), BASE, False),
    (Row("op", "operator", 0, 100.0, 122.0, calls=(1.5, 1.0)), BASE, False),
    (Row("op", "operator", 0, 100.0, 122.0, calls=(0.0, 1e-9)), BASE, False),
    (Row("op", "operator", 0, 100.0, 122.0, calls=(0.0, 1e-10)), BASE, True),
]


@pytest.mark.parametrize(("fourth", "step", "counts"), FOURTHS)
def test_a_node_shows_noise_if_it_is_large_and_called_as_often(fourth: Row, step: float, counts: bool) -> None:
    kernel = Row("gemm", "kernel", 0, step - 300.0 - float(np.mean(fourth.base)), 1.0)
    found = measure_noise(aligned([*THREE, fourth, kernel]))
    assert found.shift[1] == (pytest.approx(0.2) if counts else 0.0)


# --- metrics ---------------------------------------------------------------------------------------------------------

ONE, TWO, THREE_RUNS = [0], [0, 1], [0, 1, 2]


@pytest.mark.parametrize(
    ("base", "new", "freedom", "reach"),
    [(ONE, ONE, 0, T[20]), (ONE, TWO, 1, 2.364624), (TWO, TWO, 2, T[8]), ([], ONE, 0, T[20])],
)
def test_the_reach_of_runs(base: list[int], new: list[int], freedom: int, reach: float) -> None:
    found = SeriesNoise(aligned([], base, new))
    assert (found.freedom, found.reach) == pytest.approx((freedom, reach), abs=1e-6)


PRIORS = [
    # variances, freedom, count, prior, weight: the result
    (([], 4, 0, 0.02, 3.0), 0.0004),
    (([0.01], 0, 1, 0.02, 3.0), 0.0004),
    (([], 0, 1, 0.02, 3.0), 0.0004),
    (([0.7, 0.2, 0.1], 2, 3, 0.5, 3.0), (3 * 0.25 + 3 * 0.2 / (8 / 9) ** 3) / 6),
    (([0.4], 3, 2, 0.5, 1.0), (0.25 + 3 * 0.4 / (25 / 27) ** 3) / 4),
]


@pytest.mark.parametrize(("asked", "variance"), PRIORS)
def test_a_variance_is_averaged_with_its_prior(
    asked: tuple[list[float], int, int, float, float], variance: float
) -> None:
    assert with_prior(*asked) == pytest.approx(variance)


def timers(base_runs: Sequence[int] = ONE, new_runs: Sequence[int] = ONE) -> SeriesNoise:
    """A step of 20 s and 22 s: `fwd` with two timers in it, `bwd`, a kernel, and what is not timed."""
    rows = [
        Row("fwd", "range", 0, 1.0, 1.0),
        Row("mm", "range", 1, 3.0, 4.0),
        Row("not timed", "range", 1, 2.0, 2.0),
        Row("bwd", "range", 0, 8.0, 9.0),
        Row("gemm", "kernel", 0, 4.0, 4.0),
        Row("not timed", "range", 0, 2.0, 2.0),
    ]
    errors = ([0.0, 0.3, 0.0, 0.4, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 0.0, 0.0])
    return SeriesNoise(aligned(rows, base_runs, new_runs, errors))


def test_a_rest_is_what_inner_timers_leave() -> None:
    assert [timers().is_rest(node) for node in range(7)] == [True, True, False, False, False, False, True]


OF_STEP = (0.004 * 22) ** 2 * 2
ONE_RUN: list[tuple[set[int], float, float]] = [
    # nodes, their change, their variance
    ({4}, 1.0, 0.03**2 * (8**2 + 9**2) + 0.4**2 + 0.5**2),
    ({2, 4}, 2.0, 0.03**2 * (11**2 + 13**2) + 0.3**2 + 0.4**2 + 0.5**2),
    ({5}, 0.0, 0.015**2 * (4**2 + 4**2)),
    ({2, 5}, 1.0, 0.03**2 * (7**2 + 8**2) + 0.3**2),
    # a rest is as noisy as its timer, 6 s and 7 s, unless all of this is among the nodes
    ({1}, 0.0, 0.03**2 * (6**2 + 7**2)),
    ({1, 2, 3}, 1.0, 0.03**2 * (6**2 + 7**2) + 0.3**2),
    ({1, 2, 3, 4}, 2.0, 0.03**2 * (14**2 + 16**2) + 0.3**2 + 0.4**2 + 0.5**2),
    # the rest of the step is as noisy as all other nodes
    ({6}, 0.0, 0.03**2 * (20**2 + 22**2)),
    ({5, 6}, 0.0, 0.03**2 * (20**2 + 22**2)),
    ({1, 6}, 0.0, 0.03**2 * (20**2 + 22**2)),
    ({0}, 0.0, 0.0),
]


@pytest.mark.parametrize(("nodes", "change", "variance"), ONE_RUN)
def test_one_run_a_side_has_the_noise_of_the_prior(nodes: set[int], change: float, variance: float) -> None:
    found = timers().measured(nodes)
    assert found == pytest.approx((change, math.sqrt(variance + OF_STEP), 20.0))
    assert timers().change(nodes) == found[:2]


def leaves(*logs: float, more: Sequence[Row] = ()) -> SeriesNoise:
    rows = [Row(f"timer {at}", "range", 0, 10.0, 10.0 * math.exp(log)) for at, log in enumerate(logs)]
    return SeriesNoise(aligned([*rows, *more]))


UNEVEN = (0.0, 0.05, 0.1, -0.2, 0.3, 0.4)
OTHERS = [
    Row("fwd", "range", 0, 10.0, 20.0),  # 7, the rest of a timer
    Row("mm", "range", 7, 10.0, 10.0 * math.exp(0.5)),
    Row("not timed", "range", 0, 10.0, 20.0),
]
SCATTERS = [
    (leaves(*UNEVEN), 0.1),
    (leaves(*UNEVEN, 0.5), 0.2),
    (leaves(*UNEVEN[:5]), 0.0),
    (leaves(*UNEVEN, more=OTHERS), 0.2),
]


@pytest.mark.parametrize(("found", "middle"), SCATTERS)
def test_the_scatter_of_single_nodes_is_noise_too(found: SeriesNoise, middle: float) -> None:
    scatter = 1.4826 * middle / math.sqrt(2)
    assert found._scatter == pytest.approx(scatter)
    step, both = found.alignment.step, 10.0**2 + 10.0**2
    variance = max(scatter, 0.03) ** 2 * both + (0.004 * step) ** 2 * 2
    assert found.measured({1})[1] == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize(("small", "is_leaf"), [(3.0, False), (3.1, True)])
def test_small_nodes_show_no_noise(small: float, is_leaf: bool) -> None:
    """The step is 1000 s; the smaller side of a node counts."""
    rows = [Row("a", "range", 0, small, 50.0), Row("b", "range", 0, 50.0, small), Row("c", "range", 0, 950.0 - small)]
    assert SeriesNoise(aligned(rows))._leaves == ([1, 2] if is_leaf else [])


def pairs_of_runs(*shares: float, rest: tuple[Steps, Steps] = (0.0, 0.0), inner: Steps = 10.0) -> SeriesNoise:
    """Node 1 leaves `rest`, node 2 is inside of it; then timers of 10 s that differ by a share in the base's runs."""
    rows = [Row("fwd", "range", 0, *rest), Row("mm", "range", 1, inner, inner)]
    rows += [Row("timer", "range", 0, [10 - 10 * share, 10 + 10 * share], 10.0) for share in shares]
    return SeriesNoise(aligned(rows, TWO, TWO))


#: The median of a variance with two degrees of freedom, as a part of its mean.
MEDIAN = (8 / 9) ** 3
POOLED: list[tuple[SeriesNoise, float]] = [
    (pairs_of_runs(), 3 * 0.0004 / 4),
    (pairs_of_runs(0.1, 0.2), (3 * 0.0004 + 3 * 0.01 / MEDIAN) / 6),
    (pairs_of_runs(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1), (3 * 0.0004 + 6 * 0.01 / MEDIAN) / 9),
]


@pytest.mark.parametrize(("found", "variance"), POOLED)
def test_the_usual_noise_of_nodes_between_runs(found: SeriesNoise, variance: float) -> None:
    assert found._pooled == pytest.approx(variance)


def test_the_noise_of_a_node_is_averaged_with_the_usual_noise() -> None:
    found = pairs_of_runs(0.1, 0.3)
    usual = (3 * 0.0004 + 3 * 0.01 / MEDIAN) / 6
    relative = (6 * usual + 2 * 0.09) / 8  # the variance of 7 s and 13 s, with the new runs, is 0.18 / 2
    assert found.measured({4}) == pytest.approx((0.0, math.sqrt(relative * (100 / 2 + 100 / 2)), 8.0))
    assert found.change({4}) == found.measured({4})[:2]


WEAK = 3 * 0.0004 / 4
RESTS: list[tuple[SeriesNoise, set[int], float, float]] = [
    # nodes, the variance as a share of the whole of 10 s, degrees of freedom
    (pairs_of_runs(rest=([1.0, 3.0], [1.0, 3.0]), inner=8.0), {1}, 0.02, 2.0),
    (pairs_of_runs(rest=(2.0, 2.0), inner=8.0), {1}, WEAK * 0.2**2, 2.0),
    (pairs_of_runs(rest=(5.9, 5.9), inner=4.1), {1}, WEAK * 0.59**2, 2.0),
    (pairs_of_runs(rest=(6.0, 6.0), inner=4.0), {1}, WEAK * 6 / 8, 8.0),
    (pairs_of_runs(rest=(8.0, 8.0), inner=2.0), {1}, WEAK * 6 / 8, 8.0),
    (pairs_of_runs(inner=10.0), {2}, WEAK * 6 / 8, 8.0),
]


@pytest.mark.parametrize(("found", "nodes", "relative", "freedom"), RESTS)
def test_a_small_rest_is_measured_alone(found: SeriesNoise, nodes: set[int], relative: float, freedom: float) -> None:
    assert found.measured(nodes)[1:] == pytest.approx((math.sqrt(relative * 100), freedom))


def test_the_side_with_the_larger_rest_decides_if_it_is_small() -> None:
    rows = [Row("fwd", "range", 0, 2.0, 15.0), Row("mm", "range", 1, 8.0, 10.0)]
    found = SeriesNoise(aligned(rows, TWO, TWO))
    assert found.measured({1})[2] == 8.0
    # 5 of 10 s, and 5 of 25 s
    rows = [Row("fwd", "range", 0, 5.0, 5.0), Row("mm", "range", 1, 5.0, 20.0)]
    error = math.sqrt(WEAK * 0.5**2 * (10**2 / 2 + 25**2 / 2))
    assert SeriesNoise(aligned(rows, TWO, TWO)).measured({1}) == pytest.approx((0.0, error, 2.0))


def test_a_rest_among_other_nodes_is_measured_alone_too() -> None:
    rows = [Row("fwd", "range", 0, 2.0, 2.0), Row("mm", "range", 1, 8.0, 8.0), Row("bwd", "range", 0, 1.0, 1.0)]
    assert SeriesNoise(aligned(rows, TWO, TWO)).measured({1, 3})[2] == 2.0


def test_two_runs_against_one_do_not_measure_a_rest_alone() -> None:
    rows = [Row("fwd", "range", 0, 2.0, 2.0), Row("mm", "range", 1, 8.0, 8.0)]
    assert SeriesNoise(aligned(rows, TWO, ONE)).measured({1})[2] == 7.0


@pytest.mark.parametrize(
    ("own", "variance"), [(0.1, 3 * 0.0004 / 6 * 6 / 9 * (100 / 2 + 100 / 3)), (3.0, 9 / 4 + 9 / 9)]
)
def test_the_larger_of_the_errors_within_and_between_runs_counts(own: float, variance: float) -> None:
    """Two and three runs a side: 3 degrees of freedom."""
    rows = [Row("a", "range", 0, 10.0, 10.0), Row("b", "range", 0, 1.0, 1.0)]
    found = SeriesNoise(aligned(rows, TWO, THREE_RUNS, ([[own, 0.0], 0.0], [[own, 0.0, 0.0], 0.0])))
    assert found.measured({1}) == pytest.approx((0.0, math.sqrt(variance), 9.0))


def test_times_of_zero_have_no_noise() -> None:
    rows = [Row("a", "range", 0, 0.0, 0.0), Row("b", "range", 0, 1.0, 1.0)]
    change, error, _ = SeriesNoise(aligned(rows, TWO, TWO)).measured({1})
    assert (change, error) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert noise._variance([np.array([1e-3, 3e-3]), np.array([5e-3])], [2e-3, 0.0], 1) == pytest.approx(0.5)


def test_the_noise_of_many_nodes_is_one_pass_over_them() -> None:
    passes = []

    class Nodes(list[int]):
        def __iter__(self) -> Iterator[int]:
            passes.append(len(self))
            return super().__iter__()

    found = SeriesNoise(aligned([Row("op", "operator", 0, 1.0, 1.0)] * 100))
    assert found._scale(found.alignment.base, Nodes(range(1, 101))) == pytest.approx(100.0)
    assert len(passes) < 5
